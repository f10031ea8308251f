# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which file next, and from whom: pure decisions, no I/O, no threads, no clock of its own.

Every file has an *owner*, that hands it to all others, and a *fetcher*, that brings it over the site's link: the owner
itself where it may. A file still on its way is handed on already: fetcher to owner to the others, never back. All nodes
decide alone, by the same rules, from what the others say of themselves (`Have`): a false belief costs bytes, no more.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

# So often may a source have had a part in wrong bytes of a file before it is not asked for that file again.
STRIKES = 3
_LONGEST_PAUSE_SECONDS = 15
# So long a new agent waits to hear what the others have before it uses the site's link.
_HELLO_SECONDS = 2


@dataclass(frozen=True)
class Have:
    """What a node says of itself; files by their place in the manifest. `growing`: the node each comes from, or ""."""

    whole: frozenset[int] = frozenset()
    growing: dict[int, str] = field(default_factory=dict)
    given_up: frozenset[int] = frozenset()  # no origin of that node gives it these
    settled: str = ""  # complete or failed: it wants nothing more
    sending: int = 0
    bytes: int = 0

    @classmethod
    def read(cls, data: dict, files: int) -> Have:
        """Read what came from another node; raise ValueError where it names a file that the manifest has not."""
        whole, given_up = frozenset(map(int, data["whole"])), frozenset(map(int, data["given_up"]))
        growing = {int(number): str(source) for number, source in data["growing"].items()}
        if not all(0 <= number < files for number in {*whole, *growing, *given_up}):
            raise ValueError(data)
        return cls(whole, growing, given_up, str(data["settled"]), int(data["sending"]), int(data["bytes"]))


@dataclass(frozen=True)
class Job:
    """Get one file from one source: an origin's name, or a node's."""

    index: int
    source: str


@dataclass
class _Trouble:
    since: float
    last: float = 0
    tries: int = 0
    until: float = 0


def assign(nodes: Sequence[str], wan_nodes: Sequence[str], sizes: Sequence[int]) -> tuple[list[str], list[str]]:
    """(owner, fetcher) of each file: largest first, each to whom that leaves with the least to send."""
    load: dict[str, int] = dict.fromkeys(nodes, 0)
    brought: dict[str, int] = dict.fromkeys(wan_nodes, 0)
    owners, fetchers = [""] * len(sizes), [""] * len(sizes)
    others = len(nodes) - 1
    for index in sorted(range(len(sizes)), key=lambda index: (-sizes[index], index)):
        size = sizes[index]
        # An owner off the link gets the file from its fetcher, which is one less to send to.
        cost = {node: load[node] + size * (others - (node not in brought)) for node in nodes}
        owner = min(nodes, key=lambda node: (cost[node], brought.get(node, 0)))
        fetcher = owner if owner in brought else min(wan_nodes, key=lambda node: load[node])
        load[owner] = cost[owner]
        brought[fetcher] += size
        if fetcher != owner:
            load[fetcher] += size
        owners[index], fetchers[index] = owner, fetcher
    return owners, fetchers


