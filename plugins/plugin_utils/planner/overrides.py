# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a site may say in serving_overrides, and what it may not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.arguments import (
    LENGTH,
    OVERRIDES,
    READY,
    Arguments,
    blocks,
    filled,
    merged,
    slot,
    text,
)
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.catalogue import (
    Catalogue,
    Entry,
    placeholders,
    setting_blocks,
)
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.conditions import placeholder_values, within
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.faults import Fault
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.layout import Engine
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.reserved import (
    computed_fault,
    layout_faults,
    secret_faults,
)
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.site import Site

FLAG = re.compile(r"--[a-z][a-z0-9]*(-[a-z0-9]+)*(\.[\w.-]+)?")
NAME = re.compile(r"[A-Z_][A-Z0-9_]*")
# moonshotai/Kimi-K3, where an absolute path was meant.
REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
# Flags that memory is counted with, or that a gate compares, and how their values are written.
UTILIZATION, WHOLE = "--gpu-memory-utilization", r"[1-9]\d{0,9}"
COUNTED = {
    UTILIZATION: r"1|1\.0*|0?\.\d*[1-9]\d*",
    LENGTH: rf"auto|-1|{WHOLE}",
    "--max-num-seqs": WHOLE,
    "--max-num-batched-tokens": WHOLE,
    "--decode-context-parallel-size": WHOLE,
}


def override_faults(site: Site, catalogue: Catalogue) -> Iterator[Fault]:
    """The shape of serving_overrides, and what a site may not override."""
    overrides, kinds = site[OVERRIDES], flag_kinds(catalogue)
    for key in sorted(set(overrides) - {"flags", "env"}, key=str):
        yield Fault(OVERRIDES, key, "has flags and env, nothing else", "move it under one of them")
    for key in ("flags", "env"):
        if not isinstance(overrides.get(key) or {}, dict):
            yield Fault(f"{OVERRIDES}.{key}", overrides[key], "must be a mapping", "write {} for none")
        else:
            for name, value in (overrides.get(key) or {}).items():
                yield from _entry_faults(site, kinds, key, name, value)


def without_wrong_ones(site: Site, catalogue: Catalogue) -> Site:
    """The site with those overrides alone that no fault was found in, so that the rest of it can be judged."""
    kept, kinds = {}, flag_kinds(catalogue)
    for key in ("flags", "env"):
        given = site[OVERRIDES].get(key)
        rows = given.items() if isinstance(given, dict) else ()
        kept[key] = {name: value for name, value in rows if not any(_entry_faults(site, kinds, key, name, value))}
    return replace(site, values={**site.values, OVERRIDES: kept})


def _entry_faults(site: Site, kinds: Mapping[str, type], key: str, name: object, value: object) -> Iterator[Fault]:
    where = f"{OVERRIDES}.{key}.{name}"
    yield from (_flag_faults if key == "flags" else _env_faults)(where, name, value)
    yield from _kind_faults(where, value, kinds.get(str(name))) if key == "flags" else ()
    yield from _reserved(site, where, name)
    yield from _gone(site, where, name)
    yield from secret_faults(where, str(name))


def _flag_faults(where: str, name: object, value: object) -> Iterator[Fault]:
    if not isinstance(name, str) or not FLAG.fullmatch(name):
        yield Fault(where, name, "a flag is written --like-this, in its long form", "see `vllm serve --help=all`")
    if value is False or value == "":
        yield Fault(where, value, "true is a bare flag, null takes one away", "write null, or true with --no-...")
    if name in COUNTED and value is not None and not re.fullmatch(COUNTED[name], str(value)):
        limit = "the plan counts with it, so it must be a number that vLLM takes"
        yield Fault(where, value, limit, f"write it in digits, such as {0.9 if name == UTILIZATION else 8192}")
    for repo in sorted(filter(REPO.fullmatch, _texts(value))):
        limit = "an engine never calls out, so the name of a repository leads nowhere"
        yield Fault(where, repo, limit, "bring it to the nodes and write its absolute path")


def flag_kinds(catalogue: Catalogue) -> dict[str, type]:
    """{flag: bool (bare), dict or str} for the flags that the catalogue sets, as it writes them."""
    entries = [entry for found in catalogue.entries.values() for entry in found.values()]
    given = [pair for entry in entries for block in setting_blocks(entry) for pair in block.get("flags", {}).items()]
    return {flag: type(value) if isinstance(value, (bool, dict)) else str for flag, value in given if value is not None}


def _kind_faults(where: str, value: object, kind: type | None) -> Iterator[Fault]:
    """A value of another shape than the flag has; text that was meant as JSON and is none."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            json.loads(value)
        except ValueError as error:
            yield Fault(where, value, f"must be JSON: {error}", "write an object of YAML instead of text")
    elif kind is bool and value not in (True, False, None):
        yield Fault(where, value, "is a bare flag", "write true, or null to take it away")
    elif kind is dict and not isinstance(value, (dict, type(None))):
        yield Fault(where, value, "takes an object", "write its keys, such as {mode: 3}")
    elif kind is str and isinstance(value, (dict, list)):
        yield Fault(where, value, "takes one value", "write text or a number")


def _texts(value: object) -> set[str]:
    """Every text in a flag's value, the names of an object's keys apart."""
    if isinstance(value, dict):
        return set().union(*map(_texts, value.values()))
    if isinstance(value, list):
        return set().union(*map(_texts, value))
    return {value} if isinstance(value, str) else set()


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
    if isinstance(name, str) and slot(name) in computed:
        yield computed_fault(where, name)
    else:
        yield from layout_faults(where, str(name))


def fixed_faults(site: Site, engine: Engine, arguments: Arguments) -> Iterator[Fault]:
    """Settings that the catalogue calls fixed, and that something laid over them has changed."""
    known = placeholder_values(site, engine)
    for _layer, entry, block in blocks(site, engine):
        for kind, prefix in (("flags", ""), ("env", "env:")) if block.get("fixed") else ():
            for name, value in block.get(kind, {}).items():
                wanted, setting = filled(value, known), arguments.settings[slot(f"{prefix}{name}")]
                equal = text(setting.given) == text(wanted) or merged(setting.given, wanted) == setting.given
                if setting.spelling != f"{prefix}{name}" or not equal:
                    written = setting.spelling.removeprefix("env:")
                    where = f"{OVERRIDES}.{kind}.{written}" if setting.layer == "site" else f"{entry.file}: {written}"
                    yield Fault(where, setting.value, f"{entry.file}: {block['why']}", "leave it out")


def _gone(site: Site, where: str, name: object) -> Iterator[Fault]:
    """What this version of the engine no longer reads; it would be ignored, or stop the start."""
    version = site.image.comparable if site.image else None
    for row in site.engine["gone"] if version else ():
        if row["name"] == name and within(version, {"from": row["since"]}):
            limit = f"{site.engine.name} knows it no longer since {row['since']}, and the image holds {version}"
            yield Fault(where, name, limit, row["instead"])


def _computed(entry: Entry) -> Iterator[str]:
    """Names whose value the layout decides: those with a $name, or set for some engines of a replica only."""
    for block in setting_blocks(entry):
        by_role = not block.get("when", {}).keys().isdisjoint(("role", "serves"))
        for name, value in {**block.get("flags", {}), **block.get("env", {})}.items():
            if by_role or placeholders(value):
                yield name
