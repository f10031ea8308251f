"""Command lines against ones worked out by hand from the public recipe and from runs of vLLM 0.32.

Where the recipe (vllm-project/recipes 8959cf6) does not start or loses settings, the corrected line stands here and
says why. Ours on every line: the served name, the addresses and ports, offline variables. Workarounds of known faults
are left out; test_gates.py has them.
"""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from tests.unit.planner import samples
from tests.unit.planner.samples import cell

MODEL = "/srv/models/kimi-k3/f831ab66814297da540d832a5235f8e904f29d06"
EVERY = "--trust-remote-code --served-model-name kimi-k3"
PARSERS = "--enable-auto-tool-choice --tool-call-parser kimi_k3 --reasoning-parser kimi_k3"
OFFLINE = "HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1"

BLACKWELL = f"""{EVERY} {PARSERS}
    --gpu-memory-utilization 0.95 --load-format fastsafetensors --no-enable-flashinfer-autotune
    --max-model-len 1048576 --kv-cache-dtype fp8 --enable-prefix-caching
    --attention-config '{{"mla_prefill_backend":"flashinfer","use_prefill_query_quantization":true}}'
"""
BLACKWELL_ENV = f"""{OFFLINE}
    VLLM_ALLREDUCE_USE_FLASHINFER=1 VLLM_ENGINE_READY_TIMEOUT_S=3600 VLLM_USE_V2_MODEL_RUNNER=1
    VLLM_USE_RUST_FRONTEND=1
"""
HOPPER = f"""{EVERY} {PARSERS}
    --gpu-memory-utilization 0.97 --max-num-seqs 5 --max-model-len 32768 --moe-backend marlin
    --disable-custom-all-reduce --no-enable-flashinfer-autotune --max-num-batched-tokens 4096
    --attention-backend FLASHMLA
"""
HOPPER_ENV = f"""{OFFLINE}
    VLLM_ENGINE_READY_TIMEOUT_S=3600 VLLM_USE_V2_MODEL_RUNNER=1 VLLM_USE_RUST_FRONTEND=1
    PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
"""
# The recipe also writes --load-format auto, which is vLLM's own default.
AMD = f"""{EVERY} {PARSERS}
    --gpu-memory-utilization 0.95 --mm-encoder-tp-mode data --max-num-seqs 128 --max-num-batched-tokens 4096
    --compilation-config '{{"cudagraph_mode":"FULL_DECODE_ONLY","custom_ops":["+fused_rms_norm_gated"]}}'
"""
# The recipe sets no time to get ready; InferenceX waits two hours.
AMD_ENV = f"""{OFFLINE}
    VLLM_ROCM_USE_AITER=1 SAFETENSORS_FAST_GPU=1 VLLM_ROCM_USE_AITER_MOE_SITUV2=a8w4 AITER_BF16_FP8_MOE_BOUND=0
    VLLM_USE_BREAKABLE_CUDAGRAPH=0 VLLM_ENGINE_READY_TIMEOUT_S=7200
"""
SOCKETS = "GLOO_SOCKET_IFNAME=bond0 NCCL_SOCKET_IFNAME=bond0"
INFINIBAND = f"{SOCKETS} NCCL_IB_HCA==mlx5_0 NCCL_NET=IB"
ROCE = f"{INFINIBAND} NCCL_IB_GID_INDEX=3"
NVLINK = f"{SOCKETS} NCCL_MNNVL_ENABLE=1 NCCL_CUMEM_ENABLE=1 NCCL_NVLS_ENABLE=1"


def at(number: int, port: int = 8000) -> str:
    return f"--host 10.1.0.{number} --port {port}"


def home(number: int) -> str:
    """What an engine of a replica with several nodes is told of its own address."""
    return f"VLLM_HOST_IP=10.1.0.{number}"


def meeting(nodes: int, rank: int, head: int = 1) -> str:
    return f"--nnodes {nodes} --node-rank {rank} --master-addr 10.1.0.{head} --master-port 29501"


def data(size: int, local: int, head: int = 1) -> str:
    rpc = "--data-parallel-rpc-port 29550"
    return f"--data-parallel-size {size} --data-parallel-size-local {local} --data-parallel-address 10.1.0.{head} {rpc}"


