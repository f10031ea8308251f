# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan as text: a picture of the replicas, a table, warnings, and each command line."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.faults import several

WIDTH = 110


def render(plan: dict, full: bool = True) -> str:
    """A sound plan for a terminal; `full` adds the command line of every engine."""
    parts = ["\n".join(_title(plan)), *_pools(plan), "\n".join(_table(plan)), *_notes(plan)]
    if full:
        parts += [command(engine, plan["image"]["reference"]) for engine in _engines(plan)]
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
    container = " ".join(engine["container"]["arguments"])
    return f"{head}\n  in {image}\n  with {container}\n\n    " + " \\\n      ".join(words)


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
        boxes = [_box(replica, [engines[name] for name in replica["engines"]]) for replica in replicas]
        title = f"Pool {pool}: {_count(replicas, 'replica')} on {_count(nodes, 'node')}, {gpus} GPUs"
        yield "\n".join([title, *_side_by_side(boxes)])


def _count(things: Sequence, word: str) -> str:
    return f"{len(things)} {word}{'' if len(things) == 1 else 's'}"


def _box(replica: dict, engines: Sequence[dict]) -> list[str]:
    """One replica as a box with a row for each of its nodes."""
    rows = [f"{e['node']}  rank {e['rank']}  {e['hardware']['gpus']} x {e['hardware']['model']}" for e in engines]
    title, foot = f" {replica['name']} ", f" {replica['endpoint']} "
    width = max(map(len, [*rows, title, foot])) + 2
    return [
        f"┌{title:─<{width}}┐",
        *(f"│ {row:<{width - 2}} │" for row in rows),
        f"└{foot:─>{width}}┘",
    ]


def _side_by_side(boxes: Sequence[list[str]]) -> Iterator[str]:
    """Boxes in rows, as many as fit; shorter ones are filled up with blanks."""
    row: list[list[str]] = []
    for box in [*boxes, None]:
        if row and (box is None or sum(len(other[0]) + 2 for other in row) + len(box[0]) > WIDTH):
            for n in range(max(map(len, row))):
                yield "  " + "  ".join(o[n] if n < len(o) else " " * len(o[0]) for o in row).rstrip()
            row = []
        row.append(box or [])


def _table(plan: dict) -> Iterator[str]:
    rows = [("replica", "rank", "node", "role", "address", "listens on", "ready within")]
    for engine in _engines(plan):
        ports = ", ".join(f"{name} {port}" for name, port in engine["ports"].items()) or "-"
        rank, ready = str(engine["rank"]), f"{engine['ready_seconds']} s"
        rows.append((engine["replica"], rank, engine["node"], engine["role"], engine["address"], ports, ready))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def _notes(plan: dict) -> Iterator[str]:
    """Warnings, and apart from them what only a deployment minds."""
    late = plan["deploy_refusals"]
    early = [fault for fault in plan["warnings"] if fault not in late]
    for title, faults in (("Warnings", early), ("deploy.yml will refuse this site", late)):
        if faults:
            yield "\n".join([f"{title}:", *_lines(faults)])
