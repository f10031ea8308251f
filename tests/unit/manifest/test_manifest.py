"""The manifest, as the real hub client reads it from a hub that is sound, or is not."""

from __future__ import annotations

import hashlib
import socket

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils import manifest as manifests
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils import reach

from rehearsal import hub
from tests.unit.running_hub import RunningHub

REPO, COMMIT = "moonshotai/Kimi-K3-tiny", "9f62e4e9fffbd0a83ddd60e1c209d828994b3569"
FILES = {
    "config.json": b'{"model_type": "kimi_k3"}',
    "docs/a b.md": b"a small file with a name that must be quoted",
    "empty": b"",
    "model-00001-of-000001.safetensors": bytes(range(256)) * 100,
}


@pytest.fixture
def site(tmp_path):
    for name, data in FILES.items():
        path = tmp_path / REPO / COMMIT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    running = RunningHub(tmp_path)
    yield running
    running.stop()


@pytest.fixture
def silent():
    """An address that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield {"kind": "hub", "url": f"http://127.0.0.1:{server.getsockname()[1]}"}


def check(origin: dict, **choices: object) -> manifests.Answer:
    return manifests.check(**{"origins": [origin], "repo": REPO, "commit": COMMIT, **choices})


def only_fault(answer: manifests.Answer) -> manifests.Fault:
    (fault,) = answer.faults
    return fault


def test_holds_path_size_and_sha256_of_every_file(site):
    found = check(site.origin)
    assert found.faults == []
    assert {file["path"]: (file["size"], file["sha256"]) for file in found.manifest.as_dict()["files"]} == {
        name: (len(data), hashlib.sha256(data).hexdigest()) for name, data in FILES.items()
    }


def test_same_files_have_the_same_digest_from_any_origin(site):
    elsewhere = {"kind": "hub", "url": f"http://localhost:{site.port}/"}
    assert check(site.origin).manifest.digest == check(elsewhere).manifest.digest


def test_large_files_are_not_downloaded(site):
    check(site.origin)
    assert site.requests(".json")
    assert not site.requests(".safetensors")


def test_asks_the_hub_every_time(site):
    check(site.origin)
    before = len(site.requests("/"))
    check(site.origin)
    assert len(site.requests("/")) == 2 * before


REFUSED = {
    "the repository is gated": ({"status": 403, "error_code": "GatedRepo"}, "is gated (403)"),
    "the repository is private": ({"status": 401, "error_code": "RepoNotFound"}, "is refused: 401"),
    "the hub forbids": ({"status": 403}, "is refused: 403"),
    "the hub is ill": ({"status": 503}, "answered 503"),
    "the hub is busy": ({"status": 429, "retry_after": 3600}, "answered 429"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_says_that(site, name):
    fault, found = REFUSED[name]
    site.inject({"path": "^/api/", **fault})
    answer = check(site.origin)
    assert answer.manifest is None
    assert found in str(only_fault(answer).value)
    assert only_fault(answer).where == "checkpoint_origins[0]"


def test_a_commit_that_the_hub_lacks_is_the_revisions_fault(site):
    fault = only_fault(check(site.origin, commit="0" * 40))
    assert fault.where == "serving_model_revision"
    assert f"{'0' * 40} is not in {REPO}" in fault.value


def test_a_branch_is_no_commit(site):
    fault = only_fault(check(site.origin, commit="main"))
    assert (fault.where, fault.value) == ("serving_model_revision", "main")


def test_a_repository_that_the_hub_lacks(site):
    assert "moonshotai/other at http://127.0.0.1" in only_fault(check(site.origin, repo="moonshotai/other")).value


def test_an_origin_that_nobody_listens_at():
    fault = only_fault(check({"kind": "hub", "url": "http://127.0.0.1:9"}))
    assert "127.0.0.1 port 9: [Errno 111] Connection refused" in fault.value


def test_an_origin_whose_name_does_not_resolve():
    fault = only_fault(check({"kind": "hub", "url": "http://no-such-host.invalid"}))
    assert "no-such-host.invalid port 80" in fault.value


def test_an_origin_that_accepts_and_never_answers(silent, monkeypatch):
    monkeypatch.setattr(reach, "CONNECT_SECONDS", 0.3)
    assert "cannot be reached" in only_fault(check(silent)).value


def test_an_origin_of_an_unknown_kind():
    fault = only_fault(check({"kind": "bucket", "path": "/mnt/kimi"}))
    assert fault.limit.startswith("{kind: hub")


def test_the_next_origin_is_asked_and_the_first_ones_reason_is_kept(site):
    answer = check(None, origins=[{"kind": "hub", "url": "http://127.0.0.1:9"}, site.origin])
    assert answer.manifest and not answer.faults
    assert "Connection refused" in answer.warnings[0].value


def test_every_origin_gives_its_reason(site):
    site.inject({"path": "^/api/", "status": 403})
    answer = check(None, origins=[{"kind": "hub", "url": "http://127.0.0.1:9"}, site.origin])
    assert [fault.where for fault in answer.faults] == ["checkpoint_origins[0]", "checkpoint_origins[1]"]


def test_a_small_file_that_is_not_what_its_git_hash_says(site):
    site.inject({"path": "config.json", "flip": 3})
    fault = only_fault(check(site.origin))
    assert "config.json from" in fault.value
    assert "says its own tree" in fault.limit


def test_a_small_file_that_is_cut_off(site):
    site.inject({"path": "config.json", "cut_after": 3})
    assert "config.json from" in only_fault(check(site.origin)).value


@pytest.mark.parametrize(
    "path", ["../../etc/passwd", "/etc/passwd", "a/../b", "a//b", ".", "a\nb", "a\\b", "config.json"]
)
def test_refuses_names_that_are_not_safe_or_not_unique(site, monkeypatch, path):
    tree = hub.Handler._tree

    def with_another(handler, repo, commit):
        answer = handler._answer
        extra = {"type": "file", "path": path, "size": 1, "oid": "0" * 40}
        extra["lfs"] = {"oid": "0" * 64, "size": 1, "pointerSize": 100}
        handler._answer = lambda entries, *rest: answer([*entries, extra], *rest)
        tree(handler, repo, commit)

    monkeypatch.setattr(hub.Handler, "_tree", with_another)
    answer = check(site.origin)
    assert answer.manifest is None
    assert repr(path) in only_fault(answer).value


def test_other_bytes_than_the_catalogue_says(site):
    size = sum(map(len, FILES.values()))
    assert check(site.origin, expected_bytes=size).faults == []
    fault = only_fault(check(site.origin, expected_bytes=size + 1))
    assert str(fault.value).startswith(f"{size} bytes in 4 files")


def test_a_checkpoint_without_a_file_that_the_engine_opens(site):
    assert check(site.origin, needed=["config.json", "model-*-of-000001.safetensors"]).faults == []
    fault = only_fault(check(site.origin, needed=["config.json", "encoding_k3.py", "tiktoken.*"]))
    assert fault.value == f"{REPO} at {COMMIT} lacks encoding_k3.py, tiktoken.*"


def test_token_is_sent_to_the_hub(site, tmp_path):
    (tmp_path / "token").write_text("secret\n")
    check(site.origin, access=reach.Access(token_file=str(tmp_path / "token")))
    assert all(line["authorised"] for line in site.requests("/"))


def test_the_users_own_token_is_not_sent(site, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    check(site.origin)
    assert not any(line["authorised"] for line in site.requests("/"))
