"""Memory of one GPU against published figures, and what is refused because it does not suffice."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner import inventory, memory
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.layout import lay_out
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.nodes import read_nodes
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.ready import judge
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.site import read_site

from tests.unit.planner.samples import Sample, builtin, cell

LATENT = 8.8  # whole on each GPU; the published table leaves it out where tensors are cut
# The published table leaves out what sequence parallelism keeps whole: 22.6 GiB of shared experts instead of a quarter.
SHARED_WHOLE = 22.6 * 3 / 4
REQUESTS = "serving_overrides.flags.--max-num-seqs"


def counted(sample: Sample, **sizes) -> memory.Memory:
    """The memory of the first replica, also of a site that is refused; `sizes` are another Parallel's."""
    values, nodes, _faults = inventory.split(sample.hosts)
    site, _faults = read_site(values, builtin())
    members, _faults = read_nodes(sample.groups["gpu_nodes"], nodes, site.image, builtin())
    row = judge(site, lay_out(site, members, sample.groups).replicas[0], builtin())
    replica = replace(row.replica, parallel=replace(row.replica.parallel, **sizes))
    return memory.count(site, replica, row.head)


def dep(hardware: str, nodes: int, tensor: int | None = None) -> Sample:
    return cell(hardware, "multi_node_dep", {"unified": nodes}).with_site(
        serving_nodes_per_replica=nodes, serving_tensor_parallel_size=tensor
    )


def test_eight_b300_hold_what_was_measured_on_them():
    found = cell("b300", "single_node_tp").plan()["replicas"][0]["memory"]  # InferenceX#2371
    assert found["weights_gib"] == pytest.approx(192.6, rel=0.03)
    assert found["kv_gib"] == pytest.approx(42.23, rel=0.05)
    assert found["kv_tokens"] == pytest.approx(3_249_215, rel=0.05)
    assert found["full_length_requests"] == pytest.approx(3.1, rel=0.05)


# layout: (the site, GiB of weights on one GPU, on which hardware they fit)
PUBLISHED = {
    "TP8 on B300": (lambda: cell("b300", "single_node_tp"), 182 + LATENT, True),
    "TP8 on MI355X": (lambda: cell("mi355x", "single_node_tp"), 182 + LATENT, True),
    "TP8 on B200": (lambda: cell("b200", "single_node_tp"), 182 + LATENT, False),
    "TP8 on H200": (lambda: cell("h200", "single_node_tp"), 182 + LATENT, False),
    "TP8 on two trays of GB200": (lambda: cell("gb200", "multi_node_tp", {"unified": 2}), 182 + LATENT, False),
    "TP16 on H200, padded": (lambda: cell("h200", "multi_node_tp"), 119 + LATENT, True),
    "TEP16 on H200": (lambda: cell("h200", "multi_node_tep"), 91 + LATENT, True),
    "TEP16 on B200": (lambda: cell("b200", "multi_node_tep"), 91 + LATENT, True),
    "TEP16 on GB200": (lambda: cell("gb200", "multi_node_tep"), 91 + LATENT, True),
    "TP8 x PP2 on H200": (lambda: cell("h200", "multi_node_tp_pp"), 91 + LATENT / 2, True),
    "TP8 x PP2 on B200": (lambda: cell("b200", "multi_node_tp_pp"), 91 + LATENT / 2, True),
    "TP8 x DP2 on H200, padded": (lambda: cell("h200", "multi_node_tp_dp"), 126 + LATENT, True),
    "TP4 x DP4 EP16 on GB200": (lambda: cell("gb200", "multi_node_dep"), 111 + LATENT + SHARED_WHOLE, True),
    "DEP16 on B300": (lambda: cell("b300", "multi_node_dep"), 191, True),
    "DEP16 on GB300": (lambda: cell("gb300", "multi_node_dep"), 191, True),
    "DEP16 on MI355X": (lambda: cell("mi355x", "multi_node_dep"), 191, True),
    "DEP16 on B200": (lambda: dep("b200", 2), 191, False),
    "DEP16 on GB200": (lambda: dep("gb200", 4, tensor=1), 191, False),
    "DEP16 on H200": (lambda: dep("h200", 2), 191, False),
    "DEP32 on B200": (lambda: dep("b200", 4), 149, True),
    "TP8 x DP4 EP32 on H200": (lambda: dep("h200", 4, tensor=8), 55 + LATENT + 22.6 * 7 / 8, True),
}


