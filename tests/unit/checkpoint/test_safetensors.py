"""Headers of safetensors files against their index."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.module_utils import safetensors

INDEX = "model.safetensors.index.json"
A = {"dtype": "BF16", "shape": [2, 4], "data_offsets": [0, 16]}
B = {"dtype": "F4", "shape": [2, 3], "data_offsets": [16, 19]}
EMPTY = {"dtype": "F32", "shape": [0], "data_offsets": [16, 16]}
UNKNOWN = {"dtype": "F2", "shape": [7], "data_offsets": [16, 18]}


def shard(header: object, data: int = 19, text: bytes | None = None, length: int | None = None) -> bytes:
    """A file: `text` in place of the header, `length` in place of what is true."""
    written = json.dumps(header).encode() if text is None else text
    return (len(written) if length is None else length).to_bytes(8, "little") + written + bytes(data)


def found(folder: Path, files: dict[str, bytes]) -> list[tuple[str, str, str]]:
    """The faults of a checkpoint with these files."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return list(safetensors.faults(folder, {name: len(content) for name, content in files.items()}))


def index(**places: str) -> bytes:
    return json.dumps({"metadata": {"total_size": 19}, "weight_map": places}).encode()


SOUND = {
    "two tensors, one of half bytes": {"a": A, "b": B},
    "metadata beside them": {"__metadata__": {"format": "pt"}, "a": A, "b": B},
    "a tensor without elements": {"a": A, "e": EMPTY, "b": B},
    "in another order than the data": {"b": B, "a": A},
}


@pytest.mark.parametrize("name", SOUND)
def test_takes(tmp_path, name):
    assert found(tmp_path, {"model.safetensors": shard(SOUND[name])}) == []


def test_takes_a_dtype_that_is_not_known_by_its_place_alone(tmp_path):
    assert found(tmp_path, {"model.safetensors": shard({"a": A, "u": UNKNOWN}, 18)}) == []


DAMAGED = {
    "a file that is shorter than its header's length": (b"\x01\0\0", "0 bytes announced|1 bytes announced"),
    "a header that is longer than the file": (shard({"a": A}, 16, length=1 << 20), "1048576 bytes announced"),
    "a header that is longer than any": (shard({"a": A}, 16, length=1 << 62), f"{1 << 62} bytes announced"),
    "no header": (shard({}, 16, text=b""), "0 bytes announced"),
    "a header that is no JSON": (shard({}, 16, text=b'{"a": \xff}'), "codec|utf-8"),
    "a header that is no mapping": (shard([A], 16), "no mapping"),
    "a header nested beyond reason": (shard({}, 0, text=b"[" * 100_000), "recursion"),
    "a tensor twice": (shard({}, 32, text=json.dumps({"a": A})[:-1].encode() + b',"a":{}}'), "twice"),
    "a tensor without a place": (shard({"a": {"dtype": "U8", "shape": [1]}}, 1), "data_offsets"),
    "a place that is no number": (shard({"a": {**A, "data_offsets": [0, "16"]}}, 16), "no whole numbers"),
    "a place before the data": (shard({"a": {**A, "data_offsets": [-16, 0]}}, 0), "no whole numbers"),
    "a hole": (shard({"a": A, "b": {**B, "data_offsets": [17, 20]}}, 20), "it is said to fill 17 to 20"),
    "tensors that overlap": (shard({"a": A, "b": {**B, "data_offsets": [15, 18]}}, 18), "it is said to fill 15 to 18"),
    "data that no tensor claims": (shard({"a": A}, 17), "they end after 16"),
    "data that is missing": (shard({"a": A}, 15), "they end after 16"),
    "a shape that is not what is there": (shard({"a": {**A, "shape": [2, 5]}}, 16), "16"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_finds(tmp_path, name):
    content, words = DAMAGED[name]
    ((file, expected, said),) = found(tmp_path, {"model.safetensors": content})
    assert file == "model.safetensors"
    assert expected
    assert any(word in said for word in words.split("|")), said


def test_file_that_went_away_is_named(tmp_path):
    ((_, expected, said),) = safetensors.faults(tmp_path, {"model.safetensors": 100})
    assert (expected, said) == ("a file that can be read", "No such file or directory")


def test_every_tensor_of_the_index_is_where_it_says(tmp_path):
    files = {"1.safetensors": shard({"a": A}, 16), "2.safetensors": shard({"a": A}, 16)}
    assert found(tmp_path, {**files, INDEX: index(a="1.safetensors")}) == []
    ((file, expected, said),) = found(tmp_path, {**files, INDEX: index(b="2.safetensors", c="2.safetensors")})
    assert (file, expected) == ("2.safetensors", "the tensor b, as the index says")
    assert said == "2 tensors are not in its header"


def test_index_of_a_folder_names_the_files_of_that_folder(tmp_path):
    files = {"vision/1.safetensors": shard({"a": A}, 16), f"vision/{INDEX}": index(a="1.safetensors")}
    assert found(tmp_path, files) == []


def test_index_that_names_a_file_of_no_manifest_is_a_fault_of_that_file(tmp_path):
    ((file, expected, said),) = found(tmp_path, {INDEX: index(a="3.safetensors")})
    assert (file, said) == ("3.safetensors", "no such file")
    assert "the index puts 1 tensors there" in expected


@pytest.mark.parametrize(
    "content", [b"{", b"[]", b"{}", b'{"weight_map": []}', b'{"weight_map": {"a": 1}}', b"[" * 99999]
)
def test_index_that_is_none_is_named(tmp_path, content):
    ((file, expected, _),) = found(tmp_path, {INDEX: content})
    assert (file, expected) == (INDEX, "an index: JSON with a weight_map of tensors to files")
