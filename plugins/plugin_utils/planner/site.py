# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads and judges what a site says once for all its nodes."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner import origins, unknown
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.catalogue import Catalogue, Entry
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.faults import Fault, known, suggest
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.image import Image
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.network import AGENT_PORTS
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.values import Variable, read

COMMIT = re.compile(r"[0-9a-f]{40}")
POOLS = ("unified", "prefill", "decode")
# A directory of the operating system is never a place for a checkpoint; below the first group
# nothing is, below the second a directory of one's own may be.
SYSTEM_TREES = (
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/root", "/run", "/sbin",
    "/sys", "/tmp", "/usr", "/var/lib/kimi-k3", "/var/lib/containers", "/var/tmp",
)  # fmt: skip
SYSTEM_DIRECTORIES = ("/home", "/lost+found", "/media", "/mnt", "/opt", "/var", "/var/lib", "/var/log", "/var/cache")

VARIABLES = {
    "site_name": Variable(str, example="lima"),
    "serving_profile": Variable(str, example="single_node_tp"),
    "serving_model": Variable(str, example="kimi-k3"),
    "serving_model_revision": Variable(str, example="the 40 hex digits of a commit, in quotes"),
    "serving_image": Variable(str, example="vllm/vllm-openai@sha256:..."),
    "serving_engine_version": Variable(str, required=False, example='"0.29.0"'),
    "serving_features": Variable(list, default=[], example="[tool_calling, reasoning]"),
    "serving_max_model_len": Variable(int, required=False, example="131072"),
    "serving_nodes_per_replica": Variable(int, required=False, per_pool=True, example="2"),
    "serving_tensor_parallel_size": Variable(int, required=False, per_pool=True, example="8"),
    "serving_draft_model_path": Variable(str, required=False, example="/srv/models/kimi-k3-dspark"),
    "serving_gate_overrides": Variable(dict, default={}, example="{vllm-52627: soaked for two days on 2026-12-01}"),
    "serving_overrides": Variable(dict, default={}, example="{flags: {--max-num-seqs: 8}, env: {}}"),
    "fabric_kind": Variable(str, example="roce"),
    "checkpoint_path": Variable(str, example="/srv/models"),
    "checkpoint_mount_required": Variable(bool, default=True, example="true"),
    "checkpoint_read_mb_per_second": Variable(int, required=False, example="5000"),
    "checkpoint_code_change_allowed": Variable(bool, default=False, example="true"),
    "checkpoint_old_revisions_removal_allowed": Variable(bool, default=False, example="true"),
    "checkpoint_origins": Variable(list, example="[{kind: hub, url: https://huggingface.co}]"),
    "checkpoint_wan_nodes": Variable(list, required=False, example="[gpu-01, gpu-02]"),
    "checkpoint_shared": Variable(bool, default=False, example="true"),
    "checkpoint_port": Variable(int, default=AGENT_PORTS["fetch"], example="7654"),
    "checkpoint_manifest_file": Variable(str, required=False, example='"{{ inventory_dir }}/kimi-k3.json"'),
    "checkpoint_token_file": Variable(str, required=False, example='"{{ inventory_dir }}/hub-token"'),
    "checkpoint_ca_file": Variable(str, required=False, example="/etc/ssl/certs/our-ca.pem"),
    "checkpoint_proxy": Variable(str, required=False, example="http://proxy.lan:3128"),
    "checkpoint_proxy_file": Variable(str, required=False, example='"{{ inventory_dir }}/proxy"'),
    "mirror": Variable(str, required=False, example="service-01"),
    "licence_accepted_by": Variable(str, required=False, example="the name of the person who read the licence"),
}

NUMBERS = [name for name, variable in VARIABLES.items() if variable.kind is int]


@dataclass(frozen=True)
class Site:
    """A site's declarations, sound ones resolved; what could not be resolved is None."""

    values: Mapping
    profile: Entry | None
    model: Entry | None
    fabric: Entry | None
    engine: Entry
    features: tuple[Entry, ...]
    image: Image | None

    def __getitem__(self, name: str):
        return self.values[name]

    def get(self, name: str):
        return self.values.get(name)

    def of_pool(self, name: str, pool: str) -> int | None:
        """A number that the site gives once, or for each pool of its own."""
        value = self.values[name]
        return value.get(pool) if isinstance(value, dict) else value

    @property
    def complete(self) -> bool:
        """Whether the catalogue knows all that an engine is made of."""
        return None not in (self.profile, self.model, self.fabric) and not unknown.missing(self.model)

    @property
    def checkpoint_root(self) -> str:
        return posixpath.normpath(self["checkpoint_path"])

    @property
    def model_path(self) -> str:
        """Where a node keeps this revision of the model: <root>/<name>/<commit>."""
        return f"{self.checkpoint_root}/{self.model.name}/{self['serving_model_revision']}"


