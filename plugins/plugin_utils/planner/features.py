# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which features go together, and where each is offered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.conditions import conditions, holds
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.faults import Fault
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.layout import Replica
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.site import Site

VARIABLE = "serving_features"


def exclusion_faults(site: Site) -> Iterator[Fault]:
    """Pairs that exclude each other, each once, whichever of the two says so."""
    names = {feature.name for feature in site.features}
    pairs = {tuple(sorted((one.name, other))) for one in site.features for other in one.get("excludes") or ()}
    for one, other in sorted(pairs):
        if {one, other} <= names:
            yield Fault(VARIABLE, f"{one}, {other}", "these two do not go together", "take one of them out")


def place_faults(site: Site, replicas: Sequence[Replica]) -> Iterator[Fault]:
    """Features that are not offered on this hardware, profile, fabric or engine version."""
    for feature in site.features:
        only = feature.get("only") or {}
        for replica in replicas:
            facts = conditions(site, replica.engines()[0])
            for key in sorted(key for key, wanted in only.items() if not holds(facts, {key: wanted})):
                limit = f"is for {key} {_words(only[key])}, and {replica.name} has {_words(facts[key])}"
                yield Fault(VARIABLE, feature.name, limit, "take it out, or change what it needs")
                break
            else:
                continue
            break


def _words(value: object) -> str:
    if isinstance(value, dict):
        return " ".join(f"{'from' if key == 'from' else 'before'} {version}" for key, version in value.items())
    return ", ".join(map(str, value)) if isinstance(value, (list, set)) else str(value)
