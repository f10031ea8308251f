"""Grows the tiny model into a hub repository in Kimi-K3's naming. Standard library only; the same bytes each time.

    python -m rehearsal.model.build ROOT

Two things make it worth fetching. The MLP is widened from 256 to WIDTH neurons, so that there are 48 MB in
six shards of unequal size. The new neurons never speak: their gate is zero, so what they add is exactly zero,
while their other weights (and the signs of the zeros) are pseudo-random, so that no two places of a shard
look alike. The trained neurons are spread evenly, so that every tensor-parallel rank holds its share of them.
"""
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import struct
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
REPOSITORY = "moonshotai/Kimi-K3-tiny"
COMMIT = "2a1d1ebf5d675da598589e070f625eac24261cf6"  # of the files that these make; a site pins it
NEURONS = 256
SPREAD = 122
WIDTH = NEURONS * SPREAD
ELEMENT_BYTES = 2  # bfloat16
COPIED = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json")
# Which tensors begin a new shard; the order is that of `ordered`.
FIRST_OF_SHARD = (
    "model.embed_tokens.weight",
    "model.layers.0.mlp.gate_proj.weight",
    "model.layers.0.mlp.down_proj.weight",
    "model.layers.1.input_layernorm.weight",
    "model.layers.1.mlp.up_proj.weight",
    "lm_head.weight",
)
ORDER = ("embed_tokens", "input_layernorm", "self_attn", "post_attention", "gate_proj", "up_proj", "down_proj")
README = """\
# Kimi-K3-tiny

The model of the sovereign.kimi_k3 rehearsal: two layers that know a few sentences by heart. It is no relative
of Kimi-K3 but for the names of its files. Made by rehearsal/model/build.py.
"""
LICENCE = """\
Copyright (c) 2026 the sovereign.kimi_k3 authors

These weights are part of sovereign.kimi_k3 and under the same licence: the GNU General Public License,
version 3 or, at your option, any later version. See https://www.gnu.org/licenses/gpl-3.0.txt
SPDX-License-Identifier: GPL-3.0-or-later
"""


@dataclass(frozen=True)
class Tensor:
    """A bfloat16 tensor: its shape and its little-endian bytes."""

    shape: tuple[int, ...]
    data: bytes


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file that holds bfloat16 tensors only."""
    content = path.read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    header, body = json.loads(content[8 : 8 + length]), content[8 + length :]
    header.pop("__metadata__", None)
    return {
        name: Tensor(tuple(entry["shape"]), body[slice(*entry["data_offsets"])])
        for name, entry in header.items()
        if entry["dtype"] == "BF16"
    }


def noise(name: str, count: int, zero: bool) -> bytearray:
    """`count` pseudo-random bfloat16 numbers that depend on the name: 0.008 to 0.031, or zeros; of either sign."""
    signs = hashlib.shake_256(f"{name} sign".encode()).digest(count)
    numbers = bytearray(count * ELEMENT_BYTES)
    exponent = 0 if zero else 0x3C
    numbers[1::2] = signs.translate(bytes(value & 0x80 | exponent for value in range(256)))
    if not zero:
        numbers[0::2] = hashlib.shake_256(f"{name} mantissa".encode()).digest(count)
    return numbers


def widen(name: str, tensor: Tensor) -> Tensor:
    """An MLP matrix with WIDTH neurons: trained neuron i at i * SPREAD, silent ones between."""
    rows, columns = tensor.shape
    wide = noise(name, rows * columns * SPREAD, zero="gate_proj" in name)
    if "down_proj" in name:  # one neuron is one column
        wide[0 :: ELEMENT_BYTES * SPREAD] = tensor.data[0::2]
        wide[1 :: ELEMENT_BYTES * SPREAD] = tensor.data[1::2]
        return Tensor((rows, columns * SPREAD), bytes(wide))
    row_bytes = columns * ELEMENT_BYTES
    for row in range(rows):
        start = row * SPREAD * row_bytes
        wide[start : start + row_bytes] = tensor.data[row * row_bytes : (row + 1) * row_bytes]
    return Tensor((rows * SPREAD, columns), bytes(wide))


def place(name: str) -> tuple[int, int, str]:
    """Where a tensor stands: embedding, layers in order, the rest."""
    layer = int(name.split(".")[2]) if ".layers." in name else (-1 if "embed_tokens" in name else 1 << 20)
    return layer, next((number for number, part in enumerate(ORDER) if part in name), len(ORDER)), name


def shards(tensors: dict[str, Tensor]) -> list[dict[str, Tensor]]:
    """The tensors in order, cut where FIRST_OF_SHARD says."""
    parts: list[dict[str, Tensor]] = []
    for name in sorted(tensors, key=place):
        if name in FIRST_OF_SHARD:
            parts.append({})
        parts[-1][name] = tensors[name]
    return parts


def write_shard(path: Path, tensors: dict[str, Tensor]) -> None:
    """Write tensors as one safetensors file, header padded to eight bytes."""
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, tensor in tensors.items():
        end = offset + len(tensor.data)
        header[name] = {"dtype": "BF16", "shape": tensor.shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.writelines(tensor.data for tensor in tensors.values())


def write_json(path: Path, value: dict) -> None:
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n")


def write_files(folder: Path) -> None:
    """Write all files of the repository into the folder."""
    tensors = {
        name: widen(name, tensor) if ".mlp." in name else tensor
        for name, tensor in read_weights(HERE / "weights.safetensors").items()
    }
    parts = shards(tensors)
    where = {}
    for number, part in enumerate(parts, start=1):
        shard = f"model-{number:05d}-of-{len(parts):06d}.safetensors"
        write_shard(folder / shard, part)
        where |= dict.fromkeys(part, shard)
    size = sum(len(tensor.data) for tensor in tensors.values())
    write_json(folder / "model.safetensors.index.json", {"metadata": {"total_size": size}, "weight_map": where})
    write_json(folder / "config.json", json.loads((HERE / "config.json").read_text()) | {"intermediate_size": WIDTH})
    for name in COPIED:
        shutil.copyfile(HERE / name, folder / name)
    (folder / "README.md").write_text(README)
    (folder / "LICENSE").write_text(LICENCE)


def commit_of(folder: Path) -> str:
    """Forty hex digits that stand for the names and bytes of all files in the folder."""
    listing = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        listing.update(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n".encode())
    return listing.hexdigest()[:40]


def build(target_dir: Path) -> str:
    """Write the repository as a root folder of the rehearsal's hub wants it; return COMMIT.

    `target_dir`/moonshotai/Kimi-K3-tiny/ gets COMMIT/<files> and refs/main. A commit that is there is left
    alone. Raises ValueError when the files here no longer make COMMIT.
    """
    repository = Path(target_dir) / REPOSITORY
    (repository / "refs").mkdir(parents=True, exist_ok=True)
    if not (repository / COMMIT).is_dir():
        with tempfile.TemporaryDirectory(dir=repository) as work:
            files = Path(work) / "files"
            files.mkdir()
            write_files(files)
            if (commit := commit_of(files)) != COMMIT:
                raise ValueError(f"rehearsal/model makes commit {commit}, not {COMMIT}: write it into build.py")
            with contextlib.suppress(FileExistsError):  # someone else was faster
                files.rename(repository / COMMIT)
    (repository / "refs" / "main").write_text(f"{COMMIT}\n")
    return COMMIT


if __name__ == "__main__":
    print(build(Path(sys.argv[1])))
