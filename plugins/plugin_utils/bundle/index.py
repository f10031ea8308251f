# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The index of a bundle: every file with its size and SHA-256, and what the files are."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ansible_collections.sovereign.kimi_k3.plugins.module_utils.proof.store import hash_file
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.bundle.drive import Drive

FORMAT = 1


def files_of(roots: Iterable[Path]) -> Iterator[Path]:
    """The files that a bundle's roots are or hold, in order."""
    for root in sorted(roots):
        if root.is_file():
            yield root
        for place, folders, names in os.walk(root):
            folders.sort()
            yield from (Path(place, name) for name in sorted(names))


def strays(drive: Drive, roots: Iterable[Path]) -> list[str]:
    """What lies on the drive and belongs to no part of the bundle, such as an earlier revision; nobody deletes it."""
    ours = {path for root in roots for path in (root, *root.parents)}
    inside = [drive.root, *(path for path in ours if drive.root in path.parents and path.is_dir())]
    holders = [path for path in inside if path not in set(roots)]
    found = {path for holder in holders for path in holder.iterdir() if path not in ours and path != drive.index}
    return sorted(str(path) for path in found if not path.name.startswith(".") and path.name != "lost+found")


def index(drive: Drive, about: Mapping, known: Mapping[Path, str], roots: Iterable[Path]) -> bytes:
    """The index as JSON, the same bytes for the same bundle.

    `about` says what the files are; `known` is {file: SHA-256} of those that were proved while they came, which are
    not read again. The others are small.
    """
    rows = [
        {
            "path": str(path.relative_to(drive.root)),
            "bytes": path.stat().st_size,
            "sha256": known.get(path) or hash_file(path),
        }
        for path in files_of(roots)
    ]
    content = {"format": FORMAT, **about, "bytes": sum(row["bytes"] for row in rows), "files": rows}
    return json.dumps(content, indent=1, sort_keys=True).encode() + b"\n"


def digest(data: bytes) -> str:
    """What to carry apart from the drive: it names every byte on it."""
    return hashlib.sha256(data).hexdigest()
