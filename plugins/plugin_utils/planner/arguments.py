# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line and environment of one engine, merged layer by layer with provenance.

A layer that comes later wins flag by flag, and key by key where a flag holds an object; what it replaced stays in
the provenance. Flags are sorted in the end, so the same settings are always the same line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from string import Template

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.catalogue import Entry, placeholders
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.conditions import (
    conditions,
    holds,
    placeholder_values,
)
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.faults import Fault
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.layout import Engine
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.nodes import VARIABLES as NODE_VARIABLES
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.site import VARIABLES as SITE_VARIABLES
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.site import Site

OVERRIDES = "serving_overrides"
LENGTH = "--max-model-len"
READY = "VLLM_ENGINE_READY_TIMEOUT_S"
READ_RATE = "checkpoint_read_mb_per_second"


@dataclass
class Setting:
    """One flag or variable: its value (None: taken away; True: a bare flag) and where it came from."""

    spelling: str
    given: object
    layer: str
    source: str
    replaced: list[dict] = field(default_factory=list)

    @property
    def value(self) -> str | None:
        return "" if self.given is True else text(self.given)

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
            setting.given = merged(before.given, setting.given)
        self.settings[slot] = setting

    def value(self, name: str) -> str | None:
        """The text of a flag, in this very spelling, or of env:NAME; "" for a bare flag, None where it is not set."""
        setting = self.settings.get(slot(name))
        return setting.value if setting and setting.spelling == name else None

    def number(self, name: str) -> float | None:
        """The number that a flag holds; None where it is not set or holds none, such as auto."""
        try:
            return float(self.value(name) or "")
        except ValueError:
            return None

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
        kept = (s for s in self.settings.values() if s.spelling.startswith(prefix) and s.given is not None)
        return sorted(kept, key=lambda s: s.spelling)


def merged(before: object, after: object) -> object:
    """Objects merge key by key, null takes a key away; anything else is replaced."""
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return after
    keys = {**before, **after}
    both = {key: merged(before[key], value) if key in before else value for key, value in after.items()}
    return {key: value for key, value in {**keys, **both}.items() if value is not None}


def blocks(site: Site, engine: Engine) -> Iterator[tuple[str, Entry, Mapping]]:
    """(layer, entry, block) of the catalogue in order, those whose `when` holds; faults and the site come after."""
    facts = conditions(site, engine)
    hardware = engine.node.hardware
    order = [
        ("base", site.engine, site.engine["settings"]),
        ("model", site.model, site.model["settings"]),
        ("profile", site.profile, site.profile["settings"]),
        ("hardware", hardware, hardware["settings"]),
        # What the work of a pool needs stands, whatever suits the hardware otherwise.
        ("profile", site.profile, engine.replica.shape.get("settings", [])),
        ("fabric", site.fabric, site.fabric["settings"]),
        *(("feature", feature, feature["settings"]) for feature in site.features),
    ]
    for layer, entry, settings in order:
        for block in settings:
            if holds(facts, block.get("when", {})):
                yield layer, entry, block


def missing_faults(site: Site, engine: Engine) -> Iterator[Fault]:
    """A $name that a setting of this engine refers to, and that neither node, site nor profile declares."""
    known = placeholder_values(site, engine)
    for _layer, entry, block in blocks(site, engine):
        for name in sorted(word for word in placeholders(dict(block)) if known[word] is None):
            limit = f"{entry.file} needs it for this engine"
            if name in NODE_VARIABLES:
                node = engine.node
                yield Fault(
                    name, node.values.get(name), limit, f"write {name}: {NODE_VARIABLES[name].example}", node.name
                )
            elif f"serving_{name}" in SITE_VARIABLES:
                variable = f"serving_{name}"
                yield Fault(variable, None, limit, f"write {variable}: {SITE_VARIABLES[variable].example}")
            else:
                yield Fault(name, None, limit, f"declare its port in catalogue/profiles/{site.profile.name}.yml")


def merge(site: Site, engine: Engine, workarounds: Iterable[tuple[Entry, Mapping]] = ()) -> Arguments:
    """All layers of one engine; `workarounds` are (gate, block) of the faults that hold for it."""
    arguments = Arguments()
    known = placeholder_values(site, engine)
    layers = [*blocks(site, engine), *(("fault", gate, block) for gate, block in workarounds)]
    for layer, entry, block in layers:
        why = block.get("why") or entry.get("summary")
        source = f"{entry.source}: {why}" if why else entry.source
        _put(arguments, block, layer, source, known)
        for item in block.get("container", []):
            word = filled(item, known)
            arguments.container += [word] if word not in arguments.container else []
    if site["serving_max_model_len"]:
        block = {"flags": {"--max-model-len": site["serving_max_model_len"]}}
        _put(arguments, block, "site", "serving_max_model_len", None)
    budget = load_estimate(site)
    if budget and budget["budget_seconds"] > int(arguments.env().get(READY, 0)):
        _put(arguments, {"env": {READY: budget["budget_seconds"]}}, "site", budget["source"], None)
    # A site's text is taken as it stands: only the catalogue writes $names.
    _put(arguments, site[OVERRIDES], "site", OVERRIDES, None)
    return arguments


def load_estimate(site: Site) -> dict | None:
    """How long a node reads the checkpoint, and a budget of twice that and the warm-up; None without a known size.

    Rate in MB/s of one node, from the site or the slowest that somebody published.
    """
    known, declared = site.engine["load"], site[READ_RATE]
    rate = declared or known["mb_per_second"]
    if not site.model["bytes"]:
        return None
    seconds = round(site.model["bytes"] / 1e6 / rate)
    budget = -(-(2 * seconds + known["warm_up_seconds"]) // 60) * 60
    source = READ_RATE if declared else f"{site.engine.file}: {known['source']}"
    return {"mb_per_second": rate, "seconds": seconds, "budget_seconds": budget, "source": source}


def _put(arguments: Arguments, block: Mapping, layer: str, source: str, known: Mapping | None) -> None:
    for kind, prefix in (("flags", ""), ("env", "env:")):
        for name, value in (block.get(kind) or {}).items():
            given = value if known is None else filled(value, known)
            arguments.put(slot(f"{prefix}{name}"), Setting(f"{prefix}{name}", given, layer, source))


def slot(flag: str) -> str:
    """--enable-x and --no-enable-x are one setting with two spellings."""
    return f"--{flag.removeprefix('--no-')}" if flag.startswith("--no-") else flag


def text(value: object) -> str | None:
    """Objects and lists become JSON; null stays None."""
    if value is None:
        return None
    return json.dumps(value, separators=(",", ":"), sort_keys=True) if isinstance(value, (dict, list)) else str(value)


def filled(value: object, known: Mapping) -> object:
    """`value` with every $name replaced by what it stands for."""
    if isinstance(value, dict):
        return {key: filled(item, known) for key, item in value.items()}
    if isinstance(value, list):
        return [filled(item, known) for item in value]
    return Template(value).substitute(known) if isinstance(value, str) else value
