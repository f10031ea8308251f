# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The manifest: path, size and SHA-256 of every file of one checkpoint revision."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from .faults import ConfigError

COMMIT = re.compile(r"[0-9a-f]{40}")
_REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f\\]")
# Room for ".part" within the 255 bytes that a file name may have.
_NAME_BYTES = 240


@dataclass(frozen=True)
class Entry:
    """One file: path relative to the checkpoint, size in bytes, SHA-256 in hex."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """One revision of one repository, files sorted by path."""

    repo: str
    commit: str
    files: tuple[Entry, ...]

    @classmethod
    def from_dict(cls, data: dict) -> Manifest:
        """Read plain data; raise ConfigError with every fault in it."""
        try:
            files = tuple(sorted((Entry(**file) for file in data["files"]), key=lambda entry: str(entry.path)))
            manifest = cls(data["repo"], data["commit"], files)
        except (KeyError, TypeError) as error:
            raise ConfigError(f"not a manifest: {error!r}") from error
        if faults := list(manifest.faults()):
            raise ConfigError("; ".join(faults))
        return manifest

    def faults(self) -> Iterator[str]:
        """Yield what makes this manifest unsafe or meaningless."""
        if not _REPO.fullmatch(str(self.repo)):
            yield f"repository {self.repo!r}: must be <organisation>/<name>"
        if not COMMIT.fullmatch(str(self.commit)):
            yield f"commit {self.commit!r}: must be 40 hexadecimal digits"
        if not self.files:
            yield "no files"
        counts = Counter(entry.path for entry in self.files)
        folders = {str(parent) for path in counts for parent in PurePosixPath(str(path)).parents}
        for entry in self.files:
            if fault := path_fault(entry.path):
                yield f"file {entry.path!r}: {fault}"
            elif counts[entry.path] > 1:
                yield f"file {entry.path!r}: listed twice"
            elif entry.path in folders:
                yield f"file {entry.path!r}: is a folder too"
            if not isinstance(entry.size, int) or entry.size < 0 or not _SHA256.fullmatch(str(entry.sha256)):
                yield f"file {entry.path!r}: size {entry.size!r} or SHA-256 {entry.sha256!r} is not one"

    def as_dict(self) -> dict:
        """Return it as plain data."""
        return {"repo": self.repo, "commit": self.commit, "files": [asdict(entry) for entry in self.files]}

    def canonical(self) -> bytes:
        """Return the one byte form of this manifest, which its digest is taken over."""
        return json.dumps(self.as_dict(), sort_keys=True, separators=(",", ":")).encode()

    @property
    def digest(self) -> str:
        """The identity of this revision's content: `sha256:<hex>`."""
        return "sha256:" + hashlib.sha256(self.canonical()).hexdigest()

    @property
    def bytes(self) -> int:
        """The size of all files together."""
        return sum(entry.size for entry in self.files)


def path_fault(path: str) -> str | None:
    """Say why a file's path must not be used on a node, or None."""
    if not isinstance(path, str) or not path or _UNPRINTABLE.search(path):
        return "empty, or with a backslash or control character"
    parts = path.split("/")
    if {"", ".", ".."} & set(parts):
        return "must stay inside the checkpoint: no absolute path, no empty part, no `.` or `..`"
    if any(len(part.encode()) > _NAME_BYTES for part in parts):
        return f"a name in it is longer than {_NAME_BYTES} bytes"
    return None


def read_json(path: Path) -> dict:
    """Read a mapping from a file; raise ConfigError."""
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {error}") from error
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: must hold a mapping")
    return data
