"""Each kind of refusal once: what it names, and what it advises; tests/sites/broken has more, as whole sites."""

from __future__ import annotations

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.site import VARIABLES
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.values import Unresolved

from tests.unit.planner.samples import ABSENT, REHEARSAL, cell, cusco, cusco_in_pairs, lima, read

HEX = "f" * 64
HUB = "https://huggingface.co"
FABRIC = {"rdma_devices": ["mlx5_0", "mlx5_1"], "gid_index": 3}


def site(**values):
    return lambda: cusco().with_site(**values)


def node(**values):
    return lambda: cusco().with_hosts({"gpu-03": values})


def first_nodes(count):
    """Lima as one replica over its first nodes."""
    names = cusco().groups["gpu_nodes"][:count]
    return cusco().with_site(serving_profile="multi_node_tp", **FABRIC).with_groups(gpu_nodes=names)


def renamed(group, name):
    return cusco().with_groups(**{group: ABSENT, name: cusco().groups[group]})


def spare(**values):
    """Lima with a spare node."""
    sample = cusco()
    sample.hosts["spare-01"] = {**sample.hosts["service-01"], **values}
    return sample.with_groups(spare_nodes=["spare-01"])


def pair(**values):
    return lambda: cusco_in_pairs().with_hosts({"gpu-04": values})


