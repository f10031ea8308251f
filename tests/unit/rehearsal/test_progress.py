"""The clock of a run, its estimate and its lines."""

import pytest

from rehearsal import progress
from rehearsal.progress import Clock, Lines


class Time:
    """A clock that the test moves."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def clock(time):
    return Clock({"start": 10.0, "serve": 60.0, "accept": 5.0}, time)


def test_all_is_left_before_the_first_stage(clock):
    assert clock.left == 75.0


@pytest.mark.parametrize(("seconds", "left"), [(4, 71.0), (10, 65.0), (30, 65.0)], ids=["early", "in time", "late"])
def test_time_left_falls_within_a_stage_but_never_below_the_stages_to_come(clock, time, seconds, left):
    clock.enter("start")
    time.now += seconds

    assert clock.left == left


def test_a_stage_that_was_jumped_over_still_counts_as_to_come(clock):
    clock.enter("serve")

    assert clock.left == 75.0


def test_seconds_of_a_stage_that_is_entered_twice_add_up(clock, time):
    for stage, seconds in (("start", 3), ("serve", 20), ("start", 4)):
        clock.enter(stage)
        time.now += seconds

    assert clock.spent == {"start": 7.0, "serve": 20.0}


def test_an_unknown_stage_takes_no_expected_time(clock, time):
    clock.enter("doctor")
    time.now += 9

    assert clock.left == 75.0


def test_a_run_of_a_kind_is_estimated_from_the_last_one_of_that_kind(tmp_path):
    record = tmp_path / "durations.json"
    progress.remember("warm", {"serve": 41.04}, record)
    progress.remember("again", {"serve": 2.0}, record)

    assert progress.expected("warm", record) == {"serve": 41.0}


@pytest.mark.parametrize("content", [None, "not json", "{}"], ids=["no record", "damaged", "other kinds only"])
def test_without_a_record_the_committed_estimate_is_used(tmp_path, content):
    record = tmp_path / "durations.json"
    if content is not None:
        record.write_text(content)

    assert progress.expected("cold", record)["build"] == progress.ROUGH["cold"]["build"]


def test_a_line_says_elapsed_left_stage_and_step(clock, time):
    clock.enter("serve")
    time.now += 62

    assert progress.line(clock, "Start the head") == " 1:02, about 0:15 left | serve: Start the head"


def test_a_log_gets_big_steps_at_once_and_small_ones_now_and_then(clock, time, capsys):
    lines = Lines()
    clock.enter("serve")
    lines.step(clock, "big", big=True)
    for seconds in range(1, 17):
        time.now = 100.0 + seconds
        lines.step(clock, f"small {seconds}")

    said = [line.rpartition(": ")[2] for line in capsys.readouterr().out.splitlines()]
    assert said == ["big", "small 15"]
