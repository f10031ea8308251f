"""The runner of the checks."""

from __future__ import annotations

import pytest

from tools import checks

PASSES, FAILS = "true", "ls /nowhere-at-all"


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Steps of which the first fails."""
    found = {"first": FAILS, "second": PASSES}
    monkeypatch.setattr(checks, "STEPS", found)
    return found


def test_a_failed_step_fails_the_run_after_the_others_have_run(
    steps: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert checks.main([]) == 1
    assert f"=== second: {PASSES}" in capsys.readouterr().out


def test_the_summary_says_which_step_failed_with_what(
    steps: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    checks.main([])
    summary = capsys.readouterr().out.partition("=== summary")[2]
    assert f"FAILED first: exit code 2 from: {FAILS}" in summary
    assert "No such file or directory" in summary


def test_named_steps_run_alone(steps: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert checks.main(["second"]) == 0
    assert "first" not in capsys.readouterr().out


def test_an_unknown_step_is_refused_by_name(steps: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert checks.main(["third"]) == 2
    assert "unknown steps: third; there are: first, second" in capsys.readouterr().err
