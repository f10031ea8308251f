# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who brings which part of the checkpoint over the site's link, and who hands it on."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner import network
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.faults import Fault, natural, several, suggest
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.mirror import GROUP, PORTS
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.site import Site

WAN = "checkpoint_wan_nodes"
ADDRESS = "fabric_address"
ACCESS = ("token_file", "ca_file", "proxy", "proxy_file")


def shares(nodes: Sequence[str], size: int | None) -> list[dict]:
    """[{node, bytes}] of what each brings: equal parts, to the byte.

    A plan does not know the files; the agents share them out by size (module_utils/fetch/scheduler.py), whole files.
    """
    if size is None:
        return [{"node": node, "bytes": None} for node in nodes]
    part, rest = divmod(size, len(nodes))
    return [{"node": node, "bytes": part + (n < rest)} for n, node in enumerate(nodes)]


def origins(site: Site) -> list[dict]:
    """The origins as an agent takes them: where a drive is mounted, a host sees for itself."""
    return [{key: row[key] for key in row if key != "nodes"} for row in site["checkpoint_origins"]]


def access(site: Site) -> dict:
    """How the origins are reached: files on the controller and a proxy, each None where there is none."""
    return {name: site[f"checkpoint_{name}"] for name in ACCESS}


@dataclass
class Spread:
    """The hosts that take part, {name: address:port} in the plan's order, and those of them that use the origins."""

    nodes: dict[str, str] = field(default_factory=dict)
    wan: list[str] = field(default_factory=list)
    writer: str | None = None  # of a shared filesystem
    drives: list[dict] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)


def read_spread(
    declared: Site, seen: Site, hosts: Mapping[str, Mapping], groups: Mapping[str, list], told: Sequence[Fault]
) -> Spread:
    """`seen` is the site as its nodes see it, with the mirror's origin where there is one.

    A host whose address is among the faults `told` already is not judged by it again.
    """
    nodes = sorted({*groups.get("gpu_nodes", [])}, key=natural)
    names = [*nodes, *sorted({*groups.get(GROUP, [])} - {*nodes}, key=natural)]
    found = Spread(faults=list(_name_faults(declared, names)))
    if seen["checkpoint_origins"] and seen["checkpoint_manifest_file"] is None:
        found.faults += _manifest_faults(seen["checkpoint_origins"])
    if found.faults or not nodes:
        return found
    found.drives = [_mounted(origin, nodes) for origin in _drives(seen)]
    users = declared[WAN] or _usual_users(seen, nodes)
    found.wan = [name for name in names if name in users]
    found.faults += _reach_faults(seen, found.wan) if declared[WAN] else ()
    if declared["checkpoint_shared"]:
        found.writer = next((name for name in found.wan if name in nodes), None)
        found.faults += [] if found.writer else [_no_writer(found.wan)]
        found.wan = [found.writer] if found.writer else []
    members = found.wan if found.writer else [name for name in names if name in {*nodes, *found.wan}]
    found.nodes = {name: _place(hosts.get(name, {}), declared["checkpoint_port"]) for name in members}
    found.faults += _service_faults(declared, [name for name in members if name not in nodes], hosts)
    wrong = {fault.node for fault in told if fault.variable == ADDRESS}
    found.faults += _family_faults([name for name in members if name not in wrong], hosts)
    return found


def _drives(site: Site) -> list[Mapping]:
    """The drives among the origins that are written soundly."""
    rows = [row for row in site["checkpoint_origins"] or [] if isinstance(row, dict) and row.get("kind") == "drive"]
    return [row for row in rows if isinstance(row.get("nodes", []), list)]


def _mounted(origin: Mapping, nodes: Sequence[str]) -> dict:
    return {"path": origin.get("path"), "nodes": sorted(origin.get("nodes", nodes), key=natural)}


def _usual_users(site: Site, nodes: Sequence[str]) -> set[str]:
    """Every node; where all origins are drives on some hosts, those; and any host that has a drive."""
    drives = _drives(site)
    placed = {name for origin in drives for name in origin.get("nodes", [])}
    everywhere = len(drives) < len(site["checkpoint_origins"] or []) or any("nodes" not in row for row in drives)
    return placed | {*nodes} if everywhere or not placed else placed


