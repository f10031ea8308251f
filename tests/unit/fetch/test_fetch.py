"""The agent against a hub and a disk that misbehave."""

from __future__ import annotations

import resource
import signal
import time
from pathlib import Path

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.fetch import agent, config
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.proof import store

from .conftest import COMMIT, MIB, SHARD


def hub(url: str) -> dict:
    return {"kind": "hub", "url": url}


def test_fetches_every_file_once(node, origin):
    assert node.run("fetch") == (0, "")
    assert node.is_whole()
    assert origin.sent() == node.manifest.bytes


def test_second_run_asks_for_nothing(node, origin):
    node.run("fetch")
    asked = len(origin.requests())
    assert node.run("fetch") == (0, "")
    assert len(origin.requests()) == asked


def test_nothing_but_the_files_is_left(node):
    node.run("fetch")
    assert not node.parts.exists()
    assert {str(path.relative_to(node.published)) for path in node.published.rglob("*") if path.is_file()} == {
        entry.path for entry in node.manifest.files
    }
    assert {path.stat().st_mode & 0o777 for path in node.published.iterdir() if path.is_file()} == {0o644}


def test_killed_run_is_resumed(node, origin):
    origin.inject({"bytes_per_second": 2 * MIB, "times": 2})
    assert node.kill_when_fetched(6 * MIB) == -signal.SIGKILL
    assert node.run("fetch")[0] == config.COMPLETE
    assert node.is_whole()
    assert origin.sent() < node.manifest.bytes + 2 * MIB


def test_stopped_run_says_so_and_is_resumed(node, origin):
    origin.inject({"bytes_per_second": 2 * MIB, "times": 2})
    assert node.kill_when_fetched(3 * MIB, signal.SIGTERM) == config.STOPPED
    assert node.status()["state"] == "stopped"
    assert node.run("fetch")[0] == config.COMPLETE
    assert origin.sent() < node.manifest.bytes + 2 * MIB


def test_a_silent_origin_does_not_hold_up_the_stop(node, origin):
    origin.inject({"stall_after": MIB})
    assert node.kill_when_fetched(2 * MIB, signal.SIGTERM) == config.STOPPED


MENDED = {
    "a cut connection": {"cut_after": 2 * MIB, "times": 3},
    "status 503": {"status": 503, "times": 2},
    "status 429 with Retry-After": {"status": 429, "retry_after": 1, "times": 1},
    "a stall": {"stall_after": MIB, "times": 1},
    "a wrong byte": {"path": SHARD, "flip": 4 * MIB, "times": 1},
    "a wrong length": {"path": SHARD, "shorten": 1000, "times": 1},
    "a redirect": {"redirect": True},
    "a signed link that ran out": {"path": "^/moved/", "status": 403, "times": 1},
}


@pytest.mark.parametrize("name", MENDED)
def test_mends(node, origin, name):
    node.configure(stall_seconds=0.5)
    origin.inject(MENDED[name], *([{"redirect": True}] if "signed" in name else []))
    code, output = node.run("fetch")
    assert code == config.COMPLETE, output
    assert node.is_whole()


def test_goes_on_where_a_cut_connection_ended(node, origin):
    origin.inject({"path": SHARD, "cut_after": 4 * MIB, "times": 1})
    node.run("fetch")
    assert origin.sent(SHARD) < 6 * MIB + MIB // 2


def test_waits_as_long_as_the_origin_asks(node, origin):
    origin.inject({"path": SHARD, "status": 503, "retry_after": 2, "times": 1})
    node.run("fetch")
    refused, served = origin.requests(SHARD)
    assert served["time"] - refused["time"] >= 2


def test_takes_the_next_origin_when_one_is_gone(node, origin):
    node.configure(origins=[hub("http://127.0.0.1:9"), hub(origin.url)])
    assert node.run("fetch")[0] == config.COMPLETE


NAMED = {
    "wrong bytes": ({"path": SHARD, "flip": 5}, "with SHA-256", 3),
    "a missing file": ({"path": SHARD, "status": 404}, "answered 404", 1),
    "a refusal": ({"path": SHARD, "status": 401}, "answered 401", 1),
    "a file that is too short": ({"path": SHARD, "shorten": 1}, "announced", 3),
}