# what is wrong: (the site, where the refusal points, what it must say)
CASES = {
    "unknown profile": (site(serving_profile="single_node_pt"), "serving_profile", "did you mean single_node_tp?"),
    "unknown model": (site(serving_model="kimi-k2"), "serving_model", "did you mean kimi-k3?"),
    "unknown fabric": (site(fabric_kind="rocee"), "fabric_kind", "did you mean roce?"),
    "unknown feature": (site(serving_features=["reasonin"]), "serving_features", "did you mean reasoning?"),
    "unknown GPU": (node(gpu_model="b30"), "gpu-03.gpu_model", "did you mean b300?"),
    "missing site variable": (site(serving_profile=ABSENT), "serving_profile", "must be declared"),
    "missing node variable": (node(gpu_model=ABSENT), "gpu-03.gpu_model", "write gpu_model: b300"),
    "missing address": (node(fabric_address=ABSENT), "gpu-03.fabric_address", "must be declared"),
    "missing interface": (node(fabric_interface=ABSENT), "gpu-03.fabric_interface", "must be declared"),
    "missing GPU count": (node(gpu_count=ABSENT), "gpu-03.gpu_count", "must be declared"),
    "misspelt site variable": (site(serving_profil="x"), "serving_profil", "write serving_profile"),
    "two values for one site": (node(site_name="lima"), "gpu-03.site_name", "declare it once"),
    "the site's word on one node alone": (
        node(serving_max_model_len=4096),
        "gpu-03.serving_max_model_len",
        "none on gpu-01, gpu-02, gpu-04 and 5 more up to service-01 declare it once, under all",
    ),
    "nothing on one host": (
        lambda: cusco().with_hosts({"service-01": {"serving_profile": ABSENT}}),
        "service-01.serving_profile",
        "other hosts say 'single_node_tp' declare it once",
    ),
    "two values, the first host's alone": (
        lambda: cusco().with_hosts({"gpu-01": {"serving_nodes_per_replica": None, "fabric_kind": "ethernet"}}),
        "gpu-01.fabric_kind",
        "other hosts say 'roce'",
    ),
    "template without its variable": (
        site(serving_image=Unresolved("'tag' is undefined")),
        "serving_image",
        "define what it uses",
    ),
    "no nodes group": (lambda: cusco().with_groups(gpu_nodes=ABSENT), "gpu_nodes", "add gpu_nodes"),
    "nodes group without its s": (
        lambda: renamed("gpu_nodes", "gpu_node"),
        "gpu_node",
        "no such group write gpu_nodes",
    ),
    "nodes group with a hyphen": (lambda: renamed("gpu_nodes", "gpu-nodes"), "gpu-nodes", "write gpu_nodes"),
    "spare nodes misspelt": (
        lambda: cusco().with_groups(spare_node=["gpu-08"]),
        "spare_node",
        "write spare_nodes",
    ),
    "empty nodes group": (lambda: cusco().with_groups(gpu_nodes=[]), "gpu_nodes", "put a host into gpu_nodes"),
    "no service host": (lambda: cusco().with_groups(service_hosts=[]), "service_hosts", "put a host"),
    "a word for a number": (
        node(gpu_count="eight"),
        "gpu-03.gpu_count",
        "must be a whole number write a whole number, such as gpu_count: 8",
    ),
    "a fraction for a number": (node(gpu_count=8.5), "gpu-03.gpu_count", "number write a whole number, such as"),
    "a word for true or false": (
        site(checkpoint_mount_required="maybe"),
        "checkpoint_mount_required",
        "or false write",
    ),
    "true in quotes": (site(checkpoint_mount_required="True"), "checkpoint_mount_required", "leave the quotes out"),
    "a key without a value": (node(gpu_count=None), "gpu-03.gpu_count", "must have a value"),
    "a site's key without a value": (site(serving_image=None), "serving_image", "must have a value"),
    "more nodes in a replica than there are": (
        site(serving_profile="multi_node_tp", serving_nodes_per_replica=12),
        "serving_nodes_per_replica",
        "add 4 node(s) to the group",
    ),
    "text for a number": (node(gpu_count="8"), "gpu-03.gpu_count", "leave the quotes out"),
    "number for text": (site(serving_engine_version=0.29), "serving_engine_version", "put it in quotes"),
    "yes for a number": (site(serving_max_model_len=True), "serving_max_model_len", "a whole number"),
    "text for a list": (site(serving_features="reasoning"), "serving_features", "must be a list"),
    "number too small": (site(serving_max_model_len=0), "serving_max_model_len", "must be 1 or more"),
    "site name": (site(site_name="Lima 1"), "site_name", "lower-case"),
    "several nodes for a single node": (site(serving_nodes_per_replica=2), "serving_nodes_per_replica", "has 1 node"),
    "one node for several": (
        site(serving_profile="multi_node_tp", serving_nodes_per_replica=1),
        "serving_nodes_per_replica",
        "at least 2",
    ),
    "heads that no layout divides": (
        lambda: first_nodes(5).with_site(serving_nodes_per_replica=5, serving_model="kimi-k3-tiny"),
        "serving_nodes_per_replica",
        "no layout of these nodes holds this model",
    ),
    "heads of a single node": (
        lambda: read(REHEARSAL).with_site(serving_profile="single_node_tp").with_hosts({"node-02": {"gpu_count": 3}}),
        "node-02.gpu_count",
        "must divide them: 2 or 4, not 3",
    ),
    "experts that the model has not": (
        lambda: read(REHEARSAL).with_site(serving_profile="multi_node_tep"),
        "serving_profile",
        "kimi-k3-tiny has no experts",
    ),
    "a tensor-parallel size that does not divide the GPUs": (
        lambda: cusco_in_pairs().with_site(serving_profile="multi_node_dep", serving_tensor_parallel_size=3),
        "serving_tensor_parallel_size",
        "the 16 GPUs of a replica do not divide into tensor-parallel groups of 3",
    ),
    "a data-parallel rank on two nodes": (
        lambda: cusco_in_pairs().with_site(
            serving_profile="multi_node_dep", serving_nodes_per_replica=4, serving_tensor_parallel_size=16
        ),
        "serving_tensor_parallel_size",
        "a data-parallel rank stays on one node, so 16 must divide the node's 8 GPUs",
    ),
    "a tensor on two nodes in a profile that keeps it on one": (
        lambda: cusco_in_pairs().with_site(serving_profile="multi_node_dep", serving_tensor_parallel_size=16),
        "serving_tensor_parallel_size",
        "stays on one node, which has 8 GPUs",
    ),
    "a tensor on some GPUs in a profile that takes all": (
        site(serving_tensor_parallel_size=4),
        "serving_tensor_parallel_size",
        "splits tensors over all 8 GPUs of a replica, not over 4",
    ),
    "a pipeline stage on a node and a half": (
        lambda: cell("b300", "multi_node_tp_pp", {"unified": 3}).with_site(
            serving_tensor_parallel_size=12, serving_nodes_per_replica=3
        ),
        "serving_tensor_parallel_size",
        "a pipeline stage has whole nodes or shares one evenly, so 12 and 8 must divide",
    ),
    "more pipeline stages than layers": (
        lambda: cell("b300", "multi_node_tp_pp", {"unified": 12}).with_site(
            serving_tensor_parallel_size=1, serving_nodes_per_replica=12
        ),
        "serving_tensor_parallel_size",
        "93 layers, one at least for each pipeline stage",
    ),
    "a profile that nobody is known to have run on this hardware": (
        lambda: cell("b300", "multi_node_tp_dp"),
        "serving_profile",
        "b300 is known to serve with multi_node_dep",
    ),
    "a node in no pool at the address of one that is": (
        lambda: (
            lima()
            .with_groups(decode=lima().groups["decode"][:4])
            .with_hosts({"gpu-08": {"fabric_address": "10.30.0.11"}})
        ),
        "gpu-08.fabric_address",
        "gpu-01",
    ),
    "a size for a pool that is none": (
        lambda: lima().with_site(serving_nodes_per_replica={"prefil": 1}),
        "serving_nodes_per_replica.prefil",
        "did you mean prefill?",
    ),
    "a mapping without a number": (
        lambda: lima().with_site(serving_nodes_per_replica={"prefill": "one"}),
        "serving_nodes_per_replica",
        "write serving_nodes_per_replica: {prefill: 1, decode: 2}",
    ),
    "a draft by the name of its repository": (
        site(serving_draft_model_path="RedHatAI/Kimi-K3-speculator.dspark"),
        "serving_draft_model_path",
        "must be an absolute path",
    ),
    "unlike nodes in a replica": (pair(gpu_model="cpu"), "gpu-04.gpu_model", "must be like its head gpu-03"),
    "fabric without its devices": (pair(rdma_devices=ABSENT), "gpu-04.rdma_devices", "[mlx5_0, mlx5_1]"),
    "fabric with an empty list of devices": (pair(rdma_devices=[]), "gpu-04.rdma_devices", "[mlx5_0, mlx5_1]"),
    "one address in two spellings": (
        lambda: cusco().with_hosts(
            {n: {"fabric_address": a} for n, a in (("gpu-02", "fd00::1"), ("gpu-03", "fd00:0::1"))}
        ),
        "gpu-03.fabric_address",
        "gpu-02",
    ),
    "a node that is the service host": (node(ansible_host="10.20.0.2"), "gpu-03.ansible_host", "service-01"),
    "a name that is another's address": (
        lambda: cusco().with_hosts({"gpu-03": {"ansible_host": "GPU-04"}, "gpu-04": {"ansible_host": ABSENT}}),
        "gpu-03.ansible_host",
        "gpu-04",
    ),
    "an address on the fabric that is the service host's": (
        node(fabric_address="10.20.0.2"),
        "gpu-03.fabric_address",
        "service-01",
    ),
    "a spare node at a node's address": (
        lambda: spare(ansible_host="10.20.0.14"),
        "spare-01.ansible_host",
        "gpu-04",
    ),
    "address by name": (node(fabric_address="gpu-03.lan"), "gpu-03.fabric_address", "numeric"),
    "address with a prefix length": (node(fabric_address="10.30.0.13/24"), "gpu-03.fabric_address", "numeric"),
    "loopback address": (node(fabric_address="::1"), "gpu-03.fabric_address", "loopback"),
    "link-local address": (node(fabric_address="fe80::1"), "gpu-03.fabric_address", "link-local"),
    "cards named twice": (node(rdma_devices=["mlx5_0", "mlx5_0"]), "gpu-03.rdma_devices", "each once"),
    "a negative index": (node(gid_index=-1), "gpu-03.gid_index", "0 or more"),
    "the loopback interface": (node(fabric_interface="lo"), "gpu-03.fabric_interface", "loopback"),
    "interface": (node(fabric_interface="eth0 eth1"), "gpu-03.fabric_interface", "one interface"),
    "checkpoint on the root": (site(checkpoint_path="/"), "checkpoint_path", "root of the filesystem"),
    "checkpoint on a relative path": (site(checkpoint_path="srv/models"), "checkpoint_path", "absolute"),
    "checkpoint above itself": (site(checkpoint_path="/srv/../etc"), "checkpoint_path", "single slashes"),
    "checkpoint in a system directory": (site(checkpoint_path="/usr/share/x"), "checkpoint_path", "operating system"),
    "checkpoint on a system directory": (site(checkpoint_path="/var/"), "checkpoint_path", "operating system"),
    "no origin": (site(checkpoint_origins=[]), "checkpoint_origins", "at least one origin"),
    "origin without a URL": (site(checkpoint_origins=[{"kind": "hub"}]), "checkpoint_origins[0]", "kind and url"),
    "origin with a bad URL": (
        site(checkpoint_origins=[{"kind": "hub", "url": "ftp://hub"}]),
        "checkpoint_origins[0].url",
        "http(s)://HOST",
    ),
    "origin with a password": (
        site(checkpoint_origins=[{"kind": "hub", "url": "https://me:word@hub.lan"}]),
        "checkpoint_origins[0].url",
        "no secret",
    ),
    "malformed image": (site(serving_image="docker://x y"), "serving_image", "NAME[:TAG]@sha256:HEX"),
    "malformed digest": (site(serving_image="a.b/c@sha256:12"), "serving_image", "64 lower-case hex"),
    "image of unknown version": (site(serving_image=f"a.b/c@sha256:{HEX}"), "serving_engine_version", "must say"),
    "image of another version": (site(serving_engine_version="0.30.0"), "serving_engine_version", "holds 0.29.0"),
    "version that is none": (
        site(serving_image=f"a.b/c@sha256:{HEX}", serving_engine_version="latest"),
        "serving_engine_version",
        "a version number",
    ),
    "engine too old": (site(serving_image="vllm/vllm-openai:kimi-k3"), "serving_image", "0.27.1 or newer"),
    "image for other hardware": (node(gpu_model="cpu", gpu_count=1), "gpu-03.gpu_model", "image is for cuda"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_fault_is_refused_with_its_place_and_its_remedy(case):
    sample, where, words = CASES[case]
    result = sample().plan()
    told = [fault for fault in result["refusals"] if fault["where"] == where]
    assert any(words in f"{fault['limit']} {fault['remedy']}" for fault in told), result["refusals"]
    assert (result["digest"], result["nodes"]) == (None, {})


def test_a_layout_that_nobody_ran_and_that_does_not_fit_is_refused_for_its_size_alone():
    [fault] = cell("h200", "multi_node_dep").plan()["refusals"]
    assert "GiB of weights" in fault["value"]


def test_a_refused_plan_has_the_keys_of_a_sound_one():
    assert cusco().with_site(checkpoint_path="/").plan().keys() == cusco().plan().keys()


def test_all_faults_come_in_one_answer_the_sites_first_then_node_by_node():
    changes = {"gpu-02": {"gpu_count": 4}, "gpu-08": {"fabric_address": "::"}, "gpu-01": {"gpu_model": "b3"}}
    result = cusco().with_site(checkpoint_path="/", serving_model="k3").with_hosts(changes).plan()
    assert [fault["where"] for fault in result["refusals"]] == [
        "checkpoint_path",
        "serving_model",
        "gpu-01.gpu_model",
        "gpu-02.gpu_count",
        "gpu-08.fabric_address",
    ]


def test_a_site_that_says_nothing_hears_everything_it_must_say():
    empty = type(cusco())({"a": {"site_name": "x"}}, {"all": ["a"], "ungrouped": ["a"]})
    places = {fault["where"] for fault in empty.plan()["refusals"]}
    assert {"gpu_nodes", "service_hosts", "serving_profile", "checkpoint_origins"} <= places


def test_a_password_in_an_origin_is_not_repeated():
    origins = [
        {"kind": "hub", "url": "https://me:word@hub.lan", "token": "word"},
        {"kind": "hub", "url": "http://me:word@h"},
    ]
    assert "word" not in str(
        [fault["value"] for fault in cusco().with_site(checkpoint_origins=origins).plan()["refusals"]]
    )


@pytest.mark.parametrize(
    ("change", "where", "remedy"),
    [
        ({"licence_accepted_by": " "}, "licence_accepted_by", "write who accepts it"),
        (
            {"serving_image": "vllm/vllm-openai:v0.29.0"},
            "serving_image",
            "write docker.io/vllm/vllm-openai:v0.29.0@sha256:c2914767605584b6",
        ),
    ],
)
def test_what_only_a_deployment_minds_is_a_warning_in_the_plan(change, where, remedy):
    result = cusco().with_site(**change).plan()
    assert result["refusals"] == []
    assert [fault["where"] for fault in result["deploy_refusals"]] == [where]
    assert result["deploy_refusals"][0]["remedy"].startswith(remedy)
    assert result["deploy_refusals"][0] in result["warnings"]


def test_an_unknown_commit_is_a_warning():
    result = cusco().with_site(serving_model_revision="0" * 40).plan()
    assert [fault["where"] for fault in result["warnings"]] == ["serving_model_revision"]


def test_another_unknown_name_with_a_known_prefix_is_a_warning():
    result = cusco().with_site(serving_colour="blue", colour="blue").plan()
    assert [fault["where"] for fault in result["warnings"]] == ["serving_colour"]


def test_names_of_role_variables_are_known_and_their_misspellings_refused():
    sample = cusco().with_site(replica_image="x", replica_imgae="x", replica_colour="x")
    sample.roles = {"replica": ["replica_image"]}
    result = sample.plan()
    assert [(fault["where"], fault["remedy"]) for fault in result["refusals"]] == [
        ("replica_imgae", "write replica_image")
    ]
    assert [fault["where"] for fault in result["warnings"]] == ["replica_colour"]


@pytest.mark.parametrize("name", ["ansible_hosts", "group_names", "inventory_file", "_gpu_mode", "proxy"])
def test_names_that_are_ansibles_or_strangers_are_not_judged(name):
    result = cusco().with_site(**{name: "x"}).plan()
    assert (result["refusals"], result["warnings"]) == ([], [])


def test_hosts_behind_one_address_differ_by_their_ports():
    ports = {f"gpu-0{n}": {"ansible_host": "10.20.0.9", "ansible_port": 2200 + n} for n in range(1, 9)}
    assert cusco().with_hosts(ports).plan()["refusals"] == []


@pytest.mark.parametrize("name", sorted(VARIABLES))
def test_no_site_variable_stands_on_one_host_alone(name):
    value = cusco_in_pairs().hosts["gpu-02"].get(name, 1)
    sample = cusco_in_pairs().with_site(**{name: ABSENT}).with_hosts({"gpu-02": {name: value}})
    assert f"gpu-02.{name}" in [fault["where"] for fault in sample.plan()["refusals"]]


@pytest.mark.parametrize(
    ("hosts", "limit", "remedy"),
    [
        ({}, "no host was found", "folder, with hosts.yml in it: -i"),
        (
            {"gpu-01": {"gpu_count": 8}},
            "no host has one",
            "with -i, not a file of it; its site.yml has them under `all: ",
        ),
    ],
)
def test_an_inventory_that_was_not_read_hears_that_alone(hosts, limit, remedy):
    [fault] = type(cusco())(hosts, {"all": list(hosts)}).plan()["refusals"]
    assert fault["limit"] == limit
    assert remedy in fault["remedy"]


@pytest.mark.parametrize("name", ["gpu_node", "gpu-nodes"])
def test_a_misspelt_group_is_one_fault(name):
    assert [fault["where"] for fault in renamed("gpu_nodes", name).plan()["refusals"]] == [name]


def test_a_group_of_ones_own_beside_the_right_one_is_no_slip():
    assert cusco().with_groups(gpu_nodes_a=["gpu-01"]).plan()["refusals"] == []
