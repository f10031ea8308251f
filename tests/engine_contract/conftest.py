"""What every engine version says about every line: asked once, as many versions at a time as there are processors."""
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.engine_contract import cells, environments, shapes, wrong

Verdicts = dict[str, dict]


def ask(environment: environments.Environment, model: Path, accelerator: str) -> Verdicts:
    """Let one version judge all lines of one accelerator."""
    lines = [*wrong.cases(model), *cells.cases(environment.version, model)]
    question = {"cases": [line for line in lines if line["gpu"]["accelerator"] == accelerator]}
    answers = map(json.loads, environment.judge(json.dumps(question)).splitlines())
    return {answer["id"]: answer for answer in answers}


@pytest.fixture(scope="session")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Verdicts]]:
    """Verdicts of one version by the name of the line."""
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
