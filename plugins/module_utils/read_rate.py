# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How fast a filesystem gives what is not in this node's memory: a few seconds of reading."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SECONDS = 5.0
# Less says nothing of a sustained rate, more says no more of it.
LEAST_BYTES, MOST_BYTES = 64 << 20, 512 << 20
_WRITTEN_BYTES, _BLOCK_BYTES, _READERS = 256 << 20, 4 << 20, 4


def read_rate(folder: Path, file: Path | None, may_write: bool, seconds: float = SECONDS) -> int | None:
    """Return bytes per second of an existing file, or of one that is written in a folder for it and removed.

    None where there is no file to read, or a byte of it does not come in time.
    """
    if file is not None:
        return _measure(file, seconds)
    if not may_write:
        return None
    trial = folder / f".kimi-k3-read-rate-{os.getpid()}"
    try:
        _write(trial, seconds)
        return _measure(trial, seconds)
    except OSError:  # read-only, or root may not write there
        return None
    finally:
        with contextlib.suppress(OSError):
            trial.unlink()


def largest_file(folder: Path) -> Path | None:
    """Return the largest file below a folder, where one is large enough to measure by."""
    found = (Path(place, name) for place, _, names in os.walk(folder) for name in names)
    sizes = [(path.lstat().st_size, path) for path in found if path.is_file() and not path.is_symlink()]
    size, path = max(sizes, default=(0, None))
    return path if size >= LEAST_BYTES else None


def _write(path: Path, seconds: float) -> None:
    block, deadline = os.urandom(_BLOCK_BYTES), time.monotonic() + seconds
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        for _ in range(_WRITTEN_BYTES // _BLOCK_BYTES):
            os.write(descriptor, block)
            if time.monotonic() > deadline:
                break
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _measure(path: Path, seconds: float) -> int | None:
    with _cold(path) as (descriptor, size):
        places = iter(range(0, min(size, MOST_BYTES), _BLOCK_BYTES))
        start = time.monotonic()
        with ThreadPoolExecutor(_READERS) as pool:
            counts = pool.map(lambda _: _read(descriptor, places, start + seconds), range(_READERS))
            total = sum(counts)
        spent = time.monotonic() - start
    return round(total / spent) if total else None


@contextlib.contextmanager
def _cold(path: Path) -> Iterator[tuple[int, int]]:
    """Open a file round the page cache; where the filesystem cannot, with its pages dropped."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags | os.O_DIRECT)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        descriptor = os.open(path, flags)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        yield descriptor, os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


def _read(descriptor: int, places: Iterator[int], deadline: float) -> int:
    total = 0
    with mmap.mmap(-1, _BLOCK_BYTES) as block:  # direct reads want memory at the start of a page
        while time.monotonic() < deadline and (place := next(places, None)) is not None:
            total += os.preadv(descriptor, [block], place)
    return total
