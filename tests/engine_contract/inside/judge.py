"""Runs with an engine's packages: reads cases as JSON, asks vLLM itself about each, prints one JSON line for each.

Input, on standard input: {"cases": [{"id", "gpu": {fields of Gpu}, "argv", "env"}]}, all of one accelerator.
Output: {"id", "error", "unknown_env", "summary"} for each case; the summary is of the built configuration.
"""
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import sys
from collections.abc import Iterable, Mapping
from typing import TextIO

import gpus
from attention import Attention
from gpus import Gpu, machine
from launching import Launched, Serve

LENGTH = 600


def judge(serve: Serve, attention: Attention, case: Mapping) -> dict:
    """Ask vLLM about one line, in the environment that the plan gives the engine."""
    words, before = io.StringIO(), dict(os.environ)
    os.environ.update(case["env"])
    launched, error, chosen = None, None, {}
    try:
        with contextlib.redirect_stderr(words):
            read_environment(case["env"])
            launched = serve(case["argv"])
            if machine.gpu.accelerator == "cuda":
                chosen = attention.of(launched.config)
                error = chosen.get("error")
    except SystemExit:
        # argparse has printed its usage and then what is wrong.
        error = words.getvalue().rpartition("error: ")[2] or words.getvalue()
    # vLLM raises all kinds, and every one of them would end the engine.
    except Exception as fault:
        error = f"{type(fault).__name__}: {fault}"
    finally:
        os.environ.clear()
        os.environ.update(before)
    return {
        "id": case["id"],
        "error": error and " ".join(error.split())[:LENGTH],
        "unknown_env": unknown(case["env"]),
        "summary": launched and {**summary(launched), "attention": chosen},
    }


def read_environment(env: Mapping) -> None:
    """Let vLLM read each of its variables, as the engine will at some time: some refuse a value."""
    from vllm import envs

    for name in filter(envs.environment_variables.get, env):
        envs.environment_variables[name]()


def unknown(env: Mapping) -> list[str]:
    """Variables of vLLM that this release does not have."""
    from vllm import envs

    return sorted(name for name in env if name.startswith("VLLM_") and name not in envs.environment_variables)


def summary(launched: Launched) -> dict:
    """The sizes and parts that vLLM made of a line."""
    config = launched.config
    sizes, transfer = config.parallel_config, config.kv_transfer_config
    return {
        "entry": launched.entry,
        "architecture": config.model_config.architecture,
        "max_model_len": config.model_config.max_model_len,
        "tensor": sizes.tensor_parallel_size,
        "pipeline": sizes.pipeline_parallel_size,
        "data": sizes.data_parallel_size,
        "data_local": sizes.data_parallel_size_local,
        "data_start": sizes.data_parallel_rank,
        "context": sizes.decode_context_parallel_size,
        "nodes": sizes.nnodes,
        "node_rank": sizes.node_rank,
        "experts": sizes.enable_expert_parallel,
        "balancing": balancing(sizes),
        "connector": transfer and transfer.kv_connector,
        "kv_role": transfer and transfer.kv_role,
    }


def balancing(sizes: object) -> str:
    """Who spreads requests over data-parallel ranks: all engines of a replica must agree on it."""
    if sizes.data_parallel_external_lb:
        return "external"
    return "hybrid" if sizes.data_parallel_hybrid_lb else "internal"


def in_a_process_of_its_own(serve: Serve, gpu: Gpu, cases: Iterable[Mapping], results: TextIO) -> None:
    """Judge all cases of one GPU: vLLM remembers what it asked a GPU, so another needs a process without memory."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        if status:
            sys.exit(f"the judge of {gpu.name} ended with status {status}")
        return
    machine.has(gpu)
    attention = Attention()
    for case in cases:
        print(json.dumps(judge(serve, attention, case)), file=results, flush=True)
    os._exit(0)


def main() -> None:
    # vLLM and its libraries print where they like, so results have a way out of their own.
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    cases = json.load(sys.stdin)["cases"]
    groups = [(Gpu(**gpu), list(group)) for gpu, group in itertools.groupby(cases, key=lambda case: case["gpu"])]
    accelerator = groups[0][0].accelerator
    gpus.install(accelerator)
    if accelerator == "rocm":
        # Read once, when vLLM is imported.
        machine.has(groups[0][0])
    serve = Serve()
    gpus.settle(accelerator)
    for gpu, group in groups:
        in_a_process_of_its_own(serve, gpu, group, results)


if __name__ == "__main__":
    main()
