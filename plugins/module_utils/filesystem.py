# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Folders on a node: whether one can take a checkpoint, everything that is wrong at once; and making one."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Space that is left over when all is fetched, as a part of what is fetched.
MARGIN = 0.02
_SAFE = re.compile(r"(/[A-Za-z0-9._+@-]+)+/?|/")
_SYSTEM = {"/", "/home", "/media", "/mnt", "/opt", "/root", "/var", "/var/lib"}
_SYSTEM_TREES = ("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/tmp", "/usr")


# Kinds that come over a network, or that several machines mount at a time; of those in user space all but a few.
_NETWORK = frozenset(
    ("nfs", "nfs4", "cifs", "smb3", "smbfs", "ceph", "lustre", "gpfs", "beegfs", "9p", "afs", "gfs2", "ocfs2")
    + ("orangefs", "wekafs", "panfs", "vastnfs", "virtiofs", "glusterfs")
)
_LOCAL_FUSE = frozenset(("fuse.mergerfs", "fuse.unionfs", "fuse.bindfs", "fuse.ntfs-3g", "fuse.ext4", "fuse.zfs"))


@dataclass(frozen=True)
class Filesystem:
    """Where a path lies: its nearest existing folder, that folder's mount point and kind, bytes free for users.

    `source` is what is mounted there, in the words of its filesystem: a device, or `server:/export`.
    """

    folder: str
    mount_point: str
    kind: str
    bytes_free: int
    on_root_device: bool
    source: str = ""

    @property
    def is_network(self) -> bool:
        """Whether other machines may have the same filesystem."""
        return self.kind in _NETWORK or self.kind.startswith("fuse.") and self.kind not in _LOCAL_FUSE


def look(path: str, mountinfo: str = "/proc/self/mountinfo") -> Filesystem:
    """Read where a path lies, or would lie when it is made."""
    folder = Path(path)
    while not folder.is_dir():
        folder = folder.parent
    real = Path(os.path.realpath(folder))
    mounts = dict(_mounts(Path(mountinfo).read_text(encoding="utf-8", errors="surrogateescape")))
    mount_point = next(str(place) for place in (real, *real.parents) if str(place) in mounts)
    kind, source = mounts[mount_point]
    space = os.statvfs(folder)
    same = folder.stat().st_dev == os.stat("/").st_dev
    return Filesystem(str(folder), mount_point, kind, space.f_bavail * space.f_frsize, same, source)


def _mounts(text: str) -> Iterator[tuple[str, tuple[str, str]]]:
    for line in text.splitlines():
        fields, _, after = line.partition(" - ")
        kind, source = after.split()[:2]
        yield _plain(fields.split()[4]), (kind, _plain(source))


def _plain(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), field)


def make_folder(path: Path) -> None:
    """Make a folder and those that lead to it, readable by all whatever the umask."""
    for folder in reversed([path, *path.parents]):
        if not folder.exists():
            folder.mkdir()
            folder.chmod(0o755)


def path_faults(path: str) -> Iterator[dict]:
    """Yield why a path must not hold a checkpoint, whatever is mounted there."""
    if not _SAFE.fullmatch(path) or {".", ".."} & set(path.split("/")):
        limit = "an absolute path of letters, digits and ._/+@- without . or .. in it"
        yield _row(path, limit, "choose another path")
        return
    plain = os.path.normpath(path)
    if plain in _SYSTEM or any(plain == tree or plain.startswith(tree + "/") for tree in _SYSTEM_TREES):
        yield _row(path, "a folder of its own, not one of the system's", "choose a path like /srv/models")
    if os.path.lexists(plain) and not os.path.isdir(plain):
        yield _row(f"{path} is not a folder", "a folder, or nothing yet", "move it away, or choose another path")
    elif os.path.realpath(plain) != plain:
        value = f"{path} leads to {os.path.realpath(plain)}"
        yield _row(value, "a path without symbolic links", f"write checkpoint_path: {os.path.realpath(plain)}")


def place_faults(path: str, found: Filesystem, mount_required: bool, kinds_refused: list[str]) -> Iterator[dict]:
    """Yield why the filesystem at a path must not hold a checkpoint."""
    if mount_required and found.mount_point == "/":
        remedy = "mount the disk, or set checkpoint_mount_required: false if / is meant"
        yield _row(f"{path} is not mounted: it lies on /", "a mounted filesystem", remedy)
    elif found.kind in kinds_refused:
        value = f"{path} lies on {found.kind} ({found.mount_point})"
        remedy = "choose a path on a disk, or allow it in checkpoint_filesystems_refused"
        yield _row(value, f"not {', '.join(kinds_refused)}", remedy)


def space_faults(path: str, found: Filesystem, bytes_missing: int, old_bytes: int = 0) -> Iterator[dict]:
    """Yield what is wrong with the space: `bytes_missing` must fit, and a little must be left.

    `old_bytes` are those of older revisions, which stay until a release with the new one was accepted.
    """
    needed = round(bytes_missing * (1 + MARGIN))
    if needed > found.bytes_free:
        limit = f"{needed} bytes: {bytes_missing} to fetch, and {MARGIN:.0%} to spare"
        remedy = f"free {needed - found.bytes_free} bytes on {found.mount_point}, or choose another path"
        if old_bytes:
            remedy += f"; {old_bytes} bytes there are older revisions, kept until a release with this one is accepted"
        yield _row(f"{found.bytes_free} bytes free on {path}", limit, remedy)


def _row(value: str, limit: str, remedy: str) -> dict:
    return {"where": "checkpoint_path", "value": value, "limit": limit, "remedy": remedy}
