"""vLLM itself takes every line that the plan writes, and makes of it what the plan means."""
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.engine_contract import cells, environments, shapes, wrong
from tests.engine_contract.cells import Cell
from tests.engine_contract.environments import VERSIONS

SIZES = {
    "--tensor-parallel-size": "tensor",
    "--pipeline-parallel-size": "pipeline",
    "--data-parallel-size": "data",
    "--data-parallel-size-local": "data_local",
    "--data-parallel-start-rank": "data_start",
    "--decode-context-parallel-size": "context",
    "--nnodes": "nodes",
    "--node-rank": "node_rank",
    "--max-model-len": "max_model_len",
}
PLANNED = [(version, cell) for version in VERSIONS for cell in cells.cells() if cells.planned(cell, version)]

every_cell = pytest.mark.parametrize(("version", "cell"), PLANNED, ids=str)
every_version = pytest.mark.parametrize("version", VERSIONS)

Verdicts = dict[str, dict]
Ask = Callable[[str], Verdicts]


def ask(environment: environments.Environment, model: Path, accelerator: str) -> Verdicts:
    """Let one version judge all lines of one accelerator."""
    lines = [*wrong.cases(model), *cells.cases(environment.version, model)]
    question = {"cases": [line for line in lines if line["gpu"]["accelerator"] == accelerator]}
    answers = map(json.loads, environment.judge(json.dumps(question)).splitlines())
    return {answer["id"]: answer for answer in answers}


@pytest.fixture(scope="session")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Verdicts of a version by the name of the line: all are asked, as many at a time as there are processors."""
    home = tmp_path_factory.mktemp("engine")
    model = shapes.write(home / "kimi-k3")
    versions = environments.build(home)
    pool = ThreadPoolExecutor(os.cpu_count())
    asked = {
        version: [pool.submit(ask, environment, model, accelerator) for accelerator in ("cuda", "rocm")]
        for version, environment in versions.items()
    }
    yield lambda version: {name: verdict for answer in asked[version] for name, verdict in answer.result().items()}
    pool.shutdown(cancel_futures=True)


def judged(ask: Ask, version: str, cell: Cell) -> Iterator[tuple[dict, dict]]:
    """Each engine of a cell's plan with the verdict on its line."""
    found = ask(version)
    for engine in cells.engines(cells.planned(cell, version)):
        yield engine, found[cells.asked(cell, engine, Path())["id"]]


def accepted(ask: Ask, version: str, cell: Cell) -> list[tuple[dict, dict]]:
    """The same, of lines that vLLM takes: what it made of them can be looked at."""
    found = list(judged(ask, version, cell))
    if not all(verdict["summary"] for _, verdict in found):
        pytest.skip("vLLM refuses a line of this cell, which another test tells")
    return found


def flags(engine: Mapping) -> dict[str, str | None]:
    """An engine's flags as the plan writes them; a bare one has None."""
    words = [*engine["argv"][1:], "--end"]
    return {
        word: None if following.startswith("--") else following
        for word, following in zip(words, words[1:], strict=False)
        if word.startswith("--")
    }


def fitting(verdicts: list[dict]) -> bool:
    """Whether engines of one replica agree who spreads requests: a rule that vLLM checks when they meet."""
    ways = {verdict["summary"]["balancing"] for verdict in verdicts}
    silent = [verdict["summary"]["entry"].startswith("headless") for verdict in verdicts]
    expected = [False] + [ways == {"internal"}] * (len(verdicts) - 1)
    return len(ways) == 1 and silent == expected


@pytest.mark.parametrize("machine", cells.hardware())
def test_every_layout_of_the_catalogue_is_planned_and_so_judged(machine: str) -> None:
    left = {cell.profile for version, cell in PLANNED if cell.hardware == machine and cell.features == cells.USUAL}
    assert left == set(cells.samples.builtin().find("hardware", machine)["layouts"])


@every_cell
def test_vllm_accepts_the_lines_and_knows_their_variables(verdicts: Ask, version: str, cell: Cell) -> None:
    for engine, verdict in judged(verdicts, version, cell):
        assert verdict["error"] is None, f"{engine['name']}: {' '.join(engine['argv'])}"
        assert verdict["unknown_env"] == [], engine["name"]


@every_cell
def test_vllm_reads_the_sizes_that_the_plan_means(verdicts: Ask, version: str, cell: Cell) -> None:
    pools = cells.samples.builtin().find("profiles", cell.profile)["pools"]
    for engine, verdict in accepted(verdicts, version, cell):
        said, made = flags(engine), verdict["summary"]
        written = {key: int(said[flag]) for flag, key in SIZES.items() if flag in said}
        assert {key: made[key] for key in written} == written, engine["name"]
        assert made["experts"] == pools[engine["pool"]]["parallel"]["experts"]
        assert made["entry"].startswith("headless") == ("http" not in engine["ports"])
        transfer = json.loads(said.get("--kv-transfer-config") or "{}")
        assert (made["connector"], made["kv_role"]) == (transfer.get("kv_connector"), transfer.get("kv_role"))


@every_cell
def test_the_engines_of_a_replica_use_all_its_gpus_and_fit_together(verdicts: Ask, version: str, cell: Cell) -> None:
    replicas: dict[str, list[dict]] = {}
    for engine, verdict in accepted(verdicts, version, cell):
        made = verdict["summary"]
        gpus = engine["hardware"]["gpus"] * len(engine["members"])
        assert made["tensor"] * made["pipeline"] * made["data"] == gpus, engine["name"]
        replicas.setdefault(engine["replica"], []).append(verdict)
    assert all(fitting(found) for found in replicas.values())


@every_version
@pytest.mark.parametrize("name", wrong.LINES)
def test_a_wrong_line_is_refused_in_vllms_own_words(verdicts: Ask, version: str, name: str) -> None:
    assert wrong.LINES[name].refusal in verdicts(version)[f"wrong/{name}"]["error"]


@every_version
def test_the_pair_of_lines_of_the_public_recipe_does_not_fit(verdicts: Ask, version: str) -> None:
    pair = [verdicts(version)[f"recipe/{role}"] for role in wrong.RECIPE]
    assert [verdict["error"] for verdict in pair] == [None, None]
    assert not fitting(pair)


@every_version
def test_a_line_is_judged_in_its_own_environment_only(verdicts: Ask, version: str) -> None:
    entries = [verdicts(version)[name]["summary"]["entry"] for name in ("rust", "no rust")]
    assert entries == ["rust front end", "api server"]


@every_version
def test_a_variable_that_vllm_does_not_know_is_told(verdicts: Ask, version: str) -> None:
    assert verdicts(version)["unknown variable"]["unknown_env"] == ["VLLM_NO_SUCH_NAME"]
