"""What a site may not say in serving_overrides."""

from __future__ import annotations

import pytest

from tests.unit.planner.samples import cell, cusco


def overrides(**values):
    return {"serving_overrides": values}


# what is wrong: (the overrides, where the refusal points, what it must say)
CASES = {
    "context over ranks that are not there": (
        overrides(flags={"--decode-context-parallel-size": 3}),
        "serving_overrides.flags.--decode-context-parallel-size",
        "must divide the tensor-parallel size, 8",
    ),
    "overrides of another shape": (overrides(flag={}), "serving_overrides", "has flags and env"),
    "flags as a list": (overrides(flags=["--x"]), "serving_overrides.flags", "must be a mapping"),
    "flag in its short form": (overrides(flags={"-tp": 8}), "serving_overrides.flags.-tp", "long form"),
    "flag with underscores": (overrides(flags={"--max_x": 8}), "serving_overrides.flags.--max_x", "--like-this"),
    "flag set to false": (overrides(flags={"--x": False}), "serving_overrides.flags.--x", "null takes one away"),
    "flag of the plan": (overrides(flags={"--port": 1}), "serving_overrides.flags.--port", "the plan computes it"),
    "flag of the layout": (
        overrides(flags={"--data-parallel-size": 2}),
        "serving_overrides.flags.--data-parallel-size",
        "serving_profile decide",
    ),
    "words for a number that memory is counted with": (
        overrides(flags={"--max-num-seqs": "many"}),
        "serving_overrides.flags.--max-num-seqs",
        "write it in digits",
    ),
    "secret flag": (overrides(flags={"--api-key": "x"}), "serving_overrides.flags.--api-key", "no secret"),
    "secret variable": (overrides(env={"HF_TOKEN": "x"}), "serving_overrides.env.HF_TOKEN", "no secret"),
    "variable in small letters": (overrides(env={"a": 1}), "serving_overrides.env.a", "LIKE_THIS"),
    "variable set to true": (overrides(env={"A": True}), "serving_overrides.env.A", "text or a number"),
    "rank of the layout, where the profile sets none": (
        overrides(flags={"--nnodes": 2}),
        "serving_overrides.flags.--nnodes",
        "the plan computes it",
    ),
    "GPUs of the layout": (
        overrides(env={"CUDA_VISIBLE_DEVICES": "0"}),
        "serving_overrides.env.CUDA_VISIBLE_DEVICES",
        "the plan computes it",
    ),
    "text that is no JSON": (
        overrides(flags={"--compilation-config": "{mode:3}"}),
        "serving_overrides.flags.--compilation-config",
        "must be JSON",
    ),
    "text for an object": (
        overrides(flags={"--attention-config": "flashinfer"}),
        "serving_overrides.flags.--attention-config",
        "takes an object",
    ),
    "a word for a bare flag": (
        overrides(flags={"--trust-remote-code": "yes"}),
        "serving_overrides.flags.--trust-remote-code",
        "is a bare flag",
    ),
    "a list for one value": (
        overrides(flags={"--kv-cache-dtype": ["fp8"]}),
        "serving_overrides.flags.--kv-cache-dtype",
        "takes one value",
    ),
    "an engine that calls out": (
        overrides(env={"HF_HUB_OFFLINE": 0}),
        "serving_overrides.env.HF_HUB_OFFLINE",
        "never calls out",
    ),
    "another model's parser": (
        overrides(flags={"--reasoning-parser": "kimi_k2"}),
        "serving_overrides.flags.--reasoning-parser",
        "stays in the text with another parser",
    ),
    "endless start": (
        overrides(env={"VLLM_ENGINE_READY_TIMEOUT_S": "long"}),
        "serving_overrides.env.VLLM_ENGINE_READY_TIMEOUT_S",
        "whole seconds",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_wrong_override_is_refused_with_its_place_and_its_remedy(case):
    values, where, words = CASES[case]
    result = cusco().with_site(**values).plan()
    told = [fault for fault in result["refusals"] if fault["where"] == where]
    assert any(words in f"{fault['limit']} {fault['remedy']}" for fault in told), result["refusals"]


def test_a_wrong_override_makes_nothing_else_wrong():
    flags = {"--max-num-seqs": "many"}  # instead of 32, without which this layout would be refused
    [fault] = cell("gb300", "multi_node_dep", serving_overrides={"flags": flags}).plan()["refusals"]
    assert fault["value"] == "many"


@pytest.mark.parametrize(
    ("flags", "env"),
    [
        ({"--kv-transfer-config": None}, {}),
        ({"--kv-transfer-config": {"kv_role": "kv_both"}}, {}),
        ({"--disable-hybrid-kv-cache-manager": True}, {}),
        ({}, {"VLLM_SSM_CONV_STATE_LAYOUT": None}),
    ],
)
def test_what_prefill_and_decode_need_stays(flags, env):
    found = cell("b300", "pd_cluster", serving_overrides={"flags": flags, "env": env}).plan()["refusals"]
    name = next(iter((flags or env).keys()))
    assert [fault["remedy"] for fault in found if fault["where"].endswith(f".{name}")]


def test_more_may_be_said_of_how_kv_goes_from_prefill_to_decode():
    flags = {"--kv-transfer-config": {"kv_connector_extra_config": {"kv_lease_duration": 60}}}
    assert cell("b300", "pd_cluster", serving_overrides={"flags": flags}).plan()["refusals"] == []


@pytest.mark.parametrize("flag", ["--max-num-batched-tokens", "--long-prefill-token-threshold"])
def test_a_number_of_tokens_is_no_secret(flag):
    assert cusco().with_site(**overrides(flags={flag: 4096})).plan()["refusals"] == []
