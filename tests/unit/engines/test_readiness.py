"""Waiting for a replica: ready by a generation only, and no wait for what will not come."""

import io
import urllib.error

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.module_utils import readiness

UP = {"ActiveState": "active", "SubState": "running", "InvocationID": "i1"}
CHECKS = {"ActiveState": "activating", "SubState": "start-pre", "InvocationID": "i1"}
ENDED = {
    "ActiveState": "activating",
    "SubState": "auto-restart",
    "InvocationID": "i1",
    "ExecMainCode": "1",
    "ExecMainStatus": "0",
}
AGAIN = {"ActiveState": "active", "SubState": "running", "InvocationID": "i2"}
PEER = {"engine": "e1", "node": "n2", "keeper": "http://n2"}
ENGINE = {"name": "e0", "unit": "u.service", "endpoint": "http://h", "model": "m", "ready_seconds": 30, "peers": []}
TOKEN = {"choices": [{"text": "x"}]}


class Clock:
    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


def waiter(states, answers, peers=()):
    """A waiter that sees `states` and `answers` one look after another; the last of each goes on."""

    def play(rows):
        rows = list(rows)
        return lambda: rows.pop(0) if len(rows) > 1 else rows[0]

    state, answer, peer = play(states), play(answers), play(peers or [{}])

    def fetch(url, body=None, timeout=0):
        value = peer() if url.endswith("/engines") else answer()
        if isinstance(value, Exception):
            raise value
        return value

    engine = {**ENGINE, "peers": [PEER] if peers else []}
    return readiness.Waiter(engine, lambda unit: state(), lambda unit: ["last words"], fetch, Clock())


def test_it_is_ready_when_a_token_comes():
    assert waiter([CHECKS, UP], [OSError("refused"), OSError("refused"), TOKEN]).wait() == 2.0


@pytest.mark.parametrize("answer", [{"choices": []}, {}, urllib.error.HTTPError("u", 500, "x", {}, io.BytesIO())])
def test_an_answer_without_a_token_is_not_ready(answer):
    with pytest.raises(readiness.NotReady, match="no token within 30 s"):
        waiter([UP], [answer]).wait()


def test_an_engine_that_ends_with_code_0_is_named_with_reason_and_last_lines_at_once():
    one = waiter([UP, UP, ENDED], [OSError("refused")])
    with pytest.raises(
        readiness.NotReady, match=r"engine e0 ended while loading, after 2 s: exit code 0\n.*\n  last words"
    ):
        one.wait()


def test_an_engine_that_systemd_started_again_has_failed():
    with pytest.raises(readiness.NotReady, match="started it again"):
        waiter([UP, AGAIN], [OSError("refused")]).wait()


@pytest.mark.parametrize(
    "seen",
    [
        [
            {"e1": {"phase": "up", "invocation": "p1", "ending": ""}},
            {"e1": {"phase": "down", "invocation": "p1", "ending": "exit code 0"}},
        ],
        [
            {"e1": {"phase": "up", "invocation": "p1", "ending": ""}},
            {"e1": {"phase": "up", "invocation": "p2", "ending": "exit code 0"}},
        ],
    ],
    ids=["down", "started again"],
)
def test_a_peer_that_ended_ends_the_wait_and_is_named(seen):
    with pytest.raises(readiness.NotReady, match="e0 waits for engine e1 on n2, which ended after 1 s .exit code 0"):
        waiter([UP], [OSError("refused")], seen).wait()


def test_a_keeper_that_does_not_answer_is_waited_out():
    assert waiter([UP], [OSError("refused"), TOKEN], [OSError("no route")]).wait() == 1.0
