# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Puts nodes into replicas and gives every engine its rank, role and ports."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.faults import Fault, natural
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.network import endpoint
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.nodes import Node
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.site import Site

OVERRIDE = "serving_nodes_per_replica"


@dataclass(frozen=True)
class Replica:
    """The nodes that together hold one copy of the weights, in order of rank; the first is the head's."""

    name: str
    pool: str
    nodes: tuple[Node, ...]
    ports: Mapping[str, int]  # of the head

    @property
    def head(self) -> Node:
        return self.nodes[0]

    @property
    def gpus(self) -> int:
        return sum(node["gpu_count"] for node in self.nodes)

    @property
    def endpoint(self) -> str:
        return endpoint(self.head["fabric_address"], self.ports["http"])

    def engine_name(self, rank: int) -> str:
        return f"{self.name}-rank-{rank}"

    def engines(self) -> list[Engine]:
        return [Engine(self, node, rank) for rank, node in enumerate(self.nodes)]


@dataclass(frozen=True)
class Engine:
    """One `vllm serve` process: a rank of a replica on a node."""

    replica: Replica
    node: Node
    rank: int

    @property
    def name(self) -> str:
        return self.replica.engine_name(self.rank)

    @property
    def role(self) -> str:
        return "worker" if self.rank else "head"

    @property
    def order(self) -> int:
        """Start order in the replica: a worker gives up on a head that comes minutes later."""
        return min(self.rank, 1)

    @property
    def ports(self) -> dict[str, int]:
        """What this engine listens on: a worker has no HTTP and meets its peers at the head."""
        return {} if self.rank else dict(self.replica.ports)


def lay_out(site: Site, nodes: Mapping[str, Node], groups: Mapping[str, list]) -> tuple[list[Replica], list[Fault]]:
    """Every pool of the profile cut into replicas, nodes in natural order."""
    replicas, faults = [], []
    for pool, shape in site.profile["pools"].items():
        members = [nodes[name] for name in sorted(groups.get(shape["group"], []), key=natural)]
        size = _replica_size(site, shape, len(members))
        wrong = list(_size_faults(site, shape, size, len(members))) if members else []
        faults += wrong
        if members and not wrong:
            cut = [tuple(members[start : start + size]) for start in range(0, len(members), size)]
            replicas += [Replica(f"{pool}-{n}", pool, chunk, shape["ports"]) for n, chunk in enumerate(cut)]
    for replica in replicas:
        faults += _pairing_faults(replica)
    return replicas, faults


def _replica_size(site: Site, shape: Mapping, available: int) -> int:
    """What the site says, else the only size the profile has, else one replica of all nodes."""
    return site[OVERRIDE] or shape["nodes_per_replica"].get("maximum") or available


def _size_faults(site: Site, shape: Mapping, size: int, available: int) -> Iterator[Fault]:
    allowed, name = shape["nodes_per_replica"], site.profile.name
    if not allowed["minimum"] <= size <= allowed.get("maximum", size):
        bounds = f"{allowed['minimum']}" if allowed.get("maximum") else f"at least {allowed['minimum']}"
        remedy = "correct it, add nodes to the group, or choose another serving_profile"
        yield Fault(OVERRIDE, size, f"a replica of {name} has {bounds} node(s)", remedy)
    elif available % size:
        limit = f"{shape['group']} has {available} node(s), which do not divide into replicas of {size}"
        away = f" or take {available % size} away" if available > size else ""
        remedy = f"add {-available % size} node(s) to the group{away}"
        yield Fault(OVERRIDE, size, limit, remedy)


def _family(node: Node) -> int | None:
    """4 or 6; None without a sound address."""
    try:
        return ipaddress.ip_address(node["fabric_address"] or "").version
    except ValueError:
        return None


def _pairing_faults(replica: Replica) -> Iterator[Fault]:
    """Ranks of one replica must be alike."""
    family = _family(replica.head)
    for node in replica.nodes:
        if None not in (family, _family(node)) and _family(node) != family:
            limit = f"all nodes of {replica.name} speak IPv{family}, as its head {replica.head.name} does"
            remedy = f"write the node's IPv{family} address"
            yield Fault("fabric_address", node["fabric_address"], limit, remedy, node.name)
        for variable in ("gpu_model", "gpu_count"):
            if node[variable] != replica.head[variable]:
                limit = f"all nodes of {replica.name} must be like its head {replica.head.name}"
                remedy = f"write {replica.head[variable]}, or put the node into another replica"
                yield Fault(variable, node[variable], limit, remedy, node.name)
