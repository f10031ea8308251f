"""Known faults as gates: where each of the catalogue holds, what each action does, and how a site overrides one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner import catalogue
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.site import VARIABLES

from tests.unit.planner.samples import Sample, builtin, cell, engines

DRAFT = {"serving_draft_model_path": "/srv/models/draft"}
LMCACHE = {"kv_connector": "LMCacheMPConnector", "kv_role": "kv_both"}
MEGA = {"--moe-backend": "deep_gemm_mega_moe"}
PROFILES = {"single": "single_node_tp", "pd": "pd_cluster"}


@cache
def known() -> catalogue.Catalogue:
    """The catalogue, and of the NVFP4 checkpoint what a site must declare of it."""
    found = builtin()
    entry = found.entries["models"]["kimi-k3-nvfp4"]
    models = {**found.entries["models"], entry.name: replace(entry, data={**entry.data, "bytes": 1645900000000})}
    return replace(found, entries={**found.entries, "models": models})


def served(hardware: str, profile: str, *features: str, flags=None, env=None, **more) -> Sample:
    """A cell with features beside the parsers, and settings of the site's own."""
    overrides = {"flags": flags or {}, "env": env or {}}
    names = ("tool_calling", "reasoning", *features)
    return cell(hardware, PROFILES.get(profile, profile), features=names, serving_overrides=overrides, **DRAFT, **more)


def of_overrides(result: dict) -> list[dict]:
    """Warnings about what the site overrides."""
    return [fault for fault in result["warnings"] if fault["where"].startswith("serving_") and "." in fault["where"]]


def nvfp4(hardware: str, profile: str) -> Sample:
    return served(hardware, profile, serving_model="kimi-k3-nvfp4", serving_model_revision="0" * 40)


