"""What the follower makes of ansible-runner's events."""

import io
import signal

import pytest

from rehearsal import deploy
from rehearsal.commands import signals
from rehearsal.deploy import Failure, Follower
from rehearsal.progress import Clock


class Screen:
    """A display that remembers."""

    def __init__(self):
        self.steps = []

    def step(self, clock, doing, *, big=False):
        self.steps.append((clock.stage, doing, big))

    def tick(self, clock):
        pass


@pytest.fixture
def follower():
    return Follower(Clock({}), Screen(), io.StringIO())


def play(name):
    return {"event": "playbook_on_play_start", "event_data": {"name": name}}


def failed(kind="runner_on_failed", **data):
    return {"event": kind, "event_data": {"task": "Start", "host": "node-01", "res": {"msg": "no"}, **data}}


@pytest.mark.parametrize(
    ("name", "stage", "shown"),
    [
        ("Prepare | Node baseline", "prepare", "Node baseline"),
        ("Plan the site", "plan", "Plan the site"),
        ("Wait for hosts", "", "Wait for hosts"),
    ],
    ids=["stage and what", "begins with a stage", "no stage"],
)
def test_the_name_of_a_play_says_the_stage(follower, name, stage, shown):
    follower.event(play(name))

    assert follower.display.steps == [(stage, shown, True)]


def test_a_play_without_a_stage_belongs_to_the_stage_before(follower):
    follower.event(play("Serve | Start"))
    follower.event(play("Watch"))

    assert follower.clock.stage == "serve"


def test_a_task_is_a_small_step(follower):
    follower.event(play("Serve | Start"))
    follower.event({"event": "playbook_on_task_start", "event_data": {"task": "Start the head"}})

    assert follower.display.steps[-1] == ("serve", "Start the head", False)


@pytest.mark.parametrize("kind", ["runner_on_failed", "runner_on_unreachable"])
def test_a_failure_is_kept_with_its_stage_task_host_and_message(follower, kind):
    follower.event(play("Serve | Start"))
    follower.event(failed(kind))

    assert follower.failures == [Failure("serve", "Start", "node-01", "no")]


@pytest.mark.parametrize("event", [failed(ignore_errors=True), failed("runner_on_ok")], ids=["ignored", "success"])
def test_what_does_not_end_the_run_is_no_failure(follower, event):
    follower.event(event)

    assert not follower.failures


def test_the_seconds_of_a_host_are_those_of_its_tasks_by_stage(follower):
    follower.event(play("Serve | Start"))
    for seconds in (1.5, 2.0):
        follower.event({"event": "runner_on_ok", "event_data": {"host": "node-01", "duration": seconds}})

    assert follower.busy == {"node-01": {"serve": 3.5}}


def test_output_goes_to_the_log_and_no_event_file_is_kept(follower):
    kept = follower.event({"event": "verbose", "stdout": "TASK [x] ***"})

    assert (follower.log.getvalue(), kept) == ("TASK [x] ***\n", False)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"msg": "no", "rc": 1, "stderr": "why", "stdout": "what"}, "no\nwhy\nwhat"),
        ({"msg": "same", "stderr": "same\n"}, "same"),
        ({"results": [{"item": "a", "msg": "ok"}, {"item": "b", "failed": True, "msg": "no"}]}, "b: no"),
        ({"changed": False}, "{'changed': False}"),
    ],
    ids=["all that a command said", "nothing twice", "only the items that failed", "never empty"],
)
def test_a_message_holds_all_that_the_module_said(result, expected):
    assert deploy.message(result) == expected


@pytest.fixture
def ended(monkeypatch):
    """Processes that were sent a signal."""
    sent = []
    monkeypatch.setattr(deploy, "children", lambda: [7])
    monkeypatch.setattr(deploy.os, "kill", lambda pid, number: sent.append((pid, number)))
    return sent


def test_the_run_goes_on_while_no_signal_came(follower, ended):
    assert follower.tick() is False
    assert not ended


def test_a_signal_asks_ansible_once_to_end_and_kills_it_only_when_it_does_not(ended, monkeypatch):
    monkeypatch.setattr(signals, "received", signal.SIGINT)
    times = iter([0, 0, 1, deploy.PATIENCE_SECONDS + 1])
    follower = Follower(Clock({}, lambda: 0), Screen(), io.StringIO())
    follower.clock.now = lambda: next(times)

    killed = [follower.tick() for _ in range(3)]

    assert (killed, ended) == ([False, False, True], [(7, signal.SIGTERM)])
