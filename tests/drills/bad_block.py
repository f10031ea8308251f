#!/usr/bin/env python3
"""Have a disk give back one byte of a file other than it was written: bad_block.py FILE IMAGE.

IMAGE is the file that is the disk on which FILE lies. The byte in the middle of FILE is changed there, below the
filesystem, and what the kernel remembers of FILE is dropped. Run it as root: it asks where on the disk FILE lies.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys

FIBMAP, FIGETBSZ = 1, 2
TRIES = 50


def ask(descriptor: int, request: int, number: int = 0) -> int:
    """An ioctl that takes and gives one int."""
    return struct.unpack("i", fcntl.ioctl(descriptor, request, struct.pack("i", number)))[0]


def flip(image: str, offset: int) -> None:
    """Change one byte of the disk."""
    with open(image, "r+b", buffering=0) as disk:
        disk.seek(offset)
        (byte,) = disk.read(1)
        disk.seek(offset)
        disk.write(bytes([byte ^ 1]))
        os.fsync(disk.fileno())


def main(path: str, image: str) -> int:
    """Flip the byte, and see that whoever reads the file gets it."""
    file = os.open(path, os.O_RDONLY)
    before, size = os.fstat(file), ask(file, FIGETBSZ)
    middle = before.st_size // 2
    right = os.pread(file, 1, middle)
    os.fsync(file)
    block = ask(file, FIBMAP, middle // size)
    if not block:
        sys.exit(f"{path} has no block of its own on {image}")
    flip(image, block * size + middle % size)
    for _ in range(TRIES):  # a page that somebody reads at this moment stays for a while
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        if os.pread(file, 1, middle) != right:
            break
    else:
        sys.exit(f"{path}: the kernel goes on giving the right byte")
    after = os.stat(path)
    same = ("st_size", "st_mtime_ns", "st_ctime_ns", "st_ino", "st_dev")
    return int(any(getattr(before, name) != getattr(after, name) for name in same))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