# gate: (a site for which it holds, one like it for which it does not)
SITES: dict[str, tuple[Callable[[], Sample], Callable[[], Sample]]] = {
    "aiter-5192": (
        lambda: served("mi355x", "single"),
        lambda: served("mi355x", "single", env={"VLLM_ROCM_USE_AITER": 0}),
    ),
    "efa-plugin": (
        lambda: served("b300", "multi_node_tep", fabric="efa"),
        lambda: served("b300", "single", fabric="efa"),
    ),
    "infx-2371": (
        lambda: served("b300", "single"),
        lambda: served("b300", "single", env={"VLLM_HTTP_TIMEOUT_KEEP_ALIVE": 60}),
    ),
    "infx-2380": (lambda: served("b300", "single", "dspark"), lambda: served("gb300", "multi_node_tep", "dspark")),
    "infx-2848": (
        lambda: served("b300", "pd", fabric="efa", flags={"--enable-sleep-mode": True}),
        lambda: served("b300", "pd", fabric="efa"),
    ),
    "infx-draft-staging": (
        lambda: served("gb300", "multi_node_tp_dp", "dspark"),
        lambda: served("gb300", "multi_node_tp_dp"),
    ),
    "infx-gb200-staging": (lambda: served("gb200", "multi_node_dep"), lambda: served("gb200", "multi_node_tep")),
    "infx-megamoe-draft": (
        lambda: served("gb300", "multi_node_dep", "dspark", flags={"--all2all-backend": "flashinfer_nvlink_one_sided"}),
        lambda: served("gb300", "multi_node_dep", "dspark"),
    ),
    "infx-megamoe-nvshmem": (
        lambda: served("gb200", "multi_node_dep", env={"TORCH_SYMMMEM": "NVSHMEM"}),
        lambda: served("gb300", "multi_node_dep", env={"TORCH_SYMMMEM": "NVSHMEM"}),
    ),
    "infx-retention": (
        lambda: served("b300", "single", flags={"--prefix-cache-retention-interval": 32768}),
        lambda: served("b300", "single", flags={"--prefix-cache-retention-interval": 0}),
    ),
    "infx-two-ucx": (lambda: served("b300", "pd"), lambda: served("b300", "pd", fabric="efa")),
    "lmcache-4247": (
        lambda: served("b300", "single", flags={"--kv-transfer-config": LMCACHE}),
        lambda: served("b300", "single", "kv_offload"),
    ),
    "lmcache-4463": (
        lambda: served("b300", "single", flags={"--kv-transfer-config": {"kv_connector": "LMCacheConnectorV1"}}),
        lambda: served("b300", "single", flags={"--kv-transfer-config": LMCACHE}),
    ),
    "narwhal-ucx": (lambda: served("b300", "pd"), lambda: served("b300", "pd", env={"UCX_MODULE_DIR": "/opt/ucx"})),
    "nvfp4-megamoe": (lambda: nvfp4("gb300", "multi_node_dep"), lambda: nvfp4("gb300", "multi_node_tep")),
    "recipes-692": (
        lambda: served("b300", "single", flags={"--attention-config": None}),
        lambda: served("b300", "single", flags={"--attention-config": None, "--kv-cache-dtype": "auto"}),
    ),
    "recipes-698": (lambda: served("h200", "multi_node_tp"), lambda: served("h200", "multi_node_tep")),
    "recipes-744": (lambda: nvfp4("h200", "multi_node_tep"), lambda: nvfp4("b200", "multi_node_tep")),
    "recipes-b200-workspace": (
        lambda: served("b200", "multi_node_tep"),
        lambda: served("b200", "multi_node_tp_pp"),
    ),
    "recipes-megamoe-fabric": (
        lambda: served("b300", "multi_node_dep", flags=MEGA),
        lambda: served("gb300", "multi_node_dep"),
    ),
    "recipes-mi355x-pipeline": (
        lambda: served("mi355x", "multi_node_tp_pp"),
        lambda: served("mi355x", "multi_node_tp"),
    ),
    "vllm-40812": (lambda: served("h200", "pd"), lambda: served("h200", "multi_node_tep")),
    "vllm-47282": (lambda: served("b300", "single", "kv_offload"), lambda: served("b300", "pd")),
    "vllm-48221": (lambda: served("h200", "pd", "dspark"), lambda: served("b300", "pd", "dspark")),
    "vllm-50098": (
        lambda: served("b200", "multi_node_tp_pp", "dspark", version="0.29.0"),
        lambda: served("b200", "multi_node_tp_pp", "dspark", version="0.30.0"),
    ),
    "vllm-50347": (
        lambda: served("mi355x", "single"),
        lambda: served("mi355x", "single", serving_max_model_len=131072),
    ),
    "vllm-50347-longer": (
        lambda: served("mi355x", "single", serving_max_model_len=524288),
        lambda: served("mi355x", "single"),
    ),
    "vllm-50484": (
        lambda: served("b300", "single", version="0.27.1", flags={"--decode-context-parallel-size": 8}),
        lambda: served("b300", "single", version="0.28.0", flags={"--decode-context-parallel-size": 8}),
    ),
    "vllm-50647": (
        lambda: served("b300", "multi_node_tep", flags={"--enable-eplb": True}),
        lambda: served("b300", "multi_node_tep", flags={"--no-enable-eplb": True}),
    ),
    "vllm-51004": (
        lambda: served("mi355x", "single", "dspark", flags={"--kv-transfer-config": LMCACHE}),
        lambda: served("mi355x", "single", flags={"--kv-transfer-config": LMCACHE}),
    ),
    "vllm-51124": (lambda: served("b300", "single", flags=MEGA), lambda: served("gb300", "multi_node_dep")),
    "vllm-51413": (
        lambda: served("b300", "single", version="0.27.1", flags={"--cpu-offload-gb": 10}),
        lambda: served("b300", "single", version="0.28.0", flags={"--cpu-offload-gb": 10}),
    ),
    "vllm-51653": (
        lambda: served("mi355x", "single", "dspark", version="0.27.1"),
        lambda: served("mi355x", "single", "dspark", version="0.28.0"),
    ),
    "vllm-51798": (lambda: nvfp4("b300", "single"), lambda: nvfp4("gb300", "multi_node_tep")),
    "vllm-51986": (lambda: served("b300", "multi_node_tp"), lambda: served("b300", "multi_node_tp_pp")),
    "vllm-51986-hopper": (
        lambda: served("h200", "multi_node_tep", version="0.31.0"),
        lambda: served("h200", "multi_node_tep", version="0.32.0"),
    ),
    "vllm-52234": (lambda: served("b300", "pd"), lambda: served("b300", "single", "kv_offload")),
    "vllm-52269": (
        lambda: served("b300", "single", "dspark_mla", version="0.28.0", flags={"--decode-context-parallel-size": 8}),
        lambda: served("b300", "single", "dspark_mla", "dcp", version="0.29.0"),
    ),
    "vllm-52627": (lambda: served("b300", "pd"), lambda: served("b300", "multi_node_dep")),
    "vllm-53246": (lambda: served("b300", "single"), lambda: cell("b300", "single_node_tp", features=("reasoning",))),
    "vllm-54273": (lambda: served("b300", "single"), lambda: cell("b300", "single_node_tp", features=("reasoning",))),
    "vllm-54723": (
        lambda: served("gb200", "multi_node_dep", flags={"--moe-backend": None}),
        lambda: served("gb200", "multi_node_dep"),
    ),
    "vllm-55531": (
        lambda: served("h200", "pd", "dspark", version="0.30.0", flags={"--decode-context-parallel-size": 8}),
        lambda: served("h200", "pd", "dspark", version="0.29.0", flags={"--decode-context-parallel-size": 8}),
    ),
    "vllm-55531-before": (
        lambda: served("h200", "pd", "dspark", version="0.29.0", flags={"--decode-context-parallel-size": 8}),
        lambda: served("h200", "pd", "dspark", version="0.30.0", flags={"--decode-context-parallel-size": 8}),
    ),
    "vllm-55635": (lambda: served("b300", "pd", fabric="efa"), lambda: served("b300", "pd")),
    "vllm-55924": (
        lambda: served("b300", "single", "dspark", version="0.29.0", flags={"--use-replayssm": True}),
        lambda: served("b300", "single", "dspark", version="0.30.0", flags={"--use-replayssm": True}),
    ),
    "vllm-dspark-v1-runner": (
        lambda: served("b300", "single", "dspark", env={"VLLM_USE_V2_MODEL_RUNNER": 0}),
        lambda: served("b300", "single", env={"VLLM_USE_V2_MODEL_RUNNER": 0}),
    ),
    "vllm-k3-tail-fusion": (
        lambda: served("b300", "single", flags={"--enable-sleep-mode": True}),
        lambda: served("b300", "multi_node_dep", flags={"--enable-sleep-mode": True}),
    ),
    "vllm-nixl-pipeline": (
        lambda: served("b200", "multi_node_tp_pp", flags={"--kv-transfer-config": {"kv_connector": "NixlConnector"}}),
        lambda: served("b200", "multi_node_tp_pp", "kv_offload"),
    ),
}


