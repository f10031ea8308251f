"""Command lines against ones worked out by hand from the public recipe."""

from __future__ import annotations

import shlex

import pytest

from tests.unit.planner import samples

MODEL = "/srv/models/kimi-k3/f831ab66814297da540d832a5235f8e904f29d06"
# vllm-project/recipes 8959cf6: single_node_tp on 8 B300 with tool calling and reasoning.
B300 = """
    --trust-remote-code --gpu-memory-utilization 0.95 --load-format fastsafetensors
    --no-enable-flashinfer-autotune --max-model-len 1048576 --kv-cache-dtype fp8
    --attention-config '{"mla_prefill_backend":"flashinfer","use_prefill_query_quantization":true}'
    --enable-prefix-caching --enable-auto-tool-choice --tool-call-parser kimi_k3 --reasoning-parser kimi_k3
"""
B300_ENV = """
    VLLM_ALLREDUCE_USE_FLASHINFER=1 VLLM_ENGINE_READY_TIMEOUT_S=3600 VLLM_USE_V2_MODEL_RUNNER=1
    VLLM_USE_RUST_FRONTEND=1
"""
OFFLINE = "HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1"
PAIR = "--tensor-parallel-size 16 --nnodes 2 --master-addr 10.30.0.13 --master-port 29501"
PAIR_ENV = """
    GLOO_SOCKET_IFNAME=bond0 NCCL_SOCKET_IFNAME=bond0 NCCL_IB_HCA==mlx5_0,mlx5_1 NCCL_IB_GID_INDEX=3
"""
# A pair of engines on processors, as run with vLLM 0.32.
CPU = """
    --trust-remote-code --max-model-len 256 --kv-cache-memory-bytes 16M --max-num-seqs 4
    --max-num-batched-tokens 256 --block-size 32 --enforce-eager
    --tensor-parallel-size 2 --nnodes 2 --master-addr 10.0.0.11 --master-port 29501
"""
CPU_ENV = """
    VLLM_CPU_OMP_THREADS_BIND=nobind OMP_NUM_THREADS=1 TORCHDYNAMO_DISABLE=1 GLOO_SOCKET_IFNAME=eth0
    VLLM_ENGINE_READY_TIMEOUT_S=600
"""
CASES = {
    "single_node_tp on B300": (
        samples.cusco,
        "unified-2-rank-0",
        f"{B300} --tensor-parallel-size 8 --served-model-name kimi-k3 --host 10.30.0.13 --port 8000",
        f"{B300_ENV} {OFFLINE}",
    ),
    "head of multi_node_tp on B300": (
        samples.cusco_in_pairs,
        "unified-1-rank-0",
        f"{B300} {PAIR} --node-rank 0 --served-model-name kimi-k3 --host 10.30.0.13 --port 8000",
        f"{B300_ENV} {OFFLINE} {PAIR_ENV} VLLM_HOST_IP=10.30.0.13",
    ),
    "worker of multi_node_tp on B300": (
        samples.cusco_in_pairs,
        "unified-1-rank-1",
        f"{B300} {PAIR} --node-rank 1 --served-model-name kimi-k3 --headless",
        f"{B300_ENV} {OFFLINE} {PAIR_ENV} VLLM_HOST_IP=10.30.0.14",
    ),
    "head of multi_node_tp on processors": (
        lambda: samples.read(samples.REHEARSAL),
        "unified-0-rank-0",
        f"{CPU} --node-rank 0 --served-model-name kimi-k3-tiny --host 10.0.0.11 --port 8000",
        f"{CPU_ENV} {OFFLINE} VLLM_HOST_IP=10.0.0.11",
    ),
    "worker of multi_node_tp on processors": (
        lambda: samples.read(samples.REHEARSAL),
        "unified-0-rank-1",
        f"{CPU} --node-rank 1 --served-model-name kimi-k3-tiny --headless",
        f"{CPU_ENV} {OFFLINE} VLLM_HOST_IP=10.0.0.12",
    ),
}


