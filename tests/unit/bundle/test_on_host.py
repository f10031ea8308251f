"""A bundle on the host that serves it: whether it is all there, and its copy."""

import hashlib
import json
import os

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.module_utils import bundle as bundles
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.bundle import Bundle

COMMIT, DIGEST = "9f62e4e9fffbd0a83ddd60e1c209d828994b3569", "sha256:" + "1" * 64
MANIFEST = {"files": [{"path": "model.safetensors", "size": 7000, "sha256": "s"}]}
CONTENT = {
    "checkpoint/k3/c/model.safetensors": b"weights" * 1000,
    "checkpoint/k3/c.json": json.dumps(MANIFEST).encode(),
    "packages/debian-13/archive-key.asc": b"a key",
}
ABOUT = {
    "format": bundles.FORMAT,
    "checkpoint": {
        "repo": "moonshotai/Kimi-K3",
        "commit": COMMIT,
        "path": "checkpoint/k3/c",
        "manifest": "checkpoint/k3/c.json",
    },
    "images": [{"name": "vllm/engine", "digest": DIGEST, "path": "images/engine", "transport": "oci"}],
    "packages": [
        {"platform": "debian-13", "suite": "trixie", "path": "packages/debian-13", "key_file": "archive-key.asc"}
    ],
}


@pytest.fixture
def folder(drive):
    for path, data in CONTENT.items():
        (drive / path).parent.mkdir(parents=True, exist_ok=True)
        (drive / path).write_bytes(data)
    rows = [
        {"path": path, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for path, data in CONTENT.items()
    ]
    (drive / "index.json").write_text(json.dumps({**ABOUT, "files": rows}))
    return drive


def test_a_drive_that_holds_what_the_site_needs_has_no_fault(folder):
    assert list(Bundle(str(folder)).faults(COMMIT, [f"10.0.0.2:5000/vllm/engine@{DIGEST}"])) == []


def test_another_commit_and_an_image_that_is_not_there_are_both_named(folder):
    rows = list(Bundle(str(folder)).faults("f" * 40, ["r/engine@sha256:" + "2" * 64]))
    assert [row["limit"] for row in rows] == [f"serving_model_revision {'f' * 40}", "r/engine@sha256:" + "2" * 64]


def test_files_that_are_missing_or_short_are_named(folder):
    (folder / "checkpoint/k3/c/model.safetensors").write_bytes(b"short")
    (folder / "packages/debian-13/archive-key.asc").unlink()
    (row,) = Bundle(str(folder)).faults(COMMIT, [])
    assert "model.safetensors: 5 bytes, not 7000" in row["value"]
    assert "archive-key.asc: No such file" in row["value"]


def test_a_folder_without_an_index_and_one_of_another_format_are_refused(folder, tmp_path):
    with pytest.raises(LookupError) as refused:
        Bundle(str(tmp_path / "empty"))
    assert "no readable index.json" in refused.value.args[0]["value"]
    (folder / "index.json").write_text('{"format": 99}')
    with pytest.raises(LookupError) as refused:
        Bundle(str(folder))
    assert "format 99" in refused.value.args[0]["value"]


def test_an_index_that_is_not_the_one_carried_apart_is_refused(folder):
    right = Bundle(str(folder)).digest
    assert Bundle(str(folder), right.upper()).digest == right
    with pytest.raises(LookupError) as refused:
        Bundle(str(folder), "0" * 64)
    assert right in refused.value.args[0]["value"]


def test_the_checkpoints_files_are_listed_as_a_hub_lists_them(folder):
    (row,) = Bundle(str(folder)).tree()
    assert (row["type"], row["path"], row["size"], row["lfs"]["oid"]) == ("file", "model.safetensors", 7000, "s")


def test_a_repository_comes_with_its_key_and_its_release_file(folder):
    (row,) = Bundle(str(folder)).repositories()
    assert row["key"] == "a key"
    assert row["release"] == "packages/debian-13/dists/trixie/InRelease"


def test_a_copy_is_whole_at_the_end_and_nothing_is_copied_twice(folder, tmp_path):
    bundle, target = Bundle(str(folder)), tmp_path / "copy"
    for piece in bundle.pieces():
        assert bundle.copy(piece, str(target), dry=True) == bundle.copy(piece, str(target)) != []
        assert bundle.copy(piece, str(target)) == []
    assert list(Bundle(str(target)).faults(COMMIT, [])) == []
    assert bundle.pieces()[-1] == ["index.json"]


@pytest.mark.parametrize("small_bytes", [64 << 20, 0], ids=["a small file", "a large file"])
def test_a_file_that_changed_and_kept_its_size_is_copied_again(folder, tmp_path, monkeypatch, small_bytes):
    monkeypatch.setattr(bundles, "SMALL_BYTES", small_bytes)
    target = str(tmp_path / "copy")
    for piece in Bundle(str(folder)).pieces():
        Bundle(str(folder)).copy(piece, target)
    key = "packages/debian-13/archive-key.asc"
    (folder / key).write_bytes(b"b key")
    index = json.loads((folder / "index.json").read_bytes())
    row = next(row for row in index["files"] if row["path"] == key)
    row["sha256"] = hashlib.sha256(b"b key").hexdigest()
    (folder / "index.json").write_text(json.dumps(index))
    copied = [path for piece in Bundle(str(folder)).pieces() for path in Bundle(str(folder)).copy(piece, target)]
    assert copied == [key, "index.json"]
    assert (tmp_path / "copy" / key).read_bytes() == b"b key"


def test_a_copy_goes_on_in_the_middle_of_a_file(folder, tmp_path):
    path = "checkpoint/k3/c/model.safetensors"
    part = tmp_path / "copy" / f"{path}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(CONTENT[path][:3000])
    (folder / path).write_bytes(b"?" * 3000 + CONTENT[path][3000:])  # what is there already is not read again
    assert Bundle(str(folder)).copy([path], str(tmp_path / "copy")) == [path]
    assert (tmp_path / "copy" / path).read_bytes() == CONTENT[path]
    assert not part.exists()


def test_a_file_that_the_drive_has_damaged_is_not_copied(folder, tmp_path):
    path = "checkpoint/k3/c/model.safetensors"
    (folder / path).write_bytes(b"?" * 7000)
    with pytest.raises(ValueError, match="remedy"):
        Bundle(str(folder)).copy([path], str(tmp_path / "copy"))
    assert not any(files for _place, _folders, files in os.walk(tmp_path / "copy"))


def test_too_little_space_for_images_or_a_copy_is_refused(folder, monkeypatch, tmp_path):
    space = os.statvfs(folder)
    monkeypatch.setattr(bundles.os, "statvfs", lambda _path: type("", (), {"f_bavail": 1, "f_frsize": space.f_frsize}))
    (row,) = Bundle(str(folder)).copy_faults(str(tmp_path / "copy"))
    assert f"{space.f_frsize} bytes free" in row["value"] and "bytes for files" in row["limit"]
