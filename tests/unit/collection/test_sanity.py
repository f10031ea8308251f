"""Ansible's own checks of a collection.

Those that hold every file of module_utils to the rules of a module (no print, no exit, no urlopen) are left out: the
agents there are programs. So are those that ruff and yamllint do here.
"""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.unit.collection.conftest import Run

TESTS = (
    "action-plugin-docs",
    "compile",
    "empty-init",
    "line-endings",
    "no-illegal-filenames",
    "no-smart-quotes",
    "runtime-metadata",
    "shebang",
    "symlinks",
    "validate-modules",
)
# ansible-test would download this from a host of its own. Python has a pip on board.
GET_PIP = "import ensurepip\n\nensurepip.bootstrap(upgrade=True)\n"


@pytest.fixture
def home() -> Path:
    """Where ansible-test keeps its Python environments from one run to the next."""
    folder = ROOT / ".cache/ansible-test"
    (folder / ".ansible/test/cache").mkdir(parents=True, exist_ok=True)
    (folder / ".ansible/test/cache/get_pip_24_2.py").write_text(GET_PIP)
    return folder


def test_collection_passes_ansible_test(run: Run, collections: Path, home: Path) -> None:
    chosen = [f"--test={name}" for name in TESTS]
    python = ".".join(platform.python_version_tuple()[:2])
    where = collections / "ansible_collections/sovereign/kimi_k3"
    run("ansible-test", "sanity", "--local", "--python", python, "--color", "no", *chosen, cwd=where, HOME=home)