def flags(words: list[str]) -> dict[str, str]:
    """{flag: its value, or nothing}, whatever the order."""
    starts = [n for n, word in enumerate(words) if word.startswith("--")] + [len(words)]
    return {words[at]: " ".join(words[at + 1 : end]) for at, end in zip(starts, starts[1:], strict=False)}


@pytest.mark.parametrize("case", CASES)
def test_an_engine_gets_the_line_worked_out_by_hand(case):
    sample, name, line, env = CASES[case]
    result = sample().plan()
    engine = samples.engines(result)[name]
    assert engine["argv"][0] == result["model"]["path"]
    assert flags(engine["argv"][1:]) == flags(shlex.split(line))
    assert engine["env"] == dict(word.split("=", 1) for word in env.split())


def test_flags_stand_in_order_of_their_names():
    argv = samples.engines(samples.cusco().plan())["unified-0-rank-0"]["argv"]
    names = [word for word in argv if word.startswith("--")]
    assert argv[0] == MODEL
    assert names == sorted(names)


def test_containers_get_gpus_and_only_replicas_that_span_nodes_get_rdma():
    alone = samples.engines(samples.cusco().plan())["unified-0-rank-0"]["container"]["arguments"]
    paired = samples.engines(samples.cusco_in_pairs().plan())["unified-0-rank-0"]["container"]["arguments"]
    assert "--device=nvidia.com/gpu=all" in alone
    assert "--device=/dev/infiniband" not in alone
    assert "--device=/dev/infiniband" in paired


def overridden(**overrides) -> dict:
    return samples.engines(samples.cusco().with_site(serving_overrides=overrides).plan())["unified-0-rank-0"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"--max-num-seqs": 8}, ["--max-num-seqs", "8"]),
        ({"--enforce-eager": True}, ["--enforce-eager"]),
        ({"--compilation-config": {"mode": 3, "level": [1]}}, ["--compilation-config", '{"level":[1],"mode":3}']),
        ({"--swap-space": "$HOME"}, ["--swap-space", "$HOME"]),
    ],
)
def test_a_site_adds_a_flag(given, words):
    argv = overridden(flags=given)["argv"]
    at = argv.index(words[0])
    assert argv[at : at + len(words)] == words


def test_a_site_takes_a_flag_away_and_the_provenance_remembers_it():
    engine = overridden(flags={"--kv-cache-dtype": None})
    kept = engine["provenance"]["--kv-cache-dtype"]
    assert "--kv-cache-dtype" not in engine["argv"]
    assert (kept["value"], kept["layer"]) == (None, "site")
    assert [(old["value"], old["layer"]) for old in kept["replaced"]] == [("fp8", "hardware")]


def test_a_negated_flag_replaces_the_flag_it_negates():
    engine = overridden(flags={"--no-enable-prefix-caching": True})
    assert "--no-enable-prefix-caching" in engine["argv"]
    assert "--enable-prefix-caching" not in engine["argv"]
    assert engine["provenance"]["--no-enable-prefix-caching"]["replaced"][0]["flag"] == "--enable-prefix-caching"


def test_the_longest_request_is_the_sites_to_say():
    engine = samples.engines(samples.cusco().with_site(serving_max_model_len=4096).plan())["unified-0-rank-0"]
    assert flags(engine["argv"])["--max-model-len"] == "4096"
    assert engine["provenance"]["--max-model-len"]["source"] == "serving_max_model_len"


def test_a_site_sets_a_variable_and_with_it_the_time_to_get_ready():
    engine = overridden(env={"VLLM_ENGINE_READY_TIMEOUT_S": 7200})
    assert engine["env"]["VLLM_ENGINE_READY_TIMEOUT_S"] == "7200"
    assert engine["ready_seconds"] == 7200


def test_layers_replace_one_another_in_order():
    told = overridden(env={"VLLM_ENGINE_READY_TIMEOUT_S": 7200})["provenance"]["env:VLLM_ENGINE_READY_TIMEOUT_S"]
    assert [old["layer"] for old in told["replaced"]] == ["base", "hardware"]
