"""Lines that must not pass, each with one mistake and a word of what vLLM says about it, and a few to compare."""
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.engine_contract.cells import case
from tests.engine_contract.inside.gpus import Gpu

B300 = Gpu("b300", "cuda", "10.3", 268, 8)
NOTHING: Mapping[str, str] = {}
RUST = {"VLLM_USE_RUST_FRONTEND": "1"}
NIXL = '--kv-transfer-config {"kv_connector":"%s","kv_role":"%s"}'


@dataclass(frozen=True)
class Wrong:
    """Arguments after the model, part of what is said against them, and what the engine finds in its environment."""

    words: str
    refusal: str
    env: Mapping[str, str] = field(default_factory=dict)


LINES = {
    "an unknown flag": Wrong("--no-such-flag", "unrecognized arguments"),
    "heads that do not divide": Wrong("-tp 7", "must be divisible by tensor parallel size"),
    "more GPUs than the node has": Wrong("-tp 16", "larger than the number of available GPUs"),
    "contexts that do not divide": Wrong("-tp 8 -dcp 3", "must be divisible by dcp_size"),
    "a node that is not there": Wrong("-tp 16 --nnodes 2 --node-rank 2 --master-addr 10.0.0.1", "--node-rank"),
    "a rank that is not there": Wrong("-dp 4 -dpl 2 --data-parallel-start-rank 5 --headless", "must be in the range"),
    "two ways to spread requests": Wrong("-dp 16 -dpl 8 -dph -dpe", "more than one data parallel load balancing mode"),
    "API servers without HTTP": Wrong("-dp 16 -dpl 8 --headless --api-server-count 2", "--api-server-count"),
    "an unknown connector": Wrong(f"-tp 8 {NIXL % ('NixlConnectr', 'kv_both')}", "Unsupported connector"),
    "an unknown role": Wrong(f"-tp 8 {NIXL % ('NixlConnector', 'kv_prefill')}", "kv_role"),
    "memory that moves under a connector": Wrong(
        f"-tp 8 {NIXL % ('NixlConnector', 'kv_producer')}",
        "expandable_segments",
        {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
    ),
    "more context than the model's": Wrong("-tp 8 --max-model-len 2000000", "greater than the derived max_model_len"),
    "an unknown attention backend": Wrong("-tp 8 --attention-backend NOPE", "Unknown attention backend"),
    "attention of other hardware": Wrong("-tp 8 --attention-backend FLASHMLA", "only supported on Hopper devices"),
    "an unknown parser": Wrong(
        "-tp 8 --enable-auto-tool-choice --tool-call-parser kimi_k9", "invalid tool call parser"
    ),
    "balanced experts on no expert ranks": Wrong("-tp 8 --enable-eplb", "enable_expert_parallel must be True"),
    "a value that a variable cannot have": Wrong(
        "-tp 8", "VLLM_SSM_CONV_STATE_LAYOUT", {"VLLM_SSM_CONV_STATE_LAYOUT": "X"}
    ),
    # Python's API server knows this parser.
    "a parser that the Rust front end lacks": Wrong(
        "-tp 8 --enable-auto-tool-choice --tool-call-parser apertus", "is not registered", RUST
    ),
}

# The launch lines of the public recipe for two nodes: each is sound, but the two do not fit.
RECIPE = {
    "head": "-tp 8 -dp 2 -dpl 1 -dpa 10.0.0.1",
    "worker": "-tp 8 -dp 2 -dpl 1 -dpa 10.0.0.1 --data-parallel-start-rank 1",
}


def cases(model: Path) -> list[dict]:
    """Everything in this file, as the judge wants it."""

    def line(identity: str, words: str, env: Mapping[str, str] = NOTHING) -> dict:
        argv = [str(model), "--trust-remote-code", *words.split()]
        return case(identity, B300, argv, env)

    return [
        *(line(f"wrong/{name}", wrong.words, wrong.env) for name, wrong in LINES.items()),
        *(line(f"recipe/{role}", words) for role, words in RECIPE.items()),
        line("rust", "-tp 8", RUST),
        line("no rust", "-tp 8"),
        line("unknown variable", "-tp 8", {"VLLM_NO_SUCH_NAME": "1"}),
    ]
