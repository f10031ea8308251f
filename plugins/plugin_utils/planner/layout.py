# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Puts nodes into replicas and gives every engine its rank, role and ports."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.catalogue import Entry
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.faults import Fault, known, natural, several
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.network import endpoint
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.nodes import Node
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.parallel import Parallel, divide, problem
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.site import Site

NODES = "serving_nodes_per_replica"
TENSOR = "serving_tensor_parallel_size"


@dataclass(frozen=True)
class Replica:
    """The nodes that together hold one copy of the weights, in order of rank; the first is the head's."""

    name: str
    pool: str
    nodes: tuple[Node, ...]
    shape: Mapping  # the profile's entry of this pool
    parallel: Parallel

    @property
    def head(self) -> Node:
        return self.nodes[0]

    @property
    def hardware(self) -> Entry:
        return self.head.hardware

    @property
    def gpus(self) -> int:
        return sum(node["gpu_count"] for node in self.nodes)

    @property
    def endpoints(self) -> list[str]:
        """Where HTTP is served: by the head, or by every node."""
        return [engine.endpoint for engine in self.engines() if engine.serves]

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
    def serves(self) -> bool:
        return self.rank == 0 or self.replica.parallel.every_node_serves

    @property
    def endpoint(self) -> str:
        """Its own, or its head's where it serves none."""
        node = self.node if self.serves else self.replica.head
        return endpoint(node["fabric_address"], self.replica.shape["ports"]["http"])

    @property
    def data_start_rank(self) -> int:
        parallel = self.replica.parallel
        return self.rank * parallel.data_local if parallel.data > 1 else 0

    @cached_property
    def ports(self) -> dict[str, int | list[int]]:
        """What this engine listens on; peers meet at the head, and each local data rank has a side channel.

        vLLM adds a rank's global data-parallel index to the side channel's port.
        """
        ports, parallel = self.replica.shape["ports"], self.replica.parallel
        meeting = "data_rpc" if parallel.data > 1 else "master" if parallel.nodes > 1 else None
        found = {"http": ports["http"]} if self.serves else {}
        if self.rank == 0 and meeting in ports:
            found[meeting] = ports[meeting]
        if self.serves and "side_channel" in ports:
            first = ports["side_channel"] + self.data_start_rank
            found["side_channel"] = list(range(first, first + parallel.data_local))
        return found


@dataclass
class Layout:
    """Every pool cut into replicas, the nodes that are left over, and what is wrong."""

    replicas: list[Replica] = field(default_factory=list)
    spare: dict[str, list[Node]] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def warnings(self) -> Iterator[Fault]:
        for group, nodes in self.spare.items():
            names = several([node.name for node in nodes])
            size = next(len(replica.nodes) for replica in self.replicas if replica.shape["group"] == group)
            limit = f"{len(nodes)} of {group} do not fill a replica of {size} and stay spare"
            yield Fault(NODES, names, limit, "nothing to do, or give a replica another size")


def lay_out(site: Site, nodes: Mapping[str, Node], groups: Mapping[str, list]) -> Layout:
    """Every pool of the profile cut into replicas, nodes in natural order."""
    layout = Layout()
    for pool, shape in site.profile["pools"].items():
        members = [nodes[name] for name in sorted(groups.get(shape["group"], []), key=natural)]
        if members and all(node.hardware and node["gpu_count"] for node in members):
            _cut(site, pool, members, layout)
    for replica in layout.replicas:
        layout.faults += _pairing_faults(site, replica)
    return layout


def _cut(site: Site, pool: str, members: Sequence[Node], layout: Layout) -> None:
    shape, hardware = site.profile["pools"][pool], members[0].hardware
    size = site.of_pool(NODES, pool) or usual(site, pool, hardware)["nodes"]
    wrong = list(_size_faults(site, shape, size, len(members)))
    if not wrong:
        whole = len(members) - len(members) % size
        chunks = [tuple(members[start : start + size]) for start in range(0, whole, size)]
        layout.replicas += [replica(site, pool, f"{pool}-{n}", chunk) for n, chunk in enumerate(chunks)]
        trouble = problem(shape["parallel"], layout.replicas[-1].parallel, members[0]["gpu_count"])
        if trouble:
            wrong = [Fault(TENSOR, site.of_pool(TENSOR, pool), trouble, "leave it out, or write another size")]
    if members[whole:] if not wrong else ():
        layout.spare[shape["group"]] = list(members[whole:])
    layout.faults += wrong


