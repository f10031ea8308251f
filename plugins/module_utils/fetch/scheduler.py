# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which file next, and from whom: pure decisions, no I/O, no threads, no clock of its own.

Every file has a *fetcher*, that brings it over the site's link, and an *owner*, that hands it to the others; a file
still on its way is handed on already, in that order and never back. All nodes decide alone, by the same rules, from
what the others say of themselves (`Have`): a false belief costs bytes, no more.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..proof.owners import assign
from .config import Config

# So often may a source have had a part in wrong bytes of a file before it is not asked for that file again.
STRIKES = 3
_LONGEST_PAUSE_SECONDS = 15


@dataclass(frozen=True)
class Have:
    """What a node says of itself; files by their place in the manifest. `growing`: the node each comes from, or ""."""

    whole: frozenset[int] = frozenset()
    growing: dict[int, str] = field(default_factory=dict)
    given_up: frozenset[int] = frozenset()  # no origin of that node gives it these
    settled: str = ""  # complete or failed: it wants nothing more
    sending: int = 0
    bytes: int = 0
    doubted: dict[int, str] = field(default_factory=dict)  # which node gave wrong bytes of a file

    @classmethod
    def read(cls, data: dict, files: int) -> Have:
        """Read what came from another node; raise ValueError where it names a file that the manifest has not."""
        whole, given_up = frozenset(map(int, data["whole"])), frozenset(map(int, data["given_up"]))
        growing, doubted = ({int(n): str(node) for n, node in data[key].items()} for key in ("growing", "doubted"))
        if not all(0 <= number < files for number in {*whole, *growing, *given_up}):
            raise ValueError(data)
        return cls(whole, growing, given_up, str(data["settled"]), int(data["sending"]), int(data["bytes"]), doubted)


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


