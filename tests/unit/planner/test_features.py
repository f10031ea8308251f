"""What a site may choose beside its profile: where a feature is offered, and what it changes."""

from __future__ import annotations

import json

import pytest

from tests.unit.planner.samples import Sample, builtin, cell, engines

DRAFT = "/srv/models/draft"


def served(hardware: str, profile: str, *features: str, **more) -> Sample:
    return cell(hardware, profile, features=features, **{"serving_draft_model_path": DRAFT, **more})


def flag(sample: Sample, name: str) -> object:
    """A flag of the first engine, read back from its text."""
    argv = next(iter(engines(sample.plan()).values()))["argv"]
    text = argv[argv.index(name) + 1]
    return json.loads(text) if text.startswith("{") else text


def memory(sample: Sample) -> dict:
    return sample.plan()["replicas"][0]["memory"]


@pytest.mark.parametrize(
    ("sample", "value", "limit"),
    [
        (lambda: served("h200", "multi_node_tep", "dspark_mla"), "dspark_mla", "is for generation blackwell, cdna4"),
        (lambda: served("b300", "multi_node_dep", "dcp"), "dcp", "is for profile single_node_tp, multi_node_tp"),
        (lambda: served("gb300", "pd_cluster", "kv_offload"), "kv_offload", "prefill-0 has pd_cluster"),
    ],
)
def test_a_feature_is_refused_where_it_is_not_offered(sample, value, limit):
    told = [fault for fault in sample().plan()["refusals"] if fault["where"] == "serving_features"]
    assert [(fault["value"], limit in fault["limit"]) for fault in told] == [(value, True)]


def test_two_features_that_exclude_each_other_are_one_refusal():
    faults = served("b300", "single_node_tp", "dspark", "dspark_mla").plan()["refusals"]
    assert [(fault["value"], fault["limit"]) for fault in faults] == [
        ("dspark, dspark_mla", "these two do not go together")
    ]


@pytest.mark.parametrize("feature", builtin().names("features"))
def test_what_a_feature_excludes_is_a_feature(feature):
    assert set(builtin().find("features", feature).get("excludes") or ()) <= set(builtin().names("features"))


@pytest.mark.parametrize("feature", ["dspark", "dspark_mla"])
def test_a_draft_model_needs_its_place_on_the_nodes(feature):
    faults = cell("b300", "single_node_tp", features=[feature]).plan()["refusals"]
    assert [fault["where"] for fault in faults] == ["serving_draft_model_path"]
    assert faults[0]["remedy"] == "write serving_draft_model_path: /srv/models/kimi-k3-dspark"


def test_a_draft_model_is_read_from_its_place_and_mounted_there_for_reading_only():
    sample = served("mi355x", "single_node_tp", "dspark")
    assert flag(sample, "--speculative-config") == {
        "model": DRAFT,
        "method": "dspark",
        "num_speculative_tokens": 8,
        "draft_sample_method": "probabilistic",
        "rejection_sample_method": "block",
    }
    engine = engines(sample.plan())["unified-0-rank-0"]
    assert f"--volume={DRAFT}:{DRAFT}:ro" in engine["container"]["arguments"]
    assert engine["env"]["VLLM_USE_V2_MODEL_RUNNER"] == "1"


@pytest.mark.parametrize(
    ("sample", "own"),
    [
        (lambda: served("b300", "single_node_tp", "dspark_mla"), {"attention_backend": "FLASHINFER_MLA"}),
        (lambda: served("b300", "single_node_tp", "dspark_mla", "dcp"), {"attention_backend": "TOKENSPEED_MLA"}),
        (
            lambda: served("mi355x", "single_node_tp", "dspark_mla"),
            {"attention_backend": "TRITON_MLA", "kv_cache_dtype": "auto"},
        ),
    ],
)
def test_a_draft_model_with_mla_takes_the_backend_of_its_hardware(sample, own):
    common = {"model", "method", "num_speculative_tokens", "draft_sample_method", "rejection_sample_method"}
    found = flag(sample(), "--speculative-config")
    assert {key: value for key, value in found.items() if key not in common} == own
    assert found["num_speculative_tokens"] == 7


def test_a_draft_model_takes_a_quarter_beside_each_token_of_kv():
    plain, drafting = (memory(served("b300", "single_node_tp", *more))["kv_tokens"] for more in ((), ("dspark",)))
    assert plain / drafting == pytest.approx(1.25, rel=1e-5)


@pytest.mark.parametrize(
    ("hardware", "profile", "ranks"), [("b300", "single_node_tp", 8), ("gb200", "multi_node_tp", 16)]
)
def test_kv_is_spread_over_all_ranks_of_a_replica(hardware, profile, ranks):
    sample = served(hardware, profile, "dcp")
    assert flag(sample, "--decode-context-parallel-size") == str(ranks)
    assert flag(sample, "--attention-config")["mla_prefill_backend"] == "TRTLLM_RAGGED"
    assert memory(sample)["kv_tokens"] == pytest.approx(
        ranks * memory(served(hardware, profile))["kv_tokens"], rel=1e-4
    )


def test_without_images_the_vision_tower_is_not_loaded():
    parts = memory(served("b300", "single_node_tp", "text_only"))["weights_by_part_gib"]
    assert parts["vision tower"] == parts["vision projector"] == 0


def test_kv_goes_to_host_memory_so_much_for_each_gpu():
    assert flag(served("b300", "single_node_tp", "kv_offload"), "--kv-transfer-config") == {
        "kv_connector": "SimpleCPUOffloadConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {"cpu_bytes_to_use_per_rank": 236223201280, "lazy_offload": False},
    }
