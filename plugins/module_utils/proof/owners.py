# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who brings which file of a checkpoint over the site's link, and who hands it to the others."""

from __future__ import annotations

from collections.abc import Sequence


def assign(nodes: Sequence[str], wan_nodes: Sequence[str], sizes: Sequence[int]) -> tuple[list[str], list[str]]:
    """(owner, fetcher) of each file of so many bytes, the same wherever it is computed.

    The fetcher brings a file over the link; its owner hands it to all others, and is the fetcher itself where it may
    use the link. Largest file first, each to whom that leaves with the least to send.
    """
    load: dict[str, int] = dict.fromkeys(nodes, 0)
    brought: dict[str, int] = dict.fromkeys(wan_nodes, 0)
    owners, fetchers = [""] * len(sizes), [""] * len(sizes)
    others = len(nodes) - 1
    for index in sorted(range(len(sizes)), key=lambda index: (-sizes[index], index)):
        size = sizes[index]
        # An owner off the link gets the file from its fetcher, which is one less to send to.
        cost = {node: load[node] + size * (others - (node not in brought)) for node in nodes}
        owner = min(nodes, key=lambda node: (cost[node], brought.get(node, 0)))
        fetcher = owner if owner in brought else min(wan_nodes, key=lambda node: load[node])
        load[owner] = cost[owner]
        brought[fetcher] += size
        if fetcher != owner:
            load[fetcher] += size
        owners[index], fetchers[index] = owner, fetcher
    return owners, fetchers
