"""Every cell of the table of what can be served on what, and the lines that the plan makes of it."""
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from tests.engine_contract import shapes
from tests.engine_contract.inside.gpus import Gpu
from tests.unit.planner import samples

# Compute capabilities by NVIDIA's list of CUDA GPUs; names of AMD's by its ROCm documentation.
ARCHITECTURES = {
    "h100": "9.0",
    "h200": "9.0",
    "b200": "10.0",
    "gb200": "10.0",
    "b300": "10.3",
    "gb300": "10.3",
    "mi350x": "gfx950",
    "mi355x": "gfx950",
}
TRANSPORTS = ("NCCL_", "GLOO_", "UCX_", "FI_")
# Where a planned site keeps its draft models; they are judged beside the model.
DRAFTS = "/srv/drafts"
USUAL = ("tool_calling", "reasoning")


@dataclass(frozen=True)
class Cell:
    """One replica of each pool of a profile on one hardware, with some features, over one fabric."""

    hardware: str
    profile: str
    features: tuple[str, ...]
    fabric: str | None = None

    def __str__(self) -> str:
        return "-".join([self.hardware, self.profile, "+".join(self.features) or "plain", self.fabric or "usual"])

    def plan(self, version: str) -> dict:
        site = {"serving_draft_model_path": f"{DRAFTS}/{self.features[-1]}"} if self.has_draft else {}
        return samples.cell(
            self.hardware, self.profile, fabric=self.fabric, features=self.features, version=version, **site
        ).plan()

    @property
    def has_draft(self) -> bool:
        return bool(shapes.DRAFTS.keys() & self.features)

    @property
    def gpu(self) -> Gpu:
        row = samples.builtin().find("hardware", self.hardware)
        architecture = ARCHITECTURES[self.hardware]
        return Gpu(self.hardware, row["accelerator"], architecture, row["gpu_memory_gib"], row["gpus_per_node"])


def hardware() -> list[str]:
    """The rows of the hardware catalogue that have GPUs: `cpu` is served for real, in the rehearsal."""
    return [name for name, row in samples.builtin().entries["hardware"].items() if row["accelerator"] != "cpu"]


@cache
def cells() -> tuple[Cell, ...]:
    """Each layout of each hardware: without features, with the usual ones and each other, over each fabric."""
    known = samples.builtin()
    others = [(*USUAL, name) for name in known.names("features") if name not in USUAL]
    found = []
    for machine in hardware():
        for profile in known.find("hardware", machine)["layouts"]:
            found += [Cell(machine, profile, features) for features in ((), *others)]
            found += [Cell(machine, profile, USUAL, fabric) for fabric in known.names("fabrics")]
    return tuple(found)


@cache
def planned(cell: Cell, version: str) -> dict | None:
    """The plan of a cell, or None where the planner refuses it for this version."""
    plan = cell.plan(version)
    return None if plan["refusals"] else plan


def engines(plan: Mapping) -> Iterator[dict]:
    """Of each replica its first two engines and its last: the others differ from those in their numbers only."""
    found = samples.engines(plan)
    for replica in plan["replicas"]:
        names = replica["engines"]
        yield from (found[name] for name in dict.fromkeys([*names[:2], names[-1]]))


def asked(cell: Cell, engine: Mapping, model: Path) -> dict:
    """What the judge is asked about an engine. Equal questions have equal names."""
    argv = [str(model), *(word.replace(DRAFTS, str(model.parent)) for word in engine["argv"][1:])]
    # Libraries that carry data between GPUs read these; no part of vLLM's configuration does.
    env = {name: value for name, value in engine["env"].items() if not name.startswith(TRANSPORTS)}
    content = json.dumps([cell.hardware, engine["argv"], sorted(env.items())])
    return case(hashlib.sha256(content.encode()).hexdigest(), cell.gpu, argv, env)


def cases(version: str, model: Path) -> list[dict]:
    """What the judge is asked about a version: every different line of the cells that can be planned for it."""
    plans = ((cell, planned(cell, version)) for cell in cells())
    questions = (asked(cell, engine, model) for cell, plan in plans if plan for engine in engines(plan))
    return list({question["id"]: question for question in questions}.values())


def case(identity: str, gpu: Gpu, argv: list[str], env: Mapping[str, str]) -> dict:
    return {"id": identity, "gpu": asdict(gpu), "argv": argv, "env": dict(env)}