@pytest.mark.parametrize("name", NAMED)
def test_names_the_file_that_cannot_be_had_and_fetches_the_others(node, origin, name):
    fault, found, requests = NAMED[name]
    origin.inject(fault)
    code, output = node.run("fetch")
    assert code == config.FAILED
    assert f"{SHARD}: expected" in output
    (row,) = node.status()["faults"]
    assert row["file"] == SHARD
    assert found in row["found"]
    assert len(origin.requests(SHARD)) == requests
    assert node.status()["files_done"] == len(node.manifest.files) - 1


def test_gives_up_on_a_dead_origin_at_once_for_all_files(node):
    node.configure(origins=[hub("http://127.0.0.1:9")], patience_seconds=2)
    code, output = node.run("fetch")
    assert code == config.FAILED
    assert "http://127.0.0.1:9 cannot be reached: Connection refused" in output
    assert len(node.status()["faults"]) <= 2


def test_out_of_space_keeps_what_is_there(node, origin):
    limit = 3 * MIB
    code, _ = node.run("fetch", preexec_fn=lambda: _limit_file_size(limit))
    assert code == config.NO_SPACE
    assert "free space" in node.status()["faults"][0]["remedy"]
    assert node.run("fetch")[0] == config.COMPLETE
    assert f"bytes={limit}-" in [line["range"] for line in origin.requests()]


def _limit_file_size(limit: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))


def test_second_run_at_once_says_who_is_at_work(node, origin):
    origin.inject({"bytes_per_second": MIB})
    first = node.start("fetch")
    while node.fetched() < MIB:
        time.sleep(0.01)
    code, output = node.run("fetch")
    first.kill()
    first.communicate()
    assert code == config.LOCKED
    assert f"process {first.pid} fetches {node.published}" in output


def test_removes_orphans_of_earlier_runs(node):
    other = node.parts.with_name(".part-" + "0" * 40)
    for path in (other / "x.part", node.parts / "no-such-file.part"):
        path.parent.mkdir(parents=True)
        path.write_bytes(b"left over")
    node.run("fetch")
    assert not other.exists()
    assert len(node.status()["orphans_removed"]) == 2


def test_reports_unknown_files_and_leaves_them(node):
    node.published.mkdir(parents=True)
    (node.published / "mine.txt").write_text("precious")
    node.run("fetch")
    assert node.status()["unknown_files"] == [str(node.published / "mine.txt")]
    assert (node.published / "mine.txt").read_text() == "precious"


def test_adopts_files_that_are_there_already(node, origin):
    node.published.mkdir(parents=True)
    (node.published / SHARD).write_bytes((origin.files / SHARD).read_bytes())
    assert node.run("fetch")[0] == config.COMPLETE
    assert not origin.requests(SHARD)


def test_replaces_a_damaged_file_alone(node, origin):
    node.run("fetch")
    node.flip(SHARD)
    asked = len(origin.requests())
    assert node.run("fetch")[0] == config.COMPLETE
    assert node.is_whole()
    assert len(origin.requests()) == asked + 1


def test_keeps_a_damaged_file_aside_until_it_is_replaced(node, origin):
    node.run("fetch")
    node.flip(SHARD)
    origin.inject({"path": SHARD, "status": 404})
    node.run("fetch")
    assert not (node.published / SHARD).exists()
    assert (node.parts / f"{SHARD}.bad").exists()


def test_damaged_part_is_fetched_again(node, origin):
    part = node.parts / f"{SHARD}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(bytes(2 * MIB))
    assert node.run("fetch")[0] == config.COMPLETE
    assert node.is_whole()


def test_part_that_is_whole_needs_no_origin(node, origin):
    part = node.parts / f"{SHARD}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes((origin.files / SHARD).read_bytes())
    node.run("fetch")
    assert not origin.requests(SHARD)


def test_token_does_not_follow_a_redirect(node, origin, tmp_path):
    (tmp_path / "token").write_text("secret\n")
    node.configure(token_file=str(tmp_path / "token"))
    origin.inject({"redirect": True})
    node.run("fetch")
    assert all(line["authorised"] != line["path"].startswith("/moved/") for line in origin.requests())


