"""The record of a site, and its lock."""

import os

import pytest

from rehearsal.commands import RehearsalError
from rehearsal.containers import Host
from rehearsal.state import State, locked

STATE = State("/inventory", "podman", "10.213.7.0/24", [Host("node-01", "host", "10.213.7.11")], {"host": "image:1"})


def test_a_record_is_read_back_as_it_was_written(tmp_path):
    STATE.save(tmp_path / "site" / "state.json")

    assert State.load(tmp_path / "site" / "state.json") == STATE


def test_no_record_means_no_site(tmp_path):
    assert State.load(tmp_path / "state.json") is None


def test_writing_leaves_nothing_but_the_record(tmp_path):
    STATE.save(tmp_path / "state.json")

    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


def test_a_second_holder_is_refused_with_the_process_of_the_first(tmp_path):
    path = tmp_path / "site.lock"

    with locked(path), pytest.raises(RehearsalError, match=f"process {os.getpid()} "), locked(path):
        pass


def test_a_lock_can_be_taken_again_once_it_is_free(tmp_path):
    for _ in range(2):
        with locked(tmp_path / "site.lock"):
            pass


def test_a_lock_left_by_a_dead_process_is_no_obstacle(tmp_path):
    path = tmp_path / "site.lock"
    path.write_text("4194304")

    with locked(path):
        assert path.read_text() == str(os.getpid())
