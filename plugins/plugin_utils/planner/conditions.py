# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the catalogue may ask about an engine in a `when`, and what its $names stand for."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.image import version_key
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.layout import Engine
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.site import Site


def conditions(site: Site, engine: Engine) -> dict:
    """What a block's `when` may ask for; a set holds where it has any of the values asked for."""
    hardware, parallel = engine.node.hardware, engine.replica.parallel
    return {
        "role": engine.role,
        "serves": engine.serves,
        "spans_nodes": len(engine.replica.nodes) > 1,
        "experts": parallel.experts,
        "data_parallel": parallel.data > 1,
        "tensor_spans_nodes": parallel.tensor > engine.node["gpu_count"],
        "accelerator": hardware["accelerator"],
        "generation": hardware["generation"],
        "hardware": hardware.name,
        "profile": site.profile.name,
        "pool": engine.replica.pool,
        "fabric": site.fabric.name,
        "model": site.model.name,
        "feature": {feature.name for feature in site.features},
        "version": site.image.comparable if site.image else None,
    }


def holds(facts: Mapping, when: Mapping) -> bool:
    return all(_holds(facts[key], wanted) for key, wanted in when.items())


def _holds(fact: object, wanted: object) -> bool:
    if isinstance(wanted, dict) and "not" in wanted:
        return not _holds(fact, wanted["not"])
    if isinstance(wanted, dict):
        return fact is not None and within(fact, wanted)
    if isinstance(fact, set):
        return not fact.isdisjoint(wanted if isinstance(wanted, list) else [wanted])
    return fact in wanted if isinstance(wanted, list) else fact == wanted


def within(version: str, span: Mapping) -> bool:
    """Whether an engine's version lies in {from, before}."""
    key = version_key(version)
    return version_key(span.get("from", "0.0")) <= key and ("before" not in span or key < version_key(span["before"]))


def placeholder_values(site: Site, engine: Engine) -> dict:
    """What the $names of catalogue.PLACEHOLDERS stand for; None where a site or a profile does not say."""
    node, replica = engine.node, engine.replica
    ports, parallel = replica.shape["ports"], replica.parallel
    return {
        "served_name": site.model["served_name"],
        "replica_nodes": len(replica.nodes),
        "replica_gpus": replica.gpus,
        "node_gpus": node["gpu_count"],
        "rank": engine.rank,
        "tensor_size": parallel.tensor,
        "pipeline_size": parallel.pipeline,
        "data_size": parallel.data,
        "data_local_size": parallel.data_local,
        "data_start_rank": engine.data_start_rank,
        "head_address": replica.head["fabric_address"],
        "http_port": ports["http"],
        "master_port": ports.get("master"),
        "data_rpc_port": ports.get("data_rpc"),
        "side_channel_port": ports.get("side_channel"),
        "fabric_address": node["fabric_address"],
        "fabric_interface": node["fabric_interface"],
        "rdma_devices": ",".join(map(str, node["rdma_devices"] or [])) or None,
        "gid_index": node["gid_index"],
        "draft_model_path": site["serving_draft_model_path"],
    }
