# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file on its way to the node: hashed while it grows, read by others meanwhile, proved at its end."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from pathlib import Path

from .faults import WrongBytes
from .manifest import Entry

BLOCK_BYTES = 1 << 18


class Part:
    """A file on its way: what is on disk, the SHA-256 of exactly that, and who gave it.

    One thread writes. Others wait for it to grow, and get the last byte only when all are proved: whoever reads a
    part to its end has the promise that its holder found it right. `generation` tells copies apart: a part that was
    wrong starts anew under another.
    """

    def __init__(self, path: Path, abandoned: set[str]):
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._abandoned, self._grown = path, abandoned, threading.Condition()
        self.proved = False
        self._begin(os.O_CREAT)

    def _begin(self, flags: int) -> None:
        self.descriptor = os.open(self._path, flags | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        self.size, self.generation, self._digest = 0, os.urandom(8).hex(), hashlib.sha256()
        self.suspects: set[str] = set()
        self.tags: dict[str, str] = {}

    def resume(self, step: Callable[[], None]) -> None:
        """Hash what an earlier run left: a hasher cannot be kept, and reading is faster than fetching."""
        block = bytearray(BLOCK_BYTES)
        while count := os.preadv(self.descriptor, [block], self.size):
            self.suspects.add("an earlier run")
            self._count(memoryview(block)[:count])
            step()

    def write(self, view: memoryview) -> None:
        """Append bytes."""
        while view:
            written = os.pwrite(self.descriptor, view, self.size)
            self._count(view[:written])
            view = view[written:]

    def _count(self, view: memoryview) -> None:
        self._digest.update(view)
        with self._grown:
            self.size += len(view)
            self._grown.notify_all()

    def prove(self, entry: Entry) -> None:
        """Let readers have the end of a file that is right, and make it durable; raise WrongBytes."""
        if self._digest.hexdigest() != entry.sha256:
            found, suspects = f"{self.size} bytes with SHA-256 {self._digest.hexdigest()}", self.suspects
            self.reset()
            raise WrongBytes(f"{found} from {', '.join(sorted(suspects))}", suspects)
        with self._grown:
            self.proved = True
            self._grown.notify_all()
        os.fchmod(self.descriptor, 0o644)
        os.fsync(self.descriptor)

    def reset(self) -> None:
        """Start again from nothing, in a new file: who reads the old one is sent away, and never gets bytes of both."""
        with self._grown:
            self._path.unlink(missing_ok=True)
            os.close(self.descriptor)
            self._abandoned.add(self.generation)
            self._begin(os.O_CREAT | os.O_EXCL)
            self._grown.notify_all()

    def reader(self) -> tuple[int, str]:
        """(a descriptor of its own, the generation) for somebody who reads it."""
        with self._grown:
            return os.dup(self.descriptor), self.generation

    def wait_beyond(self, offset: int, generation: str, last: int, seconds: float) -> int:
        """Wait until there is more than `offset` bytes to read; return up to where, or `offset`. `last`: the end."""

        def readable() -> int:
            if self.generation != generation:
                return -1
            return last if self.proved else min(self.size, last - 1)

        with self._grown:
            self._grown.wait_for(lambda: not offset >= readable() >= 0, seconds)
            return max(offset, readable())

    def close(self) -> None:
        """Close a file that was proved."""
        os.close(self.descriptor)
