# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks the types of variables, by a table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.faults import Fault

WORDS = {str: "text", int: "a whole number", bool: "true or false", list: "a list", dict: "a mapping"}


@dataclass(frozen=True)
class Unresolved:
    """A variable whose template failed, with the reason Ansible gave."""

    reason: str


@dataclass(frozen=True)
class Variable:
    """A variable's type, whether it must be there, and what it could look like."""

    kind: type
    example: str
    required: bool = True
    default: object = None
    per_pool: bool = False  # or a mapping with one value for each pool


def read(table: Mapping[str, Variable], variables: Mapping, node: str = "") -> tuple[dict, list[Fault]]:
    """({name: value, or the default where it is missing or wrong}, faults)."""
    values, faults = {}, []
    for name, expected in table.items():
        value = variables.get(name)
        fault = _judge(name, expected, "" if value is None and name in variables else value, node)
        values[name] = expected.default if value is None or fault else value
        faults += [fault] if fault else []
    return values, faults


def _judge(name: str, expected: Variable, value: object, node: str) -> Fault | None:
    """`value` is None for a variable that nobody declares, "" for one without a value."""
    remedy = f"write {name}: {expected.example}"
    if isinstance(value, Unresolved):
        return Fault(name, value.reason, "its template must resolve", f"define what it uses, or {remedy}", node)
    if value is None or value == "":
        needed = expected.required and expected.default is None
        limit = "must be declared" if value is None else "must have a value"
        return Fault(name, value, limit, remedy, node) if needed else None
    if expected.per_pool and isinstance(value, dict):
        wrong = next((item for item in value.values() if type(item) is not expected.kind), None)
        if value and wrong is None:
            return None
        limit = f"must be {WORDS[expected.kind]}, or one for each pool"
        return Fault(name, value, limit, f"write {name}: {{prefill: 1, decode: 2}}", node)
    if type(value) is not expected.kind:  # a bool is an int to Python, not to a site
        if expected.kind is int and not quoting(int, value):
            remedy = f"write a whole number, such as {name}: {expected.example}"
        return Fault(name, value, f"must be {WORDS[expected.kind]}{quoting(expected.kind, value)}", remedy, node)
    return None


def quoting(kind: type, value: object) -> str:
    """YAML reads 0.29 as a number and "8" as text; say so where that is the slip."""
    if kind is str and isinstance(value, (int, float)):
        return ", so put it in quotes"
    unquoted = {int: r"[+-]?\d+", bool: r"(?i:true|false)"}.get(kind)
    slip = unquoted and isinstance(value, str) and re.fullmatch(unquoted, value.strip())
    return ", so leave the quotes out, or with -e write -e '{name: value}'" if slip else ""


def plain(value):
    """The plain data that subclasses of it stand for, such as Ansible's lazy and tagged ones."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if value is None or isinstance(value, bool):
        return value
    for kind in (int, float):
        if isinstance(value, kind):
            return kind(value)
    return str(value)
