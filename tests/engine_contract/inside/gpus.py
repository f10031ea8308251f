"""GPUs that are not there: the vendors' management libraries answer as the described hardware would.

vLLM then finds its platform, its capability and its memory by itself, with its own code. Compiled kernels are
stand-ins that do nothing: a line is judged, no model runs.
"""
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import re
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass

KERNELS = re.compile(r"vllm\..*_C(_stable_libtorch|_extension)?")
NVML = "vllm.third_party.pynvml"
GIB = 2**30


@dataclass(frozen=True)
class Gpu:
    """What one node has: `architecture` is a compute capability such as 10.3, or a name such as gfx950."""

    name: str
    accelerator: str
    architecture: str
    memory_gib: float
    count: int

    @property
    def capability(self) -> tuple[int, int]:
        """10.3 is (10, 3) and gfx950 is (9, 5)."""
        if self.accelerator == "cuda":
            major, minor = self.architecture.split(".")
            return int(major), int(minor)
        return int(self.architecture[3]), int(self.architecture[4])

    @property
    def memory(self) -> int:
        """Bytes."""
        return int(self.memory_gib * GIB)


class Machine:
    """The node that all questions are about; asking before it is known is a mistake of the judge."""

    def __init__(self) -> None:
        self._gpu: Gpu | None = None

    @property
    def gpu(self) -> Gpu:
        if self._gpu is None:
            raise RuntimeError("vLLM asked for a GPU while it was imported; the judge must choose one before")
        return self._gpu

    def has(self, gpu: Gpu) -> None:
        self._gpu = gpu


machine = Machine()


class Kernels(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds every compiled module of vLLM: an empty one, whose functions do nothing."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        return importlib.machinery.ModuleSpec(name, self) if KERNELS.fullmatch(name) else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return Nothing(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """There is nothing to run."""


class Nothing(types.ModuleType):
    def __getattr__(self, name: str) -> Callable:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None


class Nvml(importlib.abc.MetaPathFinder):
    """Loads vLLM's copy of pynvml, then puts answers in the place of the driver."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        if name != NVML:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        load = spec.loader.exec_module
        spec.loader.exec_module = lambda module: (load(module), answer_as_nvml(module))
        return spec


def answer_as_nvml(library: types.ModuleType) -> None:
    library.nvmlInit = library.nvmlShutdown = lambda: None
    library.nvmlDeviceGetCount = lambda: 1 if machine._gpu is None else machine.gpu.count
    library.nvmlDeviceGetHandleByIndex = lambda index: index
    library.nvmlDeviceGetCudaComputeCapability = lambda _: machine.gpu.capability
    library.nvmlDeviceGetMemoryInfo = lambda _: types.SimpleNamespace(total=machine.gpu.memory)
    library.nvmlDeviceGetName = lambda _: f"NVIDIA {machine.gpu.name.upper()}"
    library.nvmlDeviceGetUUID = lambda index: f"GPU-{index}"
    library.nvmlDeviceGetP2PStatus = lambda *_: library.NVML_P2P_STATUS_OK
    library.nvmlDeviceGetNumaNodeId = lambda _: 0


def amdsmi() -> types.ModuleType:
    """AMD's library, as far as vLLM asks it."""
    library = types.ModuleType("amdsmi")
    library.AmdSmiException = type("AmdSmiException", (Exception,), {})
    library.AmdSmiMemoryType = types.SimpleNamespace(VRAM=0)
    library.amdsmi_init = library.amdsmi_shut_down = lambda *_: None
    library.amdsmi_get_processor_handles = lambda: list(range(machine.gpu.count))
    library.amdsmi_get_gpu_asic_info = lambda _: {
        "target_graphics_version": machine.gpu.architecture,
        "device_id": "0x75a3",
        "market_name": machine.gpu.name.upper(),
        "asic_serial": "0",
    }
    library.amdsmi_get_gpu_memory_total = lambda *_: machine.gpu.memory
    library.amdsmi_get_gpu_device_uuid = lambda handle: f"GPU-{handle}"
    library.amdsmi_topo_get_link_type = lambda *_: {"hops": 1, "type": 2}
    library.amdsmi_topo_get_numa_node_number = lambda _: 0
    return library


def install(accelerator: str) -> None:
    """Before vLLM is imported: kernels and the management library of `accelerator`."""
    sys.meta_path.insert(0, Kernels())
    if accelerator == "rocm":
        sys.modules["amdsmi"] = amdsmi()
    else:
        sys.meta_path.insert(0, Nvml())
    import torch

    torch.cuda.is_available = lambda: True
    torch.cuda.get_device_capability = lambda *_: machine.gpu.capability
    torch.cuda.get_device_properties = lambda *_: properties()
    torch.cuda.device_count = torch.accelerator.device_count = lambda: machine.gpu.count
    answer_for_operators()


def answer_for_operators() -> None:
    """An operator that only says whether the kernels support something says yes: they are built for this GPU."""
    import torch

    namespace = type(torch.ops._C)
    ask = namespace.__getattr__

    def answer(self: object, name: str) -> object:
        try:
            return ask(self, name)
        except AttributeError:
            if "support" not in name:
                raise
        return Yes()

    namespace.__getattr__ = answer


class Yes:
    """An operator, and its default overload."""

    @property
    def default(self) -> Yes:
        return self

    def __call__(self, *_: object) -> bool:
        return True


def properties() -> types.SimpleNamespace:
    """What torch tells of a device. The number of its processors only sizes buffers, so one will do for all."""
    gpu = machine.gpu
    major, minor = gpu.capability
    known = {"name": gpu.name.upper(), "total_memory": gpu.memory, "multi_processor_count": 132, "is_integrated": False}
    return types.SimpleNamespace(major=major, minor=minor, gcnArchName=gpu.architecture, **known)


def settle(accelerator: str) -> None:
    """After vLLM is imported: what its own build for `accelerator` has, and this torch has not."""
    import vllm.config.vllm
    import vllm.triton_utils

    # Triton itself is a gigabyte, and only compiles kernels.
    vllm.config.vllm.HAS_TRITON = True
    vllm.triton_utils.triton.Config = TritonConfig
    count = functools.partial(lambda *_: machine.gpu.count)
    if accelerator == "rocm":
        import vllm.platforms.rocm

        vllm.platforms.rocm._rocm_device_count_stateless = count
    else:
        import vllm.platforms.cuda

        vllm.platforms.cuda._cuda_device_count_stateless = count


class TritonConfig:
    """One choice of an autotuned kernel, as modules of vLLM list them when they are imported."""

    def __init__(self, kwargs: dict | None = None, **options: object) -> None:
        self.kwargs = kwargs or {}
        self.__dict__ |= {"num_warps": 4, "num_stages": 2, **options}
