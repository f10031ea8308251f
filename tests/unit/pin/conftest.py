"""A registry for each test that wants one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.pin.running_registry import RunningRegistry


@pytest.fixture
def registry() -> Iterator[RunningRegistry]:
    running = RunningRegistry()
    yield running
    running.stop()
