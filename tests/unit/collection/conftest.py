"""The collection as its users get it: built into a tarball and installed, with no network."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT

Run = Callable[..., subprocess.CompletedProcess]


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run a command of this Python environment in an empty folder, knowing nothing of the checkout; it must succeed.

    Keyword arguments are environment variables.
    """
    empty = tmp_path_factory.mktemp("empty")
    programs = Path(sys.executable).parent
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    environment |= {"ANSIBLE_HOME": str(empty / "home"), "PATH": f"{programs}:{os.environ['PATH']}"}

    def _run(*command: str | Path, cwd: Path = empty, **variables: str | Path) -> subprocess.CompletedProcess:
        env = environment | {name: str(value) for name, value in variables.items()}
        done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done

    return _run


@pytest.fixture(scope="session")
def tarball(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built collection."""
    folder = tmp_path_factory.mktemp("built")
    run("ansible-galaxy", "collection", "build", ROOT, "--output-path", folder)
    return next(folder.glob("sovereign-kimi_k3-*.tar.gz"))


@pytest.fixture(scope="session")
def collections(run: Run, tarball: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collections path that holds this collection alone, installed from the tarball."""
    folder = tmp_path_factory.mktemp("collections")
    run("ansible-galaxy", "collection", "install", tarball, "--offline", "--collections-path", folder)
    return folder
