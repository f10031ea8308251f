# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Known faults of the world as gates: each refuses, warns, works around, or waits for a proof."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.arguments import OVERRIDES as SETTINGS
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.arguments import (
    Arguments,
    merge,
    merged,
    slot,
    text,
)
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


def _given(arguments: Arguments, given: Mapping | Sequence[Mapping]) -> bool:
    """Whether the engine has these flags and variables; of a list, whether it has all of any one mapping."""
    if isinstance(given, list):
        return any(_given(arguments, one) for one in given)
    return all(_matches(arguments, _name(name), wanted) for name, wanted in given.items())


def _matches(arguments: Arguments, name: str, wanted: object) -> bool:
    """The schema says what `wanted` may be: true, null, a value, a list of these, {above: N} or {contains: text}."""
    value = arguments.value(name)
    if isinstance(wanted, list):
        return any(_matches(arguments, name, one) for one in wanted)
    if wanted is None or value is None:
        return wanted is None and value is None
    if not isinstance(wanted, dict):
        return wanted is True or value == text(wanted)
    if "above" in wanted:
        number = arguments.number(name)
        return number is not None and number > wanted["above"]
    words = wanted["contains"]
    return any(word in value for word in (words if isinstance(words, list) else [words]))


def _name(written: str) -> str:
    """A flag as it is, a variable as Arguments knows it."""
    return written if written.startswith("--") else f"env:{written}"


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
            value, summary = _about(site, gate), gate["summary"]
            way = f"; knowing better, write {OVERRIDES}: {{{gate.name}: why}}" if action in ("refuse", "prove") else ""
            proof = f"; the proof {gate['proof']} has not passed on this site" if action == "prove" else ""
            limit = f"{summary} ({gate.name}, {gate['thread']}){proof}"
            yield Fault(gate["variable"], value, limit, f"{gate['remedy']}{way}")


def _about(site: Site, gate: Entry) -> object:
    """What the site says of the variable that a gate is about; of serving_overrides, what the gate looks at."""
    if gate["variable"] != SETTINGS:
        return site.get(gate["variable"])
    given = gate.get("given") or {}
    ways = given if isinstance(given, list) else [given]
    return ", ".join(dict.fromkeys(name for way in ways for name in way)) or gate.name


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
            would = {"prove": "wait for a proof", "work_around": "work around it"}.get(gate["action"], gate["action"])
            limit = f"this site overrides a gate that would {would}: {gate['summary']}"
            yield Fault(f"{OVERRIDES}.{name}", reason, limit, "remove it once the fault is mended")
        else:
            yield Fault(f"{OVERRIDES}.{name}", reason, "the gate does not hold for this site", "remove it")


def undone_warnings(site: Site, judged: Iterable[tuple[Arguments, Sequence[Entry]]]) -> Iterator[Fault]:
    """Workarounds that the site's own settings take back; `judged` has each engine's arguments and gates."""
    for arguments, held in judged:
        for gate in held:
            if gate["action"] == "work_around" and gate.name not in site[OVERRIDES]:
                yield from _undone(arguments, gate)


def _undone(arguments: Arguments, gate: Entry) -> Iterator[Fault]:
    for block in gate["settings"]:
        for kind in ("flags", "env"):
            for written, wanted in (block.get(kind) or {}).items():
                setting = arguments.settings.get(slot(_name(written)))
                ours = setting and any(old["source"].startswith(gate.source) for old in setting.replaced)
                if ours and setting.layer == "site" and merged(setting.given, wanted) != setting.given:
                    where = setting.source if setting.source != SETTINGS else f"{SETTINGS}.{kind}.{written}"
                    limit = f"takes back what the plan sets against a known fault: {gate['summary']} ({gate.name})"
                    remedy = f"take it out; knowing better, write {OVERRIDES}: {{{gate.name}: why}}"
                    yield Fault(where, setting.value, limit, remedy)
