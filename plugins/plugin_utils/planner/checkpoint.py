# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who brings which part of the checkpoint over the site's link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.faults import natural


def owners(nodes: Sequence[str], files: Mapping[str, int]) -> dict[str, list[str]]:
    """{node: files that it fetches from the origin}, the same for any order of the input.

    Largest file first, each to the node with the fewest bytes so far; `files` is {path: bytes}.
    """
    order = sorted(set(nodes), key=natural)
    load = dict.fromkeys(order, 0)
    owned: dict[str, list[str]] = {node: [] for node in order}
    for path, size in sorted(files.items(), key=lambda item: (-item[1], item[0])):
        node = min(order, key=lambda name: load[name])
        load[node] += size
        owned[node].append(path)
    return owned


def shares(nodes: Sequence[str], size: int | None) -> list[dict]:
    """[{node, bytes}] of a checkpoint whose files are not known yet: equal parts, to the byte."""
    order = sorted(set(nodes), key=natural)
    if size is None:
        return [{"node": node, "bytes": None} for node in order]
    part, rest = divmod(size, len(order))
    return [{"node": node, "bytes": part + (n < rest)} for n, node in enumerate(order)]
