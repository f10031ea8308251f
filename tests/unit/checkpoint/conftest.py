"""A node's systemd in small, under which the real agent runs, and a hub to fetch from."""

from __future__ import annotations

import getpass
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.checkpoint import Checkpoint
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.fetch_unit import UNIT, FetchUnit
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.keeper import systemd
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.proof.manifest import Entry, Manifest
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.proof.store import hash_file

from tests.unit.running_hub import RunningHub

REPO, COMMIT = "moonshotai/Kimi-K3-tiny", "9f62e4e9fffbd0a83ddd60e1c209d828994b3569"
SIZE = 1 << 20
AGENT = Path(__file__).parents[3] / "plugins/module_utils/fetch"

SYSTEMCTL = f"""#!{sys.executable}
import os, pathlib, subprocess, sys
here = pathlib.Path(__file__).parent
pid = here / "pid"
def said(name, otherwise):
    return (here / name).read_text() if (here / name).exists() else otherwise
def state(number):
    try:
        return pathlib.Path(f"/proc/{{number}}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"
alive = pid.exists() and state(pid.read_text()) != "Z"
if sys.argv[1:3] == ["show", "--property=Job"]:
    print(said("job", "0"))
elif sys.argv[1] == "is-system-running":
    print(said("system", "running"))
elif sys.argv[1] == "show":
    print("ActiveState=" + ("active" if alive else "inactive"))
    print("MainPID=" + (pid.read_text() if alive else "0"))
    print("NeedDaemonReload=" + said("reload", "no"))
elif sys.argv[1] == "restart":
    if alive:
        os.kill(int(pid.read_text()), 9)
    command = [sys.executable, "-I", {str(AGENT)!r}, "fetch", "--config=" + (here / "config").read_text()]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    pid.write_text(str(process.pid))
"""


@pytest.fixture
def origin(tmp_path):
    folder = tmp_path / "hub" / REPO / COMMIT
    folder.mkdir(parents=True)
    for number in (1, 2):
        (folder / f"{number}.safetensors").write_bytes(random.Random(number).randbytes(SIZE))
    running = RunningHub(tmp_path / "hub")
    yield running
    running.stop()


@pytest.fixture
def bin_folder(tmp_path, monkeypatch):
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "systemctl").write_text(SYSTEMCTL)
    (folder / "journalctl").write_text("#!/bin/sh\necho the last line\n")
    for program in folder.iterdir():
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    yield folder
    if (folder / "pid").exists():
        end(int((folder / "pid").read_text()))


def end(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def running_process() -> str:
    """The process that the unit runs; 0 where it runs none."""
    return systemd.show(UNIT)["MainPID"]


def fetched(checkpoint: Checkpoint) -> FetchUnit:
    """Have the agent fetch a checkpoint to the end."""
    unit = begun(checkpoint)
    assert unit.wait(30) == "complete"
    return unit


def begun(checkpoint: Checkpoint) -> FetchUnit:
    """Start the agent on a checkpoint."""
    checkpoint.prepare()
    unit = FetchUnit(checkpoint)
    unit.start()
    return unit


def until(condition) -> None:
    """Wait for something that comes within a second or two."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def manifest(tmp_path, origin) -> dict:
    folder = tmp_path / "hub" / REPO / COMMIT
    entries = [Entry(path.name, SIZE, hash_file(path)) for path in sorted(folder.iterdir())]
    return Manifest(REPO, COMMIT, tuple(entries)).as_dict()


@pytest.fixture
def make(tmp_path, origin, bin_folder, manifest):
    """Return a function that makes the checkpoint of a node, with other options if wanted."""

    def made(**choices: object) -> Checkpoint:
        known = {"path": str(tmp_path / "models"), "model": "tiny", "manifest": manifest, "origins": [origin.origin]}
        patience = {"patience_seconds": 1, "linger_seconds": 0}
        settings = {"user": getpass.getuser(), "state": str(tmp_path / "state"), **patience, **choices}
        checkpoint = Checkpoint(**{**known, **settings})
        (bin_folder / "config").write_text(str(checkpoint.config.file("config")))
        return checkpoint

    return made


@pytest.fixture
def stand_in(bin_folder):
    """Return a function that runs, in the agent's place, a process that says what is given and goes on."""
    running = []

    def stands(checkpoint: Checkpoint, **status: object) -> str:
        argv = [sys.executable, "-c", "import time; time.sleep(600)", f"--config={checkpoint.config.file('config')}"]
        process = subprocess.Popen(argv)
        running.append(process)
        (bin_folder / "pid").write_text(str(process.pid))
        said = {"pid": process.pid, "manifest_digest": checkpoint.manifest.digest, **status}
        checkpoint.config.file("status").write_text(json.dumps(said))
        return str(process.pid)

    yield stands
    for process in running:
        process.kill()
        process.wait()
