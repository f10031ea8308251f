# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A site's own entries over the collection's, and what lies in its folder that nobody would read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.faults import Fault, edit_distance

FOLDER = "catalogue"
FILE = re.compile(r"[a-z0-9][a-z0-9._-]*\.yml")
LIMIT = "a site's catalogue holds <kind>/<name>.yml, in lower case; kinds: "


def laid(under: object, over: object) -> object:
    """What a site's entry makes of the collection's: mappings key by key, anything else replaced."""
    if not (isinstance(under, dict) and isinstance(over, dict)):
        return over
    return {**under, **{key: laid(under[key], value) if key in under else value for key, value in over.items()}}


def stray_faults(site: Path, kinds: Sequence[str]) -> Iterator[Fault]:
    """Near misses of `<site>/catalogue`, and all in it that is no `<kind>/<name>.yml`, hidden files apart."""
    for path in _visible(site):
        if path.is_dir() and path.name != FOLDER and edit_distance(path.name.lower(), FOLDER, 2) <= 2:
            yield Fault(f"{path.name}/", path.name, "nothing reads this folder", f"rename it {FOLDER}")
    folder = site / FOLDER
    if folder.exists() and not folder.is_dir():
        yield _fault(site, folder, kinds)
    for path in _visible(folder):
        if path.name not in kinds or not path.is_dir():
            yield _fault(site, path, kinds)
            continue
        for file in _visible(path):
            if not FILE.fullmatch(file.name) or not file.is_file():
                yield _fault(site, file, kinds)


def _visible(folder: Path) -> list[Path]:
    found = folder.iterdir() if folder.is_dir() else ()
    return sorted(path for path in found if not path.name.startswith("."))


def _fault(site: Path, path: Path, kinds: Sequence[str]) -> Fault:
    place = str(path.relative_to(site))
    return Fault(f"site {place}", path.name, f"{LIMIT}{', '.join(kinds)}", "rename it, or move it away")
