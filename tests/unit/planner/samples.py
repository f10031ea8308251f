"""Inventories as the planner sees them, to be changed one thing at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.vars.manager import VariableManager
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner import catalogue, inventory
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.plan import plan
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.values import plain

ROOT = Path(__file__).parents[3]
LIMA = ROOT / "inventories/lima"
SITES = ROOT / "tests/sites"
REHEARSAL = SITES / "rehearsal-like"
ABSENT = object()


@dataclass
class Sample:
    """Variables and groups of a site; `hosts` holds every host's variables, as Ansible merges them."""

    hosts: dict[str, dict]
    groups: dict[str, list]
    roles: dict[str, list[str]] = field(default_factory=dict)

    def with_site(self, **values) -> Sample:
        return self.with_hosts(dict.fromkeys(self.hosts, values))

    def with_hosts(self, changes: Mapping[str, Mapping]) -> Sample:
        hosts = {
            host: {k: v for k, v in {**own, **changes.get(host, {})}.items() if v is not ABSENT}
            for host, own in self.hosts.items()
        }
        return Sample(hosts, self.groups, self.roles)

    def with_groups(self, **groups) -> Sample:
        changed = {name: hosts for name, hosts in {**self.groups, **groups}.items() if hosts is not ABSENT}
        return Sample(self.hosts, changed, self.roles)

    def plan(self, known: catalogue.Catalogue | None = None) -> dict:
        site, nodes, faults = inventory.split(self.hosts)
        return plan(site, nodes, self.groups, known or builtin(), self.roles, faults)


@cache
def builtin() -> catalogue.Catalogue:
    return catalogue.load()


def read(directory: Path) -> Sample:
    loader = DataLoader()
    sources = [str(path) for path in sorted(directory.glob("*.yml"))]
    manager = InventoryManager(loader=loader, sources=sources)
    variables = VariableManager(loader=loader, inventory=manager)
    known = inventory.SITE_VARIABLES | inventory.NODE_VARIABLES | inventory.CONNECTION_VARIABLES
    hosts = {}
    for host in manager.get_hosts():
        values = variables.get_vars(host=host, include_hostvars=False)
        hosts[host.name] = {name: plain(value) if name in known else None for name, value in values.items()}
    groups = {name: [host.name for host in group.get_hosts()] for name, group in manager.groups.items()}
    return Sample(hosts, groups)


def site(name: str) -> Sample:
    """A site of tests/sites, whole and sound."""
    return read(SITES / name)


def lima() -> Sample:
    """Prefill and decode apart: two replicas of one node, three of two."""
    return read(LIMA).with_site(licence_accepted_by="Ana Quispe")


def cusco() -> Sample:
    """Eight nodes of B300, each a replica by itself."""
    return site("cusco")


def cusco_in_pairs() -> Sample:
    """Cusco with replicas of two nodes, tensor parallel over 16 GPUs."""
    fabric = {"rdma_devices": ["mlx5_0", "mlx5_1"], "gid_index": 3}
    return cusco().with_site(serving_profile="multi_node_tp", serving_nodes_per_replica=2, **fabric)


@cache
def _common() -> Mapping:
    """What Cusco says of its site and of every node."""
    own = next(iter(cusco().hosts.values()))
    return {name: value for name, value in own.items() if name not in {"ansible_host", "fabric_address"}}


def cell(
    hardware: str,
    profile: str,
    nodes: Mapping[str, int] | None = None,
    fabric: str | None = None,
    features: Sequence[str] = ("tool_calling", "reasoning"),
    version: str = "0.32.0",
    **site: object,
) -> Sample:
    """One replica of each pool of `profile` on `hardware`: a cell of the table of what can be served on what.

    `nodes` gives the nodes of a replica by pool, otherwise the hardware's usual number stands. `fabric` is NVLink
    where the hardware has it between nodes, RoCE elsewhere. `site` goes to every host, over all that is set here.
    """
    known = builtin()
    machine, pools = known.find("hardware", hardware), known.find("profiles", profile)["pools"]
    usual = machine["layouts"].get(profile, {})
    base = {
        **_common(),
        "gpu_model": hardware,
        "gpu_count": machine["gpus_per_node"],
        "rdma_devices": ["mlx5_0"],
        "gid_index": 3,
        "fabric_kind": fabric or ("nvlink" if machine.get("nvlink_domain_gpus") else "roce"),
        "serving_profile": profile,
        "serving_features": list(features),
        "serving_image": "registry.example/engine@sha256:" + "f" * 64,
        "serving_engine_version": version,
        **site,
    }
    hosts = {"service-01": dict(base)}
    groups = {"gpu_nodes": [], "service_hosts": ["service-01"]}
    for pool, shape in pools.items():
        least = shape["nodes_per_replica"]["minimum"]
        for _ in range((nodes or {}).get(pool) or usual.get(pool, {}).get("nodes") or least):
            name = f"gpu-{len(hosts):02d}"
            hosts[name] = {**base, "fabric_address": f"10.1.0.{len(hosts)}"}
            for group in dict.fromkeys(("gpu_nodes", shape["group"])):
                groups.setdefault(group, []).append(name)
    return Sample(hosts, groups)


def engines(result: Mapping) -> dict[str, dict]:
    return {engine["name"]: engine for node in result["nodes"].values() for engine in node["engines"]}
