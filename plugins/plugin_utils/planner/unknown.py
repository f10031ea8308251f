# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the catalogue does not know, said by name: facts of a model that a plan needs, and memory left uncounted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.catalogue import Entry
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.faults import Fault

# A key of a model: what to write for it.
FACTS = {
    "repo": "owner/name, as the hub has it",
    "licence": "{name: ..., text: what someone accepts}",
    "commits": "[{commit: 40 hex digits, note: ...}]",
    "files": "how many the commit has",
    "bytes": "the sum of the files' sizes, as the hub lists them for the commit",
    "shapes": "all keys that kimi-k3.yml has, from its config.json",
    "composition": "bytes by part, from the headers of its shards, as in kimi-k3.yml",
    "minimum_engine_version": "the oldest version of the engine that serves it",
}


def missing(model: Entry | None) -> list[str]:
    """The keys that a model's row lists as unknown, and that no site has declared since."""
    return [key for key in model.get("unknown") or () if not model.get(key)] if model else []


def model_faults(model: Entry | None, wrong: Iterable[Fault]) -> Iterator[Fault]:
    """Each fact that is wanting, and the file in which a site declares it; nothing where that file is wrong itself."""
    declared = model and any(fault.variable.startswith(f"site {_file(model)}") for fault in wrong)
    for key in missing(model) if not declared else ():
        limit = f"a plan needs {key} of the model, which the catalogue does not know ({model['source']})"
        remedy = f"write {key}: {FACTS[key]}, in your site's {_file(model)}, with source and date"
        yield Fault("serving_model", model.name, limit, remedy)


def _file(model: Entry) -> str:
    return f"catalogue/models/{model.name}.yml"


def memory_warnings(model: Entry, uncounted: Iterable[Entry]) -> Iterator[Fault]:
    """One for each kind of GPU on which nothing was counted; processors have no such memory."""
    for hardware in {row.name: row for row in uncounted if row["accelerator"] != "cpu"}.values():
        if hardware.get("gpu_memory_gib"):
            entry, key = model, "composition"
        else:
            entry, key = hardware, "gpu_memory_gib"
        limit = f"memory of {hardware.name} was not counted; the catalogue does not know {key} of {entry.name}"
        place = f"your site's catalogue/{entry.kind}/{entry.name}.yml"
        remedy = f"write {key} in {place}, or let a start show whether it fits"
        yield Fault("serving_model", model.name, limit, remedy)
