# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images on the drive: byte for byte as their registry has them, so that their digests stay what they are.

An image by digest is a manifest, or an index of manifests for several processors. All of an index is copied: it is
one object, and a registry takes it only together with what it names. Docker's own types of manifest have no place in
an OCI layout; images that consist of them lie in skopeo's `dir` form instead.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.bundle.drive import Drive, row
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.bundle.work import (
    Failed,
    Say,
    amount,
    follow,
    output,
    size_of,
)

# As Go, and with it OCI, names what the catalogue names as the kernel does.
PROCESSORS = {"x86_64": "amd64", "aarch64": "arm64"}
TRIES = 8


@dataclass(frozen=True)
class Layout:
    """An image in a folder, whole or not. `transport` is skopeo's name of the form: oci or dir."""

    folder: Path
    digest: str
    transport: str

    def manifest_file(self, digest: str) -> Path:
        """Where a manifest or index of the image lies."""
        if self.transport == "oci":
            return self.blob_file(digest)
        return self.folder / ("manifest.json" if digest == self.digest else f"{_hex(digest)}.manifest.json")

    def blob_file(self, digest: str) -> Path:
        """Where a layer or configuration lies."""
        return self.folder / ("blobs/sha256" if self.transport == "oci" else "") / _hex(digest)

    def missing(self) -> dict[str, int]:
        """{digest: bytes} of the blobs that are not there; raise LookupError where a manifest is not."""
        sizes: dict[str, int] = {}
        for digest in self.manifests():
            for blob in _blobs(self._manifest(digest)):
                path = self.blob_file(blob["digest"])
                if not path.is_file() or path.stat().st_size != blob["size"]:
                    sizes[blob["digest"]] = blob["size"]
        return sizes

    def is_whole(self) -> bool:
        """Whether all that the digest stands for is there; skopeo writes no file before its bytes are proved."""
        try:
            listed = self.transport == "dir" or self.digest in (self.folder / "index.json").read_text(encoding="utf-8")
            return listed and not self.missing()
        except (LookupError, OSError):
            return False

    def manifests(self) -> Iterator[str]:
        """Digests of the image's manifest, or of its index and all manifests in it."""
        yield self.digest
        yield from (child["digest"] for child in self._manifest(self.digest).get("manifests", []))

    def _manifest(self, digest: str) -> dict:
        try:
            data = self.manifest_file(digest).read_bytes()
        except OSError:
            raise LookupError(digest) from None
        if f"sha256:{hashlib.sha256(data).hexdigest()}" != digest:
            raise LookupError(digest)
        return json.loads(data)

    def known(self) -> dict[Path, str]:
        """{file: SHA-256} of all files whose names or digests say it."""
        found = {}
        for digest in self.manifests():
            found[self.manifest_file(digest)] = _hex(digest)
            found |= {self.blob_file(blob["digest"]): _hex(blob["digest"]) for blob in _blobs(self._manifest(digest))}
        return found


