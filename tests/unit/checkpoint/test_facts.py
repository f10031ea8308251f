"""What is read of a node before the fetch and after it."""

from __future__ import annotations

import getpass

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.module_utils import checkpoint as checkpoints
from ansible_collections.sovereign.kimi_k3.plugins.module_utils import filesystem
from ansible_collections.sovereign.kimi_k3.plugins.modules import checkpoint_facts

from .conftest import SIZE, fetched


@pytest.fixture
def read(make, manifest, tmp_path, monkeypatch):
    """Return a function that reads what is there of the revision."""
    monkeypatch.setattr(checkpoints, "STATE", str(tmp_path / "state"))

    def reads(**choices: object) -> dict:
        known = {"path": str(tmp_path / "models"), "model": "tiny", "manifest": manifest, "user": getpass.getuser()}
        defaults = {"reads_only": False, "read_back": False, "verify": None, "headers": False}
        return checkpoint_facts.contents({**known, **defaults, **choices})

    return reads


def test_tells_what_is_missing(read):
    found = read()
    assert (found["missing_files"], found["missing_bytes"]) == (["1.safetensors", "2.safetensors"], 2 * SIZE)
    assert (found["wanted"], found["manifest_digest"], found["faults"]) == (True, "", [])


def test_node_that_only_reads_needs_no_room(read):
    assert read(reads_only=True)["missing_bytes"] == 0


def test_agent_is_wanted_where_files_were_never_read_back(make, read):
    checkpoint = make()
    fetched(checkpoint)
    assert (read()["wanted"], read(read_back=True)["wanted"]) == (False, True)
    assert read()["manifest_digest"] == checkpoint.manifest.digest


def test_damaged_file_is_named_with_what_is_expected_and_found(make, read):
    checkpoint = make()
    fetched(checkpoint)
    (checkpoint.config.published / "1.safetensors").write_bytes(b"short")
    (fault,) = read(verify="quick")["faults"]
    assert (fault["where"], fault["value"]) == ("1.safetensors", "5 bytes")
    assert fault["limit"].startswith(f"{SIZE} bytes with SHA-256")


def test_right_file_that_no_engine_could_load_is_named(make, read):
    fetched(make())  # random bytes
    faults = read(verify="quick", headers=True)["faults"]
    assert [fault["where"] for fault in faults] == ["1.safetensors", "2.safetensors"]
    assert "bytes announced" in faults[0]["value"]


def test_right_file_that_the_user_cannot_read_is_named(make, read, monkeypatch):
    monkeypatch.setattr(checkpoint_facts, "as_user", lambda *_arguments: {"1.safetensors": "Permission denied"})
    monkeypatch.setattr(checkpoint_facts.safetensors, "faults", lambda *_arguments: [])
    fetched(make())
    (fault,) = read(verify="quick", headers=True)["faults"]
    assert fault["where"] == "1.safetensors"
    assert fault["value"].endswith("1.safetensors: Permission denied")


def test_network_filesystem_is_warned_of_with_its_rate_and_what_follows(manifest, tmp_path, monkeypatch):
    share = filesystem.Filesystem(str(tmp_path), str(tmp_path), "nfs4", 0, False, "10.0.0.9:/models")
    monkeypatch.setattr(checkpoint_facts.filesystem, "look", lambda _path: share)
    monkeypatch.setattr(checkpoint_facts.read_rate, "read_rate", lambda *_arguments: SIZE // 4)
    rates, words = checkpoint_facts.measured({"path": "/srv/models", "manifest": manifest}, may_write=True)
    assert rates == {"read_bytes_per_second": SIZE // 4, "load_seconds": 8}
    assert "/srv/models is on nfs4 (10.0.0.9:/models), read at 0 MB/s" in words
    assert "takes 8 s at each start" in words


def test_rate_that_could_not_be_measured_is_said(manifest, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint_facts.read_rate, "read_rate", lambda *_arguments: None)
    rates, words = checkpoint_facts.measured({"path": str(tmp_path), "manifest": manifest}, may_write=False)
    assert rates["load_seconds"] is None
    assert "could not be measured" in words
