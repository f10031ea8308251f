# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a tensor-parallel size divides the model's attention heads; the engine stops where it does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner import arguments, memory
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.faults import Fault
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.layout import OVERRIDE, Replica
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.site import Site

FLAG = "--tensor-parallel-size"


def head_faults(site: Site, replicas: Sequence[Replica]) -> Iterator[Fault]:
    """For each replica whose size the heads do not divide by: the sizes that do, and a layout with one."""
    heads = site.model["attention_heads"]
    for replica in replicas if heads else ():
        size = _size(site, replica)
        if heads % size == 0:
            continue
        allowed = site.profile["pools"][replica.pool]["nodes_per_replica"]
        variable, node = (OVERRIDE, "") if allowed.get("maximum") != 1 else ("gpu_count", replica.head.name)
        value = f"{len(replica.nodes)} node(s), {FLAG} {size}"
        limit = f"{site.model.name} has {heads} attention heads, which {_divisors(site, replica, heads)}, not by {size}"
        members = [node for other in replicas if other.pool == replica.pool for node in other.nodes]
        yield Fault(variable, value, limit, _remedy(site, replica, members), node)


def _size(site: Site, replica: Replica) -> int:
    return int(arguments.of_catalogue(site, replica.engines()[0], FLAG) or 1)


def _divisors(site: Site, replica: Replica, heads: int) -> str:
    """Sizes that divide the heads and that whole nodes of this hardware can have."""
    step = replica.head.hardware.get("gpus_per_node") or 1
    sizes = [str(size) for size in range(step, heads + 1, step) if heads % size == 0]
    return f"divide by {', '.join(sizes) or f'no whole node with its {step}'} GPUs"


def _remedy(site: Site, replica: Replica, members: Sequence) -> str:
    shape = site.profile["pools"][replica.pool]
    allowed = shape["nodes_per_replica"]
    most = min(len(members), allowed.get("maximum", len(members)))
    counts = range(most, allowed["minimum"] - 1, -1)
    sound = [n for n in counts if _holds(site, replace(replica, nodes=tuple(members[:n])))]
    whole = [str(n) for n in sound if len(members) % n == 0]
    if whole:
        return f"write {OVERRIDE}: {' or '.join(whole)}"
    if sound:
        spare = len(members) % sound[0]
        return f"write {OVERRIDE}: {sound[0]} and take {spare} node(s) out of {shape['group']}"
    return "correct gpu_count, or choose another serving_profile"


def _holds(site: Site, replica: Replica) -> bool:
    """Whether a replica of these nodes would pass, by its heads and by its memory."""
    return site.model["attention_heads"] % _size(site, replica) == 0 and not any(memory.memory_faults(site, replica))
