"""A checkpoint of any size for drills: random bytes in shards laid out, named and proportioned like Kimi-K3's.

No engine can load it. Each shard is a valid safetensors file, and the index names its tensor. The same size gives
the same bytes, so the commit follows from the size.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import struct
import tempfile
from pathlib import Path

NAME, REPOSITORY = "kimi-k3-drill", "moonshotai/Kimi-K3-drill"
# The shards in proportion: a small first one, whole layers of two sizes, then head, projector and vision tower.
SHARES = (28, 200, 200, 195, 200, 200, 200, 195, 200, 200, 55, 1, 10)
JSON = ("config.json", "generation_config.json", "tokenizer_config.json")
TEXT = ("modeling_kimi_k3.py", "README.md", "LICENSE")
BLOCK_BYTES = 1 << 20


def sizes(total: int) -> list[int]:
    """Bytes of each shard for a checkpoint of about `total` bytes."""
    return [total * share // sum(SHARES) for share in SHARES]


def shard(number: int) -> str:
    """Name of a shard, counted from 1."""
    return f"model-{number:05d}-of-{len(SHARES):06d}.safetensors"


def commit(total: int) -> str:
    """Forty hex digits that stand for all bytes of the checkpoint of this size."""
    return hashlib.sha256(f"{NAME} 1 {sizes(total)}".encode()).hexdigest()[:40]


def _write_shard(path: Path, tensor: str, size: int) -> None:
    # The header is padded to 128 bytes, so that the file has just the size that it should have.
    header = {tensor: {"dtype": "U8", "shape": [size - 128], "data_offsets": [0, size - 128]}}
    text = json.dumps(header, separators=(",", ":")).encode().ljust(120)
    numbers, left = random.Random(path.name), size - 128
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        while left:
            left -= file.write(numbers.randbytes(min(left, BLOCK_BYTES)))


def _write(folder: Path, total: int) -> None:
    tensors = {}
    for number, size in enumerate(sizes(total), start=1):
        tensor = f"model.layers.{number - 1}.weight"
        _write_shard(folder / shard(number), tensor, size)
        tensors[tensor] = shard(number)
    index = {"metadata": {"total_size": sum(sizes(total)) - 128 * len(SHARES)}, "weight_map": tensors}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    for name in JSON:
        (folder / name).write_text(json.dumps({"file": name}))
    for name in TEXT:
        (folder / name).write_text(f"# {name} of {NAME}\n")


def build(root: Path, total: int) -> Path:
    """Make the checkpoint below the root folder of a hub, unless it is there; return the folder of its files."""
    repository, revision = root / REPOSITORY, commit(total)
    (repository / "refs").mkdir(parents=True, exist_ok=True)
    if not (repository / revision).is_dir():
        with tempfile.TemporaryDirectory(dir=repository) as work:
            files = Path(work) / "files"
            files.mkdir()
            _write(files, total)
            with contextlib.suppress(OSError):  # someone else was faster
                files.rename(repository / revision)
    (repository / "refs" / "main").write_text(f"{revision}\n")
    return repository / revision


def manifest(folder: Path) -> dict[str, dict]:
    """Size and SHA-256 of every file by its path, read from the files themselves, not from what the product says."""
    found = {}
    for path in sorted(folder.iterdir()):
        with path.open("rb") as file:
            found[path.name] = {"size": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
    return found
