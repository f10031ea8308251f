"""The lines that tell how far a node and the site are."""

from __future__ import annotations

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.progress import Progress, duration, progress_line

STATUS = {"bytes_done": 12_300_000, "bytes_total": 48_000_000, "bytes_per_second": 10_000_000, "seconds_left": 4}
TB, GB = 10**12, 10**9


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "node-01  12.3/48.0 MB  25 %  10.0 MB/s  4 s left"),
        ({"bytes_total": 1_560_998_984_390}, "node-01  0.0/1.6 TB  0 %  10.0 MB/s  4 s left"),
        ({"bytes_per_second": 1_250_000_000}, "node-01  12.3/48.0 MB  25 %  1.2 GB/s  4 s left"),
        (
            {"bytes_per_second": 0, "seconds_left": None, "last_error": {"message": "origin is gone"}},
            "node-01  12.3/48.0 MB  25 %  0.0 MB/s  no byte comes  last error: origin is gone",
        ),
        (
            {"bytes_per_second": 0, "seconds_left": None, "files": {"a": {"state": "checking"}}},
            "node-01  12.3/48.0 MB  25 %  0.0 MB/s  checks what is there",
        ),
        (
            {"state": "verifying", "bytes_done": 48_000_000, "bytes_verified": 24_000_000},
            "node-01  24.0/48.0 MB  50 %  10.0 MB/s  4 s left  reads back what is on the disk",
        ),
    ],
)
def test_says_how_far_a_node_is(changes, line):
    assert progress_line("node-01", {**STATUS, **changes}) == line


def test_says_that_an_agent_has_not_said_anything_yet():
    assert progress_line("node-01", {}) == "node-01  the agent starts"


def lines(*looks: dict) -> list[str]:
    """The site's lines at looks of ten seconds each; a look is what the node says of the site."""
    progress, known = Progress("gpu-01", "lima"), {"nodes": 8, "complete": 0, "bytes_total": 12 * TB, "leads": True}
    shown = [progress.lines({**STATUS, "site": {**known, **look}}, 10 * number) for number, look in enumerate(looks)]
    return [line for look in shown for line in look[1:]]


def test_says_how_far_the_site_is():
    said = lines({"bytes_done": 3 * TB - 50 * GB, "complete": 2}, {"bytes_done": 3 * TB, "complete": 2})
    assert said[-1] == "lima  3.0/12.0 TB  25 %  5.0 GB/s  30 min left  2 of 8 nodes whole"


def test_names_nodes_that_failed_and_that_nobody_sees():
    (said,) = lines({"bytes_done": 0, "failed": ["gpu-03"], "unseen": ["gpu-07", "gpu-08"]})
    assert said.endswith("0 of 8 nodes whole  failed: gpu-03  unseen: gpu-07, gpu-08")


def test_says_when_no_byte_moves_anywhere():
    assert "no byte comes" in lines({"bytes_done": 0}, {"bytes_done": 0})[-1]


def test_node_that_does_not_speak_for_the_site_says_nothing_of_it():
    assert lines({"bytes_done": 0, "leads": False}) == []


def test_node_that_is_alone_is_no_site():
    assert lines({"bytes_done": 0, "nodes": 1}) == []


@pytest.mark.parametrize(
    ("seconds", "text"), [(4, "4 s"), (200, "3 min 20 s"), (60, "1 min"), (1935, "32 min"), (7500, "2 h 5 min")]
)
def test_says_a_duration_as_a_person_would(seconds, text):
    assert duration(seconds) == text
