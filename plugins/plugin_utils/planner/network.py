# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses and ports: what a node says of itself on the fabric, and what listens where."""

from __future__ import annotations

import contextlib
import ipaddress
import re
from collections.abc import Iterator, Mapping

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.faults import Fault, several
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.values import Unresolved

EPHEMERAL = range(32768, 61000)  # net.ipv4.ip_local_port_range, the kernel's default
AGENT_PORTS = {"fetch": 7654, "keeper": 7655}  # on every node, beside its engines
INTERFACE = re.compile(r"[A-Za-z0-9_.@-]{1,15}")


def endpoint(address: str, port: int) -> str:
    """http://10.0.0.11:8000, or http://[fd00::11]:8000."""
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"


def address_faults(node: str, address: str | None, interface: str | None) -> Iterator[Fault]:
    where = "fabric_address"
    if address is not None:
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            limit = "must be one numeric address, without a name, prefix length or zone"
            yield Fault(where, address, limit, "write it as 10.0.0.11 or fd00::11", node)
        else:
            kinds = ("unspecified", "loopback", "multicast", "link_local", "reserved")
            wrong = next((kind for kind in kinds if getattr(parsed, f"is_{kind}")), None)
            if wrong:
                article = "an" if wrong.startswith("u") else "a"
                limit = f"peers cannot reach {article} {wrong.replace('_', '-')} address"
                yield Fault(where, address, limit, "write the address of the node's fabric interface", node)
    if interface is not None and not INTERFACE.fullmatch(interface):
        limit = "must be the name of one interface"
        yield Fault("fabric_interface", interface, limit, "write it as `ip link` shows it", node)


def duplicate_faults(hosts: Mapping[str, Mapping]) -> Iterator[Fault]:
    """`hosts` is {host: its variables}; every holder of an address that another host has too is named."""
    holders: dict[object, dict[str, str]] = {}
    for host, values in hosts.items():
        for variable, address in _addresses(host, values):
            holders.setdefault(address, {}).setdefault(host, variable)
    for sharing in holders.values():
        for host, variable in sharing.items() if len(sharing) > 1 else ():
            thing = "node its own fabric address" if variable == "fabric_address" else "host an address of its own"
            limit = f"one address, one node; {several(list(sharing))} share it"
            yield Fault(variable, hosts[host].get(variable, host), limit, f"give each {thing}", host)


def _addresses(host: str, values: Mapping) -> Iterator[tuple[str, object]]:
    """(variable, what it leads to): peers reach a fabric address, Ansible the host's own or its name."""
    with contextlib.suppress(ValueError):
        yield "fabric_address", ipaddress.ip_address(str(values.get("fabric_address")))
    reached, port = values.get("ansible_host", host), values.get("ansible_port")
    if isinstance(reached, Unresolved):
        return
    try:
        reached = ipaddress.ip_address(str(reached))
    except ValueError:
        reached = str(reached).lower()
    yield "ansible_host", reached if port in (None, 22, "22") else (reached, str(port))


def listening(ports: Mapping[str, int | list[int]]) -> Iterator[tuple[str, int]]:
    """(name, port) of each port of an engine; a name may have several."""
    for name, given in ports.items():
        for port in given if isinstance(given, list) else [given]:
            yield name, port


def port_faults(nodes: Mapping[str, dict], fetch: int) -> Iterator[Fault]:
    """`nodes` is the plan's: nothing on a node shares a port, none can be taken by an outgoing connection."""
    for node, content in nodes.items():
        taken = {port: name for name, port in {**AGENT_PORTS, "fetch": fetch}.items()}
        for engine in content["engines"]:
            for name, port in listening(engine["ports"]):
                where, owner = f"{engine['name']}.ports.{name}", f"{engine['name']} ({name})"
                remedy = "change ports in the site's catalogue/profiles"
                if port in taken:
                    other = ", or checkpoint_port" if port == fetch else ""
                    yield Fault(where, port, f"{taken[port]} listens there already", f"{remedy}{other}", node)
                if port > 65535:
                    yield Fault(where, port, "must be 65535 or less", remedy, node)
                if port in EPHEMERAL:
                    limit = f"must be outside {EPHEMERAL.start}-{EPHEMERAL.stop - 1}, the kernel's own ports"
                    yield Fault(where, port, limit, remedy, node)
                taken[port] = owner
