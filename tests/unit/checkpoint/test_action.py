"""The action that runs the checkpoint module until the agent is done."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.action.checkpoint import ActionModule

STATUS = {"bytes_done": 5, "bytes_total": 10, "bytes_fetched": 5, "files_fetched": 1}


def result(state: str, **changes: object) -> dict:
    about = {"state": state, "changed": False, "missing_files": [], "missing_bytes": 0, "bytes_fetched": 0, "diff": []}
    return {**about, "status": STATUS, **changes}


@pytest.fixture
def run():
    """Return a function that runs the action over prepared results, and the lines that it showed."""

    def runs(*results: dict, check_mode: bool = False, **arguments: object) -> tuple[dict, list[str]]:
        task = SimpleNamespace(args=arguments, check_mode=check_mode, async_val=0, action="checkpoint")
        action = ActionModule(task, None, None, None, None, None)
        lines, left = [], list(results)
        action._display = SimpleNamespace(display=lines.append)
        action._execute_module = lambda task_vars: left.pop(0) if len(left) > 1 else left[0]
        return action.run(task_vars={"inventory_hostname": "node-01"}), lines

    return runs


def test_shows_progress_until_the_checkpoint_is_whole(run):
    ended, lines = run(result("running"), result("running"), result("complete"))
    assert ended["state"] == "complete"
    assert [line.split()[0] for line in lines] == ["node-01", "node-01"]


def test_tells_what_the_first_look_found_and_the_agent_fetched(run):
    first = result("running", missing_files=["a"], missing_bytes=10)
    last = result("complete", status={**STATUS, "bytes_fetched": 10, "files_fetched": 2})
    ended, _ = run(first, last)
    assert ended["missing_files"] == ["a"]
    assert (ended["missing_bytes"], ended["bytes_fetched"], ended["files_fetched"]) == (10, 10, 2)
    assert ended["changed"]


def test_whole_checkpoint_changes_nothing(run):
    ended, lines = run(result("complete"))
    assert (ended["changed"], ended["bytes_fetched"], lines) == (False, 0, [])


def test_failure_of_a_later_look_is_the_answer(run):
    ended, _ = run(result("running"), {"failed": True, "msg": "a named failure"})
    assert ended == {"failed": True, "msg": "a named failure"}


def test_says_that_the_agent_goes_on_when_time_is_up(run):
    ended, _ = run(result("running"), timeout_seconds=0.01)
    assert ended["failed"]
    assert ended["msg"].startswith("node-01: not whole after 0.01 s; it goes on")


def test_check_mode_looks_once(run):
    ended, lines = run(result("running"), result("complete"), check_mode=True)
    assert (ended["state"], lines) == ("running", [])