class Scheduler:
    """The decisions of one node. Not safe for threads: the caller holds a lock."""

    def __init__(self, config: Config, sizes: Sequence[int], origins: Sequence[str], now: float, rng=random):
        self.node, self._config, self._origins, self._start = config.node, config, origins, now
        self._random, nodes, files = rng, list(config.nodes), range(len(sizes))
        self._owners, self._fetchers = assign(nodes, config.wan_nodes, sizes)
        # Own files first, then those of the next node, so that not all ask the same one first.
        turn = [(nodes.index(owner) - nodes.index(self.node)) % len(nodes) for owner in self._owners]
        self._by_size = sorted(files, key=lambda index: -sizes[index])
        self._order = sorted(self._by_size, key=lambda index: turn[index])
        self.held: set[int] = set()  # there, but not known to be right: not to be fetched yet
        self.whole, self.active = set(), {}  # files; the source of each file on its way
        self.peers = {name: Have() for name in nodes if name != self.node}
        self.seen, self._heard = dict.fromkeys(self.peers, now), set()
        self._holders, self._growers = [set() for _ in files], [set() for _ in files]
        self._streams, self._strikes = Counter(), Counter()  # by source, by job
        self._trouble, self._banned = {}, {}  # by source and by job; why, by job
        self._waits, self._said = {}, {}  # since when, by file; what was wrong, by source

    def saw(self, peer: str, have: Have, now: float) -> None:
        """Take in what another node says of itself."""
        before = self.peers[peer]
        for index in {*before.whole, *before.growing, *have.whole, *have.growing}:
            for table, there in ((self._holders, have.whole), (self._growers, have.growing)):
                (table[index].add if index in there else table[index].discard)(peer)
        self.peers[peer], self.seen[peer] = have, now
        self._heard.add(peer)

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
        elif not self.is_guilty(job):
            self._trouble[job] = _Trouble(now, now, 1, now + self._random.uniform(0.5, 1))
        else:
            self._said[job.source] = fault
            for trouble in (self._trouble.setdefault(key, _Trouble(now)) for key in (job, job.source)):
                trouble.last = now
                if now >= trouble.until:  # what broke together counts once
                    trouble.tries += 1
                    longest = min(_LONGEST_PAUSE_SECONDS, 2.0 ** (trouble.tries - 1))
                    trouble.until = now + wait + longest * self._random.uniform(0.5, 1)

    def is_guilty(self, job: Job) -> bool:
        """Whether a fault is the source's own: a node that waits for the file itself has nothing to give."""
        return job.source not in self.peers or job.index in self.peers[job.source].whole

    def wrong(self, job: Job, now: float, suspects: set[str], fault: str) -> None:
        """A file came with wrong bytes: a lone suspect among the nodes is banned, several are struck."""
        self.ended(job, now, False, fault)
        for suspect in suspects:
            pair = Job(job.index, suspect)
            self._strikes[pair] += 1
            if (suspect in self.seen and len(suspects) == 1) or self._strikes[pair] >= STRIKES:
                self._banned[pair] = f"{fault}, {self._strikes[pair]} times"

    def pick_origin(self, now: float) -> Job | None:
        """The next file that this node brings over the site's link."""
        # A new agent hears what the others have before it uses the site's link.
        if now < self._start + self._config.silence_seconds / 3 and len(self._heard) < len(self.peers):
            return None
        for index in self._wanted(self._by_size if self._origins else ()):
            if not self._usable(index, now) and self._fetcher(index, now) == self.node:
                for job in (Job(index, origin) for origin in self._origins):
                    if self._may(job, now):
                        return self._begin(job)
        return None

    def pick_peer(self, now: float) -> Job | None:
        """The next file to get from another node."""
        for index in self._wanted(self._order if self._heard else ()):
            if source := self._source(index, now):
                return self._begin(Job(index, source))
        return None

    def _wanted(self, order: Sequence[int]) -> list[int]:
        return [index for index in order if not (index in self.whole or index in self.active or index in self.held)]

    def _begin(self, job: Job) -> Job:
        self.active[job.index] = job.source
        self._streams[job.source] += 1
        self._waits.pop(job.index, None)
        return job

    def _may(self, job: Job, now: float) -> bool:
        pauses = [self._trouble[key].until for key in (job, job.source) if key in self._trouble]
        tried = job.source in self.peers and job.source in self._trouble and self._streams[job.source] > 0
        return job not in self._banned and not tried and now >= max(pauses, default=0)

    def is_alive(self, node: str, now: float) -> bool:
        """Whether a node was seen lately; a new agent takes all for alive."""
        return node == self.node or now - self.seen[node] < self._config.silence_seconds

    def _usable(self, index: int, now: float) -> list[str]:
        """Holders that give right bytes as far as is known: pairs that gave wrong ones, or none, do not count."""
        return [peer for peer in self._holders[index] if self._gives(peer, index, now)]

    def _gives(self, peer: str, index: int, now: float) -> bool:
        job = Job(index, peer)
        return job not in self._banned and self._lasts(job) <= self._config.silence_seconds and self.is_alive(peer, now)

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
        return (
            owner not in self._growers[index]
            and now - self._waits.setdefault(index, now) > self._config.silence_seconds
        )

    def _fetcher(self, index: int, now: float) -> str | None:
        """Who brings a file over the link: who does already, else whose task it is, else one of the living by rank."""
        for peer in self._growers[index]:
            if not self.peers[peer].growing[index] and self._gives(peer, index, now):
                return peer
        if self._is_able(self._fetchers[index], index, now):
            return self._fetchers[index]
        able = [node for node in self._config.wan_nodes if self._is_able(node, index, now)]
        return able[index % len(able)] if able else None

    def _is_able(self, node: str, index: int, now: float) -> bool:
        if node == self.node:
            return not self._has_given_up(index)
        return self._gives(node, index, now) and index not in self.peers[node].given_up

    def _has_given_up(self, index: int) -> bool:
        jobs = [Job(index, origin) for origin in self._origins]
        return all(
            job in self._banned or max(map(self._lasts, (job, job.source))) > self._config.patience_seconds
            for job in jobs
        )

    def _lasts(self, key: str | Job) -> float:
        """How long a source, or one for one file, has given nothing but trouble."""
        return self._trouble[key].last - self._trouble[key].since if key in self._trouble else 0

    def have(self, now: float, sending: int = 0, size: int = 0) -> Have:
        """What this node says of itself."""
        missing = [index for index in self._by_size if index not in self.whole]
        given_up = frozenset(filter(self._has_given_up, missing))
        hopeless = not self.active and all(self.is_hopeless(index, now) for index in missing)
        settled = "" if not hopeless else "failed" if missing else "complete"
        growing = {index: source if source in self.seen else "" for index, source in self.active.items()}
        doubted = {job.index: job.source for job in self._banned if job.source in self.peers}
        return Have(frozenset(self.whole), growing, given_up, settled, sending, size, doubted)

    def is_hopeless(self, index: int, now: float) -> bool:
        """Whether no node that lives, or that was seen within the patience, can give or bring a file."""
        if index in self.active or index in self.held or self._usable(index, now) or self._fetcher(index, now):
            return False
        ages = [now - self.seen[node] for node in self._config.wan_nodes if node != self.node]
        return all(age < self._config.silence_seconds or age > self._config.patience_seconds for age in ages)

    def reasons(self, index: int) -> str:
        """Why a file cannot be had: what each source said."""
        banned = {job.source: fault for job, fault in self._banned.items() if job.index == index}
        said = {**{name: self._said[name] for name in self._origins if name in self._said}, **banned}
        silent = [node for node in self._config.wan_nodes if node in self.peers and node not in self._heard]
        faults = list(said.values()) + [f"{node}, which may use the origins, was never seen" for node in silent]
        return "; ".join(faults) or "no node has it, and none that may use the origins can get it"

    def unsettled(self, now: float, linger: float) -> Iterator[str]:
        """Yield the nodes that may still want something of this one: they said so, or may come back."""
        for node, have in self.peers.items():
            if not have.settled and len(have.whole) < len(self._owners) and now - self.seen[node] < linger:
                yield node
