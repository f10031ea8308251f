"""The action that runs the checkpoint module until the agent is done."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleAuthenticationFailure, AnsibleConnectionFailure
from ansible_collections.sovereign.kimi_k3.plugins.action import checkpoint as action_module
from ansible_collections.sovereign.kimi_k3.plugins.action.checkpoint import ActionModule

STATUS = {"bytes_done": 5, "bytes_total": 10, "bytes_fetched": 5, "files_fetched": 1}
LOST = AnsibleConnectionFailure("Failed to connect to the host via ssh: Connection refused")
KILLED = {"failed": True, "_ansible_parsed": False, "module_stdout": "", "rc": 143}


def result(state: str, **changes: object) -> dict:
    about = {"state": state, "changed": False, "missing_files": [], "missing_bytes": 0, "adopted_files": [], "diff": []}
    return {**about, "bytes_fetched": 0, "status": STATUS, **changes}


class Clock:
    """Time that passes only while somebody sleeps, and a second for each look."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def run(monkeypatch):
    """Return a function that runs the action over prepared answers, and the lines that it showed.

    The last answer is given for ever. `run.asked` is what the module was asked, look by look.
    """
    clock = Clock()
    monkeypatch.setattr(action_module, "time", clock)

    def runs(*answers: dict | Exception, check_mode: bool = False, **arguments: object) -> tuple[dict, list[str]]:
        task = SimpleNamespace(args=arguments, check_mode=check_mode, async_val=0, action="checkpoint")
        connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir=None))
        action = ActionModule(task, connection, None, None, None, None)
        lines, left = [], list(answers)

        def answers_next(module_args=None, task_vars=None):
            runs.asked.append(module_args)
            clock.sleep(1)
            answer = left.pop(0) if len(left) > 1 else left[0]
            if isinstance(answer, Exception):
                raise answer
            return answer

        action._display = SimpleNamespace(display=lines.append)
        action._execute_module = answers_next
        return action.run(task_vars={"inventory_hostname": "node-01"}), lines

    runs.asked, runs.clock = [], clock
    return runs


def test_shows_progress_until_the_checkpoint_is_whole(run):
    ended, lines = run(result("running"), result("running"), result("complete"))
    assert ended["state"] == "complete"
    assert [line.split()[0] for line in lines] == ["node-01", "node-01"]


def test_starts_the_agent_at_the_first_look_and_only_waits_at_the_others(run):
    run(result("running"), result("running"), result("complete"), path="/srv/models")
    assert run.asked[0] == {"path": "/srv/models"}
    assert run.asked[1:] == [{"path": "/srv/models", "start": False}] * 2


def test_looks_once_where_it_is_not_to_wait(run):
    ended, lines = run(result("running"), result("complete"), wait=False)
    assert (ended["state"], lines) == ("running", [])


def test_tells_what_the_first_look_found_and_the_agent_fetched(run):
    first = result("running", missing_files=["a"], missing_bytes=10)
    last = result("complete", bytes_fetched=10, status={**STATUS, "bytes_fetched": 10})
    ended, _ = run(first, last)
    assert (ended["missing_files"], ended["missing_bytes"], ended["bytes_fetched"]) == (["a"], 10, 10)
    assert ended["changed"]


def test_whole_checkpoint_that_an_earlier_run_fetched_changes_nothing(run):
    ended, lines = run(result("complete", bytes_fetched=5))
    assert (ended["changed"], lines) == (False, [])


def test_bytes_that_came_before_the_first_look_are_a_change_of_the_run_that_began(run):
    assert run(result("complete"), fetched_before=0)[0]["changed"]
    assert not run(result("complete"), fetched_before=5)[0]["changed"]


def test_failure_of_a_later_look_is_the_answer(run):
    ended, _ = run(result("running"), {"failed": True, "msg": "a named failure"})
    assert ended == {"failed": True, "msg": "a named failure"}


def test_says_that_the_agent_goes_on_when_time_is_up(run):
    ended, _ = run(result("running"), timeout_seconds=2)
    assert ended["failed"]
    assert ended["msg"].startswith("node-01: not whole after 2 s; it goes on")


def test_check_mode_looks_once(run):
    ended, lines = run(result("running"), result("complete"), check_mode=True)
    assert (ended["state"], lines) == ("running", [])


def test_node_that_reboots_is_asked_again_and_that_is_said(run):
    ended, lines = run(result("running"), KILLED, LOST, LOST, result("running"), result("complete"))
    assert ended["state"] == "complete"
    assert lines[1].startswith("node-01  cannot be reached for 1 s, asked again: the module was killed")
    assert lines[2].endswith("asked again: Connection refused")


def test_node_that_does_not_come_back_is_named_with_the_reason_while_others_still_serve_it(run):
    ended, _ = run(result("running"), LOST, linger_seconds=60)
    assert ended["failed"]
    assert ended["msg"].startswith("node-01: could not be reached for 1 min ")
    assert "Connection refused); remedy: see to the node and run again" in ended["msg"]
    assert run.clock.now < 80


def test_node_that_cannot_be_reached_is_not_waited_for_beyond_the_runs_own_time(run):
    ended, _ = run(result("running"), LOST, timeout_seconds=20)
    assert ended["failed"]
    assert run.clock.now < 30


def test_module_that_dies_each_time_is_a_failure_of_its_own(run):
    ended, _ = run(result("running"), KILLED)
    assert ended == KILLED


def test_key_that_is_refused_is_not_tried_again(run):
    with pytest.raises(AnsibleAuthenticationFailure):
        run(AnsibleAuthenticationFailure("Invalid password"), result("complete"))


def test_site_is_shown_by_the_node_that_speaks_for_it(run):
    site = {"nodes": 2, "complete": 0, "bytes_done": 0, "bytes_total": 100, "leads": True}
    one = result("running", status={**STATUS, "site": site})
    two = result("running", status={**STATUS, "site": {**site, "bytes_done": 50}})
    _, lines = run(one, two, result("complete"), site="lima")
    assert lines[1] == "lima  0.0/0.0 MB  0 %  0 of 2 nodes whole"
    assert lines[3] == "lima  0.0/0.0 MB  50 %  0.0 MB/s  1 s left  0 of 2 nodes whole"
