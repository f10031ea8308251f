# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A model of random bytes in the proportions of Kimi K3, laid out for the hub stand-in, and its manifest."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPO = "sovereign/random"
COMMIT = "5eed" * 10
# Sizes of K3's shards beside the usual one of 16,990,916,912 bytes: the first holds the dense layer; every fourth holds
# other attention; the last three are embedding and output, projector and vision tower.
FIRST, FOURTH, LAST = 0.138, 0.975, (0.276, 0.0054, 0.047)
INDEX = "model.safetensors.index.json"
SMALL = {
    "config.json": 7006,
    "generation_config.json": 53,
    "modeling.py": 48_000,
    "tokenizer.model": 27_953,
    INDEX: 597,
}


@dataclass(frozen=True)
class Model:
    """Where the origin keeps it, and what every node must hold."""

    root: Path
    files: dict[str, str]  # SHA-256 by path
    size: int

    @property
    def folder(self) -> Path:
        """The files themselves."""
        return self.root / REPO / COMMIT

    @property
    def manifest(self) -> dict:
        """As the agent reads it."""
        files = [{"path": p, "size": (self.folder / p).stat().st_size, "sha256": h} for p, h in self.files.items()]
        return {"repo": REPO, "commit": COMMIT, "files": files}


def shard_sizes(total: int, count: int) -> list[int]:
    """Sizes of the shards of a model of so many bytes."""
    usual = [FOURTH if n % 4 == 3 else 1.0 for n in range(1, max(1, count - len(LAST)))]
    parts = ([FIRST, *usual, *LAST])[-count:]
    return [round(total * part / sum(parts)) for part in parts]


def make(root: Path, size: int, shards: int) -> Model:
    """Write a model below an empty folder; the same arguments find the last one again."""
    label = {"size": size, "shards": shards}
    about = root / "model.json"
    if not about.is_file() or (known := json.loads(about.read_text()))["made_from"] != label:
        shutil.rmtree(root, ignore_errors=True)
        sizes = {f"model-{n:05}-of-{shards:06}.safetensors": s for n, s in enumerate(shard_sizes(size, shards), 1)}
        files = {name: _write(root / REPO / COMMIT / name, bytes_) for name, bytes_ in {**sizes, **SMALL}.items()}
        known = {"made_from": label, "files": files, "size": sum(sizes.values()) + sum(SMALL.values())}
        about.write_text(json.dumps(known))
    return Model(root, known["files"], known["size"])


def _write(path: Path, size: int) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with path.open("wb") as file:
        while size > 0:
            block = os.urandom(min(size, 1 << 20))
            file.write(block)
            digest.update(block)
            size -= len(block)
    return digest.hexdigest()


def digest_command(model: Model, folder: Path) -> list[str]:
    """What hashes a copy with one process, as a user would: prints lines for `digests`."""
    return ["openssl", "dgst", "-sha256", "-r", *(str(folder / path) for path in model.files)]


def digests(output: str, folder: Path) -> dict[str, str]:
    """SHA-256 by path, from the output of the command above."""
    rows = (line.split(" *", 1) for line in output.splitlines() if " *" in line)
    return {str(Path(path).relative_to(folder)): digest for digest, path in rows}


def wrong_files(model: Model, folder: Path) -> Iterator[str]:
    """Paths of the files that a copy does not hold, or holds otherwise: read and hashed here and now."""
    done = subprocess.run(digest_command(model, folder), capture_output=True, text=True, check=False)
    found = digests(done.stdout, folder)
    yield from (path for path, digest in model.files.items() if found.get(path) != digest)
