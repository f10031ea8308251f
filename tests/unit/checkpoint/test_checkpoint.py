"""One revision on a node: what is wanted, what is there, what the agent is told."""

from __future__ import annotations

import json

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.checkpoint import on_node
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.proof.faults import ConfigError

from .conftest import COMMIT, REPO, SIZE, fetched


def told(checkpoint) -> dict:
    """What the agent reads."""
    return json.loads(checkpoint.wanted()[checkpoint.config.file("config")])


def prove(checkpoint) -> None:
    checkpoint.config.file("proved").write_text(json.dumps({"manifest_digest": checkpoint.manifest.digest}))


def test_writes_its_files_only_when_they_differ(make):
    checkpoint = make()
    assert set(checkpoint.changes()) == {checkpoint.config.file("config"), checkpoint.config.file("manifest")}
    checkpoint.prepare()
    assert make().changes() == {}
    assert set(make(streams=9).changes()) == {checkpoint.config.file("config")}


def test_tells_the_agent_of_the_other_nodes_in_the_plans_order(make):
    nodes = {"node-10": "10.0.0.10:7654", "node-2": "10.0.0.2:7654"}
    config = told(make(node="node-2", nodes=nodes, wan_nodes=["node-10"]))
    assert list(config["nodes"].items()) == list(nodes.items())
    assert (config["node"], config["wan_nodes"]) == ("node-2", ["node-10"])


def test_diff_shows_settings_and_missing_files(make):
    settings, files = make().diff()
    assert '"patience_seconds": 1' in settings["after"]
    assert files["after"] == f"1.safetensors ({SIZE} bytes)\n2.safetensors ({SIZE} bytes)\n"


def test_parts_count_as_there(make):
    checkpoint = make()
    part = checkpoint.config.parts / "1.safetensors.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(bytes(1000))
    assert checkpoint.missing()[1] == 2 * SIZE - 1000


def test_whole_files_are_not_proved_before_they_were_read_back(make):
    fetched(make())
    checkpoint = make(read_back=True)
    assert (make().is_whole(), checkpoint.is_whole()) == (True, False)
    prove(checkpoint)
    assert checkpoint.is_whole()


def test_proof_of_another_manifest_is_none(make):
    fetched(make())
    checkpoint = make(read_back=True)
    checkpoint.config.file("proved").write_text('{"manifest_digest": "sha256:other"}')
    assert not checkpoint.is_whole()


def test_asked_to_prove_again_forgets_the_proof_and_needs_a_new_start_once(make):
    fetched(make())
    checkpoint = make(read_back=True)
    prove(checkpoint)
    assert checkpoint.prove_again()
    assert not checkpoint.is_whole()
    assert not checkpoint.prove_again()


def test_agent_that_only_reads_keeps_its_own_parts_and_has_no_origin(make, tmp_path):
    checkpoint = make(reads_only=True, read_back=True)
    assert checkpoint.config.parts.is_relative_to(tmp_path / "state")
    assert told(checkpoint)["origins"] == []


def test_agent_that_only_reads_proves_by_hashing_what_another_node_wrote(make, tmp_path):
    fetched(make())
    reader = make(reads_only=True, state=str(tmp_path / "state of another node"))
    assert not reader.is_whole()
    fetched(reader)
    assert reader.status()["bytes_fetched"] == 0
    assert reader.prove_again()
    assert not reader.is_whole()


def test_tells_the_digest_of_the_manifest_that_the_node_has(make):
    checkpoint = make()
    assert checkpoint.digest_on_node() == ""
    checkpoint.prepare()
    assert checkpoint.digest_on_node() == checkpoint.manifest.digest


SECRETS = {
    "a proxy's password": {"proxy": "http://me:hunter2@proxy:3128"},
    "an origin's signature": {"origins": [{"kind": "http", "url": "https://bucket/kimi?signature=hunter2"}]},
}


@pytest.mark.parametrize("name", SECRETS)
def test_secret_in_a_url_is_neither_shown_nor_for_all_to_read(make, name):
    checkpoint = make(**SECRETS[name])
    (settings, _) = checkpoint.diff()
    assert "hunter2" not in str(settings)
    checkpoint.prepare()
    assert checkpoint.config.state.stat().st_mode & 0o007 == 0


def test_files_of_the_controller_are_named_where_the_node_has_them():
    hub, listed = {"kind": "hub", "url": "http://hub"}, {"kind": "http", "urls_file": "/home/ops/urls.json"}
    placed = {"kind": "http", "urls_file": "/etc/kimi-k3/checkpoint/urls-1.json"}
    assert on_node([hub, listed]) == [hub, placed]


TAKEN = [
    {"kind": "hub", "url": "https://huggingface.co"},
    {"kind": "http", "url": "https://bucket/kimi?signature"},
    {"kind": "http", "urls_file": "/etc/urls.json"},
    {"kind": "drive", "path": "/mnt/kimi"},
]


@pytest.mark.parametrize("taken", TAKEN, ids=str)
def test_tells_the_agent_of_an_origin(make, taken):
    assert told(make(origins=[taken]))["origins"] == [taken]


REFUSED = {
    "an unknown user": ({"user": "nobody-here"}, "no such user"),
    "an unknown kind of origin": ({"origins": [{"kind": "ftp", "url": "ftp://x"}]}, "expected one of {kind: hub, url}"),
    "an origin that lacks what its kind needs": ({"origins": [{"kind": "drive", "url": "x"}]}, "{kind: drive, path}"),
    "a model name that is a path": ({"model": "../etc"}, "must be a plain name"),
    "a manifest with a path that leaves the folder": (
        {"manifest": {"repo": REPO, "commit": COMMIT, "files": [{"path": "../x", "size": 1, "sha256": "0" * 64}]}},
        "'../x': must stay inside",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses(make, name):
    choices, reason = REFUSED[name]
    with pytest.raises(ConfigError) as refusal:
        make(**choices).prepare()
    assert reason in str(refusal.value)


def test_refuses_a_link_where_root_would_write(make, tmp_path):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / f"tiny-{COMMIT}").symlink_to("/etc")
    with pytest.raises(ConfigError, match="symbolic link"):
        make().prepare()


def test_folder_that_root_may_not_give_away_is_named_with_the_owner_it_needs(make, monkeypatch):
    def squashed(*_arguments, **_names):
        raise PermissionError

    monkeypatch.setattr("os.chown", squashed)
    monkeypatch.setattr("pwd.getpwnam", lambda _name: type("Account", (), {"pw_uid": 4242})())
    with pytest.raises(ConfigError, match="expected owner 4242; found"):
        make().prepare()
