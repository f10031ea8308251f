# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan as text: a picture of the replicas, a table, warnings, and each command line."""

from __future__ import annotations

import difflib
import json
import shlex
from collections.abc import Iterator, Sequence

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner import drawing
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.faults import several


def render(plan: dict, full: bool = True) -> str:
    """A sound plan for a terminal; `full` adds the command line of every engine."""
    parts = [
        "\n".join(_title(plan)),
        *_pools(plan),
        *_memory(plan),
        "\n".join(_table(plan)),
        "\n".join(drawing.checkpoint_lines(plan["checkpoint"])),
        *_gates(plan),
        *_notes(plan),
    ]
    if full:
        parts += [command(engine, plan["image"]["reference"]) for engine in _engines(plan)]
        router = ["vllm-router", *_pairs(plan["router"]["argv"])]
        parts.append(f"router, for the requests of clients\n\n    {_typed(router)}")
    return "\n\n".join(["", *parts, ""])


def refusals(faults: Sequence[dict], warnings: Sequence[dict] = ()) -> str:
    """All that is wrong, one line each; nodes that share a fault share a line."""
    late = [fault for fault in warnings if fault not in faults]
    lines = _lines(faults)
    parts = [f"The plan is refused: {_count(lines, 'fault')}. No host was touched.", *lines]
    return "\n".join([*parts, *(["Warnings:", *_lines(late)] if late else [])])


def _lines(faults: Sequence[dict]) -> list[str]:
    alike: dict[tuple[str, str], list[str]] = {}
    for fault in faults:
        # A file is no node, though its name has a dot.
        node, _dot, variable = fault["where"].rpartition(".") if "/" not in fault["where"] else ("", "", fault["where"])
        rest = f"{_value(fault['value'])}; {fault['limit']}. {fault['remedy'][:1].upper()}{fault['remedy'][1:]}"
        alike.setdefault((variable, rest), []).append(node)
    return [f"- {_place(nodes, variable)}: {rest}" for (variable, rest), nodes in alike.items()]


def _value(value: object) -> str:
    words = {None: "missing", "": "empty"}
    known = isinstance(value, (str, type(None))) and value in words
    return words[value] if known else json.dumps(value, ensure_ascii=False, default=str)


def _place(nodes: Sequence[str], variable: str) -> str:
    return f"{variable} on {several(nodes)}" if len(nodes) > 1 else f"{nodes[0]}.{variable}".removeprefix(".")


def command(engine: dict, image: str) -> str:
    """What one would type by hand on the node, one argument per line."""
    head = f"{engine['node']}: {engine['name']}, {engine['role']} of {engine['replica']}"
    words = [*(f"{name}={shlex.quote(value)}" for name, value in engine["env"].items())]
    words.append(f"vllm serve {shlex.quote(engine['argv'][0])}")
    words += _pairs(engine["argv"][1:])
    container = " ".join(map(shlex.quote, engine["container"]["arguments"]))
    return f"{head}\n  in {image}\n  with {container}\n\n    {_typed(words)}"


def _typed(lines: Sequence[str]) -> str:
    """A command over several lines, as a shell takes it."""
    return " \\\n      ".join(lines)


def _pairs(argv: Sequence[str]) -> list[str]:
    """A flag and its value on one line."""
    lines: list[str] = []
    for word in argv:
        if word.startswith("--"):
            lines.append(word)
        else:
            lines[-1] += f" {shlex.quote(word)}"
    return lines


def _engines(plan: dict) -> Iterator[dict]:
    by_name = {engine["name"]: engine for node in plan["nodes"].values() for engine in node["engines"]}
    for replica in plan["replicas"]:
        for name in replica["engines"]:
            yield by_name[name]


def _title(plan: dict) -> Iterator[str]:
    model, image = plan["model"], plan["image"]
    yield f"Plan of {plan['site']}: {plan['profile']} over {plan['fabric']}"
    yield f"  model   {model['name']} ({model['repo']} at {model['commit'][:12]}), in {model['path']}"
    yield f"  engine  {image['engine']} {image['version']}, {image['reference']}"
    yield f"  digest  {plan['digest']}"