class Scheduler:
    """The decisions of one node. Not safe for threads: the caller holds a lock."""

    def __init__(
        self,
        node: str,
        nodes: Sequence[str],
        wan_nodes: Sequence[str],
        sizes: Sequence[int],
        origins: Sequence[str],
        now: float,
        silence: float = 30,
        patience: float = 900,
        rng: random.Random | None = None,
    ):
        self.node, self._sizes, self._origins = node, sizes, origins
        self._wan, self._silence, self._patience = list(wan_nodes), silence, patience
        self._random = rng or random.Random()
        self._owners, self._fetchers = assign(nodes, wan_nodes, sizes)
        rank = {name: number for number, name in enumerate(nodes)}
        # Own files first, then those of the next node, so that not all ask the same one first.
        turn = [(rank[owner] - rank[node]) % len(nodes) for owner in self._owners]
        self._order = sorted(range(len(sizes)), key=lambda index: (turn[index], -sizes[index], index))
        self._by_size = sorted(range(len(sizes)), key=lambda index: (-sizes[index], index))
        self.whole: set[int] = set()
        self.held: set[int] = set()  # there, but not known to be right: not to be fetched yet
        self.active: dict[int, str] = {}
        self.peers: dict[str, Have] = {}
        self.seen, self._start = {name: now for name in nodes if name != node}, now
        self._holders: list[set[str]] = [set() for _ in sizes]
        self._growers: list[set[str]] = [set() for _ in sizes]
        self._streams: Counter[str] = Counter()
        self._trouble: dict[str | Job, _Trouble] = {}
        self._banned: dict[Job, str] = {}
        self._strikes: Counter[Job] = Counter()
        self._waits: dict[int, float] = {}
        self._said: dict[str, str] = {}

    # What happens

    def saw(self, peer: str, have: Have, now: float) -> None:
        """Take in what another node says of itself."""
        before = self.peers.get(peer, Have())
        for index in {*before.whole, *before.growing, *have.whole, *have.growing}:
            for table, there in ((self._holders, have.whole), (self._growers, have.growing)):
                (table[index].add if index in there else table[index].discard)(peer)
        self.peers[peer], self.seen[peer] = have, now

    def ended(self, job: Job, now: float, received: bool, fault: str = "", final: bool = False, wait: float = 0):
        """An attempt is over: without `fault` the file is whole. `wait`: seconds that the source asked for."""
        self.active.pop(job.index, None)
        self._streams[job.source] -= 1
        if received:
            self._trouble.pop(job, None)
            self._trouble.pop(job.source, None)
        if not fault:
            self.whole.add(job.index)
        elif final:
            self._banned[job] = fault
        else:
            self._said[job.source] = fault
            for trouble in (self._trouble.setdefault(key, _Trouble(now)) for key in (job, job.source)):
                trouble.last = now
                if now >= trouble.until:  # what broke together counts once
                    trouble.tries += 1
                    longest = min(_LONGEST_PAUSE_SECONDS, 2.0 ** (trouble.tries - 1))
                    trouble.until = now + wait + longest * self._random.uniform(0.5, 1)

    def wrong(self, job: Job, now: float, suspects: set[str], fault: str) -> None:
        """A file came with wrong bytes: a lone suspect among the nodes is banned, several are struck."""
        self.ended(job, now, False, fault)
        for suspect in suspects:
            pair = Job(job.index, suspect)
            self._strikes[pair] += 1
            if (suspect in self.seen and len(suspects) == 1) or self._strikes[pair] >= STRIKES:
                self._banned[pair] = f"{fault}, {self._strikes[pair]} times"

    # What to do

    def pick_origin(self, now: float) -> Job | None:
        """The next file that this node brings over the site's link."""
        if now < self._start + _HELLO_SECONDS and len(self.peers) < len(self.seen):
            return None
        for index in self._by_size if self._origins else ():
            if self._is_wanted(index) and not self._usable(index, now) and self._fetcher(index, now) == self.node:
                for job in (Job(index, origin) for origin in self._origins):
                    if self._may(job, now):
                        return self._begin(job)
        return None

    def pick_peer(self, now: float) -> Job | None:
        """The next file to get from another node."""
        for index in self._order if self.peers else ():
            if self._is_wanted(index) and (source := self._source(index, now)):
                return self._begin(Job(index, source))
        return None

    def _begin(self, job: Job) -> Job:
        self.active[job.index] = job.source
        self._streams[job.source] += 1
        self._waits.pop(job.index, None)
        return job

    def _is_wanted(self, index: int) -> bool:
        return not (index in self.whole or index in self.active or index in self.held)

    def _may(self, job: Job, now: float) -> bool:
        pauses = [self._trouble[key].until for key in (job, job.source) if key in self._trouble]
        return job not in self._banned and now >= max(pauses, default=0)

    def is_alive(self, node: str, now: float) -> bool:
        """Whether a node was seen lately; a new agent takes all for alive."""
        return node == self.node or now - self.seen[node] < self._silence

    def _usable(self, index: int, now: float) -> list[str]:
        """Holders that give right bytes as far as is known: pairs that gave wrong ones, or none, do not count."""
        return [peer for peer in self._holders[index] if self._gives(peer, index, now)]

    def _gives(self, peer: str, index: int, now: float) -> bool:
        job = Job(index, peer)
        return job not in self._banned and self._lasts(job) <= self._silence and self.is_alive(peer, now)

    def _source(self, index: int, now: float) -> str | None:
        owner, holders, fetcher = self._owners[index], self._usable(index, now), self._fetcher(index, now)
        if owner != self.node and not self._gives(owner, index, now):
            owner = fetcher
        if holders and (owner in (self.node, *holders) or self._waited(index, owner, now)):
            ready = [peer for peer in holders if self._may(Job(index, peer), now)]
            load = {peer: (self._streams[peer], self.peers[peer].sending, self._random.random()) for peer in ready}
            return min(load, key=load.__getitem__, default=None)
        source = fetcher if owner == self.node else owner
        grows = source in self._growers[index] and self.peers[source].growing[index] != self.node
        return source if grows and self._may(Job(index, source), now) else None

    def _waited(self, index: int, owner: str | None, now: float) -> bool:
        """Whether a file's holders are asked although its owner, who spares their uplinks, is not as far yet."""
        return owner not in self._growers[index] and now - self._waits.setdefault(index, now) > self._silence

    def _fetcher(self, index: int, now: float) -> str | None:
        """Who brings a file over the link: who does already, else whose task it is, else one of the living by rank."""
        for peer in self._growers[index]:
            if not self.peers[peer].growing[index] and self._gives(peer, index, now):
                return peer
        able = [node for node in self._wan if self._is_able(node, index, now)]
        if self._fetchers[index] in able:
            return self._fetchers[index]
        return able[index % len(able)] if able else None

    def _is_able(self, node: str, index: int, now: float) -> bool:
        if node == self.node:
            return not self._has_given_up(index)
        return self._gives(node, index, now) and index not in self.peers.get(node, Have()).given_up

    def _has_given_up(self, index: int) -> bool:
        jobs = [Job(index, origin) for origin in self._origins]
        return all(job in self._banned or max(map(self._lasts, (job, job.source))) > self._patience for job in jobs)

    def _lasts(self, key: str | Job) -> float:
        """How long a source, or one for one file, has given nothing but trouble."""
        return self._trouble[key].last - self._trouble[key].since if key in self._trouble else 0

    # What to say

    def have(self, now: float, sending: int = 0, size: int = 0) -> Have:
        """What this node says of itself."""
        missing = [index for index in self._by_size if index not in self.whole]
        given_up = frozenset(filter(self._has_given_up, missing))
        hopeless = not self.active and all(self.is_hopeless(index, now) for index in missing)
        settled = "" if not hopeless else "failed" if missing else "complete"
        growing = {index: source if source in self.seen else "" for index, source in self.active.items()}
        return Have(frozenset(self.whole), growing, given_up, settled, sending, size)

    def is_hopeless(self, index: int, now: float) -> bool:
        """Whether no node that lives, or that was seen within the patience, can give or bring a file."""
        if index in self.active or index in self.held or self._usable(index, now) or self._fetcher(index, now):
            return False
        ages = [now - self.seen[node] for node in self._wan if node != self.node]
        return all(age < self._silence or age > self._patience for age in ages)

    def reasons(self, index: int) -> str:
        """Why a file cannot be had: what each source said."""
        banned = {job.source: fault for job, fault in self._banned.items() if job.index == index}
        said = {**{name: self._said[name] for name in self._origins if name in self._said}, **banned}
        silent = [node for node in self._wan if node != self.node and node not in self.peers]
        faults = list(said.values()) + [f"{node}, which may use the origins, was never seen" for node in silent]
        return "; ".join(faults) or "no node has it, and none that may use the origins can get it"

    def unsettled(self, now: float, linger: float) -> Iterator[str]:
        """Yield the nodes that may still want something of this one: they said so, or may come back."""
        for node, seen in self.seen.items():
            have = self.peers.get(node, Have())
            if not have.settled and len(have.whole) < len(self._sizes) and now - seen < linger:
                yield node