def test_status_adds_up(node, origin):
    node.run("fetch")
    status = node.status()
    assert status["state"] == "complete"
    assert status["bytes_done"] == status["bytes_total"] == node.manifest.bytes
    assert status["sources"] == {origin.url: node.manifest.bytes}
    assert status["files_fetched"] == len(node.manifest.files)
    assert status["manifest_digest"] == node.manifest.digest


def test_status_shows_progress_while_it_runs(node, origin):
    origin.inject({"bytes_per_second": MIB})
    process = node.start("fetch")
    while not node.status().get("bytes_done"):
        time.sleep(0.01)
    status = node.status()
    process.kill()
    process.communicate()
    assert status["state"] == "running"
    assert status["files"][SHARD]["state"] == "fetching"
    assert status["files"][SHARD]["bytes"] < 6 * MIB
    assert status["seconds_left"] > 0


def test_unusable_configuration(node):
    node.config.write_text("{}")
    code, output = node.run("fetch")
    assert (code, output.startswith("not a configuration")) == (config.UNUSABLE, True)


def test_unusable_manifest(node):
    (node.state / "manifest.json").write_text('{"repo": "a/b", "commit": "main", "files": []}')
    code, output = node.run("fetch")
    assert code == config.UNUSABLE
    assert "commit 'main': must be 40 hexadecimal digits; no files" in output


def test_verify_by_stamps_reads_no_file(node, monkeypatch):
    node.run("fetch")
    monkeypatch.setattr(store, "hash_file", lambda *_: pytest.fail("read a file"))
    settings, manifest = config.load(str(node.config))
    assert store.verify(store.Store(settings, manifest), full=False) == []


DAMAGE = {
    "a flipped byte, mtime put back": (lambda node: node.flip(SHARD), "SHA-256"),
    "a file that is gone": (lambda node: (node.published / SHARD).unlink(), "no file"),
    "a file that was cut": (lambda node: (node.published / SHARD).write_bytes(b"short"), "5 bytes"),
    "a link": (lambda node: _replace_by_link(node.published / SHARD), "not a regular file"),
}


def _replace_by_link(path: Path) -> None:
    path.rename(path.with_suffix(".moved"))
    path.symlink_to(path.with_suffix(".moved"))


@pytest.mark.parametrize("name", DAMAGE)
def test_quick_verification_names(node, name):
    damage, found = DAMAGE[name]
    node.run("fetch")
    damage(node)
    code, output = node.run("verify", "--quick")
    assert code == config.BAD_FILES
    (line,) = output.splitlines()
    assert line.startswith(f"{SHARD}: expected {6 * MIB + 2} bytes")
    assert found in line
    assert "run playbooks/checkpoint.yml" in line


def test_whole_checkpoint_passes_both_verifications(node):
    node.run("fetch")
    assert node.run("verify", "--quick") == (0, "")
    assert node.run("verify", "--full") == (0, "")


def test_full_verification_finds_what_a_stamp_hides_and_the_next_fetch_mends_it(node):
    node.run("fetch")
    node.flip(SHARD)
    node.forge_stamp(SHARD)
    assert node.run("verify", "--quick")[0] == config.COMPLETE
    assert node.run("verify", "--full")[0] == config.BAD_FILES
    assert node.run("fetch")[0] == config.COMPLETE
    assert node.is_whole()


def test_touched_but_right_file_gets_a_new_stamp(node, monkeypatch):
    node.run("fetch")
    (node.published / SHARD).touch()
    assert node.run("verify", "--quick") == (0, "")
    settings, manifest = config.load(str(node.config))
    assert store.Store(settings, manifest).missing() == []


def test_a_fault_of_its_own_ends_it_and_is_said(node, monkeypatch):
    monkeypatch.setattr(agent, "receive", lambda *_: 1 / 0)
    monkeypatch.setattr(agent.signal, "signal", lambda *_: None)
    assert agent.fetch(*config.load(str(node.config))) == config.FAILED
    assert node.status()["state"] == "failed"
    assert "division by zero" in node.status()["faults"][0]["found"]


def test_commit_is_part_of_every_request(node, origin):
    node.run("fetch")
    assert all(f"/resolve/{COMMIT}/" in line["path"] for line in origin.requests())
