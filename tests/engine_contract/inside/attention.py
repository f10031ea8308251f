"""Which attention vLLM chooses for a line on CUDA: it does so only while a model is loaded, and then may refuse.

A backend is asked with vLLM's own selectors whether it takes the GPU, the sizes of K3's MLA and the type of the KV.
The packages of vLLM's image that hold kernels count as installed.
"""
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import json
import os
import sys
import traceback
import types

from gpus import Nothing

PACKAGES = ("flashinfer", "flashinfer_cubin", "tokenspeed_mla")


class Installed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the packages with kernels, empty, and whatever is imported from them."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] not in PACKAGES:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return Nothing(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """There is nothing to run."""


class Attention:
    """The choices made so far: lines that differ in other things only share one."""

    def __init__(self) -> None:
        self.known: dict[tuple, dict[str, str]] = {}

    def of(self, config: object) -> dict[str, str]:
        """The names of the backends for decode and prefill, or what vLLM says against one, as `error`."""
        wanted, sizes = config.attention_config, config.parallel_config
        key = (
            sizes.tensor_parallel_size,
            sizes.decode_context_parallel_size,
            config.cache_config.cache_dtype,
            wanted.backend,
            wanted.mla_prefill_backend,
        )
        if key not in self.known:
            self.known[key] = in_a_process_of_its_own(config)
        return self.known[key]


def in_a_process_of_its_own(config: object) -> dict[str, str]:
    """The next line must not find the packages: vLLM would import more from them than there is."""
    answer, report = os.pipe()
    child = os.fork()
    if not child:
        try:
            chosen = choose(config)
        # Whatever it is would end the engine while it loads.
        except Exception as fault:
            traceback.print_exc(file=sys.__stderr__)
            chosen = {"error": f"{type(fault).__name__}: {fault}"}
        os.write(report, json.dumps(chosen).encode())
        os._exit(0)
    os.close(report)
    os.waitpid(child, 0)
    with open(answer, "rb") as text:
        return json.loads(text.read())


def choose(config: object) -> dict[str, str]:
    import torch
    import vllm.utils.flashinfer as kernels
    from vllm.config import set_current_vllm_config

    sys.meta_path.append(Installed())
    for function in vars(kernels).values():
        if hasattr(type(function), "cache_clear"):
            function.cache_clear()
    # A module of one backend reserves memory of a GPU when it is imported.
    torch.empty = functools.partial(lambda make, *size, **how: make(*size, **{**how, "device": "meta"}), torch.empty)
    from vllm.v1.attention.backends.mla.prefill.selector import get_mla_prefill_backend
    from vllm.v1.attention.selector import get_attn_backend

    text = config.model_config.hf_text_config
    width = text.kv_lora_rank + text.qk_rope_head_dim
    heads = text.num_attention_heads // config.parallel_config.tensor_parallel_size
    with set_current_vllm_config(config):
        decode = get_attn_backend(
            width, config.model_config.dtype, config.cache_config.cache_dtype, use_mla=True, num_heads=heads
        )
        prefill = get_mla_prefill_backend(config)
    return {"decode": decode.get_name(), "prefill": prefill.get_name()}