@pytest.mark.parametrize("layout", PUBLISHED)
def test_weights_and_verdict_of_a_layout_are_the_published_ones(layout):
    sample, weights, fits = PUBLISHED[layout]
    sample = sample().with_site(serving_nodes_per_replica=len(sample().groups["gpu_nodes"]))
    found = counted(sample)
    assert found.loaded == pytest.approx(weights, rel=0.03)
    assert (found.kv > 0) is fits
    assert any("GiB of weights" in str(fault["value"]) for fault in sample.plan()["refusals"]) is not fits


def test_tensors_over_two_nodes_and_experts_over_four_leave_most_of_an_h200_free():
    found = counted(dep("h200", 4, tensor=8), tensor=16, data=2)
    assert found.loaded == pytest.approx(49 + LATENT + 22.6 * 15 / 16, rel=0.03)


@pytest.mark.parametrize(("hardware", "nodes", "lost"), [("h200", 2, 4 / 3), ("h200", 3, 2)])
def test_without_expert_parallelism_narrow_slices_of_experts_are_padded(hardware, nodes, lost):
    """3,072 numbers over 16 ranks are 192 each and over 24 are 128; vLLM takes 256."""
    sample = cell(hardware, "multi_node_tp", {"unified": nodes}).with_site(serving_nodes_per_replica=nodes)
    padded = counted(sample).weights["routed experts"]
    whole = counted(sample, experts=True, tensor=28 if nodes == 3 else 16).weights["routed experts"]
    share = 28 / 24 if nodes == 3 else 1
    assert padded == pytest.approx(whole * share * lost, rel=0.01)


def test_a_pipeline_is_judged_by_its_fullest_stage():
    found = counted(cell("b200", "multi_node_tp_pp"))
    parts = found.weights
    assert found.kv_token_bytes == 12 * 576  # half of 24 layers, 8 bits
    assert found.state * 1024 == pytest.approx(54.78 / 2, rel=0.001)
    assert parts["routed experts"] == pytest.approx(1446.456e9 / 2**30 / 8 * 47 / 93, rel=0.001)
    assert "vision tower" in parts
    assert "output head" not in parts


def test_decode_context_parallelism_multiplies_what_the_kv_cache_holds():
    whole = cell("b300", "single_node_tp")
    cut = whole.with_site(serving_overrides={"flags": {"--decode-context-parallel-size": 8}})
    assert counted(cut).tokens == pytest.approx(8 * counted(whole).tokens, rel=1e-6)


def test_kv_of_8_bits_holds_twice_the_tokens_of_16():
    eight = cell("b300", "single_node_tp")
    sixteen = eight.with_site(serving_overrides={"flags": {"--kv-cache-dtype": "auto"}})
    assert counted(eight).tokens == pytest.approx(2 * counted(sixteen).tokens, rel=1e-6)


def test_text_only_leaves_the_vision_tower_out():
    parts = counted(cell("b300", "single_node_tp", features=["text_only"])).weights
    assert (parts["vision tower"], parts["vision projector"]) == (0, 0)


@pytest.mark.parametrize(
    ("hardware", "overrides", "share"),
    [
        ("gb200", {}, 1),  # MegaMoE
        ("gb200", {"env": {"VLLM_KIMI_K3_SHARD_SP_SHARED_EXPERT": 1}}, 1 / 4),
        ("gb200", {"flags": {"--moe-backend": None}, "env": {"VLLM_KIMI_K3_SHARD_SP_SHARED_EXPERT": 1}}, 1),
        ("h200", {}, 1),  # DeepEP v2
        ("h200", {"env": {"VLLM_KIMI_K3_SHARD_SP_SHARED_EXPERT": 1}}, 1 / 8),
    ],
)
def test_sequence_parallelism_keeps_shared_experts_whole_unless_told_otherwise(hardware, overrides, share):
    sample = cell(hardware, "multi_node_dep") if hardware == "gb200" else dep("h200", 4, tensor=8)
    found = counted(sample.with_site(serving_overrides=overrides)).weights["shared experts"]
    assert found == pytest.approx(22.64 * share, rel=0.01)


def only_refusal(sample: Sample) -> dict:
    [fault] = sample.plan()["refusals"]
    return fault


