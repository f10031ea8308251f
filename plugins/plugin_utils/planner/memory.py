# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Memory of one GPU, counted by the parts of the checkpoint and how each is split; GiB throughout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.arguments import LENGTH, Arguments
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.faults import Fault
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.layout import Replica
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.site import Site

GIB = 2**30
AUTO = ("auto", "-1")  # vLLM takes the longest request that fits
UTILIZATION = "--gpu-memory-utilization"
REQUESTS = "--max-num-seqs"
DEFAULT_UTILIZATION = 0.92  # vLLM 0.32.0
DEFAULT_REQUESTS = 1024  # vLLM 0.32.0, on GPUs of 70 GiB or more
# Bytes of one number in the KV cache; auto is the model's own bfloat16.
KV_BYTES = {"auto": 2, "bfloat16": 2, "float16": 2, "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1, "fp8_inc": 1}


@dataclass(frozen=True)
class Memory:
    """One GPU of a replica, the fullest: `kv` is at most so much where nobody measured the workspace."""

    usable: float  # what the driver leaves
    utilization: float
    weights: Mapping[str, float]  # by part of the checkpoint
    workspace: float | None  # activations, graphs and buffers
    kv: float
    state: float  # of one request, whatever its length
    block: float  # of the KV cache's unit; vLLM makes the state of as many layers fit as have KV
    kv_token_bytes: float
    length: int  # longest request, tokens
    longest: int  # that the model knows
    data: int  # ranks that each take requests of their own, with such KV

    @property
    def loaded(self) -> float:
        return sum(self.weights.values())

    @property
    def allowed(self) -> float:
        return self.usable * self.utilization

    @property
    def tokens(self) -> int:
        """Tokens of KV beside the state of one request."""
        return max(int((self.kv - self.state) * GIB / self.kv_token_bytes), 0)

    @property
    def replica_tokens(self) -> int:
        """Tokens of KV of the whole replica."""
        return self.tokens * self.data

    def as_dict(self) -> dict:
        return {
            "usable_gib": self.usable,
            "utilization": self.utilization,
            "weights_gib": round(self.loaded, 2),
            "weights_by_part_gib": {part: round(size, 2) for part, size in self.weights.items()},
            "workspace_gib": self.workspace,
            "kv_gib": round(self.kv, 2),
            "kv_at_most": self.workspace is None,
            "kv_tokens": self.tokens,
            "data_ranks": self.data,
            "max_model_len": self.length,
            "full_length_requests": round(self.tokens * self.data / self.length, 2),
            "state_gib_per_request": round(self.state, 4),
        }


def count(site: Site, replica: Replica, arguments: Arguments) -> Memory | None:
    """None where the catalogue knows too little: no GPU memory, no composition."""
    usable, composition, shapes = (
        replica.hardware.get("gpu_memory_gib"),
        site.model.get("composition"),
        site.model["shapes"],
    )
    if not usable or not composition or "kv_width" not in shapes:
        return None
    utilization = arguments.number(UTILIZATION) or DEFAULT_UTILIZATION
    weights = _weights(site, replica, arguments)
    workspace, parallel = replica.hardware.get("workspace_gib"), replica.parallel
    share = 1 + sum(feature.get("kv_overhead") or 0 for feature in site.features)
    context = int(arguments.number("--decode-context-parallel-size") or 1)
    number = KV_BYTES.get(arguments.value("--kv-cache-dtype") or "auto", 2)
    layers = -(-shapes["kv_layers"] // parallel.pipeline)
    state = shapes["state_bytes"] / parallel.tensor / parallel.pipeline / GIB
    found = Memory(
        usable=usable,
        utilization=utilization,
        weights=weights,
        workspace=workspace,
        kv=usable * utilization - sum(weights.values()) - (workspace or 0),
        state=state,
        block=state * shapes["kv_layers"] / (shapes["layers"] - shapes["kv_layers"]),
        kv_token_bytes=layers * shapes["kv_width"] * number * share / context,
        length=int(arguments.number(LENGTH) or shapes["max_model_len"]),
        longest=shapes["max_model_len"],
        data=parallel.data,
    )
    fits = min(found.tokens, shapes["max_model_len"])
    return replace(found, length=fits) if arguments.value(LENGTH) in AUTO and fits else found


def _weights(site: Site, replica: Replica, arguments: Arguments) -> dict[str, float]:
    """GiB of each part on one GPU of the fullest pipeline stage."""
    parallel, layers = replica.parallel, site.model["shapes"]["layers"]
    stages = [{}, {}] if parallel.pipeline > 1 else [{}]
    share = -(-layers // parallel.pipeline) / layers
    for row in site.model["composition"]:
        size = row["bytes"] * _split(site, row["split"], replica, arguments) / GIB
        for stage, name in zip(stages, ("first", "last"), strict=False):
            if "stage" not in row:
                stage[row["part"]] = size * share
            elif row["stage"] == name or len(stages) == 1:
                stage[row["part"]] = size
    return max(stages, key=lambda stage: sum(stage.values()))


def _split(site: Site, split: str, replica: Replica, arguments: Arguments) -> float:
    """The share of a part that one GPU holds."""
    parallel, shapes = replica.parallel, site.model["shapes"]
    if split == "experts":
        if parallel.experts:
            return -(-shapes["experts"] // parallel.ranks) / shapes["experts"]
        narrowest = shapes.get("expert_width_minimum", 0)
        return max(shapes["expert_width"] / parallel.ranks, narrowest) / shapes["expert_width"]
    if split == "vision":
        return 0 if arguments.value("--language-model-only") is not None else 1
    if split == "shared_experts":
        return 1 if _whole_shared_experts(replica, arguments) else 1 / parallel.tensor
    return 1 / parallel.tensor if split == "tensor" else 1


def _whole_shared_experts(replica: Replica, arguments: Arguments) -> bool:
    """vLLM 0.32 turns sequence parallelism on by itself, and then shared experts are whole on each GPU (vllm#50656)."""
    parallel = replica.parallel
    mega = arguments.value("--moe-backend") == "deep_gemm_mega_moe"
    spread = parallel.experts and parallel.tensor > 1 and parallel.pipeline == 1 and (mega or parallel.data > 1)
    cut = arguments.value("env:VLLM_KIMI_K3_SHARD_SP_SHARED_EXPERT") == "1"
    return spread and not (cut and (mega or arguments.value("--all2all-backend") == "deepep_v2"))


def faults(replica: Replica, memory: Memory, arguments: Arguments, others: str) -> Iterator[Fault]:
    """Weights that do not fit, and requests that would not; `others` names layouts of the same nodes that fit."""
    allowed = f"{memory.usable:g} GiB, of which vLLM may use {memory.utilization:g} = {memory.allowed:.1f}"
    limits = f"one {replica.hardware.name} has {allowed}"
    room = f" and {memory.workspace:g} of workspace" if memory.workspace else ""
    if memory.kv <= 0:
        value = f"{replica.parallel}: {memory.loaded:.1f} GiB of weights per GPU ({_parts(memory)}){room}"
        share = arguments.settings.get(UTILIZATION)
        if share and share.layer == "site":
            yield Fault(
                f"serving_overrides.flags.{UTILIZATION}",
                share.value,
                f"{value}; {limits}",
                f"leave it out; or {others}",
            )
        else:
            yield Fault("serving_profile", value, limits, others)
        return
    left = f"{limits}; {memory.loaded:.1f} of weights{room} leave {memory.kv:.2f}"
    if memory.length > memory.longest:
        limit = f"the model reads {memory.longest:,} tokens at most"
        yield Fault(
            "serving_max_model_len", memory.length, limit, f"write {min(memory.longest, memory.tokens)} or less"
        )
    elif memory.tokens < memory.length:
        need = memory.length * memory.kv_token_bytes / GIB + memory.state
        limit = f"one such request needs {need:.2f} GiB of KV per GPU; {left}, {memory.tokens} tokens"
        shorter = (
            f"write serving_max_model_len: {memory.tokens // 1024 * 1024} or less; " if memory.tokens >= 1024 else ""
        )
        yield Fault("serving_max_model_len", memory.length, limit, f"{shorter}{others}")
    yield from _request_faults(memory, arguments.number(REQUESTS), left)


def _request_faults(memory: Memory, asked: float | None, left: str) -> Iterator[Fault]:
    """More requests at once than there is room for: vLLM stops at that after the weights are loaded."""
    where, most = f"serving_overrides.flags.{REQUESTS}", int(memory.kv / memory.state)
    if most and asked and asked * memory.state > memory.kv:
        limit = f"each request keeps {memory.state * 1024:.1f} MiB of state per GPU; {left}"
        yield Fault(where, int(asked), limit, f"write {most} or less")
    elif most and not asked and DEFAULT_REQUESTS * memory.block > memory.kv:
        blocks, size = int(memory.kv / memory.block), memory.block * 1024
        limit = f"vLLM's own {DEFAULT_REQUESTS} need as many blocks of {size:.1f} MiB per GPU; {left} for {blocks}"
        yield Fault(where, None, limit, f"write {most} or less")


def _parts(memory: Memory) -> str:
    """The parts that weigh a GiB or more, heaviest first."""
    heavy = sorted(((size, part) for part, size in memory.weights.items() if size >= 1), reverse=True)
    return ", ".join(f"{part} {size:.1f}" for size, part in heavy)
