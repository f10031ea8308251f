# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan: what must run on every node, from what the site declares. Pure: same input, same bytes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner import (
    features,
    gates,
    network,
    overrides,
    pairing,
    unknown,
)
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.arguments import READY, Arguments, load_estimate
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.catalogue import Catalogue
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.checkpoint import (
    Spread,
    access,
    origins,
    read_spread,
    shares,
)
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.faults import Fault, as_dicts, natural
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.inventory import (
    Spelling,
    group_faults,
    unread_fault,
)
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.layout import (
    Engine,
    Layout,
    lay_out,
    unknown_faults,
)
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.mirror import Mirror, mirrored, read_mirror
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.nodes import read_nodes
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.ready import Ready, judge, misfit_faults
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.router import router
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
    deployment, not a plan, may lack, `serve_refusals` what must be proven before engines start.
    """
    refusals, warnings = Spelling(known_variables or {}).judge(nodes)
    declared, site_faults = read_site(site, catalogue)
    if unread := unread_fault(site, nodes):
        return _refused(declared, [unread], [])
    mirror, mirror_faults = read_mirror(declared, nodes, groups)
    refusals = [*faults, *catalogue.faults, *refusals, *site_faults, *mirror_faults]
    refusals += overrides.override_faults(declared, catalogue)
    declared = overrides.without_wrong_ones(declared, catalogue)
    refusals += [*gates.override_faults(declared, catalogue), *features.exclusion_faults(declared)]
    required = _required_groups(declared)
    refusals += [*group_faults(groups, required), *pairing.group_faults(declared, groups)]
    ours = _hosts_of((*required, "gpu_nodes", "spare_nodes"), groups, nodes)
    pooled = _hosts_of({*required, "gpu_nodes"} - {"service_hosts"}, groups, nodes)
    members, node_faults = read_nodes(list(pooled), nodes, declared.image, catalogue)
    refusals += [*node_faults, *network.duplicate_faults(ours)]
    layout = lay_out(declared, members, groups) if declared.profile else Layout()
    seen = mirrored(declared, mirror)
    spread = read_spread(declared, seen, nodes, groups, [*refusals, *layout.faults])
    ready = _judged(declared, layout, {fault.node for fault in node_faults}, catalogue)
    refusals += [*layout.faults, *spread.faults, *_replica_faults(declared, ready, catalogue)]
    if refusals:
        return _refused(declared, refusals, warnings)
    found = _render(seen, layout, spread, ready, warnings, _service_address(groups, nodes))
    return _sealed(found | _origins(declared, layout, mirror))


def _judged(site: Site, layout: Layout, refused: set[str], catalogue: Catalogue) -> list[Ready]:
    """The replicas of which no node is refused, with all that their engines are given."""
    sound = [row for row in layout.replicas if refused.isdisjoint(node.name for node in row.nodes)]
    return [judge(site, replica, catalogue) for replica in sound] if site.complete else []


def _replica_faults(site: Site, ready: Sequence[Ready], catalogue: Catalogue) -> Iterator[Fault]:
    """What only shows once sound nodes stand in replicas, and the catalogue knows what they serve."""
    if not site.complete:
        return
    replicas = [row.replica for row in ready]
    # Where the sizes are wrong, that says more than that nobody has tried them.
    yield from list(misfit_faults(site, ready, catalogue)) or unknown_faults(site, replicas)
    yield from pairing.faults(site, ready)
    yield from features.place_faults(site, replicas)
    yield from gates.faults(site, _gates(site, ready), "refuse")


def _gates(site: Site, ready: Sequence[Ready]) -> list[gates.Found]:
    return gates.collect(site, {engine.name: held for row in ready for engine, _arguments, held in row.engines})


def _required_groups(site: Site) -> dict[str, str]:
    pools = site.profile["pools"] if site.profile else {"unified": {"group": "gpu_nodes"}}
    nodes = {shape["group"]: f"its nodes are the {pool} pool" for pool, shape in pools.items()}
    return {**nodes, "service_hosts": "the site's registry, router and monitoring stand there"}


def _hosts_of(names: Iterable[str], groups: Mapping[str, list], nodes: Mapping[str, Mapping]) -> dict[str, Mapping]:
    """The variables of every host of these groups."""
    members = {host for name in names for host in groups.get(name, [])}
    return {host: nodes.get(host, {}) for host in sorted(members, key=natural)}


def _service_address(groups: Mapping[str, list], nodes: Mapping[str, Mapping]) -> str:
    """Where clients find the first service host: on the fabric, else as Ansible does."""
    host = min(groups["service_hosts"], key=natural)
    return str(nodes[host].get("fabric_address") or nodes[host].get("ansible_host") or host)


def _refused(site: Site, refusals: list[Fault], warnings: list[Fault]) -> dict:
    return {
        "digest": None,
        "site": site["site_name"],
        "profile": site["serving_profile"],
        "fabric": site["fabric_kind"],
        "model": {},
        "image": {},
        "pools": {},
        "spare": [],
        "replicas": [],
        "nodes": {},
        "router": {},
        "checkpoint": {},
        "mirror": {},
        "insecure_registries": [],
        "sources": {},
        "gates": [],
        "refusals": as_dicts(refusals),
        "deploy_refusals": [],
        "serve_refusals": [],
        "warnings": as_dicts(warnings),
    }


def _render(
    site: Site, layout: Layout, spread: Spread, ready: Sequence[Ready], warnings: list[Fault], address: str
) -> dict:
    nodes: dict[str, dict] = {}
    for row in ready:
        for engine, arguments, _held in row.engines:
            nodes.setdefault(engine.node.name, {"engines": []})["engines"].append(_engine(site, row, engine, arguments))
    late = list(network.port_faults(nodes, site["checkpoint_port"]))
    if late:
        return _refused(site, late, warnings)
    found = _gates(site, ready)
    deploy, serve = list(deploy_faults(site)), list(gates.faults(site, found, "prove"))
    warnings = [*warnings, *deploy, *serve, *site_warnings(site), *layout.warnings()]
    warnings += gates.faults(site, found, "warn")
    warnings += gates.override_warnings(site, found)
    warnings += gates.undone_warnings(site, [held[1:] for row in ready for held in row.engines])
    warnings += unknown.memory_warnings(site.model, [row.replica.hardware for row in ready if not row.memory])
    pools: dict[str, list[str]] = {}
    for row in ready:
        pools.setdefault(row.replica.pool, []).extend(node.name for node in row.replica.nodes)
    slowest = max(engine["ready_seconds"] for content in nodes.values() for engine in content["engines"])
    return {
        "site": site["site_name"],
        "profile": site.profile.name,
        "fabric": site.fabric.name,
        "model": _model(site),
        "image": {"reference": site.image.reference, "engine": site.engine.name, "version": site.image.version},
        "pools": pools,
        "spare": [node.name for nodes in layout.spare.values() for node in nodes],
        "replicas": [_replica(row) for row in ready],
        "nodes": nodes,
        "router": router([row.replica for row in ready], slowest, address),
        "checkpoint": _checkpoint(site, spread),
        "gates": [row.as_dict() for row in found],
        "refusals": [],
        "deploy_refusals": as_dicts(deploy),
        "serve_refusals": as_dicts(serve),
        "warnings": as_dicts(warnings),
    }


def _sealed(content: dict) -> dict:
    """A sound plan gets its digest; a refused one has none."""
    return content if content["refusals"] else {"digest": digest(content), **content}


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


def _origins(declared: Site, layout: Layout, mirror: Mirror | None) -> dict:
    """The site's mirror, if it has one; what a bundle for the site is filled from, and for which processors."""
    nodes = [node for replica in layout.replicas for node in replica.nodes]
    return {
        "mirror": mirror.as_dict() if mirror else {},
        "insecure_registries": [mirror.registry] if mirror else [],
        "sources": {
            "image": declared.image.reference,
            "origins": origins(declared),
            "access": access(declared),
            "architectures": sorted({node.hardware["architecture"] for node in nodes}),
        },
    }


