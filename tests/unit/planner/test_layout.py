"""Who stands in which replica, with which ranks and ports, and where requests go."""

from __future__ import annotations

import pytest

from tests.unit.planner.samples import Sample, cell, cusco, engines, lima, site


def ports(sample: Sample, pool: str) -> list[dict]:
    """Of the engines of a pool's first replica, by rank."""
    return [engine["ports"] for engine in engines(sample.plan()).values() if engine["replica"] == f"{pool}-0"]


def flag(engine: dict, name: str) -> str | None:
    argv = engine["argv"]
    return argv[argv.index(name) + 1] if name in argv else None


def test_side_channels_of_a_decode_pool_count_on_over_its_nodes():
    """vLLM adds a rank's data-parallel index to 5558: 5558 to 5573 for DEP16, a quarter on each tray."""
    listening = [found["side_channel"] for found in ports(cell("gb300", "pd_cluster"), "decode")]
    assert listening == [list(range(start, start + 4)) for start in (5558, 5562, 5566, 5570)]


def test_every_node_of_a_decode_pool_serves_and_its_ranks_meet_at_the_head():
    head, *others = ports(cell("gb300", "pd_cluster"), "decode")
    assert (head["http"], head["data_rpc"]) == (8002, 29550)
    assert [(found["http"], "data_rpc" in found) for found in others] == [(8002, False)] * 3


def test_only_the_head_of_a_tensor_parallel_pool_listens():
    assert ports(cell("gb300", "pd_cluster"), "prefill") == [
        {"http": 8001, "master": 29501, "side_channel": [5557]},
        {},
    ]


def test_a_replica_of_one_node_has_no_port_to_meet_at():
    assert ports(cell("b300", "pd_cluster"), "prefill") == [{"http": 8001, "side_channel": [5557]}]


@pytest.mark.parametrize(
    ("hardware", "profile", "starts"),
    [
        ("gb300", "multi_node_dep", [None, "4", "8", "12"]),
        ("b200", "multi_node_dep", [None, "8", "16", "24"]),
        ("gb300", "multi_node_tp_dp", [None, "1", "2", "3"]),
    ],
)
def test_start_ranks_count_the_ranks_of_the_nodes_before(hardware, profile, starts):
    members = engines(cell(hardware, profile).plan()).values()
    assert [flag(engine, "--data-parallel-start-rank") for engine in members] == starts


@pytest.mark.parametrize(
    ("profile", "serving"),
    [("multi_node_dep", 4), ("multi_node_tp_dp", 1), ("multi_node_tp", 1), ("multi_node_tp_pp", 1)],
)
def test_a_replica_has_an_endpoint_for_each_node_that_serves(profile, serving):
    [replica] = cell("gb300", profile).plan()["replicas"]
    assert replica["endpoints"] == [f"http://10.1.0.{n}:8000" for n in range(1, serving + 1)]
    assert replica["endpoint"] == replica["endpoints"][0]


def test_a_headless_worker_has_its_heads_endpoint_and_a_serving_one_its_own():
    for profile, expected in (("multi_node_tp", "http://10.1.0.1:8000"), ("multi_node_dep", "http://10.1.0.2:8000")):
        assert engines(cell("gb300", profile).plan())["unified-0-rank-1"]["endpoint"] == expected


def test_heads_start_before_workers():
    assert [engine["order"] for engine in engines(cell("gb300", "pd_cluster").plan()).values()] == [0, 1, 0, 1, 1, 1]


def test_the_router_is_given_prefill_and_decode_by_every_endpoint():
    router = lima().plan()["router"]
    assert router["mode"] == "prefill_decode"
    prefill = [word for n in (11, 12) for word in ("--prefill", f"http://10.30.0.{n}:8001")]
    decode = [word for n in range(13, 19) for word in ("--decode", f"http://10.30.0.{n}:8002")]
    assert router["argv"] == [
        *("--host", "10.20.0.2", "--port", "30000", "--policy", "round_robin", "--vllm-pd-disaggregation"),
        *(*prefill, *decode),
        *("--kv-connector", "nixl", "--intra-node-data-parallel-size", "1"),
        *("--worker-startup-timeout-secs", "3600", "--health-check-interval-secs", "10"),
    ]


def test_the_router_of_one_pool_is_given_every_node_that_serves():
    router = site("bogota").with_site(serving_profile="multi_node_dep").plan()["router"]
    backends = [f"http://10.40.0.{n}:8000" for n in range(11, 27)]
    assert (router["mode"], router["backends"]) == ("replicas", backends)
    at = router["argv"].index("--worker-urls")
    assert router["argv"][at + 1 : at + 17] == backends


def test_nodes_that_fill_no_replica_stay_spare_and_are_named():
    fabric = {"rdma_devices": ["mlx5_0"], "gid_index": 3}
    result = cusco().with_site(serving_profile="multi_node_tp", serving_nodes_per_replica=3, **fabric).plan()
    assert result["spare"] == ["gpu-07", "gpu-08"]
    assert "gpu-08" not in result["nodes"]
    [told] = [fault for fault in result["warnings"] if fault["where"] == "serving_nodes_per_replica"]
    assert told["limit"] == "2 of gpu_nodes do not fill a replica of 3 and stay spare"


