"""Who brings the checkpoint, and who takes part in handing it on."""

from __future__ import annotations

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner import text

from tests.unit.planner.samples import ABSENT, cusco, lima

HUB = {"kind": "hub", "url": "https://huggingface.co"}
DRIVE = {"kind": "drive", "path": "/mnt/kimi-k3"}
SIZE = 1560998984390
NODES = [f"gpu-0{n}" for n in range(1, 9)]
SERVICE = {"service-01": {"fabric_address": "10.30.0.2"}}
FILE = {"checkpoint_manifest_file": "/home/ana/kimi-k3.json"}


def site(**values):
    return cusco().with_hosts(SERVICE).with_site(**{**FILE, **values})


def spread(**values):
    result = site(**values).plan()
    assert result["refusals"] == []
    return result["checkpoint"]


def test_all_nodes_take_part_in_the_plans_order_and_may_use_the_origins():
    found = spread()
    assert list(found["nodes"].items()) == [(name, f"10.30.0.1{name[-1]}:7654") for name in NODES]
    assert (found["wan_nodes"], found["shared"], found["port"]) == (NODES, None, 7654)


def test_nodes_without_an_engine_take_part():
    found = site(serving_profile="multi_node_tp", serving_nodes_per_replica=3, rdma_devices=["mlx5_0"], gid_index=3)
    plan = found.plan()
    assert plan["spare"] == ["gpu-07", "gpu-08"]
    assert list(plan["checkpoint"]["nodes"]) == plan["checkpoint"]["wan_nodes"] == NODES


def test_pools_take_part_as_one():
    assert list(lima().plan()["checkpoint"]["nodes"]) == lima().groups["gpu_nodes"]


def test_an_ipv6_address_stands_in_brackets_before_its_port():
    sample = site(checkpoint_port=7700).with_hosts({f"gpu-0{n}": {"fabric_address": f"fd00::{n}"} for n in range(1, 9)})
    assert sample.plan()["checkpoint"]["nodes"]["gpu-02"] == "[fd00::2]:7700"


def test_the_nodes_that_may_use_the_origins_bring_it_all_and_the_others_nothing():
    found = spread(checkpoint_wan_nodes=["gpu-05", "gpu-02", "gpu-07"])
    assert found["wan_nodes"] == ["gpu-02", "gpu-05", "gpu-07"]
    assert [row["node"] for row in found["owners"]] == found["wan_nodes"]
    assert sum(row["bytes"] for row in found["owners"]) == SIZE
    assert list(found["nodes"]) == NODES


def test_a_service_host_that_may_use_them_takes_part_and_brings_it_alone():
    found = spread(checkpoint_wan_nodes=["service-01"])
    assert list(found["nodes"]) == [*NODES, "service-01"]
    assert found["nodes"]["service-01"] == "10.30.0.2:7654"
    assert found["owners"] == [{"node": "service-01", "bytes": SIZE}]


@pytest.mark.parametrize("nodes", [["gpu-03"], ["gpu-03", "gpu-08"], ["service-01"]])
def test_where_every_origin_is_a_drive_the_nodes_that_have_one_bring_it(nodes):
    others = {"kind": "drive", "path": "/mnt/other", "nodes": nodes[:1]}
    found = spread(checkpoint_origins=[{**DRIVE, "nodes": nodes}, others])
    assert found["wan_nodes"] == nodes


def test_a_drive_that_all_have_is_read_by_all():
    assert spread(checkpoint_origins=[DRIVE])["wan_nodes"] == NODES


def test_a_drive_on_a_service_host_adds_it_to_the_nodes_that_use_the_hub():
    found = spread(checkpoint_origins=[{**DRIVE, "nodes": ["service-01"]}, HUB])
    assert found["wan_nodes"] == [*NODES, "service-01"]


@pytest.mark.parametrize(("nodes", "writer"), [(None, "gpu-01"), (["service-01", "gpu-04", "gpu-06"], "gpu-04")])
def test_a_shared_filesystem_is_written_by_the_first_node_that_may_use_the_origins(nodes, writer):
    found = spread(checkpoint_shared=True, checkpoint_wan_nodes=nodes)
    assert (found["shared"], found["wan_nodes"], list(found["nodes"])) == (writer, [writer], [writer])
    assert found["owners"] == [{"node": writer, "bytes": SIZE}]


def test_the_mirror_is_used_by_all_nodes_whatever_drive_filled_it():
    found = spread(checkpoint_origins=[{**DRIVE, "nodes": ["gpu-03"]}], mirror="service-01")
    assert found["wan_nodes"] == NODES
    assert found["drives"] == []