class OnDrive:
    """One image by digest, and its place on a drive. Raises Failed where its registry does not give it."""

    def __init__(self, drive: Drive, reference: str, insecure: Iterable[str]):
        self.reference, self._drive = reference, drive
        self.path, _, self.digest = reference.partition("@")
        self._name = self.path.partition("/")[2]
        self.folder = drive.images / f"{self._name.rpartition('/')[2]}-{_hex(self.digest)[:12]}"
        self._insecure = self.path.partition("/")[0] in insecure
        self.name = f"image {self._name}"

    @property
    def layout(self) -> Layout:
        """What is on the drive."""
        transport = "dir" if (self.folder / "version").is_file() else "oci"
        return Layout(self.folder, self.digest, transport)

    def missing(self) -> tuple[list[str], int]:
        """([the image] or nothing, the bytes that are still to come)."""
        if self.is_whole():
            return [], 0
        blobs = {blob["digest"]: blob["size"] for _, manifest in self._asked for blob in _blobs(manifest)}
        present = (blob for blob in blobs if self.layout.blob_file(blob).is_file())
        return [self.reference], sum(blobs.values()) - sum(blobs[blob] for blob in present)

    def is_whole(self) -> bool:
        """Whether all that the digest stands for is on the drive."""
        return self.layout.is_whole()

    def make(self, say: Say) -> bool:
        """Copy what is missing. Whole layers of an earlier run are kept."""
        total = sum({blob["digest"]: blob["size"] for _, m in self._asked for blob in _blobs(m)}.values())
        transport = "dir" if any(_is_dockers(manifest) for _, manifest in self._asked) else "oci"
        self.folder.mkdir(parents=True, exist_ok=True)
        source, target = f"docker://{self.path}@{self.digest}", f"{transport}:{self.folder}"
        options = ["--all", "--preserve-digests", f"--retry-times={TRIES}", f"--src-tls-verify={self._verified}"]

        def progress() -> str:
            return f"{self.name}  {amount(size_of(self.folder))} of {amount(total)}"

        follow(["skopeo", "copy", *options, source, target], say, progress)
        if not self.layout.is_whole():
            raise Failed(f"{self.folder} does not hold {self.reference} after the copy; remedy: remove it, run again")
        for left_over in self.folder.glob("oci-put-blob*"):
            left_over.unlink()
        return True

    def processor_faults(self, architectures: Iterable[str]) -> Iterator[dict]:
        """Yield the nodes' processors that the image is not for."""
        if self.is_whole():
            return
        found = {self._processor(manifest) for _, manifest in self._asked} | self._listed()
        for architecture in sorted({PROCESSORS.get(name, name) for name in architectures} - found):
            limit, remedy = f"an image for {architecture}, as the nodes are", "choose an image for these nodes"
            yield row(f"{self.reference} is for {', '.join(sorted(found - {''}))}", limit, remedy, "serving_image")

    def _listed(self) -> set[str]:
        platforms = (child.get("platform", {}) for child in self._asked[0][1].get("manifests", []))
        return {platform.get("architecture", "") for platform in platforms}

    def _processor(self, manifest: dict) -> str:
        if len(self._asked) > 1 or "config" not in manifest:
            return ""
        return json.loads(self._inspect("--config", self.digest)).get("architecture", "")

    @cached_property
    def _asked(self) -> list[tuple[str, dict]]:
        """The manifests as the registry gives them, the image's own first."""
        top = json.loads(self._inspect("--raw", self.digest))
        children = [child["digest"] for child in top.get("manifests", [])]
        return [(self.digest, top), *((digest, json.loads(self._inspect("--raw", digest))) for digest in children)]

    def _inspect(self, what: str, digest: str) -> str:
        options = [what, f"--tls-verify={self._verified}", f"--retry-times={TRIES}"]
        return output(["skopeo", "inspect", *options, f"docker://{self.path}@{digest}"])

    @property
    def _verified(self) -> str:
        return "false" if self._insecure else "true"

    @property
    def roots(self) -> list[Path]:
        """Where its files are."""
        return [self.folder]

    def about(self) -> dict:
        """What the index says of it."""
        layout = self.layout
        return {
            "reference": self.reference,
            "name": self._name,
            "digest": self.digest,
            "transport": layout.transport,
            "path": str(self.folder.relative_to(self._drive.root)),
        }

    def known(self) -> dict[Path, str]:
        """{file: SHA-256} of what was proved already."""
        return self.layout.known()


def _hex(digest: str) -> str:
    return digest.partition(":")[2]


def _blobs(manifest: dict) -> list[dict]:
    return [blob for blob in [manifest.get("config"), *manifest.get("layers", [])] if blob]


def _is_dockers(manifest: dict) -> bool:
    return str(manifest.get("mediaType", "")).startswith("application/vnd.docker.")
