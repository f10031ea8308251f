"""An image without a layer, so that preflight finds the site's engine image in its registry."""

from __future__ import annotations

import hashlib
import json
import urllib.request

NAME = "vllm/vllm-openai-stub"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
CONFIG = json.dumps({"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": []}}).encode()


def _digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _send(url: str, data: bytes = b"", method: str = "POST", kind: str = "application/octet-stream") -> str:
    request = urllib.request.Request(url, data, {"Content-Type": kind}, method=method)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.headers.get("Location", "")


def push(registry: str) -> str:
    """Push the image to a registry; return its reference by digest."""
    base = f"http://{registry}/v2/{NAME}"
    place = _send(f"{base}/blobs/uploads/")
    _send(f"{place}&digest={_digest(CONFIG)}", CONFIG, "PUT")
    config = {"mediaType": CONFIG_TYPE, "digest": _digest(CONFIG), "size": len(CONFIG)}
    about = {"schemaVersion": 2, "mediaType": MANIFEST_TYPE, "config": config, "layers": []}
    manifest = json.dumps(about).encode()
    _send(f"{base}/manifests/{_digest(manifest)}", manifest, "PUT", MANIFEST_TYPE)
    return f"{registry}/{NAME}@{_digest(manifest)}"
