"""A hub, a small model on it, and the agent in its own process, as on a node."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.checkpoint import settings
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.fetch import status
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.proof.manifest import Entry, Manifest
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.proof.store import hash_file

from tests.unit.running_hub import RunningHub

REPO, COMMIT = "moonshotai/Kimi-K3-tiny", "9f62e4e9fffbd0a83ddd60e1c209d828994b3569"
SHARD = "model-00002-of-000003.safetensors"
MIB = 1 << 20
PACKAGE = Path(__file__).parents[3] / "plugins/module_utils/fetch"


class Node:
    """A node's folders, and the agent that works on them."""

    def __init__(self, root: Path, hub_files: Path, url: str):
        self.config = root / "config.json"
        paths = settings(
            root / "models",
            "tiny",
            COMMIT,
            str(root / "state"),
            origins=[{"kind": "hub", "url": url}],
            patience_seconds=5,
            streams=2,
        )
        self.published, self.parts, self.state = (Path(paths[key]) for key in ("published", "parts", "state"))
        self.state.mkdir(parents=True)
        self.manifest = manifest_of(hub_files)
        self.configure(**paths)

    def configure(self, **changes: object) -> None:
        known = json.loads(self.config.read_text()) if self.config.exists() else {}
        self.config.write_text(json.dumps({**known, **changes}))
        (self.state / "manifest.json").write_bytes(self.manifest.canonical())

    def start(self, *command: str, **options: object) -> subprocess.Popen:
        """Start the agent as a node does: isolated, from a folder that holds its package."""
        arguments = [sys.executable, "-I", str(PACKAGE), *command, "--config", str(self.config)]
        return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)

    def run(self, *command: str, **options: object) -> tuple[int, str]:
        process = self.start(*command, **options)
        output = process.communicate(timeout=60)[0]
        return process.returncode, output

    def kill_when_fetched(self, size: int, name: int = signal.SIGKILL) -> int:
        """Start a fetch and send it a signal once it has so many bytes; return its exit code."""
        process = self.start("fetch")
        while self.fetched() < size and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(name)
        process.communicate(timeout=60)
        return process.returncode

    def fetched(self) -> int:
        size = 0
        for path in (path for base in (self.parts, self.published) for path in base.rglob("*")):
            with contextlib.suppress(FileNotFoundError):  # it was published since it was listed
                size += path.stat().st_size if path.is_file() else 0
        return size

    def status(self) -> dict:
        return status.read(self.state / "status.json")

    def flip(self, name: str) -> None:
        """Flip one byte of a published file and put its mtime back."""
        path = self.published / name
        about = path.stat()
        with path.open("r+b") as file:
            file.seek(1000)
            byte = file.read(1)[0]
            file.seek(1000)
            file.write(bytes([byte ^ 1]))
        os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))

    def forge_stamp(self, name: str) -> None:
        """Make a damaged file's stamp look right, as a disk that rots would leave it."""
        stamps = json.loads((self.state / "stamps.json").read_text())
        stamps[name]["st_ctime_ns"] = (self.published / name).stat().st_ctime_ns
        (self.state / "stamps.json").write_text(json.dumps(stamps))

    def is_whole(self) -> bool:
        return all(
            (self.published / e.path).exists() and hash_file(self.published / e.path) == e.sha256
            for e in self.manifest.files
        )


def manifest_of(folder: Path) -> Manifest:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    entries = (Entry(str(path.relative_to(folder)), path.stat().st_size, hash_file(path)) for path in paths)
    return Manifest(REPO, COMMIT, tuple(entries))


@pytest.fixture
def origin(tmp_path):
    folder = tmp_path / "hub" / REPO / COMMIT
    (folder / "docs").mkdir(parents=True)
    content = random.Random(1)
    for number in (1, 2, 3):
        (folder / f"model-0000{number}-of-000003.safetensors").write_bytes(content.randbytes(6 * MIB + number))
    (folder / "config.json").write_text('{"model_type": "kimi_k3"}')
    (folder / "docs" / "a b%.md").write_text("a name that must be quoted")
    (folder / "empty").write_bytes(b"")
    running = RunningHub(tmp_path / "hub")
    running.files = folder
    yield running
    running.stop()


@pytest.fixture
def node(tmp_path, origin):
    return Node(tmp_path / "node", origin.files, origin.url)
