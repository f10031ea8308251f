# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the catalogue: facts in YAML, each kind with its JSON schema, and a site's overlay of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from string import Template

import jsonschema
import referencing
import yaml
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner import overlay
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.faults import Fault, suggest
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.reserved import layout_faults, secret_faults

KINDS = ("engines", "hardware", "models", "profiles", "fabrics", "features", "faults")
# Keys of a `when` that name an entry.
NAMED = {
    "hardware": "hardware",
    "profile": "profiles",
    "fabric": "fabrics",
    "model": "models",
    "feature": "features",
}
MANUAL = "see docs/en/catalogue.md"
# What a flag or a variable may refer to as $name; the planner knows each of them per engine.
PLACEHOLDERS = frozenset({
    "served_name", "replica_nodes", "replica_gpus", "node_gpus", "rank", "head_address",
    "tensor_size", "pipeline_size", "data_size", "data_local_size", "data_start_rank",
    "http_port", "master_port", "data_rpc_port", "side_channel_port",
    "fabric_address", "fabric_interface", "rdma_devices", "gid_index", "draft_model_path",
})  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """One catalogue file: `data` is what its schema says, `source` says where a flag came from."""

    kind: str
    name: str
    file: str
    data: dict

    def __getitem__(self, key: str):
        return self.data[key]

    def get(self, key: str):
        return self.data.get(key)

    @property
    def source(self) -> str:
        return f"{self.file} ({self.data['source']}, {self.data['date']})"


@dataclass(frozen=True)
class Catalogue:
    """All entries by kind and name, and what was wrong with the files."""

    entries: dict[str, dict[str, Entry]]
    faults: tuple[Fault, ...] = field(default=())

    def names(self, kind: str) -> list[str]:
        return sorted(self.entries[kind])

    def find(self, kind: str, name: object) -> Entry | None:
        return self.entries[kind].get(name) if isinstance(name, str) else None


def builtin_directory() -> Path:
    return Path(__file__).parents[3] / "catalogue"


def load(site_directory: Path | None = None, directory: Path | None = None) -> Catalogue:
    """Read the collection's catalogue and lay `<site_directory>/catalogue` over it.

    A site's file with a new name adds an entry; one with a known name replaces the keys it states, key by key where
    they are mappings (a list, such as `settings`, as a whole), and must say its own source and date.
    """
    directory = directory or builtin_directory()
    validators = _validators(directory / "schema")
    faults: list[Fault] = []
    entries: dict[str, dict[str, Entry]] = {kind: {} for kind in KINDS}
    for overlaid, place in ((False, directory), (True, site_directory and site_directory / "catalogue")):
        for entry in _read(place, "site catalogue" if overlaid else "catalogue", faults) if place else ():
            known = entries[entry.kind].get(entry.name)
            whole = replace(entry, data=overlay.laid(known.data if known else {}, entry.data))
            wrong = [*_check(validators[entry.kind], whole), *_unsourced(entry), *_forbidden(whole)]
            faults += wrong
            if not wrong:
                entries[entry.kind][entry.name] = whole
    strays = overlay.stray_faults(site_directory, KINDS) if site_directory else ()
    # Where a file is wrong, what refers to it is not.
    dangling = () if faults else (*_unknown_conditions(entries), *_unknown_references(entries))
    return Catalogue(entries, (*strays, *faults, *dangling))


def _unknown_references(entries: Mapping[str, Mapping[str, Entry]]) -> Iterator[Fault]:
    """Profiles and pools that hardware has layouts for, and features that others exclude, must be there."""
    for entry in entries["hardware"].values():
        for profile, pools in entry["layouts"].items():
            where = f"{entry.file}: $.layouts.{profile}"
            known = entries["profiles"].get(profile)
            if known is None:
                yield Fault(where, profile, "must be a profile", suggest(profile, entries["profiles"]))
            for pool in pools if known else ():
                if pool not in known["pools"]:
                    yield Fault(where, pool, f"{profile} has no such pool", suggest(pool, known["pools"]))
    for entry in entries["features"].values():
        for name in entry.get("excludes") or ():
            if name not in entries["features"]:
                where = f"{entry.file}: $.excludes"
                yield Fault(where, name, "must be a feature", suggest(name, entries["features"]))


