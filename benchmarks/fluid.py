# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent's own scheduler, one per node, on links that carry bytes like a fluid.

Assumes: links share their rate evenly among streams and lose nothing; the switch between the nodes is never the limit;
news of a node reaches all others after one step; nobody fails; a disk and a processor keep up with the given rate of
one stream. A node that reads a file while its source still receives it is one step behind, and gets the last byte when
the source has all.
"""

from __future__ import annotations

import importlib
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from benchmarks.processes import Failed

ORIGIN = "origin"
ROUNDS = 6
SLOWEST = 50  # times the limit: then something is wrong


def scheduler_maker(agent: Path) -> Callable[..., object]:
    """What makes a node's scheduler out of its name, all names, sizes and a source of chance."""
    package = sys.modules["measured"] = ModuleType("measured")
    package.__path__ = [str(agent.parent)]
    scheduler = importlib.import_module(f"measured.{agent.name}.scheduler").Scheduler
    config = importlib.import_module(f"measured.{agent.name}.config").Config
    nowhere = Path("/nonexistent")

    def make(name: str, names: Sequence[str], sizes: Sequence[int], chance: random.Random) -> object:
        about = {"node": name, "nodes": dict.fromkeys(names, ""), "wan_nodes": tuple(names)}
        return scheduler(config(nowhere, nowhere, nowhere, nowhere, (), **about), sizes, [ORIGIN], 0.0, chance)

    return make


@dataclass
class Links:
    """Bytes per second of the site link, of a node's link in each direction, and of one stream.

    `streams`: how many of the origin a node has at once. `uneven`: so much more or less than its share does a node get
    of the site link; 0.5 is from half to one and a half.
    """

    wan: float
    lan: float
    stream: float
    streams: int = 3
    uneven: float = 0


@dataclass(eq=False)
class Flow:
    """One file on its way to one node."""

    job: object
    node: int
    source: int | None  # None: the origin
    weight: float
    want: float = 0


@dataclass
class Outcome:
    """What a simulation gave; multiples of the model's size."""

    seconds: float
    wan: float
    uplinks: tuple[float, ...] = field(default=())


class Site:
    """All nodes, in steps of time."""

    def __init__(self, agent: Path, count: int, sizes: Sequence[int], links: Links, step: float):
        self._sizes, self._links, self._step, self._now = sizes, links, step, 0.0
        self._names = [f"node{number}" for number in range(count)]
        self._place = {name: number for number, name in enumerate(self._names)}
        self._most = max(32, min(128, links.streams * count))  # as the agent has it
        make, chance = scheduler_maker(agent), random.Random(count)
        self._nodes = [make(name, self._names, sizes, random.Random(n)) for n, name in enumerate(self._names)]
        self._luck = [chance.uniform(1 - links.uneven, 1 + links.uneven) for _ in self._names]
        self._got = [[0.0] * len(sizes) for _ in self._names]
        self._flows: list[Flow] = []
        self._news = set(range(count))
        self._sent: Counter[int | None] = Counter()
        self._left = count * len(sizes)

    def run(self) -> Outcome:
        """Let time pass until every node has every file."""
        deadline = SLOWEST * sum(self._sizes) / min(self._links.wan, self._links.lan)
        while self._left:
            if self._now > deadline:
                raise Failed(f"{self._left} files are missing after {self._now:.0f} s: the scheduler goes in circles")
            self._tell()
            self._pick()
            self._move()
            self._now += self._step
            self._finish()
        size = sum(self._sizes)
        uplinks = tuple(self._sent[number] / size for number in range(len(self._names)))
        return Outcome(self._now, self._sent[None] / size, uplinks)

    def _tell(self) -> None:
        for number in self._news:
            have, name = self._nodes[number].have(self._now), self._names[number]
            for other, node in enumerate(self._nodes):
                if other != number:
                    node.saw(name, have, self._now)
        for node in self._nodes:
            # Who has no news is heard too: the agent's long poll answers every few seconds.
            node.seen = dict.fromkeys(node.seen, self._now)
        self._heard = bool(self._news)
        self._news = set()

    def _pick(self) -> None:
        if not self._heard:
            return
        for number, node in enumerate(self._nodes):
            before = len(self._flows)
            for job in self._jobs(node):
                weight = self._luck[number] if job.source == ORIGIN else 1
                self._flows.append(Flow(job, number, self._place.get(job.source), weight))
            if len(self._flows) > before:
                self._news.add(number)

    def _jobs(self, node: object) -> Iterator[object]:
        """As the agent does: its streams of the origin first, then those of other nodes."""
        free = self._links.streams - sum(source == ORIGIN for source in node.active.values())
        while free > 0 and (job := node.pick_origin(self._now)):
            free -= 1
            yield job
        while len(node.active) < self._most and (job := node.pick_peer(self._now)):
            yield job

    def _move(self) -> None:
        """Share the links of this step among the flows, in rounds: what one does not use others get."""
        room: dict[object, float] = {None: self._links.wan * self._step}
        for number in range(len(self._names)):
            room["up", number] = room["down", number] = self._links.lan * self._step
        most = self._links.stream * self._step
        for flow in self._flows:
            flow.want = min(most, self._available(flow) - self._got[flow.node][flow.job.index])
        wanting = [flow for flow in self._flows if flow.want > 0]
        for _ in range(ROUNDS):
            moved = _share(wanting, room)
            for flow, amount in moved:
                self._got[flow.node][flow.job.index] += amount
                self._sent[flow.source] += amount
            wanting = [flow for flow in wanting if flow.want > 1]
            if not wanting:
                break

    def _available(self, flow: Flow) -> float:
        """How much of its file a flow's source holds."""
        size = self._sizes[flow.job.index]
        if flow.source is None or flow.job.index in self._nodes[flow.source].whole:
            return size
        return min(self._got[flow.source][flow.job.index], size - 1)

    def _finish(self) -> None:
        going = []
        for flow in self._flows:
            # Rounding: less than half a byte is no byte.
            if self._got[flow.node][flow.job.index] >= self._sizes[flow.job.index] - 0.5:
                self._nodes[flow.node].ended(flow.job, self._now, True)
                self._news.add(flow.node)
                self._left -= 1
            else:
                going.append(flow)
        self._flows = going


def _ends(flow: Flow) -> tuple[object, object]:
    return (None if flow.source is None else ("up", flow.source)), ("down", flow.node)


def _share(flows: list[Flow], room: dict[object, float]) -> list[tuple[Flow, float]]:
    """Give each flow the least of its shares of both its links and what it wants."""
    users: Counter[object] = Counter()
    for flow in flows:
        for end in _ends(flow):
            users[end] += flow.weight
    even = {end: room[end] / users[end] for end in users}
    moved = []
    for flow in flows:
        out, into = _ends(flow)
        amount = min(even[out] * flow.weight, even[into] * flow.weight, flow.want)
        flow.want -= amount
        room[out] -= amount
        room[into] -= amount
        moved.append((flow, amount))
    return moved