def test_nodes_in_neither_pool_stay_spare_and_are_named():
    groups = lima().groups
    result = lima().with_groups(decode=groups["decode"][:4]).plan()
    assert result["spare"] == ["gpu-07", "gpu-08"]
    assert ("gpu_nodes", "these are in no pool and stay spare") in [
        (f["where"], f["limit"]) for f in result["warnings"]
    ]


def racks(*trays: int, size: int = 4) -> Sample:
    """GB300 trays of several racks, numbered through; `size` of them hold one copy."""
    sample = cell("gb300", "multi_node_dep", {"unified": sum(trays)}).with_site(serving_nodes_per_replica=size)
    names = iter(sample.groups["gpu_nodes"])
    domains = {next(names): {"nvlink_domain": f"rack-{n}"} for n, count in enumerate(trays) for _ in range(count)}
    return sample.with_hosts(domains)


def test_a_replica_over_nvlink_stays_in_one_rack():
    result = racks(6, 5).plan()
    assert [replica["nodes"] for replica in result["replicas"]] == [
        ["gpu-01", "gpu-02", "gpu-03", "gpu-04"],
        ["gpu-07", "gpu-08", "gpu-09", "gpu-10"],
    ]
    assert result["spare"] == ["gpu-05", "gpu-06", "gpu-11"]


def test_a_replica_over_rdma_may_have_nodes_of_two_racks():
    result = racks(2, 2).with_site(fabric_kind="roce").plan()
    assert [len(replica["nodes"]) for replica in result["replicas"]] == [4]


def test_a_replica_is_no_larger_than_its_nvlink_domain():
    """72 GPUs are 18 trays; 896 experts do divide by 112 GPUs, or 28 trays."""
    [fault] = cell("gb300", "multi_node_dep", {"unified": 28}, serving_nodes_per_replica=28).plan()["refusals"]
    assert (fault["where"], fault["limit"]) == ("fabric_kind", "NVLink of gb300 joins 72 GPUs, and unified-0 has 112")


def test_no_more_gpus_are_in_an_nvlink_domain_than_it_joins():
    [fault] = cell("gb300", "multi_node_tep", {"unified": 20}, nvlink_domain="rack-1").plan()["refusals"]
    assert (fault["where"], fault["value"]) == ("nvlink_domain", "rack-1")
    assert "joins 72 GPUs; 20 nodes with 80 are said to be in it" in fault["limit"]


def test_the_sites_sizes_stand_over_the_hardwares():
    sample = cell("gb300", "pd_cluster", {"prefill": 4, "decode": 4})
    sample = sample.with_site(serving_nodes_per_replica={"prefill": 4}, serving_tensor_parallel_size={"decode": 4})
    result = sample.plan()
    assert [replica["parallel"] for replica in result["replicas"]] == ["TEP16", "TP4·DP4 EP16"]


def test_a_number_for_all_pools_may_be_given_once():
    result = cell("gb300", "pd_cluster", {"prefill": 4, "decode": 4}, serving_nodes_per_replica=4).plan()
    assert [(replica["pool"], len(replica["nodes"])) for replica in result["replicas"]] == [
        ("prefill", 4),
        ("decode", 4),
    ]


def test_shares_of_a_checkpoint_add_up_to_the_byte():
    shares = lima().plan()["checkpoint"]["owners"]
    assert sum(share["bytes"] for share in shares) == 1560998984390
    assert {share["bytes"] for share in shares} <= {195124873048, 195124873049}


@pytest.mark.parametrize(
    ("rate", "load", "budget", "ready"),
    [
        (5000, 312, 1860, 3600),  # 2 x 312 s and 1,200 s of warm-up, in whole minutes; the hardware's own hour is more
        (500, 3122, 7500, 7500),
        (None, 1115, 3480, 3600),  # the slowest load that was published
    ],
)
def test_the_time_to_get_ready_covers_reading_the_checkpoint_twice(rate, load, budget, ready):
    result = cell("b300", "single_node_tp", checkpoint_read_mb_per_second=rate).plan()
    told = result["checkpoint"]["load"]
    assert (told["seconds"], told["budget_seconds"]) == (load, budget)
    [engine] = engines(result).values()
    assert engine["ready_seconds"] == ready
    assert engine["env"]["VLLM_ENGINE_READY_TIMEOUT_S"] == str(ready)


def test_a_site_has_the_last_word_on_the_time_to_get_ready():
    overrides = {"env": {"VLLM_ENGINE_READY_TIMEOUT_S": 900}}
    result = cell("b300", "single_node_tp", checkpoint_read_mb_per_second=500, serving_overrides=overrides).plan()
    assert [engine["ready_seconds"] for engine in engines(result).values()] == [900]
