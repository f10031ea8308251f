# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Known faults of the world as gates: each refuses, warns, works around, or waits for a proof."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.arguments import Arguments, merge, text
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.catalogue import Catalogue, Entry
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.conditions import conditions, holds
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.faults import Fault, suggest
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.layout import Engine
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.site import Site

OVERRIDES = "serving_gate_overrides"


@dataclass(frozen=True)
class Found:
    """A gate and the engines that it holds for; `reason` says why the site overrides it, if it does."""

    gate: Entry
    engines: tuple[str, ...]
    reason: str | None

    def as_dict(self) -> dict:
        gate = self.gate
        told = {key: gate.get(key) for key in ("action", "summary", "thread", "date", "remedy", "proof")}
        return {"id": gate.name, **told, "overridden": self.reason, "engines": list(self.engines)}


def judge(site: Site, engine: Engine, catalogue: Catalogue) -> tuple[Arguments, list[Entry]]:
    """The engine's arguments with every workaround in them, and all gates that hold for it."""
    arguments = merge(site, engine)
    facts = conditions(site, engine)
    gates = [
        gate
        for gate in catalogue.entries["faults"].values()
        if holds(facts, gate.get("when") or {}) and _given(arguments, gate.get("given") or {})
    ]
    lifted = site[OVERRIDES]
    workarounds = [
        (gate, block)
        for gate in gates
        if gate["action"] == "work_around" and gate.name not in lifted
        for block in gate["settings"]
        if holds(facts, block.get("when", {}))
    ]
    return (merge(site, engine, workarounds) if workarounds else arguments), gates


def _given(arguments: Arguments, given: Mapping) -> bool:
    """Whether the engine has these flags and variables; true: with any value, null: not at all."""
    for name, wanted in given.items():
        value = arguments.value(name if name.startswith("--") else f"env:{name}")
        if not _matches(value, wanted):
            return False
    return True


def _matches(value: str | None, wanted: object) -> bool:
    if wanted is None or value is None:
        return wanted is None and value is None
    if isinstance(wanted, dict):
        return float(value) > wanted["above"]
    return wanted is True or value in map(text, wanted if isinstance(wanted, list) else [wanted])


def collect(site: Site, gates: Mapping[str, Sequence[Entry]]) -> list[Found]:
    """Every gate once, in order of their ids; `gates` is {engine: the gates that hold for it}."""
    engines: dict[str, list[str]] = {}
    entries = {gate.name: gate for found in gates.values() for gate in found}
    for engine, found in gates.items():
        for gate in found:
            engines.setdefault(gate.name, []).append(engine)
    return [Found(entries[name], tuple(engines[name]), site[OVERRIDES].get(name)) for name in sorted(entries)]


def faults(site: Site, found: Sequence[Found], action: str) -> Iterator[Fault]:
    """What gates of this action say, those apart that the site overrides."""
    for row in found:
        gate = row.gate
        if gate["action"] == action and row.reason is None:
            value, summary = site.get(gate["variable"]), gate["summary"]
            way = f"; knowing better, write {OVERRIDES}: {{{gate.name}: why}}" if action in ("refuse", "prove") else ""
            proof = f"; the proof {gate['proof']} has not passed on this site" if action == "prove" else ""
            limit = f"{summary} ({gate.name}, {gate['thread']}){proof}"
            yield Fault(gate["variable"], value, limit, f"{gate['remedy']}{way}")


def override_faults(site: Site, catalogue: Catalogue) -> Iterator[Fault]:
    names = catalogue.names("faults")
    for name, reason in site[OVERRIDES].items():
        where = f"{OVERRIDES}.{name}"
        if name not in names:
            yield Fault(where, name, "must be a gate of the catalogue", suggest(name, names))
        elif not isinstance(reason, str) or not reason.strip():
            yield Fault(where, reason, "an override says why, in words", "write what was tried, where and when")


def override_warnings(site: Site, found: Sequence[Found]) -> Iterator[Fault]:
    """Overrides that are in force, and those that nothing needs."""
    held = {row.gate.name: row for row in found}
    for name, reason in site[OVERRIDES].items():
        if name in held:
            gate = held[name].gate
            limit = f"this site overrides a gate that would {gate['action'].replace('_', ' ')}: {gate['summary']}"
            yield Fault(f"{OVERRIDES}.{name}", reason, limit, "remove it once the fault is mended")
        else:
            yield Fault(f"{OVERRIDES}.{name}", reason, "the gate does not hold for this site", "remove it")
