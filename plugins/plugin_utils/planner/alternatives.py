# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which layouts of the same nodes would hold, for a site whose own does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner import gates, memory, sharding
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.catalogue import Catalogue
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.layout import (
    NODES,
    TENSOR,
    Replica,
    nvlink_faults,
    replica,
    usual,
)
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.nodes import Node
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.parallel import problem
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.site import Site

SHOWN = 3
CRAMPED = 1 << 16  # tokens of KV; with fewer, a layout is named after those that warn of something


def named(site: Site, pool: str, members: Sequence[Node], catalogue: Catalogue) -> str:
    """Remedy: up to three layouts that fit, best first, or what else to do."""
    fitting = sorted(_fitting(site, pool, members, catalogue), key=lambda row: row[:3])
    if not fitting and pool != "unified":
        fitting = sorted(_fitting(site, "unified", members, catalogue), key=lambda row: row[:3])
    shown, seen = [], set()
    for *_rank, profile, word in fitting:
        if profile not in seen:
            seen.add(profile)
            shown.append(word)
    if not shown:
        return "no layout of these nodes holds this model: add nodes, or choose other hardware"
    return f"of these nodes would fit, best first: {'; '.join(shown[:SHOWN])}"


def _fitting(site: Site, pool: str, members: Sequence[Node], catalogue: Catalogue) -> Iterator[tuple]:
    """(warnings, spare nodes, minus tokens of KV, profile, words) of every layout that passes.

    A number of nodes other than the hardware's usual one counts as a warning: nobody is known to have run it.
    """
    hardware = members[0].hardware
    for name, entry in catalogue.entries["profiles"].items():
        values = {**site.values, "serving_profile": name, TENSOR: None}
        other = replace(site, profile=entry, values=values)
        shape = entry["pools"].get(pool)
        if not shape or (name not in hardware["layouts"] and name != site.profile.name):
            continue
        most = min(len(members), shape["nodes_per_replica"].get("maximum", len(members)))
        for size in range(shape["nodes_per_replica"]["minimum"], most + 1):
            candidate = replica(other, pool, f"{pool}-0", tuple(members[:size]))
            found = _passes(other, candidate, catalogue)
            if found:
                warnings, tokens = found
                unusual = size != usual(other, pool, hardware)["nodes"]
                count = len(members) // size
                told = f"{candidate.parallel}{_tokens(tokens)}"
                alone = f" and without {TENSOR}" if site.of_pool(TENSOR, pool) else ""
                words = f"serving_profile: {name} with {_nodes(pool, size)}{alone} ({told})"
                worries = warnings + unusual + (0 < tokens < CRAMPED)
                yield worries, len(members) % size, -tokens * count, name, words


def _nodes(pool: str, size: int) -> str:
    """What to write for NODES, so that another pool keeps its own number."""
    return f"{NODES}: {size}" if pool == "unified" else f"{size} for {pool} in {NODES}"


def _tokens(tokens: int) -> str:
    return f", {tokens:,} tokens of KV" if tokens else ""


def _passes(site: Site, candidate: Replica, catalogue: Catalogue) -> tuple[int, int] | None:
    """(number of warning gates, tokens of KV), or None for a layout that is refused."""
    if problem(candidate.shape, candidate.parallel, candidate.head["gpu_count"]):
        return None
    arguments, held = gates.judge(site, candidate.engines()[0], catalogue)
    counted = memory.count(site, candidate, arguments)
    wrong = any(sharding.faults(site, candidate, arguments, "")) or any(nvlink_faults(site, candidate))
    wrong = wrong or any(gate["action"] == "refuse" for gate in held)
    if wrong or (counted and any(memory.faults(candidate, counted, arguments, ""))):
        return None
    return sum(gate["action"] == "warn" for gate in held), counted.replica_tokens if counted else 0
