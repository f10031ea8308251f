"""Small parts of a bundle, made here."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.bundle.drive import Drive
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.bundle.images import OnDrive

OCI = "application/vnd.oci.image.{}.v1+json"
DOCKER = "application/vnd.docker.distribution.manifest.{}v2+json"


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class Image:
    """An image for two processors with one layer each; `blobs` is {digest: bytes} of all of it."""

    def __init__(self, index_type: str = OCI.format("index"), manifest_type: str = OCI.format("manifest")):
        self.blobs: dict[str, bytes] = {}
        rows = []
        for processor in ("amd64", "arm64"):
            layer, config = random.Random(processor).randbytes(5000), json.dumps({"architecture": processor}).encode()
            manifest = {
                "schemaVersion": 2,
                "mediaType": manifest_type,
                "config": {"digest": self._add(config), "size": len(config)},
                "layers": [{"digest": self._add(layer), "size": len(layer)}],
            }
            data = json.dumps(manifest).encode()
            rows.append({"digest": self._add(data), "size": len(data), "platform": {"architecture": processor}})
        self.digest = self._add(json.dumps({"mediaType": index_type, "manifests": rows}).encode())
        self.reference = f"registry.example/vllm/engine@{self.digest}"

    def _add(self, data: bytes) -> str:
        self.blobs[digest_of(data)] = data
        return digest_of(data)

    def layers(self) -> dict[str, bytes]:
        return {digest: data for digest, data in self.blobs.items() if len(data) == 5000}

    def lay_out(self, folder: Path) -> None:
        """As skopeo writes an OCI layout."""
        (folder / "blobs/sha256").mkdir(parents=True)
        for digest, data in self.blobs.items():
            (folder / "blobs/sha256" / digest.partition(":")[2]).write_bytes(data)
        (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
        (folder / "index.json").write_text(json.dumps({"manifests": [{"digest": self.digest}]}))

    def on(self, drive: Path) -> OnDrive:
        return OnDrive(Drive(drive), self.reference, [])