def usual(site: Site, pool: str, hardware: Entry) -> Mapping:
    """{nodes, tensor?}: what the catalogue knows to work on this hardware, else the least of the profile."""
    known_layout = hardware["layouts"].get(site.profile.name, {}).get(pool)
    return known_layout or {"nodes": site.profile["pools"][pool]["nodes_per_replica"]["minimum"]}


def replica(site: Site, pool: str, name: str, nodes: tuple[Node, ...]) -> Replica:
    """One replica of these nodes, as the site, the hardware's row or the profile divide its GPUs."""
    shape, head = site.profile["pools"][pool], nodes[0]
    tensor = site.of_pool(TENSOR, pool) or usual(site, pool, head.hardware).get("tensor", shape["parallel"]["tensor"])
    return Replica(name, pool, nodes, shape, divide(shape["parallel"], tensor, len(nodes), head["gpu_count"]))


def _size_faults(site: Site, shape: Mapping, size: int, available: int) -> Iterator[Fault]:
    allowed, name = shape["nodes_per_replica"], site.profile.name
    if not allowed["minimum"] <= size <= allowed.get("maximum", size):
        bounds = f"{allowed['minimum']}" if allowed.get("maximum") else f"at least {allowed['minimum']}"
        remedy = "correct it, add nodes to the group, or choose another serving_profile"
        yield Fault(NODES, size, f"a replica of {name} has {bounds} node(s)", remedy)
    elif available < size:
        limit = f"{shape['group']} has {available} node(s), less than one replica of {size}"
        yield Fault(NODES, size, limit, f"add {size - available} node(s) to the group, or choose another layout")


def unknown_faults(site: Site, replicas: Sequence[Replica]) -> Iterator[Fault]:
    """Hardware on which nobody is known to have run this profile, each once."""
    for hardware in {replica.hardware.name: replica.hardware for replica in replicas}.values():
        if site.profile.name not in hardware["layouts"]:
            limit = f"{hardware.name} is known to serve with {known(hardware['layouts'])}"
            remedy = f"choose one of them, or add it under layouts to the site's catalogue/hardware/{hardware.name}.yml"
            yield Fault("serving_profile", site.profile.name, limit, remedy)


def _family(node: Node) -> int | None:
    """4 or 6; None without a sound address."""
    try:
        return ipaddress.ip_address(node["fabric_address"] or "").version
    except ValueError:
        return None


def _pairing_faults(site: Site, replica: Replica) -> Iterator[Fault]:
    """Ranks of one replica must be alike, and close enough for the fabric."""
    family, head = _family(replica.head), replica.head
    for node in replica.nodes:
        if None not in (family, _family(node)) and _family(node) != family:
            limit = f"all nodes of {replica.name} speak IPv{family}, as its head {head.name} does"
            remedy = f"write the node's IPv{family} address"
            yield Fault("fabric_address", node["fabric_address"], limit, remedy, node.name)
        for variable in ("gpu_model", "gpu_count"):
            if node[variable] != head[variable]:
                limit = f"all nodes of {replica.name} must be like its head {head.name}"
                remedy = f"write {head[variable]}, or put the node into another replica"
                yield Fault(variable, node[variable], limit, remedy, node.name)
    if site.fabric and site.fabric.name == "nvlink" and len(replica.nodes) > 1:
        yield from _nvlink_faults(replica)


def _nvlink_faults(replica: Replica) -> Iterator[Fault]:
    """NVLink joins the GPUs of one domain, and most machines are a domain of their own."""
    reach, head = replica.hardware.get("nvlink_domain_gpus") or replica.head["gpu_count"], replica.head
    if replica.gpus > reach:
        limit = f"NVLink of {replica.hardware.name} joins {reach} GPUs, and {replica.name} has {replica.gpus}"
        yield Fault(
            "fabric_kind", "nvlink", limit, "write the network between the nodes, or give a replica fewer nodes"
        )
    for node in replica.nodes:
        if node["nvlink_domain"] != head["nvlink_domain"]:
            limit = f"all nodes of {replica.name} must share the NVLink domain of {head.name}, {head['nvlink_domain']}"
            remedy = "put nodes of one domain side by side in the group, or correct it"
            yield Fault("nvlink_domain", node["nvlink_domain"], limit, remedy, node.name)
