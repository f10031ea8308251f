"""Lines that must not pass: each names one mistake, and a word of what vLLM says about it."""
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

from tests.engine_contract.cells import case
from tests.engine_contract.inside.gpus import Gpu

B300 = Gpu("b300", "cuda", "10.3", 268, 8)
RUST = {"VLLM_USE_RUST_FRONTEND": "1"}

# Arguments after the model, and part of the refusal.
LINES = {
    "an unknown flag": ("--no-such-flag", "unrecognized arguments"),
    "heads that do not divide": ("-tp 7", "must be divisible by tensor parallel size"),
    "more GPUs than the node has": ("-tp 16", "larger than the number of available GPUs"),
    "contexts that do not divide": ("-tp 8 -dcp 3", "must be divisible by dcp_size"),
    "a node that is not there": ("-tp 16 --nnodes 2 --node-rank 2 --master-addr 10.0.0.1", "--node-rank"),
    "a rank that is not there": ("-dp 4 -dpl 2 --data-parallel-start-rank 5 --headless", "must be in the range"),
    "two ways to spread requests": ("-dp 16 -dpl 8 -dph -dpe", "more than one data parallel load balancing mode"),
    "API servers without HTTP": ("-dp 16 -dpl 8 --headless --api-server-count 2", "--api-server-count"),
    "an unknown connector": (
        '-tp 8 --kv-transfer-config {"kv_connector":"NixlConnectr","kv_role":"kv_producer"}',
        "Unsupported connector",
    ),
    "an unknown role": (
        '-tp 8 --kv-transfer-config {"kv_connector":"NixlConnector","kv_role":"kv_prefill"}',
        "kv_role",
    ),
    "a longer context than the model's": ("-tp 8 --max-model-len 2000000", "greater than the derived max_model_len"),
    "an unknown attention backend": ("-tp 8 --attention-backend NOPE", "Unknown attention backend"),
    "an unknown parser": ("-tp 8 --enable-auto-tool-choice --tool-call-parser kimi_k9", "invalid tool call parser"),
    "balanced experts on no expert ranks": ("-tp 8 --enable-eplb", "enable_expert_parallel must be True"),
}
# Python's API server knows this parser, the Rust front end does not.
ONLY_PYTHON = ("-tp 8 --enable-auto-tool-choice --tool-call-parser apertus", "is not registered")

# The launch lines of the public recipe for two nodes: each is sound, but the two do not fit.
RECIPE = {
    "head": "-tp 8 -dp 2 -dpl 1 -dpa 10.0.0.1",
    "worker": "-tp 8 -dp 2 -dpl 1 -dpa 10.0.0.1 --data-parallel-start-rank 1",
}


def cases(model: Path) -> list[dict]:
    """Everything in this file, as the judge wants it."""

    def line(identity: str, words: str, env: dict[str, str] | None = None) -> dict:
        argv = [str(model), "--trust-remote-code", *words.split()]
        return case(identity, B300, argv, env or {})

    return [
        *(line(f"wrong/{name}", words) for name, (words, _) in LINES.items()),
        line("wrong/only python", ONLY_PYTHON[0]),
        line("wrong/only python, asked of rust", ONLY_PYTHON[0], RUST),
        line("right/rust", "-tp 8", RUST),
        line("right/without rust", "-tp 8"),
        line("wrong/unknown variable", "-tp 8", {"VLLM_NO_SUCH_NAME": "1"}),
        line("wrong/value of a variable", "-tp 8", {"VLLM_SSM_CONV_STATE_LAYOUT": "XY"}),
        *(line(f"recipe/{role}", words) for role, words in RECIPE.items()),
    ]
