"""Compiles Python modules; runs inside the base system, with its own Python and nothing else.

    python3 bytecode.py SOURCE TARGET PREFIX

Each .py below SOURCE becomes a .pyc below TARGET, for use at PREFIX. Hash-based and unchecked, so that
neither the times of files nor a later look at the source matter.
"""
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import py_compile
import sys
from pathlib import Path


def compile_all(files: list[Path], source: Path, target: Path, prefix: str) -> None:
    """Compile the files one after another; one that is not valid Python is left out, as an import would."""
    for file in files:
        name = file.relative_to(source)
        cached = target / name.parent / "__pycache__" / f"{name.stem}.{sys.implementation.cache_tag}.pyc"
        py_compile.compile(
            str(file), str(cached), f"{prefix}/{name}", invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
        )


def main(source: str, target: str, prefix: str) -> None:
    """Share the work between the processors. Plain forks: a chroot may lack what pools need."""
    files, workers = sorted(Path(source).rglob("*.py")), os.cpu_count() or 1
    children = []
    for worker in range(workers):
        child = os.fork()
        if not child:
            compile_all(files[worker::workers], Path(source), Path(target), prefix)
            os._exit(0)
        children.append(child)
    if any(os.waitpid(child, 0)[1] for child in children):
        sys.exit("bytecode: a worker failed")


if __name__ == "__main__":
    main(*sys.argv[1:])
