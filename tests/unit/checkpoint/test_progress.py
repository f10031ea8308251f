"""The line that tells how far a node is."""

from __future__ import annotations

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.progress import duration, progress_line

STATUS = {"bytes_done": 12_300_000, "bytes_total": 48_000_000, "bytes_per_second": 10_000_000, "seconds_left": 4}


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "node-01  12.3/48.0 MB  25 %  10.0 MB/s  4 s left"),
        ({"bytes_total": 1_560_998_984_390}, "node-01  0.0/1.6 TB  0 %  10.0 MB/s  4 s left"),
        (
            {"bytes_per_second": 0, "seconds_left": None, "last_error": {"message": "origin is gone"}},
            "node-01  12.3/48.0 MB  25 %  0.0 MB/s  no byte comes  last error: origin is gone",
        ),
        (
            {"bytes_per_second": 0, "seconds_left": None, "files": {"a": {"state": "checking"}}},
            "node-01  12.3/48.0 MB  25 %  0.0 MB/s  checks what is there",
        ),
    ],
)
def test_says_how_far_a_node_is(changes, line):
    assert progress_line("node-01", {**STATUS, **changes}) == line


def test_says_that_an_agent_has_not_said_anything_yet():
    assert progress_line("node-01", {}) == "node-01  the agent starts"


@pytest.mark.parametrize(("seconds", "text"), [(4, "4 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")])
def test_says_a_duration_as_a_person_would(seconds, text):
    assert duration(seconds) == text
