"""Several revisions of one model on a node: what a new one takes over, and what goes when it was accepted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.module_utils import revisions
from ansible_collections.sovereign.kimi_k3.plugins.modules import checkpoint_revisions

from .conftest import COMMIT, SIZE, fetched

NEW = "f831ab66814297da540d832a5235f8e904f29d06"
SAME, RENAMED = "1.safetensors", "renamed/2.safetensors"


@pytest.fixture
def old(make):
    """A revision that was fetched and may be serving."""
    checkpoint = make()
    fetched(checkpoint)
    return checkpoint


@pytest.fixture
def new(make, manifest):
    """A revision with the same content, one file of it under another name, and a file of its own."""
    first, second = manifest["files"]
    files = [first, {**second, "path": RENAMED}, {"path": "own.py", "size": 7, "sha256": "0" * 64}]
    return make(manifest={**manifest, "commit": NEW, "files": files})


def inode(path: Path) -> int:
    return path.stat().st_ino


def test_same_content_is_linked_and_not_fetched(old, new):
    assert new.missing()[1] == 7
    assert new.prepare() == [SAME, RENAMED]
    assert inode(new.config.published / SAME) == inode(old.config.published / SAME)
    assert inode(new.config.published / RENAMED) == inode(old.config.published / "2.safetensors")


def test_neither_revision_is_hashed_again_because_of_the_link(old, new):
    new.prepare()
    assert old.is_whole()
    assert [entry.path for entry in new.store().missing()] == ["own.py"]


def test_file_that_is_there_already_is_left_alone(old, new):
    new.config.published.mkdir(parents=True)
    (new.config.published / SAME).write_bytes(b"mine")
    assert new.prepare() == [RENAMED]
    assert (new.config.published / SAME).read_bytes() == b"mine"


def test_file_that_changed_since_it_was_proved_is_not_taken_over(old, new):
    (old.config.published / SAME).write_bytes(bytes(SIZE))
    assert new.prepare() == [RENAMED]


def test_revision_that_was_never_proved_gives_nothing(old, new):
    old.config.file("stamps").unlink()
    assert new.prepare() == []


def test_revision_without_a_manifest_gives_nothing(old, new):
    old.config.file("manifest").write_text("{}")
    assert new.prepare() == []
    assert new.missing()[1] == 2 * SIZE + 7


def test_what_cannot_be_linked_is_fetched(old, new, monkeypatch):
    def refuses(*_arguments, **_names):
        raise OSError("Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuses)
    assert new.prepare() == []
    assert old.is_whole()


def test_bytes_that_a_later_revision_links_too_do_not_become_free(old, new):
    assert revisions.freed_bytes([old.config.published]) == 2 * SIZE
    new.prepare()
    assert revisions.freed_bytes([old.config.published]) == 0
    assert revisions.freed_bytes([old.config.published, new.config.published]) == 2 * SIZE


@pytest.fixture
def sort_out(old, monkeypatch, tmp_path):
    """Return a function that sorts out the older revisions; those are used whose names are in `sort_out.used`."""
    usual = revisions.settings
    monkeypatch.setattr(revisions, "settings", lambda *place: usual(*place[:3], str(tmp_path / "state")))

    def sorts(allowed: bool, **choices: object) -> dict:
        monkeypatch.setattr(revisions, "users_of", lambda folder: sorts.used.get(folder.name, []))
        return checkpoint_revisions.sort_out(str(tmp_path / "models"), "tiny", NEW, allowed, **choices)

    sorts.used = {}
    return sorts


def test_old_revision_stays_and_waits_without_consent(old, sort_out):
    found = sort_out(allowed=False)
    assert (found["changed"], found["waiting"], found["bytes"]) == (False, [str(old.config.published)], 2 * SIZE)
    assert old.is_whole()


def test_old_revision_goes_with_all_that_was_kept_of_it(old, sort_out):
    found = sort_out(allowed=True)
    assert (found["changed"], found["removed"], found["waiting"]) == (True, [str(old.config.published)], [])
    assert not old.config.published.exists()
    assert not old.config.state.exists()
    assert not sort_out(allowed=True)["changed"]


def test_files_that_both_had_are_not_hashed_again_when_the_old_revision_is_gone(old, new, sort_out):
    new.prepare()
    sort_out(allowed=True)
    assert [entry.path for entry in new.store().missing()] == ["own.py"]


def test_file_that_was_not_whole_is_not_made_whole_by_a_removal(old, new, sort_out):
    new.prepare()
    (new.config.published / SAME).write_bytes(bytes(SIZE))
    sort_out(allowed=True)
    assert [entry.path for entry in new.store().missing()] == [SAME, "own.py"]


def test_check_removes_nothing(old, sort_out):
    assert sort_out(allowed=True, check_mode=True)["changed"]
    assert old.is_whole()


def test_revision_that_something_uses_stays_and_that_is_said(old, sort_out):
    sort_out.used[COMMIT] = ["process 1"]
    found = sort_out(allowed=True)
    assert (found["removed"], found["used"]) == ([], {str(old.config.published): ["process 1"]})
    assert old.is_whole()


def test_files_and_links_beside_the_revisions_are_none(old, new, tmp_path):
    models = tmp_path / "models" / "tiny"
    (models / "notes").mkdir()
    (models / ("a" * 40)).symlink_to("/etc")
    assert list(revisions.others(new.config)) == [old.config.published]


def test_users_are_processes_and_units_of_engines_that_name_the_folder(tmp_path):
    proc, units = tmp_path / "proc", tmp_path / "units"
    engine = b"podman\0run\0/srv/models/k/abc\0"
    for place, text in {"12": engine, "13": b"bash\0", "self": engine}.items():
        (proc / place).mkdir(parents=True)
        (proc / place / "cmdline").write_bytes(text)
    units.mkdir()
    (units / "kimi-k3-engine@a.service").write_text("ExecStart=podman run --model /srv/models/k/abc\n")
    (units / "kimi-k3-engine@b.service").write_text("ExecStart=podman run --model /srv/models/k/def\n")
    found = revisions.users_of(Path("/srv/models/k/abc"), proc, units)
    assert found == ["kimi-k3-engine@a.service", "process 12"]