def _unknown_conditions(entries: Mapping[str, Mapping[str, Entry]]) -> Iterator[Fault]:
    """What a `when` asks for by name must be an entry; the schema knows the values of its other keys."""
    known: dict[str, set] = {key: set(entries[kind]) for key, kind in NAMED.items()}
    known["generation"] = {entry["generation"] for entry in entries["hardware"].values()}
    for entry in (entry for found in entries.values() for entry in found.values()):
        for key, wanted in ((k, w) for when in _conditions(entry) for k, w in when.items() if k in known):
            names = wanted["not"] if isinstance(wanted, dict) else wanted
            for value in names if isinstance(names, list) else [names]:
                if value not in known[key]:
                    where = f"{entry.file}: $.settings.when.{key}"
                    yield Fault(where, value, "no engine would ever have it", suggest(value, known[key]))


def setting_blocks(entry: Entry) -> Iterator[Mapping]:
    """The settings of an entry, and those of a profile's pools."""
    pools = entry.data.get("pools", {}).values() if entry.kind == "profiles" else ()
    for settings in (entry.data.get("settings", []), *(pool.get("settings", []) for pool in pools)):
        yield from settings


def _conditions(entry: Entry) -> Iterator[Mapping]:
    """Every `when` of an entry: a gate's own, a feature's `only`, and those of its settings."""
    yield from (entry.data.get(key, {}) for key in ("when", "only"))
    yield from (block.get("when", {}) for block in setting_blocks(entry))


def _read(directory: Path, label: str, faults: list[Fault]) -> Iterator[Entry]:
    """Every YAML file under `directory`, unchecked; one that is no mapping becomes a fault."""
    for kind in KINDS:
        for path in sorted((directory / kind).glob("[!.]*.yml")):
            file = f"{label}/{kind}/{path.name}"
            try:
                content = yaml.safe_load(path.read_text(encoding="utf-8"))
            except yaml.YAMLError as error:
                faults.append(Fault(file, str(error), "must be YAML", "correct the file"))
                continue
            if isinstance(content, dict):
                yield Entry(kind, path.stem, file, _plain(content))
            else:
                faults.append(Fault(file, content, "must be a mapping", MANUAL))


def _forbidden(entry: Entry) -> Iterator[Fault]:
    """Sizes and ports are a profile's to set, and a secret is nobody's."""
    for block in setting_blocks(entry) if isinstance(entry.get("settings"), list) else ():
        for name in (*block.get("flags", {}), *block.get("env", {})):
            yield from secret_faults(f"{entry.file}: $.settings", name)
            if entry.kind not in ("engines", "profiles"):
                yield from layout_faults(f"{entry.file}: $.settings", name)


def _unsourced(entry: Entry) -> Iterator[Fault]:
    """An overlay does not inherit where its facts come from."""
    for word in ("source", "date"):
        if word not in entry.data:
            yield Fault(entry.file, None, f"every entry says its {word}", f"add `{word}:` to the file")


def _plain(value):
    """YAML turns 2026-11-30 into a date; the catalogue keeps text."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.isoformat() if isinstance(value, date) else value


def _validators(directory: Path) -> dict[str, jsonschema.Draft202012Validator]:
    documents = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in directory.glob("*.json")}
    registry = referencing.Registry().with_resources(
        (document["$id"], referencing.Resource.from_contents(document)) for document in documents.values()
    )
    return {kind: jsonschema.Draft202012Validator(documents[kind], registry=registry) for kind in KINDS}


def _check(validator: jsonschema.Draft202012Validator, entry: Entry) -> Iterator[Fault]:
    for error in sorted(validator.iter_errors(entry.data), key=lambda error: error.json_path):
        keys = ", ".join(map(str, error.instance)) if isinstance(error.instance, dict) else error.instance
        yield Fault(f"{entry.file}: {error.json_path}", keys, error.message, MANUAL)
    if entry.get("name") != entry.name:
        limit = f"must be the file's name, {entry.name}"
        yield Fault(f"{entry.file}: $.name", entry.get("name"), limit, "rename one of the two")
    for word in sorted(placeholders([entry.get("settings"), entry.get("pools")]) - PLACEHOLDERS):
        limit = f"settings may refer to {', '.join(sorted(PLACEHOLDERS))}"
        yield Fault(f"{entry.file}: $.settings", f"${word}", limit, "write one of these, or $$ for a plain $")


def placeholders(value: object) -> set[str]:
    """Every $name that occurs anywhere in `value`; a $ that names nothing comes back as itself."""
    if isinstance(value, dict):
        return set().union(*map(placeholders, value.values()))
    if isinstance(value, list):
        return set().union(*map(placeholders, value))
    if not isinstance(value, str):
        return set()
    template = Template(value)
    return set(template.get_identifiers()) | (set() if template.is_valid() else {"$"})
