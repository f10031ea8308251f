# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of one revision on this node: what is whole, what is on its way, what is damaged.

A *stamp* remembers that a file was hashed and was right. It holds size, mtime, ctime, inode and device: a byte
flipped with the mtime put back still moves the ctime, so the stamp no longer matches and the file is hashed again.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import stat
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Optional, Protocol

from .faults import AlreadyRunning, Fault
from .manifest import Entry, Manifest

# A block stays in a core's own cache until it is hashed; the page cache is given back in larger pieces.
BLOCK_BYTES, _DROP_BYTES = 1 << 18, 1 << 24
Step = Optional[Callable[[int], None]]
_STAMPED = ("st_mode", "st_size", "st_mtime_ns", "st_ctime_ns", "st_ino", "st_dev")
_REMEDY = "run playbooks/checkpoint.yml: it fetches this file again and keeps the others"


class Places(Protocol):
    """Where things are. Whole files lie in `published`, what is on its way in `parts`, on the same filesystem."""

    published: Path
    parts: Path

    def file(self, name: str) -> Path:
        """Where a file of the checkpoint's state is."""


class Store:
    """Files, parts and stamps of one revision. Safe to use from several threads."""

    def __init__(self, config: Places, manifest: Manifest):
        self.config, self.manifest = config, manifest
        self._stamps_file = config.file("stamps")
        self._lock = threading.Lock()
        try:
            self._stamps = dict(json.loads(self._stamps_file.read_bytes()))
        except (OSError, ValueError, TypeError):
            self._stamps = {}  # no stamp only means that files are hashed again

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
            return self._stamps.get(entry.path) == _stamp(self.target(entry), entry)
        except OSError:
            return False

    def missing(self) -> list[Entry]:
        """Return the files without a valid stamp."""
        return [entry for entry in self.manifest.files if not self.is_whole(entry)]

    def is_proved(self) -> bool:
        """Whether these files were read back from the disk, all of them, since they are here."""
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            return json.loads(self.config.file("proved").read_bytes())["manifest_digest"] == self.manifest.digest
        return False

    def prove(self) -> None:
        """Keep that all files were read back and were right."""
        about = {"manifest_digest": self.manifest.digest, "time": round(time.time(), 3)}
        with contextlib.suppress(PermissionError):
            write_atomically(self.config.file("proved"), json.dumps(about).encode())

    def bytes_to_fetch(self, entry: Entry) -> int:
        """Return how many bytes of a missing file are not on this node yet: a guess, from sizes."""
        present = (_size(self.target(entry)), _size(self.part(entry)))
        return 0 if present[0] == entry.size else max(0, entry.size - present[1])

    def check(self, entry: Entry, always: bool = False, cold: bool = False, step: Step = None) -> Fault | None:
        """Compare a published file with the manifest; return its fault or None.

        Without a valid stamp, or `always`, the whole file is read, and from the disk itself if `cold`. A right file
        gets a new stamp; a wrong one loses its stamp, so that the next fetch replaces it.
        """
        if not always and self.is_whole(entry):
            return None
        found = self._look(entry, cold, step)
        if found == entry.sha256:
            self._change_stamp(entry, _stamp(self.target(entry), entry))
            return None
        self._change_stamp(entry, None)
        return Fault(entry.path, f"{entry.size} bytes with SHA-256 {entry.sha256}", found, _REMEDY)

    def _look(self, entry: Entry, cold: bool, step: Step) -> str:
        path = self.target(entry)
        try:
            about = path.lstat()
            if not stat.S_ISREG(about.st_mode):
                return "not a regular file"
            return hash_file(path, cold, step) if about.st_size == entry.size else f"{about.st_size} bytes"
        except FileNotFoundError:
            return "no file"
        except OSError as error:
            return f"a file that cannot be read: {error.strerror}"

    def _change_stamp(self, entry: Entry, stamp: dict | None) -> None:
        with self._lock:
            if self._stamps.get(entry.path) != stamp:
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
        _sync_folder(target.parent)
        self._change_stamp(entry, _stamp(target, entry))
        self.quarantined(entry).unlink(missing_ok=True)

    def remove_orphans(self) -> list[str]:
        """Remove what earlier runs left: parts of other revisions, and parts of no file of this one."""
        wanted = {path for entry in self.manifest.files for path in (self.part(entry), self.quarantined(entry))}
        orphans = [path for path in self.config.parts.parent.glob(".part-*") if path != self.config.parts]
        for folder in orphans:
            shutil.rmtree(folder)
        for path in set(_files(self.config.parts)) - wanted:
            path.unlink()
            orphans.append(path)
        return [str(path) for path in orphans]

    def unknown_files(self) -> list[str]:
        """Return files in the published folder that the manifest does not name. Nobody deletes them."""
        wanted = {self.target(entry) for entry in self.manifest.files}
        return sorted(str(path) for path in set(_files(self.config.published)) - wanted)


@contextlib.contextmanager
def alone(lock: Path, work: object) -> Iterator[None]:
    """Be the only one at work on a model on this node; raise AlreadyRunning, with what the other said of its work."""
    with open(lock, "a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise AlreadyRunning(f"{lock} is held by another run: {file.read()}") from None
        file.truncate(0)
        file.write(f"process {os.getpid()} fetches {work} since {time.strftime('%F %T %z')}")
        file.flush()
        yield


def verify(store: Store, full: bool) -> list[Fault]:
    """Compare every published file with the manifest, by stamp or in full, on all cores; return the faults."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        order = sorted(store.manifest.files, key=lambda entry: -entry.size)
        faults = [fault for fault in pool.map(lambda entry: store.check(entry, always=full), order) if fault]
    if full and not faults:
        store.prove()
    return faults


def _files(folder: Path) -> Iterator[Path]:
    return (Path(place, name) for place, _, names in os.walk(folder) for name in names)


def _size(path: Path) -> int:
    with contextlib.suppress(OSError):
        return path.lstat().st_size
    return 0


def _stamp(path: Path, entry: Entry) -> dict:
    about = path.lstat()
    return {"sha256": entry.sha256, **{name: getattr(about, name) for name in _STAMPED}}


def hash_file(path: Path, cold: bool = False, step: Step = None) -> str:
    """Return a file's SHA-256 in hex. It leaves the page cache as soon as it is read, or before if `cold`.

    `step` is told the size of each block that was read.
    """
    digest, block, place, dropped = hashlib.sha256(), bytearray(BLOCK_BYTES), 0, 0
    with path.open("rb", buffering=0) as file:
        if cold:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        while count := file.readinto(block):
            digest.update(memoryview(block)[:count])
            place += count
            if place - dropped >= _DROP_BYTES:
                os.posix_fadvise(file.fileno(), dropped, place - dropped, os.POSIX_FADV_DONTNEED)
                dropped = place
            if step:
                step(count)
        os.posix_fadvise(file.fileno(), dropped, 0, os.POSIX_FADV_DONTNEED)
    return digest.hexdigest()


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file, readable by all; it belongs to the owner of its folder, also when root writes."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    with open(temporary, "xb") as file:  # x: never through a link that somebody put there
        if os.geteuid() == 0:
            folder = path.parent.stat()
            os.fchown(file.fileno(), folder.st_uid, folder.st_gid)
        os.fchmod(file.fileno(), 0o644)
        file.write(data)
    os.replace(temporary, path)


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
