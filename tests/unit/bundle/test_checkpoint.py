"""The checkpoint on the drive: the nodes' own agent fetches it."""

import json
import multiprocessing
import random
import time

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.proof.manifest import Entry, Manifest
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.proof.store import hash_file
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.bundle.checkpoint import OnDrive
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.bundle.drive import Drive
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.bundle.work import Failed

from tests.unit.running_hub import RunningHub

REPO, COMMIT = "moonshotai/Kimi-K3-tiny", "9f62e4e9fffbd0a83ddd60e1c209d828994b3569"


@pytest.fixture
def hub(tmp_path):
    folder = tmp_path / "hub" / REPO / COMMIT
    folder.mkdir(parents=True)
    (folder / "LICENSE").write_text("use it freely")
    (folder / "model-00001-of-000001.safetensors").write_bytes(random.Random(1).randbytes(3_000_000))
    running = RunningHub(tmp_path / "hub")
    running.files = folder
    yield running
    running.stop()


def on(drive, hub) -> OnDrive:
    files = sorted(hub.files.iterdir())
    entries = tuple(Entry(path.name, path.stat().st_size, hash_file(path)) for path in files)
    return OnDrive(Drive(drive), "tiny", Manifest(REPO, COMMIT, entries).as_dict(), [hub.origin])


def silent(_line: str) -> None:
    pass


def test_it_comes_with_licence_and_manifest_and_a_second_time_without_a_byte(drive, hub):
    assert on(drive, hub).missing()[1] == 3_000_013
    assert on(drive, hub).make(silent)
    about = on(drive, hub).about()
    assert (drive / about["path"] / about["licence"]).read_text() == "use it freely"
    assert json.loads((drive / about["manifest"]).read_bytes())["commit"] == COMMIT
    sent = hub.sent()
    assert on(drive, hub).is_whole()
    assert not on(drive, hub).make(silent)
    assert hub.sent() == sent


def test_a_run_that_was_killed_takes_its_agent_along_and_the_next_one_goes_on(drive, hub):
    hub.inject({"path": "safetensors", "bytes_per_second": 2_000_000})
    running = multiprocessing.get_context("fork").Process(target=lambda: on(drive, hub).make(silent))
    running.start()
    part = on(drive, hub).folder.with_name(f".part-{COMMIT}") / "model-00001-of-000001.safetensors.part"
    while not part.exists() or part.stat().st_size < 1_000_000:
        time.sleep(0.01)
    running.kill()
    running.join()
    hub.inject()
    assert on(drive, hub).make(silent)
    assert on(drive, hub).is_whole()
    # what is on its way through the kernel when the agent dies is fetched twice
    assert hub.sent("safetensors") < 3_000_000 + 1_500_000


def test_an_origin_that_has_other_bytes_is_named_with_the_file(drive, hub):
    hub.inject({"path": "safetensors", "flip": 5})
    with pytest.raises(Failed, match="model-00001-of-000001.safetensors: expected 3000000 bytes"):
        on(drive, hub).make(silent)
    assert not on(drive, hub).is_whole()
