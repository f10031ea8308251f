# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the GPUs of one replica share the work: tensor, pipeline, data and expert parallelism."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Parallel:
    """Sizes of one replica: `tensor` x `pipeline` x `data` is its number of GPUs."""

    nodes: int
    tensor: int
    pipeline: int
    data: int
    experts: bool  # each expert whole on one rank; else its width is cut
    serves: str  # head | every_node

    @property
    def data_local(self) -> int:
        """Data-parallel ranks of one node."""
        return max(self.data // self.nodes, 1)

    @property
    def ranks(self) -> int:
        """GPUs that share the experts of one layer; vLLM flattens tensor and data parallelism for them."""
        return self.tensor * self.data

    @property
    def every_node_serves(self) -> bool:
        return self.serves == "every_node" and self.data > 1

    def __str__(self) -> str:
        """TP8, TEP16, DEP16, TP8·PP2, TP4·DP4 EP16: the field's short names."""
        expert = "E" if self.experts else ""
        if self.data > 1 and self.tensor == 1:
            return f"D{expert}P{self.data}"
        if self.data > 1:
            return f"TP{self.tensor}·DP{self.data}{f' EP{self.ranks}' if self.experts else ''}"
        tail = f"·PP{self.pipeline}" if self.pipeline > 1 else ""
        return f"T{expert}P{self.tensor}{tail}"


def divide(shape: Mapping, tensor: str | int, nodes: int, node_gpus: int) -> Parallel:
    """The sizes that `shape` (a profile's `parallel`) gives to so many nodes; problem() says whether they come out."""
    total = nodes * node_gpus
    size = {"one": 1, "node": node_gpus, "replica": total}.get(tensor, tensor)
    groups = max(total // size, 1)
    pipeline, data = {"none": (1, 1), "pipeline": (groups, 1), "data": (1, groups)}[shape["rest"]]
    return Parallel(nodes, size, pipeline, data, shape["experts"], shape["serves"])


def problem(shape: Mapping, parallel: Parallel, node_gpus: int) -> str | None:
    """Why such a division cannot be, if so; `shape` is a profile's entry of a pool."""
    total, size, rest = parallel.nodes * node_gpus, parallel.tensor, shape["parallel"]["rest"]
    if total % size:
        return f"the {total} GPUs of a replica do not divide into tensor-parallel groups of {size}"
    if rest == "none" and size != total:
        return f"this profile splits tensors over all {total} GPUs of a replica, not over {size}"
    if parallel.data > 1 and node_gpus % size:
        return f"a data-parallel rank stays on one node, so {size} must divide the node's {node_gpus} GPUs"
    if size > node_gpus and "master" not in shape["ports"]:
        return f"a tensor-parallel group of this profile stays on one node, which has {node_gpus} GPUs"
    if parallel.pipeline > 1 and max(size, node_gpus) % min(size, node_gpus):
        return f"a pipeline stage has whole nodes or shares one evenly, so {size} and {node_gpus} must divide"
    return None
