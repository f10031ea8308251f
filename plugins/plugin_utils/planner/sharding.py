# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the sizes of a replica divide what they must: the engine stops where they do not."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.arguments import Arguments
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.faults import Fault
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.layout import NODES, TENSOR, Replica
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.site import Site


def faults(site: Site, replica: Replica, arguments: Arguments, others: str) -> Iterator[Fault]:
    """Attention heads, experts and layers; `others` names layouts of the same nodes that divide."""
    parallel, shapes = replica.parallel, site.model["shapes"]
    variable, node = _blamed(site, replica)
    value = f"{len(replica.nodes)} node(s), {parallel}"
    for thing, size, word in (
        ("attention_heads", parallel.tensor, "tensor-parallel size"),
        ("experts", parallel.ranks if parallel.experts else 1, "number of ranks that share the experts"),
    ):
        whole, what = shapes.get(thing), thing.replace("_", " ")
        if whole and whole % size:
            right = f"the {word} must divide them: {_near(whole, size)}, not {size}"
            yield Fault(variable, value, f"{site.model.name} has {whole} {what}; {right}", others, node)
    if parallel.experts and not shapes.get("experts"):
        limit = f"{site.model.name} has no experts to spread over ranks"
        yield Fault("serving_profile", site.profile.name, limit, others)
    if parallel.pipeline > shapes["layers"]:
        limit = f"{site.model.name} has {shapes['layers']} layers, one at least for each pipeline stage"
        yield Fault(variable, value, limit, others, node)
    yield from _context_faults(replica, arguments)


def _near(whole: int, size: int) -> str:
    """The sizes next to `size`, below and above it, that divide `whole`."""
    sizes = [number for number in range(1, whole + 1) if whole % number == 0]
    below, above = [n for n in sizes if n < size][-1:], [n for n in sizes if n > size][:1]
    return " or ".join(map(str, [*below, *above]))


def _blamed(site: Site, replica: Replica) -> tuple[str, str]:
    """(variable, node) that a wrong size comes from."""
    if site.of_pool(TENSOR, replica.pool):
        return TENSOR, ""
    return (NODES, "") if replica.shape["nodes_per_replica"].get("maximum") != 1 else ("gpu_count", replica.head.name)


def _context_faults(replica: Replica, arguments: Arguments) -> Iterator[Fault]:
    """Decode context parallelism spreads KV over the ranks of one tensor-parallel group."""
    flag = "--decode-context-parallel-size"
    given = arguments.value(flag)
    if given and (not given.isdecimal() or int(given) < 1 or replica.parallel.tensor % int(given)):
        limit = f"must divide the tensor-parallel size, {replica.parallel.tensor}"
        yield Fault(f"serving_overrides.flags.{flag}", given, limit, "write a divisor of it")
