# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The headers of safetensors files against their index: what an engine would stumble over after an hour of loading.

A file is 8 bytes with the length of its header, little-endian; the header, JSON, which says dtype, shape and place of
each tensor; and the tensors, one after the other to the end of the file. Only headers are read.
"""

from __future__ import annotations

import json
import math
import posixpath
from collections.abc import Iterator, Mapping
from pathlib import Path

INDEX = ".safetensors.index.json"
# More than any header has; the format's own library refuses the same.
LONGEST_HEADER = 100_000_000
_LENGTH_BYTES = 8
_BITS = {
    **dict.fromkeys(("F4",), 4),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("I16", "U16", "F16", "BF16"), 16),
    **dict.fromkeys(("I32", "U32", "F32"), 32),
    **dict.fromkeys(("I64", "U64", "F64", "C64"), 64),
}


class Damaged(Exception):
    """A header or an index that cannot be right: what was expected, what was found."""

    def __init__(self, expected: str, found: str):
        super().__init__(f"expected {expected}; found {found}")
        self.expected, self.found = expected, found


def faults(folder: Path, files: Mapping[str, int]) -> Iterator[tuple[str, str, str]]:
    """Yield (file, expected, found) for what is wrong with a checkpoint; `files` is {path: bytes} of its manifest."""
    wanted: dict[str, set[str]] = {}
    for path in (path for path in files if path.endswith(INDEX)):
        try:
            for shard, tensors in read_index(folder / path, posixpath.dirname(path)).items():
                wanted.setdefault(shard, set()).update(tensors)
        except Damaged as error:
            yield path, error.expected, error.found
    for shard in sorted(set(wanted) - set(files)):
        yield shard, f"a file of the manifest, as the index puts {len(wanted[shard])} tensors there", "no such file"
    for path in (path for path in files if path.endswith(".safetensors")):
        try:
            tensors = read_header(folder / path, files[path])
        except Damaged as error:
            yield path, error.expected, error.found
            continue
        if lost := sorted(wanted.get(path, set()) - tensors):
            yield path, f"the tensor {lost[0]}, as the index says", f"{len(lost)} tensors are not in its header"


def read_index(path: Path, folder: str) -> dict[str, set[str]]:
    """Return {file: tensors that the index puts there}, files as the manifest names them; raise Damaged."""
    expected = "an index: JSON with a weight_map of tensors to files"
    try:
        places = json.loads(path.read_bytes())["weight_map"]
        found: dict[str, set[str]] = {}
        for tensor, file in places.items():
            found.setdefault(posixpath.join(folder, file), set()).add(tensor)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Damaged(expected, f"{type(error).__name__}: {error}") from error
    return found


def read_header(path: Path, size: int) -> set[str]:
    """Return the names of the tensors of one file whose header is sound; raise Damaged."""
    try:
        with path.open("rb", buffering=0) as file:
            start = file.read(_LENGTH_BYTES)
            length = int.from_bytes(start, "little")
            limit = min(LONGEST_HEADER, size - _LENGTH_BYTES)
            if len(start) < _LENGTH_BYTES or not 2 <= length <= limit:
                raise Damaged(f"a header of 2 to {limit} bytes", f"{length} bytes announced")
            text = b""
            while len(text) < length and (block := file.read(length - len(text))):
                text += block
    except OSError as error:
        raise Damaged("a file that can be read", str(error.strerror)) from error
    return _names(text, size - _LENGTH_BYTES - length)


def _names(text: bytes, data_bytes: int) -> set[str]:
    try:
        header = json.loads(text, object_pairs_hook=_each_once)
        if not isinstance(header, dict):
            raise TypeError("no mapping")
        header.pop("__metadata__", None)
        rows = sorted(((*_place(tensor), name) for name, tensor in header.items()), key=lambda row: row[:2])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Damaged("a header in JSON with dtype, shape and data_offsets of each tensor", str(error)) from error
    end = 0
    for begin, after, wanted, name in rows:
        if begin != end or after < begin:
            raise Damaged(f"tensor {name} to follow byte {end} of the data", f"it is said to fill {begin} to {after}")
        if wanted is not None and wanted != after - begin:
            raise Damaged(f"{wanted} bytes for tensor {name}, by its dtype and shape", f"{after - begin}")
        end = after
    if end != data_bytes:
        raise Damaged(f"tensors to the end of the file, {data_bytes} bytes", f"they end after {end}")
    return set(header)


def _place(tensor: dict) -> tuple[int, int, int | None]:
    """(first byte, byte after the last, bytes by dtype and shape; None for a dtype that is not known here)."""
    begin, after = tensor["data_offsets"]
    count = math.prod(tensor["shape"])
    if not all(type(number) is int and number >= 0 for number in (begin, after, *tensor["shape"])):
        raise ValueError(f"no whole numbers: {begin} to {after}, shape {tensor['shape']}")
    bits = _BITS.get(tensor["dtype"])
    return begin, after, None if bits is None else (count * bits + 7) // 8


def _each_once(pairs: list[tuple[str, object]]) -> dict:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands there twice")
    return found