def held(sample: Sample) -> set[str]:
    """The gates that hold for a site, those that refuse overridden so that there is a plan to read."""
    refusing = [gate.name for gate in known().entries["faults"].values() if gate["action"] == "refuse"]
    result = sample.with_site(serving_gate_overrides=dict.fromkeys(refusing, "to see them")).plan(known())
    assert result["refusals"] == []
    return {gate["id"] for gate in result["gates"]}


@pytest.mark.parametrize("name", builtin().names("faults"))
def test_a_gate_of_the_catalogue_holds_for_the_site_it_is_about_and_not_for_its_neighbour(name):
    trips, spares = SITES[name]
    assert name in held(trips())
    assert name not in held(spares())


@pytest.mark.parametrize("name", builtin().names("faults"))
def test_a_gate_points_at_a_variable_of_the_site(name):
    assert builtin().find("faults", name)["variable"] in VARIABLES


def test_a_gate_that_refuses_names_itself_its_thread_and_two_ways_out():
    [fault] = served("b200", "multi_node_tp_pp", "dspark", version="0.29.0").plan()["refusals"]
    assert (fault["where"], fault["value"]) == ("serving_features", ["tool_calling", "reasoning", "dspark"])
    assert "(vllm-50098, https://github.com/vllm-project/vllm/issues/50098)" in fault["limit"]
    assert fault["remedy"].startswith("take dspark out, choose an image of 0.30.0 or newer")
    assert fault["remedy"].endswith("; knowing better, write serving_gate_overrides: {vllm-50098: why}")


def test_a_gate_about_settings_of_the_site_names_those_it_looks_at():
    [fault] = served("b300", "single", flags={"--prefix-cache-retention-interval": 32768}).plan()["refusals"]
    assert (fault["where"], fault["value"]) == (
        "serving_overrides",
        "--prefix-cache-retention-interval, VLLM_PREFIX_CACHE_RETENTION_INTERVAL",
    )


