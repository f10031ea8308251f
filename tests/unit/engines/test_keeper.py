"""The keeper: which worker must start again, and what it tells the other nodes."""

import json
import threading
import urllib.error
import urllib.request

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.keeper import agent, systemd
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.keeper.pairing import Pairing


@pytest.mark.parametrize(
    "story, restarts",
    [
        ([("w1", "h1"), ("w1", "h1")], [False, False]),
        ([("w1", "h1"), ("w1", "h2")], [False, True]),
        ([("w1", "h1"), ("w1", ""), ("w1", "h2")], [False, False, True]),
        ([("w1", ""), ("w1", "h1")], [False, False]),
        ([("w1", "h1"), ("", "h2"), ("w2", "h2")], [False, False, False]),
        ([("w1", "h1"), ("w2", "h2")], [False, False]),
    ],
    ids=["nothing", "head again", "head gone and back", "worker first", "stopped by the deploy", "both again"],
)
def test_a_worker_starts_again_when_its_head_did(story, restarts):
    pairing = Pairing()
    assert [pairing.must_restart(own, head) for own, head in story] == restarts


def test_pairs_outlive_the_keeper():
    before = Pairing()
    before.must_restart("w1", "h1")
    assert Pairing(before.pairs).must_restart("w1", "h2")


def test_pairs_of_earlier_starts_are_dropped():
    pairing = Pairing({"w1": "h1", "w2": "h2"})
    pairing.forget_all_but("w2")
    assert pairing.pairs == {"w2": "h2"}


@pytest.fixture
def keeper(monkeypatch):
    state = {"ActiveState": "active", "SubState": "running", "InvocationID": "i1", "Result": "success"}
    monkeypatch.setattr(systemd, "show", lambda unit: state)
    monkeypatch.setattr(agent.Handler, "config", {"engines": [{"name": "e", "unit": "u", "head": None}]})
    server = agent.Server("127.0.0.1", 0, agent.Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()


def test_it_tells_phase_and_start_of_its_engines(keeper):
    assert agent.ask(keeper) == {"e": {"phase": "up", "invocation": "i1", "ending": "result success"}}


def test_it_answers_nothing_else(keeper):
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(keeper + "/../etc/passwd", timeout=3)


def test_a_keeper_that_does_not_answer_is_no_news():
    assert agent.ask("http://127.0.0.1:9") == {}


def test_a_worker_whose_head_came_back_is_started_again(monkeypatch):
    done = []
    monkeypatch.setattr(systemd, "show", lambda unit: {"ActiveState": "active", "InvocationID": "w1"})
    monkeypatch.setattr(systemd, "run", lambda argv, check=True: done.append(argv))
    monkeypatch.setattr(agent, "ask", lambda keeper: {"head": {"phase": "up", "invocation": "h2"}})
    engine = {"name": "e", "unit": "u.service", "head": {"engine": "head", "keeper": "http://k"}}
    agent.watch(engine, Pairing({"w1": "h1"}))
    assert done == [["systemctl", "restart", "--", "u.service"]]


def test_saved_pairs_are_read_again(monkeypatch, tmp_path):
    monkeypatch.setattr(agent, "STATE", str(tmp_path / "pairs.json"))
    assert agent.load_pairs() == {}
    agent.save_pairs({"e": {"w": "h"}})
    assert agent.load_pairs() == json.loads((tmp_path / "pairs.json").read_text()) == {"e": {"w": "h"}}


@pytest.mark.parametrize(
    "state, phase",
    [
        ({"ActiveState": "active", "SubState": "running"}, "up"),
        ({"ActiveState": "activating", "SubState": "start-pre"}, "starting"),
        ({"ActiveState": "activating", "SubState": "auto-restart"}, "down"),
        ({"ActiveState": "failed"}, "down"),
        ({"ActiveState": "inactive"}, "down"),
        ({}, "down"),
    ],
)
def test_the_pause_between_two_tries_is_down(state, phase):
    assert systemd.phase(state) == phase


@pytest.mark.parametrize(
    "state, words",
    [
        ({"ExecMainCode": "1", "ExecMainStatus": "0"}, "exit code 0"),
        ({"ExecMainCode": "1", "ExecMainStatus": "135"}, "exit code 135"),
        ({"ExecMainCode": "2", "ExecMainStatus": "9"}, "signal 9"),
        ({"Result": "timeout"}, "result timeout"),
    ],
)
def test_an_ending_is_told_in_words(state, words):
    assert systemd.ending(state) == words


def test_the_last_lines_are_the_engine_s_and_not_the_container_engine_s_steps():
    step = "2026-11-30 17:53:28.621855687 +0000 UTC m=+0.250557476 container create 342278dd (image=x)"
    said = "\n".join(["first", step, "second", step])
    assert systemd.last_lines("u", 2, runner=lambda argv, check: said) == ["first", "second"]


def test_the_command_is_that_of_the_running_process(tmp_path):
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cmdline").write_bytes(b"/usr/bin/podman\0run\0\0a b\0")
    running = {"ActiveState": "active", "MainPID": "7"}
    assert systemd.command_of(running, str(tmp_path)) == ["/usr/bin/podman", "run", "", "a b"]
    assert systemd.command_of({**running, "ActiveState": "failed"}, str(tmp_path)) == []