def _pools(plan: dict) -> Iterator[str]:
    engines = {engine["name"]: engine for engine in _engines(plan)}
    for pool, nodes in plan["pools"].items():
        replicas = [replica for replica in plan["replicas"] if replica["pool"] == pool]
        gpus = sum(engine["hardware"]["gpus"] for engine in engines.values() if engine["pool"] == pool)
        boxes = [drawing.box(replica, [engines[name] for name in replica["engines"]]) for replica in replicas]
        title = f"Pool {pool}: {_count(replicas, 'replica')} on {_count(nodes, 'node')}, {gpus} GPUs"
        yield "\n".join([title, *drawing.side_by_side(boxes)])


def _memory(plan: dict) -> Iterator[str]:
    models = {engine["replica"]: engine["hardware"]["model"] for engine in _engines(plan)}
    lines = list(drawing.memory_lines(plan["replicas"], models))
    if lines:
        yield "\n".join(["Memory of one GPU, the fullest of a replica:", *lines])


def _gates(plan: dict) -> Iterator[str]:
    """Known faults that hold for this site, what the plan does about each, and on how many engines."""
    words = {"work_around": "worked around", "warn": "warned of", "prove": "waits for a proof", "refuse": "refused"}
    rows = []
    for gate in plan["gates"]:
        done = f"overridden: {gate['overridden']}" if gate["overridden"] else words[gate["action"]]
        rows.append(f"  {gate['id']}: {done}, {_count(gate['engines'], 'engine')}; {gate['summary']}")
    if rows:
        yield "\n".join(["Known faults that hold here (docs/en/gates.md):", *rows])


def _count(things: Sequence, word: str) -> str:
    return f"{len(things)} {word}{'' if len(things) == 1 else 's'}"


def _table(plan: dict) -> Iterator[str]:
    rows = [("replica", "rank", "node", "role", "address", "listens on", "ready within")]
    for engine in _engines(plan):
        ports = ", ".join(f"{name} {_span(port)}" for name, port in engine["ports"].items()) or "-"
        rank, ready = str(engine["rank"]), f"{engine['ready_seconds']} s"
        rows.append((engine["replica"], rank, engine["node"], engine["role"], engine["address"], ports, ready))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def _span(port: int | list[int]) -> str:
    """5557, or 5558-5565."""
    if not isinstance(port, list):
        return str(port)
    return str(port[0]) if len(port) == 1 else f"{port[0]}-{port[-1]}"


def _notes(plan: dict) -> Iterator[str]:
    """Warnings, and apart from them what only a later stage minds."""
    later = (("deploy.yml", plan["deploy_refusals"]), ("serve.yml", plan["serve_refusals"]))
    early = [fault for fault in plan["warnings"] if not any(fault in faults for _playbook, faults in later)]
    titled = [("Warnings", early), *((f"{playbook} will refuse this site", faults) for playbook, faults in later)]
    for title, faults in titled:
        if faults:
            yield "\n".join([f"{title}:", *_lines(faults)])


def explain(plan: dict, name: str) -> str:
    """Where a flag or variable comes from: for each value, the engines that have it and the layers that set it."""
    slots = {name, name.replace("--no-", "--", 1), name.replace("--", "--no-", 1), f"env:{name}"}
    told: dict[str, tuple[dict, str, list[str]]] = {}
    for engine in _engines(plan):
        for spelling in sorted(slots & engine["provenance"].keys()):
            found = engine["provenance"][spelling]
            told.setdefault(json.dumps([spelling, found]), (found, spelling, []))[2].append(engine["name"])
    if not told:
        return _unset(plan, name)
    return "\n\n".join("\n".join(_history(*row)) for row in told.values())


def _history(found: dict, spelling: str, engines: Sequence[str]) -> Iterator[str]:
    name = spelling.removeprefix("env:")
    yield f"{_setting(name, found['value'])}, on {several(engines)}"
    yield f"  set by {found['layer']}: {found['source']}"
    for old in reversed(found["replaced"]):
        yield f"  instead of {_setting(old.get('flag', name), old['value'])} from {old['layer']}: {old['source']}"


def _setting(name: str, value: str | None) -> str:
    if value is None:
        return f"{name} (taken away)"
    joint = " " if name.startswith("--") else "="
    return f"{name}{joint}{shlex.quote(value)}" if value else name


def _unset(plan: dict, name: str) -> str:
    names = {spelling.removeprefix("env:") for engine in _engines(plan) for spelling in engine["provenance"]}
    near = difflib.get_close_matches(name, names, n=1)
    meant = f"; did you mean {near[0]}?" if near else ""
    return f"{name}: no engine of this plan has it, so vLLM's own default holds{meant}"
