# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent's configuration: one JSON file, written by the `checkpoint` module."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from ..proof.faults import ConfigError
from ..proof.manifest import Manifest, read_json

COMPLETE, BAD_FILES, UNUSABLE, LOCKED, FAILED, NO_SPACE, DISK, STOPPED = range(8)


@dataclass(frozen=True)
class Config:
    """Where things are, who takes part, and how patient to be; times in seconds.

    `published` holds the whole files and nothing else; `parts` (same filesystem) what is on its way; `state` the
    manifest, stamps and status. `lock` is one per model: revisions share the place where old parts are cleaned up.
    `origins` are tried in order: {kind: hub|http, url}, {kind: http, urls_file} or {kind: drive, path}.
    `nodes`: `address:port` of all that take part, this one included; none: this node is alone and serves nobody.
    """

    published: Path
    parts: Path
    state: Path
    lock: Path
    origins: tuple[dict, ...]
    token_file: str | None = None
    ca_file: str | None = None
    proxy: str | None = None
    node: str = "this node"
    nodes: dict[str, str] = field(default_factory=dict)
    wan_nodes: tuple[str, ...] = ()
    streams: int = 3
    stall_seconds: float = 30
    floor_bytes_per_second: int = 65536
    patience_seconds: float = 900
    silence_seconds: float = 30
    linger_seconds: float = 3600
    read_back: bool = False

    @classmethod
    def from_dict(cls, data: dict) -> Config:
        """Read plain data; raise ConfigError."""
        try:
            paths = {name: Path(data[name]) for name in ("published", "parts", "state", "lock")}
            nodes = data.get("nodes") or {data.get("node", cls.node): ""}
            wan = tuple(data.get("wan_nodes") or nodes)
            known = {**data, **paths, "origins": tuple(data["origins"]), "nodes": nodes, "wan_nodes": wan}
            config = cls(**known)
        except (KeyError, TypeError) as error:
            raise ConfigError(f"not a configuration of the fetch agent: {error!r}") from error
        if config.node not in nodes or not set(wan) <= set(nodes):
            raise ConfigError(f"node {config.node!r} or one of wan_nodes {list(wan)} is not one of {list(nodes)}")
        return config

    def file(self, name: str) -> Path:
        """Where one of the agent's own files is: config, manifest, stamps, status or proved."""
        return self.state / f"{name}.json"


def place(address: str) -> tuple[str, int]:
    """(host, port) of `host:port` or `[host]:port`."""
    parts = urlsplit(f"//{address}")
    return str(parts.hostname), int(parts.port or 0)


def load(path: str) -> tuple[Config, Manifest]:
    """Read a configuration file and the manifest beside it; raise ConfigError."""
    config = Config.from_dict(read_json(Path(path)))
    return config, Manifest.from_dict(read_json(config.file("manifest")))
