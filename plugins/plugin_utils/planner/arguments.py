# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line and environment of one engine, merged layer by layer with provenance.

A layer that comes later wins flag by flag; what it replaced stays in the provenance. Flags are
sorted in the end, so the same settings are always the same line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from string import Template

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.catalogue import Entry, placeholders
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.faults import Fault
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.layout import Engine
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.nodes import VARIABLES as NODE_VARIABLES
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.site import Site

OVERRIDES = "serving_overrides"
FLAG = re.compile(r"--[a-z][a-z0-9]*(-[a-z0-9]+)*(\.[\w.-]+)?")
NAME = re.compile(r"[A-Z_][A-Z0-9_]*")
SECRET = re.compile(r"(^|[-_])(token|secret|password|api-key|api_key)s?($|[-_])", re.IGNORECASE)
LAYOUT = re.compile(r"--(tensor|pipeline|data)-parallel")
READY = "VLLM_ENGINE_READY_TIMEOUT_S"


@dataclass
class Setting:
    """One flag or variable: its text (None: taken away; "": a bare flag) and where it came from."""

    spelling: str
    value: str | None
    layer: str
    source: str
    replaced: list[dict] = field(default_factory=list)

    def as_dict(self) -> dict:
        return {"value": self.value, "layer": self.layer, "source": self.source, "replaced": self.replaced}


@dataclass
class Arguments:
    """What the layers have merged to so far; keys are slots, so --no-x replaces --x."""

    settings: dict[str, Setting] = field(default_factory=dict)
    container: list[str] = field(default_factory=list)

    def put(self, slot: str, setting: Setting) -> None:
        before = self.settings.get(slot)
        if before:
            old = {"value": before.value, "layer": before.layer, "source": before.source}
            if before.spelling != setting.spelling:
                old["flag"] = before.spelling
            setting.replaced = [*before.replaced, old]
        self.settings[slot] = setting

    def flags(self) -> list[str]:
        """--flag value --bare-flag ..., sorted by flag."""
        argv: list[str] = []
        for setting in self._kept("--"):
            argv += [setting.spelling, setting.value] if setting.value else [setting.spelling]
        return argv

    def env(self) -> dict[str, str]:
        return {setting.spelling.removeprefix("env:"): setting.value for setting in self._kept("env:")}

    def provenance(self) -> dict[str, dict]:
        return {s.spelling: s.as_dict() for s in sorted(self.settings.values(), key=lambda s: s.spelling)}

    def _kept(self, prefix: str) -> list[Setting]:
        kept = (s for s in self.settings.values() if s.spelling.startswith(prefix) and s.value is not None)
        return sorted(kept, key=lambda s: s.spelling)


def layers(site: Site, hardware: Entry) -> Iterator[tuple[str, Entry]]:
    """The catalogue's layers in order; the site's own comes after them."""
    yield "base", site.engine
    yield "model", site.model
    yield "profile", site.profile
    yield "hardware", hardware
    yield "fabric", site.fabric
    for feature in site.features:
        yield "feature", feature


def _blocks(site: Site, engine: Engine) -> Iterator[tuple[str, Entry, Mapping]]:
    facts = conditions(site, engine)
    for layer, entry in layers(site, engine.node.hardware):
        for block in entry["settings"]:
            if all(_holds(facts[key], wanted) for key, wanted in block.get("when", {}).items()):
                yield layer, entry, block


def _holds(fact: object, wanted: object) -> bool:
    return fact in wanted if isinstance(wanted, list) else fact == wanted


def missing_faults(site: Site, engine: Engine) -> Iterator[Fault]:
    """A $name that a setting of this engine refers to, and that neither node nor profile declares."""
    known = placeholder_values(site, engine)
    for _layer, entry, block in _blocks(site, engine):
        for name in sorted(word for word in placeholders(dict(block)) if known[word] is None):
            example = f"write {name}: {NODE_VARIABLES[name].example}" if name in NODE_VARIABLES else "declare its port"
            node = engine.node
            yield Fault(name, node.values.get(name), f"{entry.file} needs it for this engine", example, node.name)


def merge(site: Site, engine: Engine) -> Arguments:
    merged = Arguments()
    known = placeholder_values(site, engine)
    for layer, entry, block in _blocks(site, engine):
        source = f"{entry.source}: {block['why']}" if "why" in block else entry.source
        _put(merged, block, layer, source, known)
        merged.container += [item for item in block.get("container", []) if item not in merged.container]
    if site["serving_max_model_len"]:
        block = {"flags": {"--max-model-len": site["serving_max_model_len"]}}
        _put(merged, block, "site", "serving_max_model_len", known)
    # A site's text is taken as it stands: only the catalogue writes $names.
    _put(merged, site["serving_overrides"], "site", OVERRIDES, None)
    return merged


def of_catalogue(site: Site, engine: Engine, flag: str) -> str | None:
    """What the catalogue's layers alone make of a flag that no site overrides."""
    values = [block["flags"][flag] for _, _, block in _blocks(site, engine) if flag in block.get("flags", {})]
    return flag_text(values[-1], placeholder_values(site, engine)) if values else None