# what is wrong: (variables, where the refusal points, what it must say)
WRONG = {
    "nobody": ({"checkpoint_wan_nodes": []}, "checkpoint_wan_nodes", "leave it out for all nodes"),
    "a name that is none": ({"checkpoint_wan_nodes": ["gpu-1"]}, "checkpoint_wan_nodes", "did you mean gpu-"),
    "a name that is no text": ({"checkpoint_wan_nodes": [{"gpu-01": None}]}, "checkpoint_wan_nodes", "write one of"),
    "a name twice": ({"checkpoint_wan_nodes": ["gpu-01", "gpu-01"]}, "checkpoint_wan_nodes", "each once"),
    "a drive that nobody may use": (
        {"checkpoint_origins": [HUB, {**DRIVE, "nodes": ["gpu-02", "gpu-03"]}], "checkpoint_wan_nodes": ["gpu-02"]},
        "checkpoint_origins[1].nodes",
        "only checkpoint_wan_nodes use an origin add it there, or take it out here",
    ),
    "a node without an origin": (
        {"checkpoint_origins": [{**DRIVE, "nodes": ["gpu-02"]}], "checkpoint_wan_nodes": ["gpu-02", "gpu-03"]},
        "checkpoint_wan_nodes",
        "every origin is a drive elsewhere (gpu-02) take it out",
    ),
    "a shared filesystem without a writer": (
        {"checkpoint_shared": True, "checkpoint_wan_nodes": ["service-01"]},
        "checkpoint_shared",
        "a gpu node writes it, and service-01 is none name one in checkpoint_wan_nodes",
    ),
    "a shared filesystem with the drive on a service host": (
        {"checkpoint_shared": True, "checkpoint_origins": [{**DRIVE, "nodes": ["service-01"]}]},
        "checkpoint_shared",
        "a gpu node writes it",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_who_brings_it_is_refused_with_its_place_and_its_remedy(case):
    variables, where, words = WRONG[case]
    [fault] = site(**variables).plan()["refusals"]
    assert fault["where"] == where
    assert words in f"{fault['limit']} {fault['remedy']}"


@pytest.mark.parametrize(("address", "words"), [(ABSENT, "must be declared"), ("service-01.lan", "numeric")])
def test_a_service_host_that_takes_part_needs_an_address_that_nodes_reach(address, words):
    sample = site(checkpoint_wan_nodes=["service-01"]).with_hosts({"service-01": {"fabric_address": address}})
    [fault] = sample.plan()["refusals"]
    assert fault["where"] == "service-01.fabric_address"
    assert words in fault["limit"]


def test_hosts_that_take_part_speak_one_kind_of_ip():
    [fault] = site().with_hosts({"gpu-05": {"fabric_address": "fd00::5"}}).plan()["refusals"]
    assert (fault["where"], fault["value"]) == ("gpu-05.fabric_address", "fd00::5")
    assert "IPv4, as gpu-01 does" in fault["limit"]


def test_the_mirrors_own_ports_are_not_the_agents():
    sample = site(checkpoint_wan_nodes=["service-01"], mirror="service-01", checkpoint_port=8081)
    [fault] = sample.plan()["refusals"]
    assert (fault["where"], fault["limit"]) == ("checkpoint_port", "site_mirror_port of service-01 is the same")


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        (
            {},
            "hub https://huggingface.co ─► gpu-01, gpu-02, gpu-03 and 5 more up to gpu-08: 195.1 GB each ─► each other",
        ),
        (
            {"checkpoint_wan_nodes": ["service-01"]},
            "─► service-01: 1561.0 GB ─► gpu-01, gpu-02, gpu-03 and 5 more up to gpu-08",
        ),
        (
            {"checkpoint_wan_nodes": ["gpu-02", "gpu-04"]},
            "─► gpu-02, gpu-04: 780.5 GB each ─► each other and gpu-01, gpu-03, gpu-05 and 3 more up to gpu-08, on",
        ),
        ({"checkpoint_shared": True}, "─► gpu-01: 1561.0 GB ─► /srv/models, which all nodes share"),
        (
            {"checkpoint_origins": [{**DRIVE, "nodes": ["gpu-03"]}, HUB]},
            "drive /mnt/kimi-k3 on gpu-03, else hub https://huggingface.co ─► gpu-01",
        ),
    ],
)
def test_the_picture_shows_who_brings_how_much_from_where(variables, words):
    drawn = text.render(site(**variables).plan(), full=False)
    assert "Checkpoint: 1561.0 GB in 118 files, from the origin once:" in drawn
    assert words in " ".join(drawn.split())
