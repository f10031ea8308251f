# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan: what must run on every node, from what the site declares. Pure: same input, same bytes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner import arguments, memory, network, sharding
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.catalogue import Catalogue
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.faults import Fault, as_dicts, natural
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.inventory import (
    Spelling,
    group_faults,
    unread_fault,
)
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.layout import Engine, Replica, lay_out
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.nodes import read_nodes
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.site import (
    Site,
    deploy_faults,
    read_site,
    site_warnings,
)


def plan(
    site: Mapping,
    nodes: Mapping[str, Mapping],
    groups: Mapping[str, list],
    catalogue: Catalogue,
    known_variables: Mapping[str, Iterable[str]] | None = None,
    faults: Iterable[Fault] = (),
) -> dict:
    """Compute the plan as plain JSON data.

    `site` and `nodes` hold variables as inventory.split() sorts them, `groups` the inventory's
    groups, `known_variables` the public variables of each role, `faults` what the caller found
    already. A plan with `refusals` has neither nodes nor a digest; `deploy_refusals` are what a
    deployment, not a plan, may lack.
    """
    refusals, warnings = Spelling(known_variables or {}).judge(nodes)
    declared, site_faults = read_site(site, catalogue)
    unread = unread_fault(site, nodes)
    if unread:
        return _refused(declared, [unread], [])
    refusals = [*faults, *catalogue.faults, *refusals, *site_faults, *arguments.override_faults(declared)]
    required = _required_groups(declared)
    refusals += group_faults(groups, required)
    names = {name for group in required if group != "service_hosts" for name in groups.get(group, [])}
    members, node_faults = read_nodes(sorted(names), nodes, declared.image, catalogue)
    refusals += node_faults
    ours = {name for group in (*required, "spare_nodes") for name in groups.get(group, [])}
    refusals += network.duplicate_faults({name: nodes.get(name, {}) for name in sorted(ours, key=natural)})
    replicas: list[Replica] = []
    if declared.profile:
        replicas, layout_faults = lay_out(declared, members, groups)
        refusals += layout_faults
    if declared.complete:
        refused = {fault.node for fault in node_faults}
        sound = [replica for replica in replicas if refused.isdisjoint(node.name for node in replica.nodes)]
        refusals += [fault for replica in sound for fault in _replica_faults(declared, replica)]
        refusals += sharding.head_faults(declared, sound)
    if refusals:
        return _refused(declared, refusals, warnings)
    return _render(declared, replicas, warnings)


def _replica_faults(site: Site, replica: Replica) -> Iterator[Fault]:
    """What only shows once sound nodes stand in replicas."""
    yield from memory.memory_faults(site, replica)
    for engine in replica.engines():
        yield from arguments.missing_faults(site, engine)


def _required_groups(site: Site) -> dict[str, str]:
    pools = site.profile["pools"] if site.profile else {"unified": {"group": "gpu_nodes"}}
    nodes = {shape["group"]: f"its nodes are the {pool} pool" for pool, shape in pools.items()}
    return {**nodes, "service_hosts": "the site's registry, router and monitoring stand there"}


def _refused(site: Site, refusals: list[Fault], warnings: list[Fault]) -> dict:
    return {
        "digest": None,
        "site": site["site_name"],
        "profile": site["serving_profile"],
        "pools": {},
        "replicas": [],
        "nodes": {},
        "refusals": as_dicts(refusals),
        "deploy_refusals": [],
        "warnings": as_dicts(warnings),
    }


def _render(site: Site, replicas: list[Replica], warnings: list[Fault]) -> dict:
    nodes: dict[str, dict] = {}
    for replica in replicas:
        for engine in replica.engines():
            nodes.setdefault(engine.node.name, {"engines": []})["engines"].append(_engine(site, engine))
    late = list(network.port_faults(nodes))
    if late:
        return _refused(site, late, warnings)
    deploy = list(deploy_faults(site))
    pools: dict[str, list[str]] = {}
    for replica in replicas:
        pools.setdefault(replica.pool, []).extend(node.name for node in replica.nodes)
    content = {
        "site": site["site_name"],
        "profile": site.profile.name,
        "fabric": site.fabric.name,
        "model": _model(site),
        "image": {"reference": site.image.reference, "engine": site.engine.name, "version": site.image.version},
        "pools": pools,
        "replicas": [_replica(replica) for replica in replicas],
        "nodes": nodes,
        "router": {"backends": [replica.endpoint for replica in replicas]},
        "checkpoint": _checkpoint(site),
        "refusals": [],
        "deploy_refusals": as_dicts(deploy),
        "warnings": as_dicts([*warnings, *deploy, *site_warnings(site)]),
    }
    return {"digest": digest(content), **content}


def digest(content: Mapping) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}"


def _model(site: Site) -> dict:
    return {
        "name": site.model.name,
        "repo": site.model["repo"],
        "commit": site["serving_model_revision"],
        "served_name": site.model["served_name"],
        "path": site.model_path,
        "licence": {**site.model["licence"], "accepted_by": site["licence_accepted_by"] or ""},
    }


def _checkpoint(site: Site) -> dict:
    return {
        "repo": site.model["repo"],
        "commit": site["serving_model_revision"],
        "root": site.checkpoint_root,
        "path": site.model_path,
        "mount_required": site["checkpoint_mount_required"],
        "origins": site["checkpoint_origins"],
        "files": site.model["files"],
        "bytes": site.model["bytes"],
    }


def _replica(replica: Replica) -> dict:
    return {
        "name": replica.name,
        "pool": replica.pool,
        "nodes": [node.name for node in replica.nodes],
        "engines": [engine.name for engine in replica.engines()],
        "endpoint": replica.endpoint,
    }


def _engine(site: Site, engine: Engine) -> dict:
    merged, replica = arguments.merge(site, engine), engine.replica
    env = merged.env()
    return {
        "name": engine.name,
        "replica": replica.name,
        "pool": replica.pool,
        "node": engine.node.name,
        "rank": engine.rank,
        "role": engine.role,
        "order": engine.order,
        "address": engine.node["fabric_address"],
        "hardware": {"model": engine.node.hardware.name, "gpus": engine.node["gpu_count"]},
        "argv": [site.model_path, *merged.flags()],
        "env": env,
        "ports": engine.ports,
        "ready_seconds": int(env.get(arguments.READY, 600)),
        "endpoint": replica.endpoint,
        "head": {
            "node": replica.head.name,
            "engine": replica.engine_name(0),
            "address": replica.head["fabric_address"],
        },
        "members": [node.name for node in replica.nodes],
        "container": {"arguments": merged.container},
        "provenance": merged.provenance(),
        "memory": memory.picture(site, replica),
    }
