# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The drive that a bundle fills: what lies where on it, who works on it, and whether it can take the bundle."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.sovereign.kimi_k3.plugins.module_utils import filesystem
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.bundle.work import Failed

# FAT keeps the size of a file in 32 bits.
SHORT_FILES = {"vfat": (4 << 30) - 1, "msdos": (4 << 30) - 1}
# Space that stays free when all is there, as a part of what comes.
MARGIN = 0.01


@dataclass(frozen=True)
class Drive:
    """A folder on a mounted drive. What begins with a dot is at work and belongs to no index."""

    root: Path

    @property
    def checkpoints(self) -> Path:
        """<organisation>/<name>/<commit>/, as origins of kind drive and http have them."""
        return self.root / "checkpoint"

    @property
    def images(self) -> Path:
        """One OCI layout for each image."""
        return self.root / "images"

    @property
    def collection(self) -> Path:
        """The tarball of this collection."""
        return self.root / "collection"

    @property
    def python(self) -> Path:
        """Wheels of the controller's packages, and their list with hashes."""
        return self.root / "python"

    @property
    def packages(self) -> Path:
        """One signed package repository for each platform."""
        return self.root / "packages"

    @property
    def index(self) -> Path:
        """What is on the drive, with sizes and SHA-256."""
        return self.root / "index.json"

    @property
    def work(self) -> Path:
        """What is on its way, and what a later run goes on from."""
        return self.root / ".work"

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the drive for one run; raise Failed where another one has it."""
        try:
            self.work.mkdir(parents=True, exist_ok=True)
            with (self.work / "lock").open("a+", encoding="utf-8") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                file.truncate(0)
                file.write(str(os.getpid()))
                file.flush()
                yield
        except BlockingIOError:
            holder = (self.work / "lock").read_text(encoding="utf-8") or "unknown"
            raise Failed(f"{self.root} is being filled by process {holder}; remedy: wait for it, or end it") from None


def place_faults(path: str, mount_required: bool, largest_file: int) -> Iterator[dict]:
    """Yield why a folder must not hold the bundle, whatever its size."""
    if not os.path.isabs(path) or not os.path.isdir(path):
        yield row(
            path or "missing", "an absolute path to a folder", "mount the drive, and give -e bundle_path=/where/it/is"
        )
        return
    found = filesystem.look(path)
    if mount_required and found.mount_point == "/":
        remedy = "mount the drive, or say -e bundle_mount_required=false if the system's own disk is meant"
        yield row(f"{path} is not mounted: it lies on /", "a mounted drive", remedy)
    limit = SHORT_FILES.get(found.kind)
    if limit and largest_file > limit:
        remedy = "make a filesystem such as ext4, xfs or exfat on it"
        yield row(f"{path} lies on {found.kind}, whose files have at most {limit} bytes", f"{largest_file}", remedy)
    if not os.access(path, os.W_OK):
        yield row(f"{path} cannot be written", "a drive that this user may write", f"chown {os.geteuid()} {path}")


def space_faults(path: str, missing: dict[str, int]) -> Iterator[dict]:
    """Yield what is wrong with the space; `missing` is {part: bytes that are not there yet}."""
    needed, found = round(sum(missing.values()) * (1 + MARGIN)), filesystem.look(path)
    if needed > found.bytes_free:
        parts = ", ".join(f"{size} of {part}" for part, size in missing.items() if size)
        remedy = f"free {needed - found.bytes_free} bytes on {found.mount_point}, or take a larger drive"
        yield row(f"{found.bytes_free} bytes free on {path}", f"{needed} bytes: {parts}, and {MARGIN:.0%}", remedy)


def row(value: object, limit: str, remedy: str, where: str = "bundle_path") -> dict:
    """A fault as every playbook prints it."""
    return {"where": where, "value": value, "limit": limit, "remedy": remedy}
