# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a site keeps of the checkpoints that it has served: each manifest, and the Python files that engines run.

One file a commit, `<folder>/<commit>.json`: {number, digest, manifest, code: {path: text}}. Numbers count up, so the
highest is the one that came last.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.sovereign.kimi_k3.plugins.module_utils.proof.faults import ConfigError
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.proof.manifest import Manifest


@dataclass(frozen=True)
class Kept:
    """One frozen checkpoint."""

    number: int
    manifest: Manifest
    code: Mapping[str, str]
    file: Path


class Folder:
    """The frozen checkpoints of one site."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def find(self, commit: str) -> Kept | None:
        """The checkpoint of this commit; ConfigError for a file that is not what freeze() wrote."""
        file = self.path / f"{commit}.json"
        return _read(file) if file.is_file() else None

    def before(self, manifest: Manifest) -> Kept | None:
        """The checkpoint of the same repository that was frozen last, this one apart."""
        kept = [_read(file) for file in sorted(self.path.glob("*.json"))]
        others = [row for row in kept if (row.manifest.repo, row.manifest.commit) != (manifest.repo, manifest.commit)]
        return max(
            (row for row in others if row.manifest.repo == manifest.repo), key=lambda row: row.number, default=None
        )

    def freeze(self, manifest: Manifest, code: Mapping[str, str]) -> Path:
        """Keep it; the file is whole or not there."""
        self.path.mkdir(parents=True, exist_ok=True)
        number = 1 + max((_read(file).number for file in self.path.glob("*.json")), default=0)
        content = {"number": number, "digest": manifest.digest, "manifest": manifest.as_dict(), "code": dict(code)}
        file = self.path / f"{manifest.commit}.json"
        part = file.with_suffix(".part")
        part.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        os.replace(part, file)
        return file


def _read(file: Path) -> Kept:
    try:
        content = json.loads(file.read_bytes())
        kept = Kept(content["number"], Manifest.from_dict(content["manifest"]), content["code"], file)
        sound = kept.manifest.digest == content["digest"]
    except (ConfigError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{file}: {error!r}") from error
    if not sound:
        raise ConfigError(f"{file}: its digest is not that of its manifest")
    return kept


def code_differences(before: Kept, manifest: Manifest, code: Mapping[str, str]) -> dict[str, list[str]]:
    """{path: unified diff} of the Python files that differ, appear or go.

    Where one of the two texts is not at hand, because a manifest came from a file, the hashes stand for them.
    """
    old, new = (
        {entry.path: entry.sha256 for entry in one.files if entry.path.endswith(".py")}
        for one in (before.manifest, manifest)
    )
    found = {}
    for path in sorted(path for path in old.keys() | new.keys() if old.get(path) != new.get(path)):
        if (path in before.code or path not in old) and (path in code or path not in new):
            found[path] = list(_diff(path, before.code.get(path, ""), code.get(path, "")))
        else:
            found[path] = [f"--- a/{path}  sha256 {old.get(path)}", f"+++ b/{path}  sha256 {new.get(path)}"]
    return found


def _diff(path: str, before: str, after: str) -> Iterator[str]:
    yield from difflib.unified_diff(before.splitlines(), after.splitlines(), f"a/{path}", f"b/{path}", lineterm="")
