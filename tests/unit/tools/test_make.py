"""The targets of the Makefile, as far as they can be tried without setting up a machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from tests.conftest import ROOT

MADE = (".venv/bin/python", ".collections/link", ".cache/ansible/tmp", ".ansible/x", "plugins/__pycache__/a.pyc")
KEPT = ("inventories/lima/hosts.yml", "inventories/lima/state/manifest.json", "notes.txt")


def fill(root: Path, *names: str) -> None:
    """Make empty files below root."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


def make(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(["make", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def test_help_is_the_default_and_lists_every_target() -> None:
    targets = re.search(r"^\.PHONY: (.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()
    listed = re.findall(r"^  ([a-z]+) ", make().stdout, re.MULTILINE)
    assert sorted(listed) == sorted(targets)


def test_a_site_that_is_not_there_is_refused_before_any_set_up() -> None:
    done = make("plan", "SITE=nowhere")
    assert done.returncode != 0
    assert "There is no site 'nowhere'" in done.stderr


def test_clean_removes_what_was_made_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools/clean", tmp_path / "tools")
    fill(tmp_path, *MADE, *KEPT)
    no_simulated_site = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "nothing")}
    subprocess.run([tmp_path / "tools/clean"], env=no_simulated_site, check=True, capture_output=True)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {"tools/clean", *KEPT}
