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