# The generator drops the whole hardware block from prefill and decode; here it is merged, and the pool's own batch
# sizes stand over the hardware's.
PREFILL = """--gpu-memory-utilization 0.9 --max-num-batched-tokens 16384 --no-disable-hybrid-kv-cache-manager
    --enable-expert-parallel --kv-transfer-config
    '{"kv_connector":"NixlConnector","kv_load_failure_policy":"fail","kv_role":"kv_producer"}'
"""
DECODE = """--gpu-memory-utilization 0.9 --max-num-batched-tokens 32 --max-num-seqs 8
    --no-disable-hybrid-kv-cache-manager --enable-expert-parallel --kv-transfer-config
    '{"kv_connector":"NixlConnector","kv_load_failure_policy":"fail","kv_role":"kv_consumer"}'
"""
DECODE_GRAPHS = """--compilation-config '{"cudagraph_mode":"FULL_DECODE_ONLY"}'"""


def side(number: int, port: int) -> str:
    return f"VLLM_NIXL_SIDE_CHANNEL_HOST=10.1.0.{number} VLLM_NIXL_SIDE_CHANNEL_PORT={port}"


# One decode rank keeps no prefix of its own, whatever the hardware's block says.
DECODE_BLACKWELL = BLACKWELL.replace("--enable-prefix-caching", "--no-enable-prefix-caching")
KEPT_STATE = "VLLM_SSM_CONV_STATE_LAYOUT=DS UCX_TLS=rc,cuda_copy"
TP_PP = "--tensor-parallel-size 8 --pipeline-parallel-size 2 --gpu-memory-utilization 0.9 --max-num-batched-tokens 8192"
# Not in the recipe: with vLLM's own 1024 requests the state of all of them has no room (vLLM 0.32 stops at that).
DEP = "--enable-expert-parallel --data-parallel-hybrid-lb --max-num-seqs 32"
# The recipe's 32768 tokens and 5 requests are more than the 0.4 GiB of KV that are left hold.
H200_TP_DP = "--tensor-parallel-size 8 --max-model-len 2048 --max-num-seqs 1"
MEGA = "--moe-backend deep_gemm_mega_moe"

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
# what: (the site, the engine, its flags, its variables)
CASES = {
    "single_node_tp on B300": (
        lambda: cell("b300", "single_node_tp"),
        "unified-0-rank-0",
        f"{BLACKWELL} {at(1)} --tensor-parallel-size 8",
        BLACKWELL_ENV,
    ),
    "single_node_tp on MI355X": (
        lambda: cell("mi355x", "single_node_tp"),
        "unified-0-rank-0",
        f"{AMD} {at(1)} --tensor-parallel-size 8",
        AMD_ENV,
    ),
    "head of multi_node_tp on H200": (
        lambda: cell("h200", "multi_node_tp", fabric="infiniband"),
        "unified-0-rank-0",
        f"{HOPPER} {at(1)} {meeting(2, 0)} --tensor-parallel-size 16",
        f"{HOPPER_ENV} {INFINIBAND} {home(1)}",
    ),
    "worker of multi_node_tp on H200": (
        lambda: cell("h200", "multi_node_tp", fabric="infiniband"),
        "unified-0-rank-1",
        f"{HOPPER} --headless {meeting(2, 1)} --tensor-parallel-size 16",
        f"{HOPPER_ENV} {INFINIBAND} {home(2)}",
    ),
    "head of multi_node_tep on H200": (
        lambda: cell("h200", "multi_node_tep"),
        "unified-0-rank-0",
        f"{HOPPER} {at(1)} {meeting(2, 0)} --tensor-parallel-size 16 --enable-expert-parallel",
        f"{HOPPER_ENV} {ROCE} {home(1)}",
    ),
    "worker of multi_node_tep on H200": (
        lambda: cell("h200", "multi_node_tep"),
        "unified-0-rank-1",
        f"{HOPPER} --headless {meeting(2, 1)} --tensor-parallel-size 16 --enable-expert-parallel",
        f"{HOPPER_ENV} {ROCE} {home(2)}",
    ),
    "head of multi_node_tp_pp on B200": (
        lambda: cell("b200", "multi_node_tp_pp"),
        "unified-0-rank-0",
        f"{BLACKWELL} {at(1)} {meeting(2, 0)} {TP_PP}",
        f"{BLACKWELL_ENV} {ROCE} {home(1)} NCCL_CUMEM_ENABLE=1 VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS=1800",
    ),
    "worker of multi_node_tp_pp on B200": (
        lambda: cell("b200", "multi_node_tp_pp"),
        "unified-0-rank-1",
        f"{BLACKWELL} --headless {meeting(2, 1)} {TP_PP}",
        f"{BLACKWELL_ENV} {ROCE} {home(2)} NCCL_CUMEM_ENABLE=1 VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS=1800",
    ),
    # As generated this pair does not start: only with --headless does the head take the worker's rank.
    "head of multi_node_tp_dp on H200": (
        lambda: cell("h200", "multi_node_tp_dp"),
        "unified-0-rank-0",
        f"{HOPPER} {at(1)} {data(2, 1)} {H200_TP_DP}",
        f"{HOPPER_ENV} {ROCE} {home(1)}",
    ),
    "worker of multi_node_tp_dp on H200": (
        lambda: cell("h200", "multi_node_tp_dp"),
        "unified-0-rank-1",
        f"{HOPPER} --headless {data(2, 1)} --data-parallel-start-rank 1 {H200_TP_DP}",
        f"{HOPPER_ENV} {ROCE} {home(2)}",
    ),
    "head of multi_node_tp_dp on GB300": (
        lambda: cell("gb300", "multi_node_tp_dp"),
        "unified-0-rank-0",
        f"{BLACKWELL} {at(1)} {data(4, 1)} --tensor-parallel-size 4",
        f"{BLACKWELL_ENV} {NVLINK} {home(1)}",
    ),
    "last worker of multi_node_tp_dp on GB300": (
        lambda: cell("gb300", "multi_node_tp_dp"),
        "unified-0-rank-3",
        f"{BLACKWELL} --headless {data(4, 1)} --data-parallel-start-rank 3 --tensor-parallel-size 4",
        f"{BLACKWELL_ENV} {NVLINK} {home(4)}",
    ),
    "head of multi_node_dep on GB300": (
        lambda: cell("gb300", "multi_node_dep"),
        "unified-0-rank-0",
        f"{BLACKWELL} {at(1)} {data(16, 4)} --tensor-parallel-size 1 {DEP} {MEGA}",
        f"{BLACKWELL_ENV} {NVLINK} {home(1)}",
    ),
    "last worker of multi_node_dep on GB300": (
        lambda: cell("gb300", "multi_node_dep"),
        "unified-0-rank-3",
        f"{BLACKWELL} {at(4)} {data(16, 4)} --data-parallel-start-rank 12 --tensor-parallel-size 1 {DEP} {MEGA}",
        f"{BLACKWELL_ENV} {NVLINK} {home(4)}",
    ),
    # Experts spread whole over 16 GPUs do not fit beside whole attention; 32 do. MegaMoE does not cross RDMA.
    "head of multi_node_dep on B200": (
        lambda: cell("b200", "multi_node_dep"),
        "unified-0-rank-0",
        f"{BLACKWELL} {at(1)} {data(32, 8)} --tensor-parallel-size 1 {DEP} --all2all-backend deepep_v2",
        f"{BLACKWELL_ENV} {ROCE} {home(1)}",
    ),
    "second node of multi_node_dep on B200": (
        lambda: cell("b200", "multi_node_dep"),
        "unified-0-rank-1",
        f"""{BLACKWELL} {at(2)} {data(32, 8)} --data-parallel-start-rank 8 --tensor-parallel-size 1 {DEP}
            --all2all-backend deepep_v2""",
        f"{BLACKWELL_ENV} {ROCE} {home(2)}",
    ),
    # The recipe's DEP of 16 with whole attention does not fit 184 GiB; InferenceX runs it as TP4 x DP4, 64 requests.
    "head of multi_node_dep on GB200": (
        lambda: cell("gb200", "multi_node_dep"),
        "unified-0-rank-0",
        f"{BLACKWELL} {at(1)} {data(4, 1)} --tensor-parallel-size 4 {DEP} {MEGA} --max-num-seqs 64",
        f"{BLACKWELL_ENV} {NVLINK} {home(1)}",
    ),
    "last worker of multi_node_dep on GB200": (
        lambda: cell("gb200", "multi_node_dep"),
        "unified-0-rank-3",
        f"""{BLACKWELL} {at(4)} {data(4, 1)} --data-parallel-start-rank 3 --tensor-parallel-size 4 {DEP} {MEGA}
            --max-num-seqs 64""",
        f"{BLACKWELL_ENV} {NVLINK} {home(4)}",
    ),
    "head of prefill on GB300": (
        lambda: cell("gb300", "pd_cluster"),
        "prefill-0-rank-0",
        f"{BLACKWELL} {at(1, 8001)} {meeting(2, 0)} --tensor-parallel-size 8 {PREFILL}",
        f"{BLACKWELL_ENV} {NVLINK} {home(1)} {KEPT_STATE} UCX_NET_DEVICES=all {side(1, 5557)}",
    ),
    # Only the head's scheduler has a side channel (vLLM 0.32 code); the recipe's line gives it to both.
    "worker of prefill on GB300": (
        lambda: cell("gb300", "pd_cluster"),
        "prefill-0-rank-1",
        f"{BLACKWELL} --headless {meeting(2, 1)} --tensor-parallel-size 8 {PREFILL}",
        f"{BLACKWELL_ENV} {NVLINK} {home(2)} {KEPT_STATE} UCX_NET_DEVICES=all",
    ),
    "head of decode on GB300": (
        lambda: cell("gb300", "pd_cluster"),
        "decode-0-rank-0",
        f"""{DECODE_BLACKWELL} {at(3, 8002)} {data(16, 4, 3)} --data-parallel-start-rank 0 --tensor-parallel-size 1
            --data-parallel-hybrid-lb {DECODE} {DECODE_GRAPHS} {MEGA}""",
        f"{BLACKWELL_ENV} {NVLINK} {home(3)} {KEPT_STATE} UCX_NET_DEVICES=all {side(3, 5558)}",
    ),
    "last node of decode on GB300": (
        lambda: cell("gb300", "pd_cluster"),
        "decode-0-rank-3",
        f"""{DECODE_BLACKWELL} {at(6, 8002)} {data(16, 4, 3)} --data-parallel-start-rank 12 --tensor-parallel-size 1
            --data-parallel-hybrid-lb {DECODE} {DECODE_GRAPHS} {MEGA}""",
        f"{BLACKWELL_ENV} {NVLINK} {home(6)} {KEPT_STATE} UCX_NET_DEVICES=all {side(6, 5558)}",
    ),
    "prefill on B300": (
        lambda: cell("b300", "pd_cluster"),
        "prefill-0-rank-0",
        f"{BLACKWELL} {at(1, 8001)} --tensor-parallel-size 8 {PREFILL}",
        f"{BLACKWELL_ENV} {KEPT_STATE} {side(1, 5557)}",
    ),
    "head of decode on B300": (
        lambda: cell("b300", "pd_cluster"),
        "decode-0-rank-0",
        f"""{DECODE_BLACKWELL} {at(2, 8002)} {data(16, 8, 2)} --data-parallel-start-rank 0 --tensor-parallel-size 1
            --data-parallel-hybrid-lb {DECODE} {DECODE_GRAPHS} --all2all-backend deepep_v2""",
        f"{BLACKWELL_ENV} {ROCE} {home(2)} {KEPT_STATE} {side(2, 5558)}",
    ),
    "second node of decode on B300": (
        lambda: cell("b300", "pd_cluster"),
        "decode-0-rank-1",
        f"""{DECODE_BLACKWELL} {at(3, 8002)} {data(16, 8, 2)} --data-parallel-start-rank 8 --tensor-parallel-size 1
            --data-parallel-hybrid-lb {DECODE} {DECODE_GRAPHS} --all2all-backend deepep_v2""",
        f"{BLACKWELL_ENV} {ROCE} {home(3)} {KEPT_STATE} {side(3, 5558)}",
    ),
    # Whole attention does not fit an H200, so decode is split as prefill is.
    "worker of prefill on H200": (
        lambda: cell("h200", "pd_cluster", fabric="infiniband"),
        "prefill-0-rank-1",
        f"{HOPPER} --headless {meeting(2, 1)} --tensor-parallel-size 16 {PREFILL}",
        f"{HOPPER_ENV} {INFINIBAND} {home(2)} {KEPT_STATE}",
    ),
    "head of decode on H200": (
        lambda: cell("h200", "pd_cluster", fabric="infiniband"),
        "decode-0-rank-0",
        f"""{HOPPER} {at(3, 8002)} {meeting(2, 0, 3)} --tensor-parallel-size 16 {DECODE} {DECODE_GRAPHS}
            --no-enable-prefix-caching""",
        f"{HOPPER_ENV} {INFINIBAND} {home(3)} {KEPT_STATE} {side(3, 5558)}",
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
    known = samples.builtin()
    result = sample().plan(replace(known, entries={**known.entries, "faults": {}}))
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
