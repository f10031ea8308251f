# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node is, read and compared with what the site declares. Only reads."""

from __future__ import annotations

import glob
import json
import os

from .keeper import systemd

# Where a container engine looks for specifications: CNCF container-device-interface, SPEC.md.
CDI_FOLDERS = ("/etc/cdi", "/var/run/cdi")


def os_release(text):
    """Name and major version as /etc/os-release gives them: `debian 13`, `rhel 9`."""
    pairs = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    return "{} {}".format(pairs.get("ID", "").strip('"'), pairs.get("VERSION_ID", "").strip('"').split(".")[0])


def listening_ports(text):
    """TCP ports in state LISTEN of one /proc/net/tcp or tcp6 table."""
    rows = [line.split() for line in text.splitlines()[1:]]
    return {int(row[1].rsplit(":", 1)[1], 16) for row in rows if len(row) > 3 and row[3] == "0A"}


def _read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def platform_faults(platforms):
    """A distribution that the roles have no package names for."""
    found = os_release(_read("/etc/os-release"))
    if found in platforms:
        return []
    return [_row("operating system", found, "one of: " + ", ".join(platforms), "reinstall the node with one of them")]


def init_faults():
    """A host without systemd cannot run engines as services."""
    if os.path.isdir("/run/systemd/system"):
        return []
    return [_row("init", _read("/proc/1/comm").strip(), "systemd", "boot the node with systemd")]


def fabric_faults(address, interface, runner=systemd.run):
    """The declared fabric address must be on the declared interface: the wrong NIC works slowly, or hangs."""
    rows = json.loads(runner(["ip", "-json", "address", "show"], check=False) or "[]")
    found = {row["ifname"]: [each["local"] for each in row.get("addr_info", [])] for row in rows}
    if address in found.get(interface, []):
        return []
    holders = [name for name, addresses in found.items() if address in addresses]
    remedy = (
        f"declare fabric_interface: {holders[0]}"
        if holders
        else "declare one of: {}".format(
            "; ".join(
                f"fabric_interface: {name}, fabric_address: {each}"
                for name, addresses in sorted(found.items())
                if name != "lo"
                for each in addresses
                if not each.startswith("fe80")
            )
        )
    )
    return [_row("fabric_address", f"{address} on {interface}", "an address of that interface", remedy)]


def device_faults(arguments, specs=CDI_FOLDERS):
    """Devices that engines are given and the node does not have: paths, and names of the CDI (vendor/class=device)."""
    rows = []
    for device in [word.split("=", 1)[1] for word in arguments if word.startswith("--device=")]:
        kind, is_cdi, _ = device.partition("=")
        if is_cdi and not any(kind in _read(path) for folder in specs for path in glob.glob(folder + "/*")):
            remedy = "install the vendor's driver and container toolkit, and have it write its CDI specification"
            rows.append(_row("device", device, f"a CDI specification of {kind} in {' or '.join(specs)}", remedy))
        elif not is_cdi and not os.path.exists(device.split(":")[0]):
            rows.append(_row("device", device, "a device of this node", "load the driver that makes it"))
    return rows


def port_faults(ports, own_pattern="kimi-k3-*", runner=systemd.run):
    """Ports that another program holds. Where our own services run, the ports are theirs."""
    if runner(
        ["systemctl", "list-units", "--quiet", "--plain", "--no-legend", "--state=active", own_pattern], check=False
    ).strip():
        return []
    taken = listening_ports(_read("/proc/net/tcp")) | listening_ports(_read("/proc/net/tcp6"))
    return [
        _row("port", port, "free", f"end the program that listens there (ss -lntp 'sport = :{port}')")
        for port in sorted(set(ports) & taken)
    ]


def _row(where, value, limit, remedy):
    return {"where": where, "value": value, "limit": limit, "remedy": remedy}