def test_weights_that_do_not_fit_are_refused_part_by_part():
    fault = only_refusal(cell("b200", "single_node_tp").with_site(serving_overrides={"env": {"A": 1}}))
    assert fault["where"] == "serving_profile"
    assert fault["value"].startswith("TP8: 191.9 GiB of weights per GPU (routed experts 168.4, latent projections 8.8")
    assert fault["limit"].startswith("one b200 has 178.35 GiB, of which vLLM may use 0.9")
    assert fault["remedy"] == "no layout of these nodes holds this model: add nodes, or choose other hardware"


def test_a_request_that_is_too_long_is_refused_with_the_length_that_fits():
    """24 layers x 576 numbers x 2 bytes x 1,048,576 tokens are 27 GiB, and 29 MiB of state."""
    fault = only_refusal(cell("h200", "multi_node_tp", serving_max_model_len=1_048_576))
    assert (fault["where"], fault["value"]) == ("serving_max_model_len", 1_048_576)
    assert fault["limit"].startswith("one such request needs 27.03 GiB of KV per GPU; one h200 has 140.4 GiB")
    assert fault["limit"].endswith("129.8 of weights leave 6.34, 245224 tokens")
    assert fault["remedy"].startswith("write serving_max_model_len: 244736 or less; of these nodes would fit")


def test_the_longest_request_may_be_what_fits():
    found = cell("h200", "multi_node_tp", serving_overrides={"flags": {"--max-model-len": "auto"}}).plan()
    assert found["refusals"] == []
    assert found["replicas"][0]["memory"]["max_model_len"] == found["replicas"][0]["memory"]["kv_tokens"]


def test_more_requests_than_have_room_for_their_state_are_refused():
    flags = {"flags": {"--max-num-seqs": 256}}
    fault = only_refusal(cell("h200", "multi_node_tp_dp", serving_overrides=flags))
    assert (fault["where"], fault["value"], fault["remedy"]) == (REQUESTS, 256, "write 7 or less")
    assert fault["limit"].startswith("each request keeps 54.8 MiB of state per GPU; one h200 has 140.4 GiB")


def test_vllms_own_number_of_requests_is_refused_where_its_blocks_have_no_room():
    fault = only_refusal(cell("gb300", "multi_node_dep", serving_overrides={"flags": {"--max-num-seqs": None}}))
    assert (fault["where"], fault["value"]) == (REQUESTS, None)
    assert "vLLM's own 1024 need as many blocks of 152.4 MiB per GPU" in fault["limit"]


def test_layouts_that_would_fit_come_best_first():
    pair = cell("h200", "multi_node_tp").with_site(serving_profile="single_node_tp")
    remedy = only_refusal(pair)["remedy"]
    order = ["multi_node_tep with serving_nodes_per_replica: 2 (TEP16", "multi_node_tp_pp", "multi_node_tp with"]
    assert [remedy.index(word) for word in order] == sorted(remedy.index(word) for word in order)


def test_a_layout_for_one_pool_leaves_the_other_as_it_is():
    sample = cell("b200", "pd_cluster").with_site(serving_nodes_per_replica={"prefill": 1, "decode": 2})
    told = only_refusal(sample)
    assert "serving_profile: pd_cluster with 2 for prefill in serving_nodes_per_replica (TEP16" in told["remedy"]


def test_a_tensor_size_of_the_site_that_does_not_fit_is_said_to_be_left_out():
    told = only_refusal(cell("gb200", "multi_node_dep", serving_tensor_parallel_size=1))
    assert "multi_node_dep with serving_nodes_per_replica: 4 and without serving_tensor_parallel_size" in told["remedy"]


def test_a_share_of_memory_that_the_site_set_too_low_is_named():
    told = only_refusal(cell("b300", "single_node_tp", serving_overrides={"flags": {"--gpu-memory-utilization": 0.2}}))
    assert told["where"] == "serving_overrides.flags.--gpu-memory-utilization"
    assert told["remedy"].startswith("leave it out")


def test_bytes_alone_refuse_a_checkpoint_whose_parts_are_not_known(tmp_path):
    known = builtin()
    entry = known.entries["models"]["kimi-k3-nvfp4"]
    models = {**known.entries["models"], entry.name: replace(entry, data={**entry.data, "bytes": 1645900000000})}
    known = replace(known, entries={**known.entries, "models": models})
    sample = cell("b200", "multi_node_tep", {"unified": 1}, serving_model=entry.name, serving_nodes_per_replica=1)
    [fault] = [fault for fault in sample.plan(known)["refusals"] if fault["where"] == "serving_profile"]
    assert fault["value"] == "TEP8: 191.6 GiB of weights per GPU at least"
