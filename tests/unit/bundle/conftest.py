"""A machine that has skopeo, or one that only looks as if."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.unit.bundle.samples import Image

# Answers `inspect` and `copy` from the blobs in a folder, and writes down what it was asked.
PROGRAM = """#!{python}
import json, pathlib, shutil, sys
words, here = sys.argv[1:], pathlib.Path({folder!r})
with open(here / "asked", "a") as log:
    log.write(json.dumps(words) + "\\n")
reference = next(word for word in words if word.startswith("docker://"))
if (here / "down").exists():
    sys.exit("Error: dial tcp: connection refused")
if words[0] == "inspect":
    sys.stdout.write((here / reference.rpartition(":")[2]).read_text())
else:
    transport, _, place = words[-1].partition(":")
    if transport == "oci":
        shutil.copytree(here / "layout", place, dirs_exist_ok=True)
"""


class Skopeo:
    """A program called skopeo, first on PATH."""

    def __init__(self, folder: Path):
        self.folder = folder
        program = folder / "bin/skopeo"
        program.parent.mkdir(parents=True)
        program.write_text(PROGRAM.format(python=sys.executable, folder=str(folder)))
        program.chmod(0o755)

    def give(self, image: Image) -> None:
        image.lay_out(self.folder / "layout")
        for digest, data in image.blobs.items():
            (self.folder / digest.partition(":")[2]).write_bytes(data)

    def go_down(self) -> None:
        (self.folder / "down").touch()

    def asked(self) -> list[list[str]]:
        log = self.folder / "asked"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


@pytest.fixture
def skopeo(tmp_path, monkeypatch):
    found = Skopeo(tmp_path / "skopeo")
    monkeypatch.setenv("PATH", f"{found.folder}/bin{os.pathsep}{os.environ['PATH']}")
    return found


@pytest.fixture
def drive(tmp_path):
    folder = tmp_path / "drive"
    folder.mkdir()
    return folder
