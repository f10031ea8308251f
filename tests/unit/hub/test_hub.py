"""The hub stand-in, as the real client and a plain one see it."""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
import sys
import time

import huggingface_hub
import pytest

from rehearsal import hub as hub_module
from tests.unit.running_hub import RunningHub

REPO, COMMIT = "moonshotai/Kimi-K3-tiny", "9f62e4e9fffbd0a83ddd60e1c209d828994b3569"
SHARD = "model-00001-of-000001.safetensors"
FILES = {"config.json": b"{}", "docs/a b.md": b"text", SHARD: bytes(range(256)) * 4000}


@pytest.fixture
def hub(tmp_path):
    for name, data in FILES.items():
        path = tmp_path / REPO / COMMIT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (tmp_path / REPO / "refs").mkdir()
    (tmp_path / REPO / "refs" / "main").write_text(COMMIT + "\n")
    (tmp_path / "secret").write_text("not for you")
    running = RunningHub(tmp_path)
    yield running
    running.stop()


def get(hub, name: str = SHARD, **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=5)
    connection.request("GET", f"/{REPO}/resolve/{COMMIT}/{name}", headers=headers)
    answer = connection.getresponse()
    try:
        return answer.status, answer.read()
    except http.client.IncompleteRead as error:
        return answer.status, error.partial
    finally:
        connection.close()


def test_the_real_client_downloads_and_verifies_a_branch(hub, tmp_path):
    api = huggingface_hub.HfApi(endpoint=hub.url, token=False)
    folder = tmp_path / "download"
    huggingface_hub.snapshot_download(REPO, revision="main", local_dir=folder, endpoint=hub.url, token=False)
    assert {name: (folder / name).read_bytes() for name in FILES} == FILES
    verified = api.verify_repo_checksums(REPO, revision=COMMIT, local_dir=folder)
    assert verified.checked_count == len(FILES)
    assert verified.mismatches == []


@pytest.mark.parametrize(
    ("asked", "status", "sent"),
    [
        ("bytes=1000-", 206, FILES[SHARD][1000:]),
        ("bytes=10-19", 206, FILES[SHARD][10:20]),
        ("bytes=99999999-", 416, b""),
    ],
)
def test_ranges(hub, asked, status, sent):
    assert get(hub, Range=asked) == (status, sent)


@pytest.mark.parametrize("name", ["../../../secret", "..%2f..%2f..%2fsecret", "no-such-file"])
def test_gives_nothing_but_the_files_of_the_commit(hub, name):
    assert get(hub, name)[0] == 404


FAULTS = {
    "status": ({"status": 503}, 503, None),
    "cut_after": ({"cut_after": 1000}, 200, FILES[SHARD][:1000]),
    "shorten": ({"shorten": 5}, 200, FILES[SHARD][:-5]),
    "flip": ({"flip": 2}, 200, FILES[SHARD][:2] + b"\x03" + FILES[SHARD][3:]),
    "another path": ({"path": "config.json", "status": 503}, 200, FILES[SHARD]),
    "used up": ({"status": 503, "times": 0}, 200, FILES[SHARD]),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault(hub, name):
    fault, status, body = FAULTS[name]
    hub.inject(fault)
    answer = get(hub)
    assert answer[0] == status
    assert body is None or answer[1] == body


def test_faults_are_read_again_while_it_runs(hub):
    hub.inject({"status": 503})
    assert get(hub)[0] == 503
    hub.inject()
    assert get(hub)[0] == 200


def test_refusals_carry_the_hubs_error_code(hub):
    hub.inject({"path": "/api/", "status": 403, "error_code": "GatedRepo"})
    api = huggingface_hub.HfApi(endpoint=hub.url, token=False)
    with pytest.raises(huggingface_hub.errors.GatedRepoError):
        api.model_info(REPO)


def test_logs_the_bytes_that_were_sent_also_when_the_connection_broke(hub):
    hub.inject({"cut_after": 70_000, "times": 1})
    get(hub)
    get(hub, Range="bytes=70000-")
    assert [(line["status"], line["range"], line["sent"]) for line in hub.requests(SHARD)] == [
        (200, None, 70_000),
        (206, "bytes=70000-", len(FILES[SHARD]) - 70_000),
    ]


def test_log_is_one_json_object_a_line(hub, tmp_path):
    get(hub)
    hub.requests()
    (line,) = (tmp_path / "requests.log").read_text().splitlines()
    assert json.loads(line)["method"] == "GET"


def test_a_fault_that_stays_goes_on_counting_when_another_one_comes(hub):
    once = {"path": "config.json", "status": 503, "times": 1}
    hub.inject(once)
    assert get(hub, "config.json")[0] == 503
    hub.inject(once, {"path": SHARD, "status": 503})
    assert get(hub, "config.json")[0] == 200


@pytest.mark.parametrize(("seconds", "status"), [(0, 403), (60, 200)])
def test_a_link_is_good_for_its_time(hub, seconds, status):
    hub.inject({"redirect": True, "link_seconds": seconds})
    connection = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=5)
    connection.request("GET", f"/{REPO}/resolve/{COMMIT}/{SHARD}")
    link = connection.getresponse().headers["Location"]
    connection.close()
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", hub.port, timeout=5)) as storage:
        storage.request("GET", link)
        assert storage.getresponse().status == status


def test_what_was_under_way_when_it_was_stopped_is_logged(tmp_path):
    shard = tmp_path / "hub" / REPO / COMMIT / SHARD
    shard.parent.mkdir(parents=True)
    shard.write_bytes(FILES[SHARD])
    faults, log = tmp_path / "faults.json", tmp_path / "requests.log"
    faults.write_text(json.dumps([{"stall_after": 70_000}]))
    argv = [sys.executable, hub_module.__file__, "--root", tmp_path / "hub", "--listen", "127.0.0.1:0"]
    with subprocess.Popen([*argv, "--log", log, "--faults", faults], stdout=subprocess.PIPE, text=True) as server:
        port = int(server.stdout.readline().rpartition(":")[2])
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
            connection.request("GET", f"/{REPO}/resolve/{COMMIT}/{SHARD}")
            connection.getresponse().read(70_000)
            time.sleep(0.5)  # a byte is counted a moment after it was sent
            server.terminate()
            server.wait(10)
    (line,) = map(json.loads, log.read_text().splitlines())
    assert (line["status"], line["sent"]) == (200, 70_000)
