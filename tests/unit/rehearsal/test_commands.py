"""Running commands, and being interrupted."""

import signal
import sys
import time

import pytest

from rehearsal import commands
from rehearsal.commands import Interrupted, Job, RehearsalError


@pytest.fixture
def signals():
    return commands._Signals()


def test_a_signal_interrupts_at_once(signals):
    with pytest.raises(Interrupted):
        signals.handle(signal.SIGINT, None)


def test_a_signal_during_a_short_command_waits_for_its_end(signals):
    steps = []
    with pytest.raises(Interrupted):
        with signals.held():
            signals.handle(signal.SIGTERM, None)
            steps.append("went on")
        steps.append("went too far")

    assert steps == ["went on"]


def test_a_failed_command_is_told_with_its_output():
    with pytest.raises(RehearsalError, match=r"(?s)exit code 3 of: .*why"):
        commands.run([sys.executable, "-c", "print('why'); raise SystemExit(3)"])


def test_input_reaches_the_command():
    assert commands.run(["cat"], stdin=b"text").stdout == "text"


def test_a_failed_job_is_told_with_the_end_of_its_log(tmp_path):
    job = Job([sys.executable, "-c", "raise SystemExit('why')"], tmp_path / "log")

    with pytest.raises(RehearsalError, match="(?s)why.*log"):
        job.wait()


def test_ending_a_job_ends_its_children(tmp_path):
    child = tmp_path / "child"
    job = Job(["sh", "-c", f"sleep 600 & echo $! > {child}.new; mv {child}.new {child}; wait"], tmp_path / "log")
    while not child.exists():
        time.sleep(0.01)

    job.end()

    # A process that ended but was not yet reaped by its new parent is a zombie.
    assert commands.run(["ps", "-o", "stat=", "-p", child.read_text().strip()], check=False).stdout.strip() in ("", "Z")
