"""The drills: what goes wrong when, and what must come of it. Limits are in checkpoints that leave the hub."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

from rehearsal.commands import RehearsalError
from tests.drills import faults as f
from tests.drills import model
from tests.drills.runner import Drill

# What a fault may cost beside the checkpoint itself: bytes that were on the way when a connection was given up.
CLEAN = 1.02
LOOSE = 1.05
PROGRESS = r"\d MB \d+ %"
NAME = re.compile(r"([a-z0-9-]+)(?:@(before|\d+%|\d+(?:\.\d+)?s))?")


def drills(sizes: list[int], nodes: int) -> dict[str, Drill]:
    """All drills by name, for shards of these sizes and so many nodes."""
    parts = (_of_hosts, _of_power, _of_the_hub, _of_the_links, _of_bytes, _of_runs)
    return {drill.name: drill for part in parts for drill in part(Shares(sizes, nodes))}


class Shares:
    """Sizes of the shards, and the nodes, both counted from 1."""

    def __init__(self, sizes: list[int], nodes: int):
        self.sizes, self.all = sizes, tuple(range(1, nodes + 1))

    def of(self, number: int, times: float = 1) -> float:
        """A shard as a share of the checkpoint."""
        return times * self.sizes[number - 1] / sum(self.sizes)

    def largest(self, times: float) -> float:
        """So many of the largest shards as a share of the checkpoint."""
        return times * max(self.sizes) / sum(self.sizes)

    def at(self, number: int, share: float) -> int:
        """The byte at a share of a shard."""
        return int(self.sizes[number - 1] * share)


def _of_hosts(shares: Shares) -> Iterator[Drill]:
    # A node that goes away takes along the parts of the files that only it was fetching: three of them.
    lost = CLEAN + shares.largest(3)
    yield Drill(name="nothing", what="nothing goes wrong", faults=(), wan=CLEAN)
    yield Drill(
        name="agent-killed",
        what="an agent is killed; systemd starts it again",
        faults=(f.AgentKilled(on=(2,), at="40%"),),
        wan=LOOSE,
    )
    yield Drill(
        name="agent-gone",
        what="an agent is killed and stays away; later the playbook is run again",
        faults=(f.AgentKilled(on=(2,), at="40%", for_good=True),),
        fails={2: "kimi-k3-fetch.service ended"},
        again=True,
        wan=lost,
    )
    yield Drill(
        name="agent-frozen",
        what="an agent does nothing for 20 s, its connections stay open",
        faults=(f.AgentStopped(on=(2,), at="40%", lasts=20),),
        wan=lost,
    )


def _of_power(shares: Shares) -> Iterator[Drill]:
    lost = CLEAN + shares.largest(3)
    yield Drill(
        name="node-lost",
        what="a node loses power and stays away",
        faults=(f.PowerCut(on=(2,), at="40%"),),
        fails={2: "node-02: could not be reached for .* its agent goes on from where it was"},
        variables={"checkpoint_linger_seconds": 40},
        wan=lost,
    )
    yield Drill(
        name="node-reboots",
        what="a node loses power and boots 10 s later; nobody does anything",
        faults=(f.PowerCut(on=(2,), at="40%", lasts=10),),
        wan=LOOSE,
    )
    yield Drill(
        name="node-apart",
        what="a node does not reach the others for 15 s",
        faults=(f.Isolated(on=(2,), at="30%", lasts=15),),
        wan=lost,
    )
    yield Drill(
        name="power-cycle",
        what="all nodes lose power at once and boot; nobody does anything",
        faults=(f.PowerCut(on=shares.all, at="50%", lasts=2),),
        wan=LOOSE + 0.05,
    )
    yield Drill(
        name="disk-full",
        what="a node's disk is filled by somebody else; later it is freed and the playbook is run again",
        faults=(f.DiskFull(on=shares.all[-1:], at="40%"),),
        fails={shares.all[-1]: "No space left on device.*free space there and run again"},
        again=True,
        wan=lost,
    )


def _of_the_hub(shares: Shares) -> Iterator[Drill]:
    shards = range(1, len(shares.sizes) + 1)
    yield Drill(
        name="hub-down",
        what="the hub refuses connections for 30 s",
        faults=(f.HubDown(at="30%", lasts=30),),
        wan=LOOSE,
    )
    yield Drill(
        name="hub-silent",
        what="the hub answers nothing for 30 s, not even with a refusal",
        faults=(f.HubSilent(at="30%", lasts=30),),
        wan=LOOSE,
    )
    yield Drill(
        name="hub-stalls-at-0",
        what="the hub's first answer for each shard has no byte",
        faults=(f.HubAnswers(faults=tuple(_once(number, stall_after=0) for number in shards)),),
        wan=LOOSE,
    )
    yield Drill(
        name="hub-stalls-at-99",
        what="the hub's first answer for each shard stops at 99 %",
        faults=(f.HubAnswers(faults=tuple(_once(n, stall_after=shares.at(n, 0.99)) for n in shards)),),
        wan=LOOSE,
    )
    yield Drill(
        name="hub-503",
        what="the hub cuts every answer after 4 MB, and for 8 s it answers 503",
        faults=(
            f.HubAnswers(faults=({"path": "safetensors", "cut_after": 4_000_000},)),
            f.HubAnswers(at="30%", lasts=8, faults=({"status": 503},)),
        ),
        wan=LOOSE,
    )


def _of_the_links(shares: Shares) -> Iterator[Drill]:
    yield Drill(
        name="hub-429",
        what="the hub answers 429 and wants 5 s of peace, nine times",
        faults=(f.HubAnswers(faults=({"status": 429, "retry_after": 5, "times": 9},)),),
        checks=("retry after",),
        wan=CLEAN,
    )
    yield Drill(
        name="hub-link-expires",
        what="each answer leads to a link that is good for 2 s, and is cut after 4 MB",
        faults=(f.HubAnswers(faults=({"redirect": True, "link_seconds": 2, "cut_after": 4_000_000},)),),
        wan=LOOSE,
    )
    yield Drill(
        name="hub-link-refused",
        what="the storage behind the hub's links answers 403, six times",
        faults=(f.HubAnswers(faults=({"redirect": True}, {"path": "^/moved/", "status": 403, "times": 6})),),
        checks=("expired",),
        wan=CLEAN,
    )


def _once(number: int, **fault: object) -> dict:
    return {"path": model.shard(number), "times": 1, **fault}


def _of_bytes(shares: Shares) -> Iterator[Drill]:
    flip = {"path": model.shard(4), "flip": shares.at(4, 0.7)}
    yield Drill(
        name="hub-too-short",
        what="the hub announces and sends 100,000 bytes too few of a shard, twice",
        faults=(f.HubAnswers(faults=({"path": model.shard(3), "shorten": 100_000, "times": 2},)),),
        wan=CLEAN + shares.of(3, 2),
    )
    yield Drill(
        name="hub-flips-a-byte",
        what="the hub sends one wrong byte of a shard, once",
        faults=(f.HubAnswers(faults=(flip | {"times": 1},)),),
        wan=CLEAN + shares.of(4),
    )
    yield Drill(
        name="hub-flips-always",
        what="the hub always sends one wrong byte of a shard; later it is mended and the playbook is run again",
        faults=(f.HubAnswers(faults=(flip,)),),
        fails=dict.fromkeys(shares.all, f"{model.shard(4)}: expected"),
        again=True,
        wan=CLEAN + shares.of(4, 9),
    )
    yield Drill(
        name="peer-lies",
        what="a node's disk gives back a wrong byte of a shard that the others want",
        faults=(f.DiskLies(on=(1,), at="30%"),),
        wan=CLEAN + shares.largest(1),
    )
    yield Drill(
        name="peer-lies-to-new-nodes",
        what="all nodes but one are replaced; the disk of that one gives back a wrong byte of a shard",
        faults=(f.Replaced(on=shares.all[1:]), f.DiskLies(on=(1,), file=model.shard(4))),
        warm=True,
        wan=shares.of(4, len(shares.all) - 0.9),
    )


def _of_runs(_shares: Shares) -> Iterator[Drill]:
    yield Drill(
        name="controller-killed",
        what="ansible-playbook is killed; the next run finds the agents at work",
        faults=(f.HubSlow(rate=100_000, until=PROGRESS), f.ControllerKilled(at="5%")),
        again=True,
        checks=("went on",),
        wan=CLEAN,
    )
    yield Drill(
        name="two-runs",
        what="two operators run the playbook at once",
        faults=(f.SecondRun(),),
        wan=CLEAN,
    )
    yield Drill(
        name="leftovers",
        what="a former run left parts of another revision and of a file that is in none",
        faults=(f.Leftovers(on=(1, 2)),),
        wan=CLEAN,
    )


def named(words: str, known: dict[str, Drill]) -> Drill:
    """The drill that `NAME`, `NAME@WHEN` or several of them joined by + mean."""
    chosen = []
    for word in words.split("+"):
        match = NAME.fullmatch(word)
        if not match or match[1] not in known:
            raise RehearsalError(f"there is no drill {word!r}; there are: {', '.join(known)}")
        drill = known[match[1]]
        moved = (dataclasses.replace(fault, at=match[2] or fault.at) for fault in drill.faults)
        chosen.append(dataclasses.replace(drill, faults=tuple(moved)))
    return chosen[0] if len(chosen) == 1 else _together(words, chosen)


def _together(name: str, chosen: list[Drill]) -> Drill:
    """Several drills at once: what each may cost adds up, and each fails for the nodes that it would fail for."""
    return Drill(
        name=name,
        what="; ".join(drill.what for drill in chosen),
        faults=tuple(fault for drill in chosen for fault in drill.faults),
        wan=CLEAN + sum(max(0, drill.wan - CLEAN) for drill in chosen),
        fails={node: words for drill in chosen for node, words in drill.fails.items()},
        again=any(drill.again for drill in chosen),
        warm=any(drill.warm for drill in chosen),
        said=tuple(words for drill in chosen for words in drill.said),
        variables={name: value for drill in chosen for name, value in drill.variables.items()},
        checks=tuple(check for drill in chosen for check in drill.checks),
    )


def three(names: list[str], day: int) -> list[str]:
    """Three drills for a day of the year, so that all have their turn; neighbours in the table come on other days."""
    turns = -(-len(names) // 3)
    return names[day % turns :: turns][:3]