def test_a_gate_that_warns_leaves_the_plan_as_it_is():
    result = served("h200", "multi_node_tp").plan()
    assert result["digest"]
    assert [fault["where"] for fault in result["warnings"] if "recipes-698" in fault["limit"]] == ["serving_profile"]


def test_a_workaround_is_laid_over_the_other_layers_with_the_fault_as_its_source():
    told = engines(served("b200", "multi_node_tep").plan())["unified-0-rank-1"]["provenance"]
    setting = told["--gpu-memory-utilization"]
    assert (setting["value"], setting["layer"]) == ("0.9", "fault")
    assert setting["source"].startswith("catalogue/faults/recipes-b200-workspace.yml (vllm-project/recipes 8959cf6")
    assert [old["value"] for old in setting["replaced"]] == ["0.95"]


def test_a_block_of_a_workaround_is_left_out_where_its_condition_does_not_hold():
    lengths = [
        engines(served("b200", profile).plan())["unified-0-rank-0"]["provenance"]["--max-model-len"]["value"]
        for profile in ("multi_node_tep", "multi_node_dep")
    ]
    assert lengths == ["1048576", "524288"]


def test_a_workaround_takes_away_what_stops_the_start():
    engine = engines(served("h200", "pd").plan())["decode-0-rank-0"]
    assert "PYTORCH_CUDA_ALLOC_CONF" not in engine["env"]
    assert engine["provenance"]["env:PYTORCH_CUDA_ALLOC_CONF"]["layer"] == "fault"


def test_a_gate_that_waits_for_a_proof_holds_the_serving_and_not_the_plan():
    result = served("b300", "single", "kv_offload").plan()
    assert result["digest"]
    [fault] = result["serve_refusals"]
    assert "(vllm-47282, " in fault["limit"]
    assert "the proof offload_equivalence has not passed on this site" in fault["limit"]
    assert fault in result["warnings"]


@pytest.mark.parametrize(
    ("name", "sample"),
    [
        ("vllm-50098", lambda: served("b200", "multi_node_tp_pp", "dspark", version="0.29.0")),
        ("recipes-698", lambda: served("h200", "multi_node_tp")),
        ("vllm-47282", lambda: served("b300", "single", "kv_offload")),
    ],
)
def test_an_override_with_a_reason_lifts_a_gate_and_is_seen(name, sample):
    result = sample().with_site(serving_gate_overrides={name: "soaked for two days"}).plan()
    assert (result["refusals"], result["serve_refusals"]) == ([], [])
    assert [gate["overridden"] for gate in result["gates"] if gate["id"] == name] == ["soaked for two days"]
    told = [fault for fault in result["warnings"] if name in f"{fault['where']} {fault['limit']}"]
    assert [(fault["where"], fault["value"]) for fault in told] == [
        (f"serving_gate_overrides.{name}", "soaked for two days")
    ]


def test_an_override_takes_a_workaround_away():
    sample = served("b200", "multi_node_tep", serving_gate_overrides={"recipes-b200-workspace": "0.95 starts here"})
    assert engines(sample.plan())["unified-0-rank-0"]["provenance"]["--gpu-memory-utilization"]["value"] == "0.95"


def test_an_override_that_nothing_needs_is_warned_of():
    result = served("b300", "single", serving_gate_overrides={"vllm-52627": "soaked for two days"}).plan()
    assert [(fault["where"], fault["remedy"]) for fault in of_overrides(result)] == [
        ("serving_gate_overrides.vllm-52627", "remove it")
    ]


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"flags": {"--gpu-memory-utilization": 0.94}}, "serving_overrides.flags.--gpu-memory-utilization"),
        ({"env": {"VLLM_ALLREDUCE_USE_FLASHINFER": 1}}, "serving_overrides.env.VLLM_ALLREDUCE_USE_FLASHINFER"),
    ],
)
def test_a_setting_of_the_site_that_takes_a_workaround_back_is_warned_of(change, where):
    warnings = of_overrides(served("b200", "multi_node_tep", **change).plan())
    assert [fault["where"] for fault in warnings] == [where]
    assert "takes back what the plan sets against a known fault" in warnings[0]["limit"]


def test_a_setting_of_the_site_that_agrees_with_a_workaround_is_not_warned_of():
    fusion = {"--compilation-config": {"pass_config": {"fuse_allreduce_rms": False}, "cudagraph_mode": "PIECEWISE"}}
    assert of_overrides(served("b200", "multi_node_tep", flags=fusion).plan()) == []