def _put(merged: Arguments, block: Mapping, layer: str, source: str, known: Mapping | None) -> None:
    for flag, value in (block.get("flags") or {}).items():
        merged.put(slot(flag), Setting(flag, flag_text(value, known), layer, source))
    for name, value in (block.get("env") or {}).items():
        merged.put(f"env:{name}", Setting(f"env:{name}", text(value, known), layer, source))


def slot(flag: str) -> str:
    """--enable-x and --no-enable-x are one setting with two spellings."""
    return f"--{flag.removeprefix('--no-')}" if flag.startswith("--no-") else flag


def flag_text(value: object, known: Mapping | None) -> str | None:
    return "" if value is True else text(value, known)


def text(value: object, known: Mapping | None) -> str | None:
    """Objects and lists become JSON, $names what they stand for, null stays None."""
    if value is None:
        return None
    value = value if known is None else _filled(value, known)
    return json.dumps(value, separators=(",", ":"), sort_keys=True) if isinstance(value, (dict, list)) else str(value)


def _filled(value: object, known: Mapping) -> object:
    if isinstance(value, dict):
        return {key: _filled(item, known) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, known) for item in value]
    return Template(value).substitute(known) if isinstance(value, str) else value


def conditions(site: Site, engine: Engine) -> dict:
    """What a block's `when` may ask for."""
    hardware = engine.node.hardware
    return {
        "role": engine.role,
        "spans_nodes": len(engine.replica.nodes) > 1,
        "accelerator": hardware["accelerator"],
        "generation": hardware["generation"],
        "hardware": hardware.name,
        "profile": site.profile.name,
        "pool": engine.replica.pool,
        "fabric": site.fabric.name,
        "model": site.model.name,
    }


def placeholder_values(site: Site, engine: Engine) -> dict:
    """What the $names of catalogue.PLACEHOLDERS stand for."""
    node, replica = engine.node, engine.replica
    return {
        "served_name": site.model["served_name"],
        "replica_nodes": len(replica.nodes),
        "replica_gpus": replica.gpus,
        "node_gpus": node["gpu_count"],
        "rank": engine.rank,
        "head_address": replica.head["fabric_address"],
        "http_port": replica.ports["http"],
        "master_port": replica.ports.get("master"),
        "fabric_address": node["fabric_address"],
        "fabric_interface": node["fabric_interface"],
        "rdma_devices": ",".join(map(str, node["rdma_devices"] or [])) or None,
        "gid_index": node["gid_index"],
    }


def override_faults(site: Site) -> Iterator[Fault]:
    """The shape of serving_overrides, and what a site may not override."""
    overrides = site[OVERRIDES]
    for key in sorted(set(overrides) - {"flags", "env"}, key=str):
        yield Fault(OVERRIDES, key, "has flags and env, nothing else", "move it under one of them")
    for key in ("flags", "env"):
        if not isinstance(overrides.get(key) or {}, dict):
            yield Fault(f"{OVERRIDES}.{key}", overrides[key], "must be a mapping", "write {} for none")
        else:
            judge = _flag_faults if key == "flags" else _env_faults
            for name, value in (overrides.get(key) or {}).items():
                yield from judge(f"{OVERRIDES}.{key}.{name}", name, value)
                yield from _reserved(site, f"{OVERRIDES}.{key}.{name}", name)
                if SECRET.search(str(name)):
                    limit = "a plan is printed and kept, so it holds no secret"
                    yield Fault(f"{OVERRIDES}.{key}.{name}", None, limit, "leave it out; the gateway checks keys")


def _flag_faults(where: str, name: object, value: object) -> Iterator[Fault]:
    if not isinstance(name, str) or not FLAG.fullmatch(name):
        yield Fault(where, name, "a flag is written --like-this, in its long form", "see `vllm serve --help=all`")
    if value is False or value == "":
        yield Fault(where, value, "true is a bare flag, null takes one away", "write null, or true with --no-...")


def _env_faults(where: str, name: object, value: object) -> Iterator[Fault]:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        yield Fault(where, name, "a variable is written LIKE_THIS", "correct the name")
    if isinstance(value, (bool, dict, list)):
        limit = "must be text or a number, or null to take it away"
        yield Fault(where, value, limit, "write what the engine should read")
    if name == READY and not re.fullmatch(r"[1-9]\d*", str(value)):
        yield Fault(where, value, "must be whole seconds", "write 3600")


def _reserved(site: Site, where: str, name: object) -> Iterator[Fault]:
    entries = [site.engine, *filter(None, [site.profile])]
    computed = {item for entry in entries for item in _computed(entry)}
    if isinstance(name, str) and (slot(name) in computed or LAYOUT.match(name)):
        remedy = "leave it out; the inventory and serving_profile decide it"
        yield Fault(where, name, "the plan computes it, and other parts rely on it", remedy)


def _computed(entry: Entry) -> Iterator[str]:
    """Names whose value the layout decides: those with a $name, or set for one role only."""
    for block in entry["settings"]:
        by_role = "role" in block.get("when", {})
        for name, value in {**block.get("flags", {}), **block.get("env", {})}.items():
            if by_role or placeholders(value):
                yield name
