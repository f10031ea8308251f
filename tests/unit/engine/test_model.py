"""The tiny model's repository: the same bytes each time, and a checkpoint that any reader accepts."""

from __future__ import annotations

import json
import math
import re
import struct

import pytest

from rehearsal.model import build


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hub")
    build.build(folder)
    return folder / "moonshotai" / "Kimi-K3-tiny"


@pytest.fixture(scope="module")
def files(root):
    return root / build.COMMIT


@pytest.fixture(scope="module")
def index(files):
    return json.loads((files / "model.safetensors.index.json").read_text())


def header(shard):
    (length,) = struct.unpack("<Q", shard.read_bytes()[:8])
    entries = json.loads(shard.read_bytes()[8 : 8 + length])
    entries.pop("__metadata__")
    return entries, shard.stat().st_size - 8 - length


def test_the_commit_is_that_of_the_content(root, files):
    assert build.commit_of(files) == build.COMMIT
    assert (root / "refs" / "main").read_text().strip() == build.COMMIT
    assert sorted(entry.name for entry in root.iterdir()) == sorted([build.COMMIT, "refs"])


def test_the_readme_names_the_commit():
    assert build.COMMIT in (build.HERE / "README.md").read_text()


def test_a_commit_that_is_there_is_left_alone(tmp_path):
    kept = tmp_path / build.REPOSITORY / build.COMMIT / "mark"
    kept.parent.mkdir(parents=True)
    kept.touch()
    assert build.build(tmp_path) == build.COMMIT
    assert kept.exists()


def test_changed_files_are_refused_with_their_new_commit(tmp_path, monkeypatch):
    monkeypatch.setattr(build, "README", "other text")
    with pytest.raises(ValueError, match="makes commit [0-9a-f]{40}, not"):
        build.build(tmp_path)
    assert [entry.name for entry in (tmp_path / build.REPOSITORY).iterdir()] == ["refs"]


def test_shards_are_named_as_in_the_real_repository_and_differ_in_size(files):
    shards = sorted(files.glob("*.safetensors"))
    assert [shard.name for shard in shards] == [f"model-{n:05d}-of-000006.safetensors" for n in range(1, 7)]
    sizes = [shard.stat().st_size for shard in shards]
    assert 40e6 < sum(sizes) < 60e6
    assert max(sizes) > 50 * min(sizes)


def test_the_index_names_every_tensor_in_the_shard_that_holds_it(files, index):
    held = {name: shard.name for shard in files.glob("*.safetensors") for name in header(shard)[0]}
    assert held == index["weight_map"]


def test_the_index_counts_all_bytes(files, index):
    assert index["metadata"]["total_size"] == sum(header(shard)[1] for shard in files.glob("*.safetensors"))


def test_tensors_fill_each_shard_without_gaps(files):
    for shard in files.glob("*.safetensors"):
        entries, size = header(shard)
        spans = sorted(entry["data_offsets"] for entry in entries.values())
        assert [start for start, _ in spans] == [0, *(end for _, end in spans[:-1])]
        assert spans[-1][1] == size
        assert all(
            end - start == 2 * math.prod(entry["shape"])
            for entry in entries.values()
            for start, end in [entry["data_offsets"]]
        )


def test_the_configuration_has_the_width_of_the_tensors(files):
    config = json.loads((files / "config.json").read_text())
    entries, _ = header(files / "model-00003-of-000006.safetensors")
    (down,) = (entry for name, entry in entries.items() if "down_proj" in name)
    assert down["shape"] == [config["hidden_size"], config["intermediate_size"]]


def numbers(data):
    """The bfloat16 numbers in some bytes."""
    return [struct.unpack("<f", b"\0\0" + data[at : at + 2])[0] for at in range(0, len(data), 2)]


def test_new_neurons_are_silent_and_trained_ones_are_spread():
    trained = build.Tensor((2, 2), bytes.fromhex("803f0040 40408040"))  # 1 2 / 3 4
    gate = numbers(build.widen("mlp.gate_proj.weight", trained).data)
    assert (gate[:2], gate[2 * build.SPREAD :][:2]) == ([1, 2], [3, 4])
    assert sum(map(abs, gate)) == 10
    down = build.widen("mlp.down_proj.weight", trained)
    assert down.shape == (2, 2 * build.SPREAD)
    assert numbers(down.data)[:: build.SPREAD] == [1, 2, 3, 4]
    assert all(map(math.isfinite, numbers(down.data)))


def test_the_tokenizer_knows_the_words_of_the_chat_template(files):
    tokens = {entry["content"] for entry in json.loads((files / "tokenizer.json").read_text())["added_tokens"]}
    template = (files / "chat_template.jinja").read_text()
    assert set(re.findall(r"<\|\w+\|>", template)) <= tokens
    assert {"<|system|>", "<|user|>", "<|assistant|>"} <= tokens
