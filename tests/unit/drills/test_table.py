"""What the words on the command line of the drills mean."""

import pytest

from rehearsal.commands import RehearsalError
from tests.drills import model, table

KNOWN = table.drills(model.sizes(200_000_000), 3)


def test_every_drill_has_its_day():
    turns = -(-len(KNOWN) // 3)

    assert {name for day in range(turns) for name in table.three(list(KNOWN), day)} == set(KNOWN)


@pytest.mark.parametrize("when", ["before", "60%", "7.5s"])
def test_a_drill_can_be_had_at_another_time(when):
    assert [fault.at for fault in table.named(f"agent-killed@{when}", KNOWN).faults] == [when]


def test_two_at_once_may_cost_what_both_may_cost_and_fail_where_either_fails():
    one, other, both = (table.named(name, KNOWN) for name in ("agent-gone", "disk-full", "agent-gone+disk-full"))

    assert both.faults == one.faults + other.faults
    assert both.fails == one.fails | other.fails
    assert both.wan == pytest.approx(one.wan + other.wan - table.CLEAN)


@pytest.mark.parametrize("words", ["no-such", "agent-killed@noon", "agent-killed+"])
def test_a_drill_that_is_none_is_refused_with_those_that_are(words):
    with pytest.raises(RehearsalError, match="there are: nothing, agent-killed"):
        table.named(words, KNOWN)


def test_a_checkpoint_has_the_size_that_was_asked_for_and_the_shards_that_it_says(tmp_path):
    folder = model.build(tmp_path, 5_000_000)

    found = {name: row["size"] for name, row in model.manifest(folder).items() if name.endswith(".safetensors")}
    assert list(found.values()) == model.sizes(5_000_000)
    assert folder.name == model.commit(5_000_000) != model.commit(5_000_001)
