# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A first, coarse look at memory: do the weights fit into the GPUs of a replica at all?"""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.faults import Fault
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.layout import Replica
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.site import Site

GIB = 2**30


def picture(site: Site, replica: Replica) -> dict[str, float]:
    """GiB per GPU, the checkpoint split evenly; empty where the catalogue knows too little."""
    size, usable = site.model["bytes"], replica.head.hardware.get("gpu_memory_gib")
    if not size or not usable:
        return {}
    return {"weights_gib_per_gpu": round(size / replica.gpus / GIB, 1), "usable_gib_per_gpu": usable}


def memory_faults(site: Site, replica: Replica) -> Iterator[Fault]:
    seen = picture(site, replica)
    if seen and seen["weights_gib_per_gpu"] >= seen["usable_gib_per_gpu"]:
        yield Fault(
            "serving_profile",
            f"{site.profile.name}: {seen['weights_gib_per_gpu']} GiB per GPU with {replica.gpus} GPUs a replica",
            f"one {replica.head.hardware.name} holds {seen['usable_gib_per_gpu']} GiB",
            "give a replica more nodes (serving_nodes_per_replica), or choose another serving_profile",
        )
