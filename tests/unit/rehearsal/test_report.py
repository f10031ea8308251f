"""What a run ends with."""

import io
import json

import pytest
from rich.console import Console

from rehearsal import report
from rehearsal.deploy import Failure
from rehearsal.places import Site


@pytest.fixture
def site(tmp_path):
    found = Site(tmp_path / "inventories" / "trial", "trial", tmp_path)
    found.deploy_state.mkdir(parents=True)
    return found


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=120)


def test_success_shows_answer_engines_and_seconds_of_every_stage(site, console):
    engine = {
        "node": "node-01",
        "engine": "unified-0-rank-0",
        "rank": 0,
        "release": "5c09 bc1e 77aa",
    }
    found = {"answer": "Six [times] seven is 42.", "model": "tiny", "engines": [engine]}
    (site.deploy_state / "acceptance.json").write_text(json.dumps(found))

    report.success(
        console, site, {"build": 5, "prepare": 20.2, "serve": 41.0}, {"node-01": {"prepare": 17.0, "serve": 33.3}}
    )

    text = console.file.getvalue()
    assert "tiny answers: Six [times] seven is 42." in text
    assert all(
        word in text
        for word in ("node-01", "unified-0-rank-0", "5c09 bc1e 77aa", "prepare", "17", "33", "41", "build 5 s")
    )


def test_a_run_that_wrote_no_acceptance_says_so(site, console):
    report.success(console, site, {}, {})

    assert "wrote none" in console.file.getvalue()


def test_a_fault_that_hosts_share_is_told_once():
    failures = [Failure("serve", "Start", host, "no") for host in ("node-01", "node-02")]

    assert report.together(failures) == {("serve", "Start", "no"): ["node-01", "node-02"]}


def test_a_run_that_failed_before_any_task_shows_the_end_of_its_log(console, tmp_path):
    log = tmp_path / "log"
    log.write_text("ERROR! [conflict] in deploy.yml\n")

    report.failure(console, "failed", [], log)

    assert "ERROR! [conflict] in deploy.yml" in console.file.getvalue()


def test_a_failure_is_told_in_full(console, tmp_path):
    failures = [Failure("serve", "Start [it]", "node-01", "line one\n" + "x" * 500)]

    report.failure(console, "failed", failures, tmp_path / "log")

    text = console.file.getvalue()
    assert "serve | Start [it] | node-01" in text
    assert "x" * 500 in text
