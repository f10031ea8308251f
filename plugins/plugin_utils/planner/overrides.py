# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a site may say in serving_overrides, and what it may not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.arguments import LENGTH, OVERRIDES, READY, slot
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.catalogue import Entry, placeholders
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.conditions import within
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.faults import Fault
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.site import Site

FLAG = re.compile(r"--[a-z][a-z0-9]*(-[a-z0-9]+)*(\.[\w.-]+)?")
NAME = re.compile(r"[A-Z_][A-Z0-9_]*")
SECRET = re.compile(r"(^|[-_])(token|secret|password|api-key|api_key)s?($|[-_])", re.IGNORECASE)
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
LAYOUT = re.compile(r"--(no-)?(tensor-parallel|pipeline-parallel|data-parallel|enable-expert-parallel)")


def override_faults(site: Site) -> Iterator[Fault]:
    """The shape of serving_overrides, and what a site may not override."""
    overrides = site[OVERRIDES]
    for key in sorted(set(overrides) - {"flags", "env"}, key=str):
        yield Fault(OVERRIDES, key, "has flags and env, nothing else", "move it under one of them")
    for key in ("flags", "env"):
        if not isinstance(overrides.get(key) or {}, dict):
            yield Fault(f"{OVERRIDES}.{key}", overrides[key], "must be a mapping", "write {} for none")
        else:
            for name, value in (overrides.get(key) or {}).items():
                yield from _entry_faults(site, key, name, value)


def without_wrong_ones(site: Site) -> Site:
    """The site with those overrides alone that no fault was found in, so that the rest of it can be judged."""
    kept = {}
    for key in ("flags", "env"):
        given = site[OVERRIDES].get(key)
        rows = given.items() if isinstance(given, dict) else ()
        kept[key] = {name: value for name, value in rows if not any(_entry_faults(site, key, name, value))}
    return replace(site, values={**site.values, OVERRIDES: kept})


def _entry_faults(site: Site, key: str, name: object, value: object) -> Iterator[Fault]:
    where = f"{OVERRIDES}.{key}.{name}"
    yield from (_flag_faults if key == "flags" else _env_faults)(where, name, value)
    yield from _reserved(site, where, name)
    yield from _gone(site, where, name)
    if SECRET.search(str(name)):
        limit = "a plan is printed and kept, so it holds no secret"
        yield Fault(where, None, limit, "leave it out; the gateway checks keys")


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
    if isinstance(name, str) and (slot(name) in computed or LAYOUT.match(name)):
        remedy = "leave it out; the inventory and serving_profile decide it"
        yield Fault(where, name, "the plan computes it, and other parts rely on it", remedy)


def _gone(site: Site, where: str, name: object) -> Iterator[Fault]:
    """What this version of the engine no longer reads; it would be ignored, or stop the start."""
    version = site.image.comparable if site.image else None
    for row in site.engine["gone"] if version else ():
        if row["name"] == name and within(version, {"from": row["since"]}):
            limit = f"{site.engine.name} knows it no longer since {row['since']}, and the image holds {version}"
            yield Fault(where, name, limit, row["instead"])


def _computed(entry: Entry) -> Iterator[str]:
    """Names whose value the layout decides: those with a $name, or set for some engines of a replica only."""
    pools = (entry.get("pools") or {}).values()
    for block in (
        block for settings in (entry["settings"], *(p.get("settings", []) for p in pools)) for block in settings
    ):
        by_role = not block.get("when", {}).keys().isdisjoint(("role", "serves"))
        for name, value in {**block.get("flags", {}), **block.get("env", {})}.items():
            if by_role or placeholders(value):
                yield name