def read_site(variables: Mapping, catalogue: Catalogue) -> tuple[Site, list[Fault]]:
    """Every variable with its type checked and its name looked up in the catalogue."""
    values, faults = read(VARIABLES, variables)
    features = values["serving_features"] or []
    engine = catalogue.entries["engines"]["vllm"]
    site = Site(
        values=values,
        profile=catalogue.find("profiles", values["serving_profile"]),
        model=catalogue.find("models", values["serving_model"]),
        fabric=catalogue.find("fabrics", values["fabric_kind"]),
        engine=engine,
        features=tuple(filter(None, (catalogue.find("features", name) for name in sorted(set(map(str, features)))))),
        image=Image.read(values["serving_image"], values["serving_engine_version"], engine),
    )
    faults += _unknown_names(site, catalogue)
    faults += unknown.model_faults(site.model, catalogue.faults)
    faults += _revision(site)
    faults += _limits(site)
    faults += checkpoint_path_faults(values["checkpoint_path"])
    faults += origins.faults(values, site.model and site.model.get("repo"))
    if site.image:
        told = {fault.variable for fault in faults}
        faults += [fault for fault in site.image.faults(site.model) if fault.variable not in told]
    return site, faults


def _unknown_names(site: Site, catalogue: Catalogue) -> Iterator[Fault]:
    for variable, kind, entry in (
        ("serving_profile", "profiles", site.profile),
        ("serving_model", "models", site.model),
        ("fabric_kind", "fabrics", site.fabric),
    ):
        value, names = site[variable], catalogue.names(kind)
        if value is not None and entry is None:
            yield Fault(variable, value, f"must be one of the catalogue's {kind}", suggest(value, names))
    names = catalogue.names("features")
    for name in site["serving_features"] or []:
        if catalogue.find("features", name) is None:
            yield Fault("serving_features", name, "must be one of the catalogue's features", suggest(name, names))


def _revision(site: Site) -> Iterator[Fault]:
    revision = site["serving_model_revision"]
    if revision is not None and not COMMIT.fullmatch(revision):
        commits = known(row["commit"] for row in site.model["commits"]) if site.model else "none"
        remedy = f"pin a commit, a branch may move; known: {commits}"
        yield Fault("serving_model_revision", revision, "must be 40 lower-case hex digits", remedy)


def _limits(site: Site) -> Iterator[Fault]:
    for name in NUMBERS:
        given = site[name]
        for pool, number in given.items() if isinstance(given, dict) else [("", given)]:
            where = f"{name}.{pool}" if pool else name
            if pool and pool not in POOLS:
                yield Fault(where, pool, "must be a pool", suggest(pool, POOLS))
            elif number is not None and number < 1:
                yield Fault(where, number, "must be 1 or more", "correct it, or leave it out")
    draft = site["serving_draft_model_path"]
    if draft is not None and not origins.PATH.fullmatch(draft):
        limit = "must be an absolute path: an engine never calls out, so the name of a repository leads nowhere"
        yield Fault("serving_draft_model_path", draft, limit, "bring it to the nodes and write where it is")
    name = site["site_name"]
    if name is not None and not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
        yield Fault("site_name", name, "lower-case letters, digits, - and _", "write a name such as lima")


def checkpoint_path_faults(path: str | None) -> Iterator[Fault]:
    """A checkpoint goes to a directory of its own."""
    if path is not None:
        remedy = "name a directory of its own, such as /srv/models"
        yield from origins.path_faults("checkpoint_path", path, remedy, _system_faults)


def _system_faults(where: str, path: str, remedy: str) -> Iterator[Fault]:
    clean = posixpath.normpath(path)
    if clean in SYSTEM_DIRECTORIES or any(clean == tree or clean.startswith(f"{tree}/") for tree in SYSTEM_TREES):
        yield Fault(where, path, "must not be a directory of the operating system", remedy)


def deploy_faults(site: Site) -> Iterator[Fault]:
    """What a plan may lack and a deployment may not."""
    accepted = site["licence_accepted_by"]
    if not (accepted or "").strip():
        licence = site.model["licence"]
        remedy = f"write who accepts it. {licence['text']}"
        value = None if accepted is None else ""
        yield Fault("licence_accepted_by", value, f"someone must accept the {licence['name']}", remedy)
    if not site.image.digest:
        yield site.image.unpinned()


def site_warnings(site: Site) -> Iterator[Fault]:
    revision, commits = site["serving_model_revision"], [row["commit"] for row in site.model["commits"]]
    if commits and revision not in commits:
        limit = "the catalogue does not know this commit, so its bytes are those of the known ones"
        yield Fault("serving_model_revision", revision, limit, f"check it, or use one of: {known(commits)}")
