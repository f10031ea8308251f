# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of one revision on this node: what is whole, what is on its way, what is damaged.

A *stamp* remembers that a file was hashed and was right. It holds the file's size, mtime, ctime,
inode and device: a byte flipped with its mtime put back still moves the ctime, so the stamp no
longer matches and the file is hashed again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from .config import Config
from .faults import Fault
from .manifest import Entry, Manifest

BLOCK_BYTES = 1 << 20
REMEDY = "run playbooks/checkpoint.yml: it fetches this file again and keeps the others"


class Store:
    """Files, parts and stamps of one revision. Safe to use from several threads."""

    def __init__(self, config: Config, manifest: Manifest):
        self.config = config
        self.manifest = manifest
        self._stamps_file = config.state / "stamps.json"
        self._stamps = _read_stamps(self._stamps_file)
        self._lock = threading.Lock()

    def target(self, entry: Entry) -> Path:
        """Return where a whole file is published."""
        return self.config.published / entry.path

    def part(self, entry: Entry) -> Path:
        """Return where a file grows until it is whole."""
        return self.config.parts / f"{entry.path}.part"

    def quarantined(self, entry: Entry) -> Path:
        """Return where a damaged file waits for its replacement."""
        return self.config.parts / f"{entry.path}.bad"

    def is_whole(self, entry: Entry) -> bool:
        """Say whether a file still is what was hashed: one stat call, no reading."""
        try:
            return self._stamps.get(entry.path) == _stamp(self.target(entry), entry.sha256)
        except OSError:
            return False

    def missing(self) -> list[Entry]:
        """Return the files without a valid stamp."""
        return [entry for entry in self.manifest.files if not self.is_whole(entry)]

    def bytes_to_fetch(self, entry: Entry) -> int:
        """Return how many bytes of a missing file are not on this node yet (a guess, from sizes)."""
        with contextlib.suppress(OSError):
            if self.target(entry).lstat().st_size == entry.size:
                return 0
        with contextlib.suppress(OSError):
            return max(0, entry.size - self.part(entry).lstat().st_size)
        return entry.size

    def check(self, entry: Entry, hash_always: bool = False, step: Callable[[], None] | None = None) -> Fault | None:
        """Compare a published file with the manifest; return its fault or None.

        Without a valid stamp, or with `hash_always`, the whole file is read. A right file gets a new
        stamp, a wrong one loses its stamp, so that the next fetch replaces it.
        """
        if not hash_always and self.is_whole(entry):
            return None
        found = self._look(entry, step)
        if found == entry.sha256:
            self.remember(entry)
            return None
        self._change_stamp(entry, None)
        return Fault(entry.path, f"{entry.size} bytes with SHA-256 {entry.sha256}", found, REMEDY)

    def _look(self, entry: Entry, step: Callable[[], None] | None) -> str:
        path = self.target(entry)
        try:
            about = path.lstat()
            if not stat.S_ISREG(about.st_mode):
                return "not a regular file"
            if about.st_size != entry.size:
                return f"{about.st_size} bytes"
            return hash_file(path, step)
        except FileNotFoundError:
            return "no file"
        except OSError as error:
            return f"a file that cannot be read: {error.strerror}"

    def remember(self, entry: Entry) -> None:
        """Stamp a file that was just proved right."""
        self._change_stamp(entry, _stamp(self.target(entry), entry.sha256))

    def _change_stamp(self, entry: Entry, stamp: dict | None) -> None:
        with self._lock:
            if self._stamps.get(entry.path) == stamp:
                return
            self._stamps.pop(entry.path, None)
            if stamp:
                self._stamps[entry.path] = stamp
            # A verification by a user who may not write here is as good, only slower next time.
            with contextlib.suppress(PermissionError):
                write_atomically(self._stamps_file, json.dumps(self._stamps).encode())

    def quarantine(self, entry: Entry) -> None:
        """Move a damaged file out of the published folder."""
        place = self.quarantined(entry)
        place.parent.mkdir(parents=True, exist_ok=True)
        os.replace(self.target(entry), place)

    def publish(self, entry: Entry) -> None:
        """Move a part that is whole, synced and proved to its place, and stamp it."""
        target = self.target(entry)
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(self.part(entry), target)
        sync_folder(target.parent)
        self.remember(entry)
        with contextlib.suppress(FileNotFoundError):
            self.quarantined(entry).unlink()

    def remove_orphans(self) -> list[str]:
        """Remove what earlier runs left: parts of other revisions, and parts of no file of this one."""
        wanted = {path for entry in self.manifest.files for path in (self.part(entry), self.quarantined(entry))}
        orphans = [path for path in self.config.parts.parent.glob(".part-*") if path != self.config.parts]
        for folder in orphans:
            shutil.rmtree(folder)
        for path in _files(self.config.parts):
            if path not in wanted:
                path.unlink()
                orphans.append(path)
        return [str(path.relative_to(self.config.parts.parent)) for path in orphans]

    def remove_parts(self) -> None:
        """Remove the folder of parts once nothing is on its way."""
        shutil.rmtree(self.config.parts, ignore_errors=True)

    def unknown_files(self) -> list[str]:
        """Return files in the published folder that the manifest does not name. Nobody deletes them."""
        wanted = {self.target(entry) for entry in self.manifest.files}
        base = self.config.published
        return sorted(str(path.relative_to(base)) for path in _files(base) if path not in wanted)


def _files(folder: Path) -> Iterator[Path]:
    for place, _, names in os.walk(folder):
        for name in names:
            yield Path(place, name)


def _stamp(path: Path, sha256: str) -> dict:
    about = path.lstat()
    names = ("st_size", "st_mtime_ns", "st_ctime_ns", "st_ino", "st_dev")
    return {"sha256": sha256, "mode": stat.S_IFMT(about.st_mode), **{name[3:]: getattr(about, name) for name in names}}


def _read_stamps(path: Path) -> dict:
    try:
        stamps = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}  # no stamp only means that files are hashed again
    return stamps if isinstance(stamps, dict) else {}


def hash_file(path: Path, step: Callable[[], None] | None = None) -> str:
    """Return a file's SHA-256 in hex, reading it in blocks; `step` is called before each block."""
    digest = hashlib.sha256()
    block = bytearray(BLOCK_BYTES)
    with path.open("rb", buffering=0) as file:
        while True:
            if step:
                step()
            count = file.readinto(block)
            if not count:
                return digest.hexdigest()
            digest.update(memoryview(block)[:count])


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file, readable by all; it belongs to the owner of its folder, also when root writes."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if os.geteuid() == 0:
                folder = path.parent.stat()
                os.fchown(file.fileno(), folder.st_uid, folder.st_gid)
            os.fchmod(file.fileno(), 0o644)
            file.write(data)
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def sync_folder(path: Path) -> None:
    """Make a rename in a folder survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
