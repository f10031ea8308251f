"""Runs a playbook against a site through ansible-runner and follows its events."""

import os
import shutil
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import ansible_runner

from rehearsal.commands import signals
from rehearsal.places import Site
from rehearsal.progress import ROUGH_DEPLOY, Clock, Display

PLAYBOOK = "playbooks/deploy.yml"
PATIENCE_SECONDS = 10
ENDED = ("runner_on_ok", "runner_on_failed")
FAILED = ("runner_on_failed", "runner_on_unreachable")


@dataclass(frozen=True)
class Failure:
    """A task that failed on a host, with all that the module said."""

    stage: str
    task: str
    host: str
    message: str


@dataclass
class Follower:
    """Turns the events of one run into progress, failures and a log."""

    clock: Clock
    display: Display
    log: TextIO
    failures: list[Failure] = field(default_factory=list)
    busy: dict[str, dict[str, float]] = field(default_factory=dict)  # host -> stage -> seconds in its tasks
    asked_to_end: float | None = None

    def event(self, event: dict[str, Any]) -> bool:
        """Take one event of ansible-runner; False: the runner need not keep a file of it."""
        if text := event.get("stdout"):
            self.log.write(text + "\n")
            self.log.flush()
        kind, data = event.get("event"), event.get("event_data", {})
        if kind == "playbook_on_play_start":
            self._play(data.get("name") or data.get("play") or "")
        elif kind in ("playbook_on_task_start", "playbook_on_handler_task_start"):
            self.display.step(self.clock, data.get("task", ""))
        if kind in ENDED:
            stages = self.busy.setdefault(data.get("host", ""), {})
            stages[self.clock.stage] = stages.get(self.clock.stage, 0.0) + data.get("duration", 0.0)
        if kind in FAILED and not data.get("ignore_errors"):
            stage, task = self.clock.stage, data.get("task", "")
            self.failures.append(Failure(stage, task, data.get("host", ""), message(data.get("res", {}))))
        return False

    def _play(self, name: str) -> None:
        """Plays are named `<Stage> | <what>`; a name that only begins with a stage's will do."""
        stage, _, what = name.partition(" | ")
        stage = stage.lower() if what else name.partition(" ")[0].lower()
        if (what or stage in ROUGH_DEPLOY) and stage != self.clock.stage:
            self.clock.enter(stage)
        self.display.step(self.clock, what or name, big=True)

    def tick(self) -> bool:
        """Called by the runner about once a second; True makes it kill ansible-playbook.

        Killed, ansible-playbook would leave its workers behind, which lead sessions of their own; so it is
        first asked to end, and passes that on to them.
        """
        self.display.tick(self.clock)
        if signals.received is None:
            return False
        if self.asked_to_end is None:
            self.asked_to_end = self.clock.now()
            for child in children():
                os.kill(child, signal.SIGTERM)
        return self.clock.now() - self.asked_to_end > PATIENCE_SECONDS


def children() -> list[int]:
    """Processes that this one's main thread started and has not yet taken leave of."""
    return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


def message(result: dict[str, Any]) -> str:
    """All that a module says about its failure, without what it says about itself."""
    items = [item for item in result.get("results", []) if item.get("failed") or item.get("unreachable")]
    if items:
        return "\n".join(f"{item.get('item', '')}: {message(item)}" for item in items)
    texts = [str(result.get(key) or "").strip() for key in ("msg", "module_stderr", "stderr", "stdout", "exception")]
    return "\n".join(dict.fromkeys(text for text in texts if text)) or str(result)


def deploy(site: Site, follower: Follower) -> str:
    """Run deploy.yml to its end. Returns the runner's status: successful, failed, canceled..."""
    home = site.home / "runner"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    with signals.held():
        run = ansible_runner.run(
            private_data_dir=str(home),
            project_dir=str(site.checkout),
            playbook=str(site.checkout / PLAYBOOK),
            inventory=str(site.inventory),
            envvars=environment(),
            settings={"pexpect_timeout": 1, "suppress_output_file": True},
            quiet=True,
            event_handler=follower.event,
            cancel_callback=follower.tick,
        )
    return run.status


def environment() -> dict[str, str]:
    """ansible-playbook of this Python environment; host keys checked, which the runner turns off by default."""
    programs = str(Path(sys.executable).parent)
    path = os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
    return {"PATH": f"{programs}:{path}", "ANSIBLE_HOST_KEY_CHECKING": "True", "ANSIBLE_NOCOLOR": "True"}
