"""The agent's unit: when it is started, and what the run makes of what it says; with the real agent, where it ends."""

from __future__ import annotations

import threading

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.fetch_unit import FetchUnit

from .conftest import SIZE, begun, end, fetched, running_process, until


def test_fetches_what_is_missing(make):
    checkpoint = make()
    fetched(checkpoint)
    assert checkpoint.store().missing() == []
    assert checkpoint.status()["bytes_fetched"] == 2 * SIZE


def test_leaves_an_agent_alone_that_is_at_work_on_it(make, origin):
    origin.inject({"bytes_per_second": SIZE})
    unit = begun(make())
    process = running_process()
    assert not unit.start()
    assert running_process() == process


def test_two_runs_at_once_start_one_agent(make, origin):
    origin.inject({"bytes_per_second": SIZE})
    checkpoint = make()
    checkpoint.prepare()
    seen = []

    def run():
        FetchUnit(checkpoint).start()
        seen.append(running_process())

    runs = [threading.Thread(target=run) for _ in range(2)]
    for one in runs:
        one.start()
    for one in runs:
        one.join()
    assert seen[0] == seen[1] != "0"


def test_starts_the_agent_again_when_its_input_changed(make, origin):
    origin.inject({"bytes_per_second": SIZE})
    unit = begun(make())
    process = running_process()
    assert unit.start(again=True)
    assert running_process() not in (process, "0")


def test_starts_the_agent_again_when_its_unit_changed(make, origin, bin_folder):
    origin.inject({"bytes_per_second": SIZE})
    unit = begun(make())
    process = running_process()
    (bin_folder / "reload").write_text("yes")
    unit.start()
    assert running_process() not in (process, "0")


def test_agent_that_is_done_and_serves_others_is_done(make, stand_in):
    checkpoint = make()
    unit = fetched(checkpoint)
    process = stand_in(checkpoint, state="complete")
    assert unit.word() == "complete"
    unit.start()
    assert running_process() == process


def test_agent_that_failed_and_serves_others_has_failed_and_is_started_by_a_new_run(make, stand_in):
    checkpoint = make()
    checkpoint.prepare()
    process = stand_in(checkpoint, state="failed")
    unit = FetchUnit(checkpoint)
    assert unit.wait(30) == "failed"
    unit.start()
    assert running_process() != process
    assert unit.wait(30) == "complete"


def test_word_of_an_earlier_run_is_not_that_of_the_present_one(make, stand_in):
    checkpoint = make()
    checkpoint.prepare()
    stand_in(checkpoint, state="failed", pid=1)
    assert FetchUnit(checkpoint).word() == "running"


def test_word_about_another_manifest_is_not_taken(make, stand_in):
    checkpoint = make()
    checkpoint.prepare()
    stand_in(checkpoint, state="failed", manifest_digest="sha256:other")
    assert FetchUnit(checkpoint).word() == "running"


def test_file_damaged_after_the_agent_was_done_is_fetched_again(make, stand_in):
    checkpoint = make()
    unit = fetched(checkpoint)
    process = stand_in(checkpoint, state="complete")
    (checkpoint.config.published / "1.safetensors").write_bytes(bytes(SIZE))
    assert unit.word() == "failed"
    unit.start()
    assert running_process() != process
    assert unit.wait(30) == "complete"


def test_agent_that_reads_back_is_at_work(make, stand_in):
    fetched(make())
    checkpoint = make(read_back=True)
    stand_in(checkpoint, state="verifying")
    assert FetchUnit(checkpoint).word() == "running"


@pytest.mark.parametrize(("file", "text"), [("job", "123"), ("system", "stopping")])
def test_node_that_boots_or_shuts_down_has_not_failed(make, bin_folder, file, text):
    checkpoint = make()
    checkpoint.prepare()
    unit = FetchUnit(checkpoint)
    assert unit.word() == "failed"
    (bin_folder / file).write_text(text)
    assert unit.word() == "running"


def test_waits_no_longer_than_asked(make, origin):
    origin.inject({"stall_after": 10})
    assert begun(make()).wait(0.5) == "running"


def test_failure_names_file_expected_found_and_remedy(make, origin):
    origin.inject({"path": "1.safetensors", "status": 404})
    unit = begun(make())
    assert unit.wait(30) == "failed"
    message = unit.failure()
    assert f"1.safetensors: expected {SIZE} bytes with SHA-256" in message
    assert "404" in message
    assert "remedy: see to the origin" in message


def test_failure_counts_the_other_files_that_are_missing(make):
    unit = begun(make(origins=[{"kind": "hub", "url": "http://127.0.0.1:9"}], streams=1))
    assert unit.wait(30) == "failed"
    assert unit.failure().endswith("missing besides: 1 of 2 files")


def test_failure_of_an_agent_that_said_nothing_shows_its_log(make, origin):
    origin.inject({"stall_after": 10})
    checkpoint = make()
    unit = begun(checkpoint)
    until(checkpoint.status)
    end(int(running_process()))
    assert unit.wait(30) == "failed"
    assert "2 of 2 files are missing: the last line" in unit.failure()


def test_reader_of_a_shared_filesystem_names_what_it_does_not_see(make, tmp_path):
    fetched(make())
    (make().config.published / "1.safetensors").unlink()
    unit = begun(make(reads_only=True, state=str(tmp_path / "state of another node")))
    assert unit.wait(30) == "failed"
    assert "1.safetensors: expected" in unit.failure()
    assert "found no such file in" in unit.failure()
    assert "remedy: see that this is the filesystem that the writing node has" in unit.failure()
