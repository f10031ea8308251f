"""What the checkpoint benchmarks rely on; their numbers are what they print."""

from __future__ import annotations

import sys

import pytest

from benchmarks import fluid, k3_files, random_model
from benchmarks.checkpoint_fanout import Result, Scenario, bars
from benchmarks.fanout_methods import AGENT
from benchmarks.processes import Failed, Processes

SLOW_LINK, FAST_LINK, NO_LIMIT = 1e6, 2e6, 1e12


def test_k3_has_as_many_files_and_bytes_as_the_catalogue_says():
    assert (len(k3_files.sizes()), sum(k3_files.sizes())) == (118, 1_560_998_984_390)


@pytest.mark.parametrize("count", [4, 32, 96])
def test_a_random_model_has_the_size_that_was_asked_for(count):
    sizes = random_model.shard_sizes(200_000_000, count)
    assert len(sizes) == count
    assert abs(sum(sizes) - 200_000_000) < count


def test_a_copy_with_a_flipped_byte_is_told(tmp_path):
    model = random_model.make(tmp_path / "origin", 1_000_000, 4)
    assert not list(random_model.wrong_files(model, model.folder))
    damaged = model.folder / "config.json"
    damaged.write_bytes(bytes([damaged.read_bytes()[0] ^ 1]) + damaged.read_bytes()[1:])
    assert list(random_model.wrong_files(model, model.folder)) == ["config.json"]


def test_the_scheduler_brings_every_byte_over_the_link_once_and_in_about_the_physical_limit():
    sizes = [1_000_000] * 40
    found = fluid.Site(AGENT, 4, sizes, fluid.Links(SLOW_LINK, FAST_LINK, NO_LIMIT), step=0.05).run()
    assert found.wan == pytest.approx(1)
    assert found.seconds == pytest.approx(sum(sizes) / SLOW_LINK, rel=0.1)


def test_processor_time_of_an_ended_process_is_counted_once(tmp_path):
    processes = Processes(tmp_path)
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    process = processes.start([sys.executable, "-c", burn], "burn")
    while processes.wait(process, 0) is None:
        pass
    processes.wait(process)
    assert 0.3 <= processes.seconds < 0.6


def test_a_process_that_fails_is_told_with_the_end_of_its_log(tmp_path):
    with pytest.raises(Failed, match="no such thing"):
        Processes(tmp_path).call([sys.executable, "-c", "raise SystemExit('no such thing')"], "fails")


@pytest.mark.parametrize(
    ("wan", "seconds", "held"),
    [(50, 1.25, [True, True]), (50, 1.26, [False, True]), (100, 1.40, [True, True]), (100, 1.41, [False, True])],
)
def test_the_bar_on_time_follows_from_the_links(wan, seconds, held):
    result = Result("agent", 4, seconds=seconds, limit=1, origin_link=1.02)
    assert [ok for _, ok in bars(Scenario(4, wan, 100, 1), result)] == held


def test_what_left_the_origin_is_the_larger_of_two_counts():
    assert Result("agent", 2, origin_link=1.01, origin_hub=1.03).origin == 1.03
