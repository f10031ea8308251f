"""What holds for every sound site, whatever its size and whatever order it is written in."""

from __future__ import annotations

import random
import re

import yaml
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.inventory import NODE_VARIABLES, SITE_VARIABLES
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.network import AGENT_PORTS
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.planner.samples import Sample, builtin, cell, cusco, engines

NODES = "serving_nodes_per_replica"
LAYOUTS = [
    (hardware, profile)
    for hardware, entry in sorted(builtin().entries["hardware"].items())
    for profile in entry["layouts"]
    if hardware != "cpu"
]
OVERRIDES = {"flags": {"--max-num-seqs": 4, "--enforce-eager": True}, "env": {"B": 1, "A": 2}}
PROPOSAL = re.compile(rf"serving_profile: (\w+) with {NODES}: (\d+|{{[^}}]*}})")


def site(layout: tuple[str, str], replicas: int) -> Sample:
    """A site of so many replicas of each pool, each of the hardware's usual size."""
    hardware, profile = layout
    usual = builtin().find("hardware", hardware)["layouts"][profile]
    sample = cell(hardware, profile, {pool: row["nodes"] * replicas for pool, row in usual.items()})
    return sample.with_site(serving_overrides=OVERRIDES, serving_nodes_per_replica=None)


RACK = 18  # trays of one NVLink domain; nodes beyond them must name another
sites = st.builds(site, st.sampled_from(LAYOUTS), st.integers(1, 3)).filter(
    lambda s: len(s.groups["gpu_nodes"]) <= RACK
)


def shuffled(value, order: random.Random):
    """The same mappings and groups, written in another order."""
    if isinstance(value, dict):
        items = [(key, shuffled(item, order)) for key, item in value.items()]
        order.shuffle(items)
        return dict(items)
    return value


@settings(max_examples=25, deadline=None)
@given(sites, st.randoms(use_true_random=False))
def test_any_order_of_the_input_gives_one_digest(sample, order):
    groups = {name: order.sample(hosts, len(hosts)) for name, hosts in sample.groups.items()}
    other = Sample(shuffled(sample.hosts, order), shuffled(groups, order))
    assert sample.plan() == other.plan()
    assert sample.plan()["digest"]


@settings(max_examples=25, deadline=None)
@given(sites)
def test_ranks_of_a_replica_are_unique_and_contiguous_and_every_node_has_one(sample):
    result = sample.plan()
    for replica in result["replicas"]:
        members = [engine for engine in engines(result).values() if engine["replica"] == replica["name"]]
        assert [engine["rank"] for engine in members] == list(range(len(replica["nodes"])))
        assert [engine["node"] for engine in members] == replica["nodes"]
    assert sorted(result["nodes"]) == sorted(sample.groups["gpu_nodes"])


def listening(engine: dict) -> list[int]:
    found = engine["ports"].values()
    return [port for given in found for port in (given if isinstance(given, list) else [given])]


@settings(max_examples=25, deadline=None)
@given(sites)
def test_ports_of_a_node_are_disjoint_and_outside_the_ephemeral_range(sample):
    for content in sample.plan()["nodes"].values():
        ports = [port for engine in content["engines"] for port in listening(engine)] + [*AGENT_PORTS.values()]
        assert len(ports) == len(set(ports))
        assert not [port for port in ports if 32768 <= port <= 60999]


@settings(max_examples=25, deadline=None)
@given(sites)
def test_side_channels_of_a_replica_are_one_for_each_of_its_ranks(sample):
    result = sample.plan()
    for replica in result["replicas"]:
        members = [engine for engine in engines(result).values() if engine["replica"] == replica["name"]]
        channels = [port for engine in members for port in engine["ports"].get("side_channel", [])]
        ranks = number(members[0], "--data-parallel-size") if replica["pool"] != "unified" else 0
        assert len(set(channels)) == len(channels) == ranks


def number(engine: dict, flag: str) -> int:
    """The number behind a flag, 1 where it is not there."""
    return int(engine["argv"][engine["argv"].index(flag) + 1]) if flag in engine["argv"] else 1


@settings(max_examples=50, deadline=None)
@given(sites)
def test_sizes_of_a_replica_multiply_to_its_gpus(sample):
    for engine in engines(sample.plan()).values():
        nodes, data = len(engine["members"]), number(engine, "--data-parallel-size")
        size = number(engine, "--tensor-parallel-size") * number(engine, "--pipeline-parallel-size") * data
        assert size == nodes * engine["hardware"]["gpus"]
        assert data == 1 or number(engine, "--data-parallel-size-local") * nodes == data
        assert data > 1 or number(engine, "--nnodes") == nodes


