# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads and judges what a site says of each of its nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner import network
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.catalogue import Catalogue, Entry
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.faults import Fault, natural, suggest
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.image import Image
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.values import Variable, read

VARIABLES = {
    "fabric_address": Variable(str, example="10.0.0.11"),
    "fabric_interface": Variable(str, example="eth1"),
    "gpu_model": Variable(str, example="b300"),
    "gpu_count": Variable(int, example="8"),
    "rdma_devices": Variable(list, required=False, example="[mlx5_0, mlx5_1]"),
    "gid_index": Variable(int, required=False, example="3"),
    "nvlink_domain": Variable(str, required=False, example="rack-1"),
}

DEVICE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Node:
    """One GPU host as declared; `hardware` is None where the catalogue has no such model."""

    name: str
    values: Mapping
    hardware: Entry | None

    def __getitem__(self, variable: str):
        return self.values[variable]


def read_nodes(
    names: list[str], variables: Mapping[str, Mapping], image: Image | None, catalogue: Catalogue
) -> tuple[dict[str, Node], list[Fault]]:
    """The nodes in their natural order, so that no result depends on the order of the inventory."""
    nodes, faults = {}, []
    for name in sorted(names, key=natural):
        values, wrong = read(VARIABLES, variables.get(name, {}), node=name)
        node = nodes[name] = Node(name, values, catalogue.find("hardware", values["gpu_model"]))
        faults += wrong
        faults += [*_hardware_faults(node, image, catalogue), *_device_faults(node)]
        faults += network.address_faults(name, values["fabric_address"], values["fabric_interface"])
    return nodes, faults


def _device_faults(node: Node) -> Iterator[Fault]:
    """Cards by the names of the kernel, each once, and an index that counts from 0."""
    devices = node["rdma_devices"] or []
    wrong = [name for name in devices if not DEVICE.fullmatch(str(name)) or devices.count(name) > 1]
    if wrong:
        limit = "names of RDMA devices, each once"
        yield Fault("rdma_devices", wrong, limit, "write them as `ibdev2netdev` shows them", node.name)
    if node["gid_index"] is not None and node["gid_index"] < 0:
        yield Fault("gid_index", node["gid_index"], "must be 0 or more", "write it as `show_gids` does", node.name)
    if node["fabric_interface"] == "lo":
        limit = "peers cannot reach the loopback interface"
        yield Fault("fabric_interface", "lo", limit, "write the interface that has fabric_address", node.name)


def _hardware_faults(node: Node, image: Image | None, catalogue: Catalogue) -> Iterator[Fault]:
    model, count = node["gpu_model"], node["gpu_count"]
    if model is not None and node.hardware is None:
        names = catalogue.names("hardware")
        yield Fault("gpu_model", model, "must be one of the catalogue's hardware", suggest(model, names), node.name)
    if node.hardware is None:
        return
    per_node = node.hardware.get("gpus_per_node")
    if count is not None and count != (per_node or max(count, 1)):
        limit = f"a node of {model} has {per_node or 'at least 1'}"
        yield Fault("gpu_count", count, limit, f"write {per_node or 1}, or correct gpu_model", node.name)
    mismatch = image.accelerator_fault(node.hardware, node.name) if image else None
    if mismatch:
        yield mismatch
