"""How long each stage took, how long the rest should take, and how that is shown."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.markup import escape

# Seconds on two idle cores; used until this machine has done a run of its own. Also the order of the stages.
ROUGH = {
    "cold": {"build": 150.0, "start": 8.0, "push": 3.0},
    "warm": {"build": 2.0, "start": 8.0, "push": 3.0},
    "again": {"build": 2.0, "start": 1.0, "push": 1.0},
}
ROUGH_DEPLOY = {"plan": 3.0, "preflight": 6.0, "prepare": 45.0, "checkpoint": 15.0, "serve": 70.0, "accept": 8.0}
SAY_SECONDS = 15


class Clock:
    """Seconds per stage, in the order in which the stages were entered."""

    def __init__(self, expected: dict[str, float], now: Callable[[], float] = time.monotonic) -> None:
        self.expected = expected
        self.now = now
        self.start = self.since = now()
        self.stage = ""
        self._spent: dict[str, float] = {}

    def enter(self, stage: str) -> None:
        self._spent = self.spent
        self.stage, self.since = stage, self.now()
        self._spent.setdefault(stage, 0.0)

    @property
    def spent(self) -> dict[str, float]:
        """Seconds of every stage so far, the present one included."""
        extra = {self.stage: self._spent[self.stage] + self.now() - self.since} if self.stage else {}
        return {**self._spent, **extra}

    @property
    def elapsed(self) -> float:
        return self.now() - self.start

    @property
    def left(self) -> float:
        """Seconds to go, if every stage takes what was expected; 0 once that is overrun."""
        spent = self.spent
        rest = sum(seconds for stage, seconds in self.expected.items() if stage not in spent)
        return rest + max(0.0, self.expected.get(self.stage, 0.0) - spent.get(self.stage, 0.0))


def expected(kind: str, record: Path) -> dict[str, float]:
    """Seconds per stage of the last run of this kind (`cold`, `warm` or `again`) that came to its end."""
    try:
        return json.loads(record.read_text())[kind]
    except (OSError, ValueError, KeyError):
        return ROUGH[kind] | ROUGH_DEPLOY


def remember(kind: str, spent: dict[str, float], record: Path) -> None:
    try:
        known = json.loads(record.read_text())
    except (OSError, ValueError):
        known = {}
    known[kind] = {stage: round(seconds, 1) for stage, seconds in spent.items()}
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text(json.dumps(known, indent=2) + "\n")


def minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def line(clock: Clock, doing: str) -> str:
    """Such as `1:05, about 2:10 left | prepare: Install the container engine`."""
    return f"{minutes(clock.elapsed):>5}, about {minutes(clock.left)} left | {clock.stage}: {doing}"


class Display(Protocol):
    """What happens at each step, and every second or so while nothing does."""

    def step(self, clock: Clock, doing: str, *, big: bool = False) -> None: ...

    def tick(self, clock: Clock) -> None: ...

    def close(self) -> None: ...


class Lines:
    """For logs: a line for each big step, and one every 15 s for the small step of the moment."""

    def __init__(self) -> None:
        self.doing = ""
        self.said = 0.0

    def step(self, clock: Clock, doing: str, *, big: bool = False) -> None:
        self.doing = doing
        if big:
            self._say(clock)
        else:
            self.tick(clock)

    def tick(self, clock: Clock) -> None:
        if clock.elapsed - self.said >= SAY_SECONDS:
            self._say(clock)

    def _say(self, clock: Clock) -> None:
        self.said = clock.elapsed
        print(line(clock, self.doing), flush=True)

    def close(self) -> None:
        pass


class Live:
    """For a terminal: one line that changes."""

    def __init__(self) -> None:
        self.status = Console().status("")
        self.status.start()
        self.doing = ""

    def step(self, clock: Clock, doing: str, *, big: bool = False) -> None:
        if big:
            self.status.console.print(f"[dim]{minutes(clock.elapsed):>5}[/] {escape(clock.stage)}: {escape(doing)}")
        self.doing = doing
        self.tick(clock)

    def tick(self, clock: Clock) -> None:
        self.status.update(escape(line(clock, self.doing)))

    def close(self) -> None:
        self.status.stop()


def display() -> Display:
    return Live() if sys.stdout.isatty() else Lines()
