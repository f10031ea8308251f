"""One drill from a site without a checkpoint to a verdict: faults at their times, the playbook, and what came of it."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from pathlib import Path

from rehearsal.commands import RehearsalError
from tests.drills import proof
from tests.drills.faults import Fault
from tests.drills.site import DrillSite, Playbook

TURN_SECONDS = 0.1
SETTLE_SECONDS = 60
# A run of the playbook that takes longer than this has hung.
RUN_SECONDS = 300


@dataclass(frozen=True, kw_only=True)
class Drill:
    """What goes wrong, and what must come of it.

    `fails` maps nodes (counted from 1) to words that the operator must read when the playbook fails for them; all
    others end complete. With `again` the faults are ended and the playbook is run once more, and then all are complete.
    `wan` limits the bytes that left the hub, in checkpoints. `warm`: all nodes had the checkpoint before.
    `said` must be read too, whatever fails; `checks` are those of tests/drills/proof.py.
    """

    name: str
    what: str
    faults: tuple[Fault, ...]
    wan: float
    fails: dict[int, str] = field(default_factory=dict)
    again: bool = False
    warm: bool = False
    said: tuple[str, ...] = ()
    variables: dict = field(default_factory=dict)
    checks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """What came of a drill; no complaints: what should."""

    drill: str
    seconds: float
    wan: float
    outcome: str
    complaints: tuple[str, ...]


class Drilled:
    """A drill that is under way, as its faults see it."""

    def __init__(self, site: DrillSite, drill: Drill, logs: Path):
        self.site, self.drill, self.logs = site, drill, logs
        self.playbooks: list[Playbook] = []
        self.notes: list[str] = []
        self.started: dict[str, float | None] = {}  # what the agents said before the controller was killed
        self.began = time.monotonic()
        self._waiting, self._open = list(drill.faults), []
        self._first_byte: float | None = None

    def note(self, text: str) -> None:
        """Write down what happened when."""
        self.notes.append(f"{time.monotonic() - self.began:6.1f} s  {text}")

    def play(self) -> Playbook:
        """Start the playbook, beside others that run."""
        log = self.logs / f"{self.drill.name}-{len(self.playbooks) + 1}.log"
        self.playbooks.append(Playbook(self.site.site, log, self.drill.variables))
        self.note(f"run {len(self.playbooks)} of the playbook")
        return self.playbooks[-1]

    def run(self) -> None:
        """Play the playbook to its end, the faults coming and going."""
        self._begin("before")
        self.play()
        limit = time.monotonic() + RUN_SECONDS
        while any(playbook.code is None for playbook in self.playbooks) or self._passing():
            self._turn()
            if time.monotonic() > limit:
                self.note(f"not ended in {RUN_SECONDS} s: killed")
                for playbook in self.playbooks:
                    playbook.kill()
                break
            time.sleep(TURN_SECONDS)
        for fault in self._waiting:
            self.note(f"never came: {fault}")
        for fault, _ in list(self._open):
            if not fault.until or len(self.playbooks) > 1:
                self._end(fault)

    @property
    def missed(self) -> list[Fault]:
        """The faults that never came."""
        return self._waiting

    def _passing(self) -> bool:
        """Whether a fault is open that ends by itself."""
        return any(end is not None for _, end in self._open)

    def _turn(self) -> None:
        present = {node: self.site.present(node) for node in self.site.nodes}
        if self._first_byte is None and any(present.values()):
            self._first_byte = time.monotonic()
        for fault in list(self._waiting):
            if self._is_due(fault, present):
                self._begin_one(fault)
        for fault, end in list(self._open):
            if self._is_said(fault) or (end is not None and time.monotonic() >= end):
                self._end(fault)

    def _is_said(self, fault: Fault) -> bool:
        return bool(fault.until and len(self.playbooks) > 1 and re.search(fault.until, self.playbooks[-1].said))

    def _is_due(self, fault: Fault, present: dict[str, int]) -> bool:
        if fault.at.endswith("%"):
            node = fault.nodes(self)[0] if fault.on else min(present, key=present.get)
            return present[node] >= self.site.total * float(fault.at[:-1]) / 100
        since = time.monotonic() - (self._first_byte or time.monotonic())
        return self._first_byte is not None and since >= float(fault.at.rstrip("s"))

    def _begin(self, at: str) -> None:
        for fault in [fault for fault in self._waiting if fault.at == at]:
            self._begin_one(fault)

    def _begin_one(self, fault: Fault) -> None:
        self._waiting.remove(fault)
        self.note(f"begins: {fault}")
        fault.begin(self)
        self._open.append((fault, None if fault.lasts is None else time.monotonic() + fault.lasts))

    def _end(self, fault: Fault) -> None:
        self._open = [row for row in self._open if row[0] is not fault]
        fault.end(self)
        self.note(f"ended: {type(fault).__name__}")

    def settle(self, nodes: list[str]) -> None:
        """Wait until the agents of these nodes say that they are done, whatever became of the playbook."""
        limit = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < limit and any(self.site.status(node).get("state") != "complete" for node in nodes):
            time.sleep(TURN_SECONDS)


def clean_run(site: DrillSite, logs: Path) -> None:
    """Bring the checkpoint to all nodes with nothing going wrong."""
    drilled = Drilled(site, Drill(name="before", what="", faults=(), wan=1), logs)
    drilled.run()
    if drilled.playbooks[0].code:
        raise RehearsalError(f"the playbook fails with no fault at all: see {drilled.playbooks[0].log}")


def run_drill(site: DrillSite, drill: Drill, logs: Path) -> Verdict:
    """Reset the site, run one drill, and judge it."""
    site.reset()
    if drill.warm:
        clean_run(site, logs)
    drilled = Drilled(site, drill, logs)
    seen = site.count_requests()
    drilled.run()
    failing = {site.nodes[number - 1]: words for number, words in drill.fails.items()}
    if not any(playbook.killed for playbook in drilled.playbooks):
        drilled.settle([node for node in site.nodes if node not in failing])
    complaints = list(proof.of_run(drilled, failing))
    if drill.again:
        drilled.run()
        complaints += proof.of_second_run(drilled)
        failing = {}
        drilled.settle(site.nodes)
    seconds, requests = time.monotonic() - drilled.began, site.requests(seen)
    wan = sum(row["sent"] for row in requests if "/resolve/" in row["path"]) / site.total
    complaints += proof.of_requests(drilled, requests, wan)
    complaints += proof.of_files(drilled, failing)
    (logs / f"{drill.name}.txt").write_text("\n".join([*drilled.notes, *complaints]) + "\n")
    return Verdict(drill.name, seconds, wan, proof.outcome(site, drill), tuple(complaints))