def _name_faults(site: Site, names: Sequence[str]) -> Iterator[Fault]:
    """Hosts that a variable names: each there, each once."""
    if site[WAN] == []:
        yield Fault(WAN, [], "at least one host uses the origins", "name one, or leave it out for all nodes")
    lists = {WAN: site[WAN] or []}
    for index, origin in enumerate(site["checkpoint_origins"] or []):
        if origin in _drives(site):
            lists[f"checkpoint_origins[{index}].nodes"] = origin.get("nodes", [])
    for where, given in lists.items():
        for name in given:
            if name not in names:
                yield Fault(where, name, f"must be a host of gpu_nodes or {GROUP}", suggest(name, names))
        if twice := [name for name in names if given.count(name) > 1]:
            yield Fault(where, several(twice), "hosts, each once", "leave the second one out")


def _manifest_faults(given: Sequence) -> Iterator[Fault]:
    if all(isinstance(row, dict) and row.get("kind") in ("http", "drive") for row in given):
        where = "checkpoint_manifest_file"
        limit = "must be declared: only a hub can say which files there are, and no origin is one"
        remedy = f'write {where}: "{{{{ inventory_dir }}}}/kimi-k3.json", the <commit>.json that bundle.yml writes'
        yield Fault(where, None, limit, remedy)


def _reach_faults(site: Site, users: Sequence[str]) -> Iterator[Fault]:
    """Hosts that a site lets use the origins and that have none, and drives on hosts that may not use them."""
    drives, given = _drives(site), site["checkpoint_origins"] or []
    for index, origin in enumerate(given):
        idle = [name for name in origin.get("nodes", []) if name not in users] if origin in drives else []
        if idle:
            where = f"checkpoint_origins[{index}].nodes"
            yield Fault(where, several(idle), f"only {WAN} use an origin", "add it there, or take it out here")
    if drives and len(drives) == len(given) and all("nodes" in row for row in drives):
        placed = [name for row in drives for name in row["nodes"]]
        for name in (name for name in users if name not in placed):
            limit = f"every origin is a drive elsewhere ({several(sorted({*placed}, key=natural))})"
            yield Fault(WAN, name, limit, "take it out, or name an origin that it has")


def _no_writer(users: Sequence[str]) -> Fault:
    limit = f"a gpu node writes it, and {several(users)} is none"
    remedy = f"name one in {WAN}, with an origin that it has"
    return Fault("checkpoint_shared", True, limit, remedy)


def _place(variables: Mapping, port: int) -> str:
    return network.endpoint(str(variables.get(ADDRESS)), port).removeprefix("http://")


def _service_faults(site: Site, names: Sequence[str], hosts: Mapping[str, Mapping]) -> Iterator[Fault]:
    """A service host that takes part: nodes reach it on the fabric, and what else it serves is in nobody's way."""
    for name in names:
        variables = hosts.get(name, {})
        address = variables.get(ADDRESS)
        if address is None:
            limit = f"must be declared, as {name} hands the checkpoint on"
            remedy = f"write {ADDRESS}: its own address on the nodes' network"
            yield Fault(ADDRESS, None, limit, remedy, name)
        else:
            yield from network.address_faults(name, address, None)
        for other, usual in PORTS.items() if name == site["mirror"] else ():
            if str(variables.get(other, usual)) == str(site["checkpoint_port"]):
                limit = f"{other} of {name} is the same"
                yield Fault("checkpoint_port", site["checkpoint_port"], limit, "write another")


def _family_faults(names: Sequence[str], hosts: Mapping[str, Mapping]) -> Iterator[Fault]:
    """Every host asks every other: all speak IPv4, or all IPv6."""
    families: dict[int, str] = {}
    for name in names:
        address = hosts.get(name, {}).get(ADDRESS)
        try:
            version = ipaddress.ip_address(address).version
        except ValueError:
            continue
        families.setdefault(version, name)
        first = next(iter(families))
        if version != first:
            limit = f"hosts that hand on the checkpoint speak IPv{first}, as {families[first]} does"
            yield Fault(ADDRESS, address, limit, f"write the host's IPv{first} address", name)
