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
            size = next((len(row.nodes) for row in self.replicas if row.shape["group"] == group), None)
            if size:
                limit = f"{len(nodes)} of {group} do not fill a replica of {size} and stay spare"
                yield Fault(NODES, names, limit, "nothing to do, or give a replica another size")
            else:
                yield Fault(group, names, "these are in no pool and stay spare", "put them into the group of a pool")


def lay_out(site: Site, nodes: Mapping[str, Node], groups: Mapping[str, list]) -> Layout:
    """Every pool of the profile cut into replicas, nodes in natural order; other nodes of gpu_nodes are spare."""
    layout = Layout()
    pools = {shape["group"]: pool for pool, shape in site.profile["pools"].items()}
    for group, pool in pools.items():
        members = [nodes[name] for name in sorted(groups.get(group, []), key=natural)]
        if members and all(node.hardware and node["gpu_count"] for node in members):
            _cut(site, pool, members, layout)
    pooled = {name for group in pools for name in groups.get(group, [])}
    idle = [nodes[name] for name in sorted({*groups.get("gpu_nodes", [])} - pooled, key=natural)]
    layout.spare |= {"gpu_nodes": idle} if idle else {}
    layout.faults += _domain_faults(site, layout.replicas)
    for row in layout.replicas:
        layout.faults += [*_pairing_faults(site, row), *_division_faults(site, row)]
    return layout


def _cut(site: Site, pool: str, members: Sequence[Node], layout: Layout) -> None:
    """Adds the replicas of one pool, its nodes left over, or why there can be none."""
    shape, hardware = site.profile["pools"][pool], members[0].hardware
    size = site.of_pool(NODES, pool) or usual(site, pool, hardware)["nodes"]
    chunks, spare = [], []
    for near in _neighbours(site, members):
        whole = len(near) - len(near) % size
        chunks += [tuple(near[start : start + size]) for start in range(0, whole, size)]
        spare += near[whole:]
    wrong = list(_size_faults(site, shape, size, members, bool(chunks)))
    layout.faults += wrong
    if not wrong:
        layout.replicas += [replica(site, pool, f"{pool}-{n}", chunk) for n, chunk in enumerate(chunks)]
        layout.spare |= {shape["group"]: spare} if spare else {}


def _neighbours(site: Site, members: Sequence[Node]) -> list[list[Node]]:
    """The nodes that may share a replica: over NVLink those of one domain, else all."""
    domains: dict[object, list[Node]] = {}
    for node in members:
        domains.setdefault(node["nvlink_domain"] if over_nvlink(site) else None, []).append(node)
    return list(domains.values())


def over_nvlink(site: Site) -> bool:
    return bool(site.fabric and site.fabric.name == "nvlink")


def usual(site: Site, pool: str, hardware: Entry) -> Mapping:
    """{nodes, tensor?}: what the catalogue knows to work on this hardware, else the least of the profile."""
    known_layout = hardware["layouts"].get(site.profile.name, {}).get(pool)
    return known_layout or {"nodes": site.profile["pools"][pool]["nodes_per_replica"]["minimum"]}


def replica(site: Site, pool: str, name: str, nodes: tuple[Node, ...]) -> Replica:
    """One replica of these nodes, as the site, the hardware's row or the profile divide its GPUs."""
    shape, head = site.profile["pools"][pool], nodes[0]
    tensor = site.of_pool(TENSOR, pool) or usual(site, pool, head.hardware).get("tensor", shape["parallel"]["tensor"])
    return Replica(name, pool, nodes, shape, divide(shape["parallel"], tensor, len(nodes), head["gpu_count"]))


def _size_faults(site: Site, shape: Mapping, size: int, members: Sequence[Node], fits: bool) -> Iterator[Fault]:
    """A number of nodes that the profile does not have, or more than there are; `fits`: some replica came out."""
    allowed, name, group, available = shape["nodes_per_replica"], site.profile.name, shape["group"], len(members)
    if not allowed["minimum"] <= size <= allowed.get("maximum", size):
        bounds = f"{allowed['minimum']}" if allowed.get("maximum") else f"at least {allowed['minimum']}"
        remedy = "correct it, add nodes to the group, or choose another serving_profile"
        yield Fault(NODES, size, f"a replica of {name} has {bounds} node(s)", remedy)
    elif available < size:
        limit = f"{group} has {available} node(s), less than one replica of {size}"
        yield Fault(NODES, size, limit, f"add {size - available} node(s) to the group, or choose another layout")
    elif not fits:
        domains = _neighbours(site, members)
        found = ", ".join(f"{len(near)} in {near[0]['nvlink_domain'] or 'none named'}" for near in domains)
        limit = f"over NVLink the {size} nodes of a replica share one domain"
        remedy = f"correct it, give a replica {max(map(len, domains))} nodes, or write the network between the racks"
        yield Fault("nvlink_domain", found, limit, f"{remedy} as fabric_kind")


def _division_faults(site: Site, row: Replica) -> Iterator[Fault]:
    """GPUs of a replica that its tensor-parallel size does not divide; an impossible size is said once for a site."""
    trouble = problem(row.shape, row.parallel, row.head["gpu_count"])
    if trouble:
        yield Fault(TENSOR, row.parallel.tensor, trouble, "leave it out, or write another size")


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
    yield from nvlink_faults(site, replica)


def _domain_faults(site: Site, replicas: Sequence[Replica]) -> Iterator[Fault]:
    """More GPUs that are said to be in one NVLink domain than one can have."""
    domains: dict[object, list[Node]] = {}
    for node in (node for row in replicas for node in row.nodes) if over_nvlink(site) else ():
        domains.setdefault(node["nvlink_domain"], []).append(node)
    for name, nodes in domains.items():
        reach = nodes[0].hardware.get("nvlink_domain_gpus")
        gpus = sum(node["gpu_count"] for node in nodes)
        if reach and gpus > reach and all(row.gpus <= reach for row in replicas):
            limit = f"one NVLink domain of {nodes[0].hardware.name} joins {reach} GPUs; {len(nodes)} nodes with {gpus}"
            yield Fault("nvlink_domain", name, f"{limit} are said to be in it", "write for each node its rack")


def nvlink_faults(site: Site, replica: Replica) -> Iterator[Fault]:
    """NVLink joins the GPUs of one domain, and most machines are a domain of their own."""
    reach = replica.hardware.get("nvlink_domain_gpus") or replica.head["gpu_count"]
    if over_nvlink(site) and len(replica.nodes) > 1 and replica.gpus > reach:
        limit = f"NVLink of {replica.hardware.name} joins {reach} GPUs, and {replica.name} has {replica.gpus}"
        remedy = "write the network between the nodes, or give a replica fewer nodes"
        yield Fault("fabric_kind", "nvlink", limit, remedy)
