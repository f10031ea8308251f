"""The scheduler: what each node decides, and that a site of nodes gets everywhere whatever fails on the way."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.fetch.scheduler import Have, Job, Scheduler
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.proof.owners import assign
from hypothesis import given, settings
from hypothesis import strategies as st

ORIGIN = "https://hub.example"
SIZES = [10, 9, 8, 7, 6, 5]


def site(node, nodes, wan, silence=30, patience=900):
    return SimpleNamespace(node=node, nodes=nodes, wan_nodes=wan, silence_seconds=silence, patience_seconds=patience)


def lone(node="a", nodes=("a", "b", "c"), wan=("a", "b", "c"), origins=(ORIGIN,), **options):
    return Scheduler(site(node, nodes, wan, **options), SIZES, origins, 0, random.Random(1))


def heard(one, now=0.0, **haves):
    for name in one.seen:
        one.saw(name, haves.get(name, Have()), now)
    return one


def owned(one, node):
    return [index for index, owner in enumerate(assign(["a", "b", "c"], ["a", "b", "c"], SIZES)[0]) if owner == node]


class TestAssign:
    @given(st.lists(st.integers(1, 10**12), min_size=1, max_size=60), st.integers(1, 9), st.data())
    def test_every_file_has_an_owner_and_a_fetcher_on_the_link(self, sizes, count, data):
        nodes = [f"node-{n}" for n in range(count)]
        wan = data.draw(st.lists(st.sampled_from(nodes), min_size=1, unique=True))
        owners, fetchers = assign(nodes, wan, sizes)
        assert len(owners) == len(fetchers) == len(sizes)
        assert set(owners) <= set(nodes) and set(fetchers) <= set(wan)
        assert all(fetcher == owner for owner, fetcher in zip(owners, fetchers, strict=True) if owner in wan)

    def test_shares_differ_by_no_more_than_one_file(self):
        nodes, sizes = [f"node-{n}" for n in range(8)], [17] * 96 + [1] * 22
        owners, _ = assign(nodes, nodes, sizes)
        shares = [sum(size for size, owner in zip(sizes, owners, strict=True) if owner == node) for node in nodes]
        assert max(shares) - min(shares) <= 17

    def test_nodes_off_the_link_hand_on_what_the_one_on_it_brings(self):
        nodes, sizes = [f"node-{n}" for n in range(4)], [17] * 96
        owners, fetchers = assign(nodes, ["node-0"], sizes)
        assert set(fetchers) == {"node-0"}
        assert owners.count("node-0") <= 2


class TestOneNode:
    def test_brings_only_its_own_files_over_the_link(self):
        one = heard(lone())
        jobs = [one.pick_origin(3) for _ in SIZES]
        assert sorted(job.index for job in jobs if job) == owned(one, "a")

    def test_hears_the_others_before_it_uses_the_link(self):
        assert lone().pick_origin(9) is None
        assert heard(lone()).pick_origin(0)
        assert lone().pick_origin(11)

    def test_takes_a_file_from_a_holder_rather_than_over_the_link(self):
        one = heard(lone(), b=Have(whole=frozenset(owned(None, "a"))))
        assert one.pick_origin(3) is None
        assert one.pick_peer(3).source == "b"

    def test_follows_the_owner_of_a_growing_file_and_nobody_else(self):
        mine, others = owned(None, "a"), owned(None, "b")
        one = heard(lone(), b=Have(growing={others[0]: ""}), c=Have(growing={others[0]: "b", mine[0]: "b"}))
        assert one.pick_peer(3) == Job(others[0], "b")
        assert one.pick_peer(3) is None

    def test_does_not_follow_a_file_back_to_itself(self):
        others = owned(None, "b")
        one = heard(lone(), b=Have(growing={others[0]: "a"}))
        assert one.pick_peer(3) is None

    def test_takes_over_from_an_owner_that_was_not_seen_for_so_long(self):
        one = heard(lone(nodes=("a", "b"), wan=("a", "b")))
        mine = [one.pick_origin(3) for _ in SIZES]
        assert mine[-1] is None
        assert one.pick_origin(29) is None
        assert one.pick_origin(31)

    def test_takes_over_a_file_that_its_owner_gave_up(self):
        others = [index for index, owner in enumerate(assign(["a", "b"], ["a", "b"], SIZES)[0]) if owner == "b"]
        one = lone(nodes=("a", "b"), wan=("a", "b"))
        one.saw("b", Have(given_up=frozenset(others[:1])), 0)
        jobs = {job.index for _ in SIZES if (job := one.pick_origin(3))}
        assert others[0] in jobs and others[1] not in jobs

    def test_does_not_ask_a_pair_again_that_gave_wrong_bytes_and_does_not_count_it(self):
        mine = owned(None, "a")
        one = heard(lone(), b=Have(whole=frozenset(mine)))
        job = one.pick_peer(3)
        one.wrong(job, 3, {"b"}, "bad")
        assert one.pick_origin(20).index == job.index
        assert (nxt := one.pick_peer(20)) is None or nxt.index != job.index

    def test_strikes_all_who_had_a_part_in_a_mixed_file(self):
        mine = owned(None, "a")
        one = heard(lone(), b=Have(whole=frozenset(mine)), c=Have(whole=frozenset(mine)))
        for _ in range(3):
            job = Job(mine[0], "b")
            one.wrong(job, 3, {"b", "c"}, "bad")
        assert one._fetcher(mine[0], 3) == "a"
        assert one._usable(mine[0], 3) == []

    def test_waits_longer_after_each_fault_and_as_long_as_the_source_asks(self):
        one = heard(lone())
        job = one.pick_origin(3)
        one.ended(job, 3, False, "503", wait=60)
        assert one.pick_origin(62) is None
        assert one.pick_origin(65)

    def test_a_source_that_refuses_for_good_is_given_up_for_that_file_only(self):
        one = heard(lone())
        job = one.pick_origin(3)
        one.ended(job, 3, False, "404", final=True)
        assert one.have(3).given_up == {job.index}
        assert one.pick_origin(3).index != job.index

    def test_an_origin_without_a_byte_for_longer_than_the_patience_is_given_up(self):
        one = lone(nodes=("a",), wan=("a",), patience=10)
        job = one.pick_origin(3)
        one.ended(job, 3, False, "refused")
        one.ended(one.pick_origin(12), 12, False, "refused")
        assert one.have(12).settled == ""
        one.ended(one.pick_origin(16), 16, False, "refused")
        assert one.have(16).settled == "failed"
        assert "refused" in one.reasons(0)

    def test_the_next_origin_is_asked_while_the_first_pauses(self):
        one = lone(nodes=("a",), wan=("a",), origins=(ORIGIN, "drive:/mnt"))
        job = one.pick_origin(3)
        one.ended(job, 3, False, "refused")
        assert one.pick_origin(3).source == "drive:/mnt"

    def test_a_node_that_waits_for_the_file_itself_is_not_to_blame(self):
        others = owned(None, "b")
        one = heard(lone(), b=Have(growing={others[0]: ""}))
        for now in range(3, 90, 2):
            heard(one, now, b=Have(growing={others[0]: ""}))
            if job := one.pick_peer(now):
                one.ended(job, now, False, "no byte for too long")
        assert one._fetcher(others[0], 90) == "b"
        assert one.reasons(others[0]) != "no byte for too long"

    def test_a_late_node_spreads_its_requests_over_the_holders(self):
        everything = Have(whole=frozenset(range(len(SIZES))))
        one = heard(lone(), b=everything, c=everything)
        sources = [one.pick_peer(3).source for _ in SIZES]
        assert sources.count("b") == sources.count("c") == 3

    def test_does_not_crowd_the_one_on_the_link_while_the_owner_is_on_its_way(self):
        owners, _ = assign(["a", "b", "c"], ["c"], SIZES)
        one = heard(lone(wan=["c"]), c=Have(whole=frozenset(range(len(SIZES)))))
        jobs = {job.index for _ in SIZES if (job := one.pick_peer(3))}
        assert jobs == {index for index, owner in enumerate(owners) if owner in ("a", "c")}

    def test_waits_for_nodes_on_the_link_that_were_seen_within_the_patience(self):
        one = lone(wan=["b"], patience=100)
        assert one.have(99).settled == ""
        assert one.have(101).settled == "failed"
        assert "b, which may use the origins, was never seen" in one.reasons(0)


class World:
    """A site in steps of a second, with everything that can go wrong."""

    def __init__(self, chance, count, files, wan=None, silence=5):
        self.chance, self.now, self.sizes = chance, 0.0, [chance.randrange(1, 9) for _ in range(files)]
        self.names = [f"n{n}" for n in range(count)]
        self.wan = wan or self.names
        self.origin_up, self.silence = True, silence
        self.liars: set[tuple[str, int]] = set()
        self.brought: list[int] = []
        self.nodes: dict[str, Scheduler] = {}
        self.jobs: dict[str, list] = {}
        for name in self.names:
            self.start(name)

    def start(self, name, whole=()):
        one = Scheduler(
            site(name, self.names, self.wan, self.silence, 10**6), self.sizes, [ORIGIN], self.now, self.chance
        )
        one.whole |= set(whole)
        self.nodes[name], self.jobs[name] = one, []

    def stop(self, name):
        return self.nodes.pop(name).whole, self.jobs.pop(name)

    def step(self):
        self.now += 1
        haves = {name: one.have(self.now) for name, one in self.nodes.items()}
        for name, one in self.nodes.items():
            for other, have in haves.items():
                if other != name and self.chance.random() < 0.8:
                    one.saw(other, have, self.now)
        for name, one in self.nodes.items():
            for pick in (one.pick_origin, one.pick_peer, one.pick_peer):
                if job := pick(self.now):
                    self.jobs[name].append([job, self.chance.randrange(1, 4)])
                    self.brought += [job.index] if job.source == ORIGIN else []
            for entry in list(self.jobs[name]):
                self.advance(name, one, entry)

    def advance(self, name, one, entry):
        job, left = entry
        source = self.nodes.get(job.source)
        gone = not self.origin_up if job.source == ORIGIN else source is None
        unready = source and job.index not in source.whole
        if gone or (unready and job.index not in source.active):
            self.jobs[name].remove(entry)
            one.ended(job, self.now, False, "went away")
        elif left > 1 or unready:
            entry[1] = max(1, left - 1)
        else:
            self.jobs[name].remove(entry)
            if (job.source, job.index) in self.liars:
                one.wrong(job, self.now, {job.source}, "wrong")
            else:
                one.ended(job, self.now, True)

    def is_done(self):
        return all(len(one.whole) == len(self.sizes) for one in self.nodes.values())


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9), st.integers(1, 6), st.integers(1, 12), st.booleans())
def test_every_file_reaches_every_living_node_whatever_fails(seed, count, files, few):
    chance = random.Random(seed)
    names = [f"n{n}" for n in range(count)]
    world = World(chance, count, files, chance.sample(names, chance.randrange(1, count + 1)) if few else None)
    honest = world.wan[0]
    world.liars = {(name, index) for name in names for index in range(files) if chance.random() < 0.1}
    world.liars -= {(honest, index) for index in range(files)}
    dead: dict[str, set] = {}
    for _ in range(60):
        world.step()
        if world.nodes and chance.random() < 0.1:
            name = chance.choice(list(world.nodes))
            dead[name] = world.stop(name)[0]
        if dead and chance.random() < 0.1:
            name = chance.choice(list(dead))
            world.start(name, dead.pop(name))
        if chance.random() < 0.1:
            world.origin_up = not world.origin_up
    # From now on one way in stays open.
    world.origin_up = True
    if honest not in world.nodes:
        world.start(honest, dead.pop(honest))
    for _ in range(400):
        if world.is_done():
            return
        world.step()
    pytest.fail(str({name: (sorted(one.whole), one.active) for name, one in world.nodes.items()}))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**9), st.integers(2, 6))
def test_without_any_origin_the_holders_that_live_suffice(seed, count):
    chance = random.Random(seed)
    world = World(chance, count, 8)
    world.origin_up = False
    for index in range(8):
        world.nodes[chance.choice(world.names)].whole.add(index)
    for _ in range(300):
        world.step()
    assert world.is_done()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**9), st.integers(2, 8))
def test_undisturbed_each_file_crosses_the_link_once(seed, count):
    chance = random.Random(seed)
    world = World(chance, count, 20, silence=30)
    for _ in range(300):
        world.step()
        if world.is_done():
            break
    assert sorted(world.brought) == list(range(20))
