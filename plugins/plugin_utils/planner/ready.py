# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A replica with all that its engines are given, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner import (
    alternatives,
    gates,
    memory,
    overrides,
    sharding,
)
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.arguments import Arguments, missing_faults
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.catalogue import Catalogue, Entry
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.faults import Fault
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.layout import Engine, Replica
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.site import Site


@dataclass(frozen=True)
class Ready:
    """A replica, for each of its engines the arguments and the gates that hold, and the memory of its fullest GPU."""

    replica: Replica
    engines: tuple[tuple[Engine, Arguments, list[Entry]], ...]
    memory: memory.Memory | None

    @property
    def head(self) -> Arguments:
        return self.engines[0][1]


def judge(site: Site, replica: Replica, catalogue: Catalogue) -> Ready:
    engines = tuple((engine, *gates.judge(site, engine, catalogue)) for engine in replica.engines())
    return Ready(replica, engines, memory.count(site, replica, engines[0][1]))


def _bytes_faults(site: Site, row: Ready) -> Iterator[Fault]:
    """Where the parts of a checkpoint are not known, its bytes are: split evenly, they are the least that is needed."""
    usable, size = row.replica.hardware.get("gpu_memory_gib"), site.model["bytes"]
    least = size / row.replica.gpus / memory.GIB if usable and size and not row.memory else 0
    if least and least > usable:
        value = f"{row.replica.parallel}: {least:.1f} GiB of weights per GPU at least"
        limit = f"one {row.replica.hardware.name} has {usable:g} GiB"
        yield Fault("serving_profile", value, limit, "give a replica more nodes, or choose other hardware")


def misfit_faults(site: Site, ready: Sequence[Ready], catalogue: Catalogue) -> Iterator[Fault]:
    """What only shows once sound nodes stand in replicas."""
    for rows in _alike(ready).values():
        yield from _size_faults(site, rows, catalogue)
    for row in ready:
        yield from _bytes_faults(site, row)
        for engine, arguments, _gates in row.engines:
            yield from missing_faults(site, engine)
            yield from overrides.fixed_faults(site, engine, arguments)


def _alike(ready: Sequence[Ready]) -> dict[tuple, list[Ready]]:
    """Replicas of one pool and hardware: what is wrong with the size of one is wrong with all."""
    found: dict[tuple, list[Ready]] = {}
    for row in ready:
        found.setdefault((row.replica.pool, row.replica.hardware.name, row.replica.parallel), []).append(row)
    return found


def _size_faults(site: Site, rows: Sequence[Ready], catalogue: Catalogue) -> Iterator[Fault]:
    """Sizes that do not divide, else memory that does not suffice; layouts that would do are looked for only then."""
    row = rows[0]
    for check in (
        lambda others: sharding.faults(site, row.replica, row.head, others),
        lambda others: memory.faults(row.replica, row.memory, row.head, others) if row.memory else (),
    ):
        if any(check("")):
            nodes = [node for other in rows for node in other.replica.nodes]
            yield from check(alternatives.named(site, row.replica.pool, nodes, catalogue))
            return
