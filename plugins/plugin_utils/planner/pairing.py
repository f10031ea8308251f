# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What prefill and decode must have in common: vLLM compares it when they meet, hours after the start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.faults import Fault, several
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.ready import Ready
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.site import Site

# A handshake of NIXL refuses peers that differ in one of these (vLLM 0.32.0 code); DCP and the draft must be alike too.
SHARED = (
    "--kv-cache-dtype",
    "--dtype",
    "--attention-backend",
    "--attention-config",
    "--block-size",
    "--speculative-config",
    "--decode-context-parallel-size",
    "env:VLLM_SSM_CONV_STATE_LAYOUT",
)


def faults(site: Site, ready: Sequence[Ready]) -> Iterator[Fault]:
    """`ready` holds the replicas of all pools; unified ones have nothing to share."""
    prefill = next((row for row in ready if row.replica.pool == "prefill"), None)
    decode = next((row for row in ready if row.replica.pool == "decode"), None)
    if not prefill or not decode:
        return
    families = {endpoint.startswith("http://[") for row in ready for endpoint in row.replica.endpoints}
    if len(families) > 1:
        value = ", ".join(row.replica.head["fabric_address"] for row in ready)
        limit = "prefill and decode must reach each other, so all speak IPv4 or all IPv6"
        yield Fault("fabric_address", value, limit, "give all nodes addresses of one family")
    for name in SHARED:
        here, there = prefill.head.value(name), decode.head.value(name)
        if here != there:
            value = f"{name.removeprefix('env:')} {_said(here)} on prefill, {_said(there)} on decode"
            limit = "prefill and decode exchange KV, so both must have the same"
            hardware = {row.replica.hardware.name for row in (prefill, decode)}
            remedy = "give both pools one gpu_model" if len(hardware) > 1 else "set it for both in serving_overrides"
            yield Fault("serving_profile", value, limit, remedy)


def _said(value: str | None) -> str:
    return {None: "unset", "": "set"}.get(value, value)


def group_faults(site: Site, groups: Mapping[str, list]) -> Iterator[Fault]:
    """Prefill and decode lie apart, inside gpu_nodes; the roles that prepare a node run on that group."""
    pools = {shape["group"] for shape in site.profile["pools"].values()} if site.profile else set()
    every = set(groups.get("gpu_nodes", []))
    for group in sorted(pools - {"gpu_nodes"}):
        outside = sorted(set(groups.get(group, [])) - every)
        if outside:
            remedy = f"make {group} a child of gpu_nodes in hosts.yml"
            yield Fault(group, several(outside), "nodes of a pool are nodes of gpu_nodes too", remedy)
    twice = sorted(set.intersection(*(set(groups.get(group, [])) for group in pools))) if len(pools) > 1 else []
    if twice:
        yield Fault("decode", several(twice), "a node is in one pool; prefill has it too", "take it out of one of them")
