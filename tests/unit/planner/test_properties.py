"""What holds for every sound site, whatever its size and whatever order it is written in."""

from __future__ import annotations

import random

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.network import AGENT_PORTS
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.planner.samples import Sample, engines, cusco

SITE = next(iter(cusco().hosts.values()))


def site(replicas: int, size: int, hardware: str = "b300") -> Sample:
    """A site of `replicas` replicas of `size` nodes."""
    names = [f"gpu-{n}" for n in range(1, replicas * size + 1)]
    profile = {"serving_profile": "multi_node_tp", "serving_nodes_per_replica": size} if size > 1 else {}
    common = {k: v for k, v in SITE.items() if not k.startswith(("fabric_a", "ansible"))} | profile
    common |= {"rdma_devices": ["mlx5_0"], "gid_index": 3, "gpu_model": hardware}
    common["serving_overrides"] = {"flags": {"--max-num-seqs": 8, "--enforce-eager": True}, "env": {"B": 1, "A": 2}}
    hosts = {name: {**common, "fabric_address": f"10.9.{n // 200}.{n % 200 + 1}"} for n, name in enumerate(names)}
    return Sample({**hosts, "service-01": dict(common)}, {"gpu_nodes": names, "service_hosts": ["service-01"]})


def shuffled(value, order: random.Random):
    """The same mappings and groups, written in another order."""
    if isinstance(value, dict):
        items = [(key, shuffled(item, order)) for key, item in value.items()]
        order.shuffle(items)
        return dict(items)
    return value


sizes = st.builds(site, st.integers(1, 5), st.integers(1, 4))


@settings(max_examples=25, deadline=None)
@given(sizes, st.randoms(use_true_random=False))
def test_any_order_of_the_input_gives_one_digest(sample, order):
    groups = {name: order.sample(hosts, len(hosts)) for name, hosts in sample.groups.items()}
    other = Sample(shuffled(sample.hosts, order), shuffled(groups, order))
    assert sample.plan() == other.plan()
    assert sample.plan()["digest"]


@settings(max_examples=25, deadline=None)
@given(sizes)
def test_ranks_of_a_replica_are_unique_and_contiguous_and_every_node_has_one(sample):
    result = sample.plan()
    for replica in result["replicas"]:
        members = [engine for engine in engines(result).values() if engine["replica"] == replica["name"]]
        assert [engine["rank"] for engine in members] == list(range(len(replica["nodes"])))
        assert [engine["node"] for engine in members] == replica["nodes"]
    assert sorted(result["nodes"]) == sorted(sample.groups["gpu_nodes"])


@settings(max_examples=25, deadline=None)
@given(sizes)
def test_ports_of_a_node_are_disjoint_and_outside_the_ephemeral_range(sample):
    for content in sample.plan()["nodes"].values():
        ports = [port for engine in content["engines"] for port in engine["ports"].values()] + [*AGENT_PORTS.values()]
        assert len(ports) == len(set(ports))
        assert not [port for port in ports if 32768 <= port <= 60999]


@settings(max_examples=25, deadline=None)
@given(sizes)
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
@given(sizes)
def test_workers_have_no_http_and_point_at_the_head(sample):
    for engine in engines(sample.plan()).values():
        is_worker = engine["rank"] > 0
        assert ("--headless" in engine["argv"]) is is_worker
        assert ("http" not in engine["ports"]) is is_worker
        assert engine["order"] == int(is_worker)
        assert engine["head"]["node"] == engine["members"][0]


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 24))
def test_a_layout_that_a_refusal_proposes_is_sound(count):
    sample = site(1, count)
    for fault in sample.plan()["refusals"]:
        sizes, _and, away = fault["remedy"].removeprefix("write serving_nodes_per_replica: ").partition(" and take ")
        kept = count - int(away.split()[0] if away else 0)
        assert kept > 0
        for size in sizes.split(" or "):
            names = sample.groups["gpu_nodes"][:kept]
            proposed = sample.with_site(serving_nodes_per_replica=int(size)).with_groups(gpu_nodes=names)
            assert proposed.plan()["refusals"] == []
