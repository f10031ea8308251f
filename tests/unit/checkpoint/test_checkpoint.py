"""What the module does on a node, with the real agent under a stand-in for systemd."""

from __future__ import annotations

import getpass
import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.module_utils import checkpoint as checkpoints
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.keeper import systemd
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.proof.faults import ConfigError
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
def state(number):
    try:
        return pathlib.Path(f"/proc/{{number}}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"
alive = pid.exists() and state(pid.read_text()) != "Z"
if sys.argv[1] == "show":
    print("ActiveState=" + ("active" if alive else "inactive"))
    print("MainPID=" + (pid.read_text() if alive else "0"))
if sys.argv[1] == "restart":
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


@pytest.fixture
def make(tmp_path, origin, bin_folder):
    """Return a function that makes the checkpoint of a node, with other options if wanted."""
    folder = tmp_path / "hub" / REPO / COMMIT
    entries = [Entry(path.name, SIZE, hash_file(path)) for path in sorted(folder.iterdir())]
    manifest = Manifest(REPO, COMMIT, tuple(entries)).as_dict()

    def made(**choices: object) -> checkpoints.Checkpoint:
        known = {"path": str(tmp_path / "models"), "model": "tiny", "manifest": manifest, "origins": [origin.origin]}
        settings = {"user": getpass.getuser(), "state": str(tmp_path / "state"), "tries": 2, **choices}
        checkpoint = checkpoints.Checkpoint(**{**known, **settings})
        (bin_folder / "config").write_text(str(checkpoint.config.config_file))
        return checkpoint

    return made


def running_process() -> str:
    return systemd.show(checkpoints.UNIT)["MainPID"]


def test_fetches_what_is_missing(make):
    checkpoint = make()
    checkpoint.prepare()
    checkpoint.start(again=False)
    assert checkpoints.wait(30)
    assert checkpoint.store().missing() == []
    assert checkpoint.status()["bytes_fetched"] == 2 * SIZE


def test_leaves_an_agent_alone_that_is_at_work_on_it(make, origin):
    origin.inject({"bytes_per_second": SIZE})
    checkpoint = make()
    checkpoint.prepare()
    checkpoint.start(again=False)
    process = running_process()
    checkpoint.start(again=False)
    assert running_process() == process


def test_starts_the_agent_again_when_its_input_changed(make, origin):
    origin.inject({"bytes_per_second": SIZE})
    checkpoint = make()
    checkpoint.prepare()
    checkpoint.start(again=False)
    process = running_process()
    checkpoint.start(again=True)
    assert running_process() not in (process, "0")


def test_waits_no_longer_than_asked(make, origin):
    origin.inject({"stall_after": 10})
    checkpoint = make()
    checkpoint.prepare()
    checkpoint.start(again=False)
    assert not checkpoints.wait(0.5)


def test_failure_names_file_expected_found_and_remedy(make, origin):
    origin.inject({"path": "1.safetensors", "status": 404})
    checkpoint = make()
    checkpoint.prepare()
    checkpoint.start(again=False)
    assert checkpoints.wait(30)
    message = checkpoint.failure()
    assert f"1.safetensors: expected {SIZE} bytes with SHA-256" in message
    assert "404" in message
    assert "remedy: see to the origin" in message


def test_failure_counts_the_other_files_that_are_missing(make):
    checkpoint = make(origins=[{"kind": "hub", "url": "http://127.0.0.1:9"}], streams=1)
    checkpoint.prepare()
    checkpoint.start(again=False)
    assert checkpoints.wait(30)
    assert checkpoint.failure().endswith("missing besides: 1 of 2 files")


def test_failure_of_an_agent_that_said_nothing_shows_its_log(make, origin):
    origin.inject({"stall_after": 10})
    checkpoint = make()
    checkpoint.prepare()
    checkpoint.start(again=False)
    while not checkpoint.status():
        time.sleep(0.01)
    end(int(running_process()))
    assert checkpoints.wait(30)
    assert "the last line" in checkpoint.failure()


def test_writes_its_files_only_when_they_differ(make):
    checkpoint = make()
    assert set(checkpoint.changes()) == {checkpoint.config.config_file, checkpoint.config.manifest_file}
    checkpoint.prepare()
    assert make().changes() == {}
    assert set(make(tries=9).changes()) == {checkpoint.config.config_file}


def test_diff_shows_settings_and_missing_files(make):
    settings, files = make().diff()
    assert '"tries": 2' in settings["after"]
    assert files["after"] == f"1.safetensors ({SIZE} bytes)\n2.safetensors ({SIZE} bytes)\n"


def test_parts_count_as_there(make):
    checkpoint = make()
    part = checkpoint.config.parts / "1.safetensors.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(bytes(1000))
    store = checkpoint.store()
    assert sum(map(store.bytes_to_fetch, store.missing())) == 2 * SIZE - 1000


REFUSED = {
    "an unknown user": ({"user": "nobody-here"}, "no such user"),
    "an unknown kind of origin": ({"origins": [{"kind": "drive", "path": "/mnt"}]}, "only {kind: hub"),
    "a model name that is a path": ({"model": "../etc"}, "must be a plain name"),
    "a manifest with a path that leaves the folder": (
        {"manifest": {"repo": REPO, "commit": COMMIT, "files": [{"path": "../x", "size": 1, "sha256": "0" * 64}]}},
        "'../x': must stay inside",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses(make, name):
    choices, reason = REFUSED[name]
    with pytest.raises(ConfigError, match=reason.replace("{", r"\{").replace("..", r"\.\.")):
        make(**choices).prepare()


def test_refuses_a_link_where_root_would_write(make, tmp_path):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / f"tiny-{COMMIT}").symlink_to("/etc")
    with pytest.raises(ConfigError, match="symbolic link"):
        make().prepare()