@settings(max_examples=25, deadline=None)
@given(sites)
def test_every_flag_and_variable_has_a_provenance_with_its_value(sample):
    for engine in engines(sample.plan()).values():
        told = engine["provenance"]
        for flag, after in zip(engine["argv"], [*engine["argv"][1:], "--"], strict=True):
            if flag.startswith("--"):
                assert told[flag]["value"] == ("" if after.startswith("--") else after)
        for name, value in engine["env"].items():
            assert told[f"env:{name}"]["value"] == value
        assert all(setting["source"] for setting in told.values())


@settings(max_examples=25, deadline=None)
@given(sites)
def test_an_engine_serves_at_its_own_address_or_is_headless(sample):
    result = sample.plan()
    for engine in engines(result).values():
        serves = engine["endpoint"] == f"http://{engine['address']}:{engine['ports'].get('http')}"
        assert ("--headless" in engine["argv"]) is not serves
        assert ("--host" in engine["argv"]) is serves
        assert (engine["endpoint"] in result["router"]["backends"]) is True
        assert serves or engine["rank"] > 0


@settings(max_examples=25, deadline=None)
@given(sites)
def test_nobody_starts_before_the_head_that_it_points_at(sample):
    for engine in engines(sample.plan()).values():
        assert engine["order"] == int(engine["rank"] > 0)
        assert engine["head"]["node"] == engine["members"][0]


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(sorted({hardware for hardware, _profile in LAYOUTS})),
    st.sampled_from(builtin().names("profiles")),
    st.sampled_from(["nvlink", "roce"]),
    st.integers(1, 9),
    st.integers(1, 24),
)
def test_a_layout_that_a_refusal_proposes_is_sound(hardware, profile, fabric, size, count):
    nodes = {"unified": count, "prefill": count, "decode": count}
    sample = cell(hardware, profile, nodes, fabric).with_site(serving_nodes_per_replica=size)
    remedies = [fault["remedy"] for fault in sample.plan()["refusals"]]
    proposals = [proposal for remedy in remedies for proposal in PROPOSAL.findall(remedy)]
    pools = {}  # what is proposed for prefill, and for decode, holds together
    for _name, told in proposals:
        pools |= yaml.safe_load(told) if told.startswith("{") else {}
    for name, told in proposals if all(map(PROPOSAL.search, remedies)) else ():
        other = cell(hardware, name, nodes, fabric)
        given_nodes = pools if told.startswith("{") else int(told)
        assert other.with_site(serving_nodes_per_replica=given_nodes).plan()["refusals"] == []


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 99) | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=9), inner, max_size=2),
    max_leaves=4,
)
flags = st.sampled_from(["--max-num-seqs", "--max-model-len", "--gpu-memory-utilization", "--kv-cache-dtype"])
strange = st.one_of(
    st.tuples(st.sampled_from(sorted(SITE_VARIABLES | NODE_VARIABLES)), anything),
    st.tuples(st.just("serving_overrides"), st.fixed_dictionaries({"flags": st.dictionaries(flags, anything)})),
    st.tuples(st.just("serving_overrides"), st.fixed_dictionaries({"env": st.dictionaries(st.text(), anything)})),
)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(["single_node_tp", "pd_cluster", "multi_node_dep"]), strange)
def test_no_value_stops_the_planner_instead_of_being_refused(profile, change):
    name, value = change
    result = cell("b300", profile).with_site(**{name: value}).plan()
    assert (result["digest"] is None) is bool(result["refusals"])


words = st.sampled_from(
    ["gpu-01", "service-01", "hub", "http", "drive", "/mnt/x", "/srv/models/x", "http://h/x", "", "http://["]
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 70000) | words,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["kind", "url", "urls_file", "path", "nodes"]), inner, max_size=4)
    ),
    max_leaves=8,
)
CHECKPOINT = [name for name in sorted(SITE_VARIABLES) if name.startswith("checkpoint_")]


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(CHECKPOINT), anything, min_size=1, max_size=4))
def test_whatever_a_site_says_of_its_checkpoint_is_planned_or_refused(values):
    result = cusco().with_site(**values).plan()
    assert bool(result["digest"]) != bool(result["refusals"])
    assert set(result["checkpoint"].get("wan_nodes", [])) <= set(result["checkpoint"].get("nodes", []))
