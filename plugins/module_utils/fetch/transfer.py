# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How one file becomes whole: receive, hash while receiving, sync, prove, publish."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from .faults import Fault, FileFailed, SourceFault, Stopped, WrongBytes
from .manifest import Entry
from .origin import Origin
from .status import Status
from .store import BLOCK_BYTES, Store

# So often may one source give wrong bytes for one file before it is not asked for it again.
_STRIKES = 3
_LONGEST_PAUSE_SECONDS = 30


class Part:
    """A file on its way: what is on disk, and the SHA-256 of exactly that. `step` is told each new size."""

    def __init__(self, path: Path, step: Callable[[int], None]):
        path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        self._step, self.size, self.digest = step, 0, hashlib.sha256()

    def resume(self) -> None:
        """Hash what an earlier run left: a hasher cannot be kept, and reading is faster than fetching."""
        while block := os.read(self._descriptor, BLOCK_BYTES):
            self._count(block)

    def write(self, block: bytes) -> None:
        """Append bytes."""
        view = memoryview(block)
        while view:
            written = os.write(self._descriptor, view)
            self._count(view[:written])
            view = view[written:]

    def _count(self, block: bytes | memoryview) -> None:
        self.digest.update(block)
        self.size += len(block)
        self._step(self.size)

    def reset(self) -> None:
        """Start again from nothing."""
        os.ftruncate(self._descriptor, 0)
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        self.size, self.digest = 0, hashlib.sha256()

    def sync(self) -> None:
        """Make it durable and readable by all."""
        os.fchmod(self._descriptor, 0o644)
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the file and leave it for a later run."""
        os.close(self._descriptor)


class Transfer:
    """Makes files whole, from the origins in order. One object serves all threads."""

    def __init__(self, store: Store, origins: list[Origin], status: Status, stop: threading.Event):
        self._store, self._origins, self._status, self._stop = store, origins, status, stop

    def make_whole(self, entry: Entry) -> None:
        """Adopt, repair or fetch one file; raise FileFailed, Stopped or OSError (the local disk)."""
        self._status.file(entry, "checking")
        if fault := self._store.check(entry, step=self._check_stop):
            if os.path.lexists(self._store.target(entry)):
                self._status.note(str(fault))
                self._store.quarantine(entry)
            self._fetch(entry)
        self._status.file(entry, "done", entry.size)

    def _check_stop(self) -> None:
        if self._stop.is_set():
            raise Stopped

    def _fetch(self, entry: Entry) -> None:
        def step(size: int) -> None:
            self._check_stop()
            self._status.file(entry, "fetching", size)

        with contextlib.closing(Part(self._store.part(entry), step)) as part:
            step(0)
            part.resume()
            self._receive_until_whole(entry, part)
            part.sync()
        self._store.publish(entry)

    def _receive_until_whole(self, entry: Entry, part: Part) -> None:
        refused: dict[Origin, str] = {}
        strikes: Counter[Origin] = Counter()
        tries, last_progress = 0, time.monotonic()
        while usable := [origin for origin in self._origins if origin not in refused]:
            origin, before = usable[tries % len(usable)], part.size
            try:
                return self._receive(entry, part, origin)
            except WrongBytes as error:
                part.reset()
                strikes[origin] += 1
                fault = SourceFault(f"{error}, {strikes[origin]} times", strikes[origin] >= _STRIKES)
            except SourceFault as error:
                fault = error
            if part.size > before:
                tries, last_progress = 0, time.monotonic()
            tries += 1
            self._status.note(f"{entry.path}: {fault}")
            if fault.final:
                refused[origin] = str(fault)
            elif tries >= self._store.config.tries:
                lost = self._status.last_byte <= last_progress
                raise FileFailed(_failure(entry, f"{fault}, after {tries} tries"), origins_lost=lost)
            else:
                self._pause(tries, fault.retry_after)
        raise FileFailed(_failure(entry, "; ".join(refused.values()) or "no origin"))

    def _receive(self, entry: Entry, part: Part, origin: Origin) -> None:
        if part.size < entry.size:
            with origin.open(entry, part.size) as stream:
                if stream.offset != part.size:
                    part.reset()  # the source does not know Range and starts again
                while part.size <= entry.size and (block := stream.read()):
                    part.write(block)
                    self._status.received(origin.url, len(block))
        if part.size < entry.size:
            raise SourceFault(f"{origin.url} closed the connection after {part.size} of {entry.size} bytes")
        if part.digest.hexdigest() != entry.sha256:
            raise WrongBytes(f"{part.size} bytes with SHA-256 {part.digest.hexdigest()} from {origin.url}")

    def _pause(self, tries: int, at_least: float) -> None:
        """Wait longer after each try, and not all nodes and threads at once."""
        wait = min(_LONGEST_PAUSE_SECONDS, 2.0 ** (tries - 1)) * random.uniform(0.5, 1)
        if self._stop.wait(at_least + wait):
            raise Stopped


def _failure(entry: Entry, found: str) -> Fault:
    expected = f"{entry.size} bytes with SHA-256 {entry.sha256}"
    return Fault(entry.path, expected, found, "see to the origin, or name another in checkpoint_origins, and run again")