def _checkpoint(site: Site, spread: Spread) -> dict:
    return {
        "repo": site.model["repo"],
        "commit": site["serving_model_revision"],
        "root": site.checkpoint_root,
        "path": site.model_path,
        "mount_required": site["checkpoint_mount_required"],
        "origins": origins(site),
        "drives": spread.drives,
        "access": access(site),
        "manifest_file": site["checkpoint_manifest_file"],
        "nodes": spread.nodes,
        "wan_nodes": spread.wan,
        "shared": spread.writer,
        "port": site["checkpoint_port"],
        "files": site.model["files"],
        "bytes": site.model["bytes"],
        "needed": site.model.get("needed") or [],
        "owners": shares(spread.wan, site.model["bytes"]),
        "load": load_estimate(site),
    }


def _replica(row: Ready) -> dict:
    replica = row.replica
    return {
        "name": replica.name,
        "pool": replica.pool,
        "nodes": [node.name for node in replica.nodes],
        "engines": [engine.name for engine in replica.engines()],
        "parallel": str(replica.parallel),
        "endpoint": replica.endpoints[0],
        "endpoints": replica.endpoints,
        "memory": row.memory.as_dict() if row.memory else {},
    }


def _engine(site: Site, row: Ready, engine: Engine, arguments: Arguments) -> dict:
    replica, env = row.replica, arguments.env()
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
        "argv": [site.model_path, *arguments.flags()],
        "env": env,
        "ports": engine.ports,
        "ready_seconds": int(env.get(READY, 600)),
        "endpoint": engine.endpoint,
        "head": {
            "node": replica.head.name,
            "engine": replica.engine_name(0),
            "address": replica.head["fabric_address"],
        },
        "members": [node.name for node in replica.nodes],
        "container": {"arguments": arguments.container},
        "provenance": arguments.provenance(),
        "memory": row.memory.as_dict() if row.memory else {},
    }
