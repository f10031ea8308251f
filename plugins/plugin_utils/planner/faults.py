# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with a site, said so that it can be put right."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One thing that a site must change, or should know of.

    `variable` is the inventory variable or group it comes from, `node` the host that carries it
    (empty: the whole site), `value` what was found (None: nothing), `limit` what is allowed and
    `remedy` what to write instead.
    """

    variable: str
    value: object
    limit: str
    remedy: str
    node: str = ""

    @property
    def where(self) -> str:
        return f"{self.node}.{self.variable}" if self.node else self.variable

    def as_dict(self) -> dict:
        return {"where": self.where, "value": bare(self.value), "limit": bare(self.limit), "remedy": self.remedy}


def bare(value: object) -> object:
    """The same without user and password of any URL in it: what is wrong is printed."""
    if isinstance(value, dict):
        return {key: bare(item) for key, item in value.items()}
    if isinstance(value, list):
        return [bare(item) for item in value]
    return re.sub(r"(?<=://)[^/\s'\"]*@", "", value) if isinstance(value, str) else value


def natural(name: str) -> tuple:
    """Sort key under which node-2 comes before node-10."""
    pieces = re.split(r"(\d+)", name)
    return [int(piece) if piece.isdecimal() else piece for piece in pieces], name


def as_dicts(faults: Iterable[Fault]) -> list[dict]:
    """Each fault once: the site's own first, then node by node."""
    found = {json.dumps(fault.as_dict(), default=str): fault for fault in faults}
    ordered = sorted(found.items(), key=lambda item: (natural(item[1].node), item[1].where, item[0]))
    return [fault.as_dict() for _key, fault in ordered]


def known(names: Iterable[str]) -> str:
    return ", ".join(sorted(names, key=natural)) or "none"


def several(names: Sequence[str]) -> str:
    """All names of a short list, the ends of a long one."""
    if len(names) <= 4:
        return ", ".join(names)
    return f"{', '.join(names[:3])} and {len(names) - 3} more up to {names[-1]}"


def suggest(value: object, names: Iterable[str]) -> str:
    """The remedy for a name that is not one of `names`."""
    names = list(names)
    near = difflib.get_close_matches(str(value), names, n=1)
    return f"did you mean {near[0]}? Known: {known(names)}" if near else f"write one of: {known(names)}"


def edit_distance(left: str, right: str, limit: int) -> int:
    """Levenshtein distance; anything above `limit` comes back as limit + 1."""
    if abs(len(left) - len(right)) > limit:
        return limit + 1
    row = list(range(len(right) + 1))
    for i, one in enumerate(left, start=1):
        above, row[0] = row[:], i
        for j, other in enumerate(right, start=1):
            row[j] = min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (one != other))
        if min(row) > limit:
            return limit + 1
    return row[-1]
