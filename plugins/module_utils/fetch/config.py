# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent's configuration: one JSON file, written by the `checkpoint` module."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from .faults import ConfigError
from .manifest import Manifest


@dataclass(frozen=True)
class Config:
    """Where things are, and how patient to be.

    `published` holds the whole files and nothing else; `parts` (same filesystem) what is on its way; `state` the
    manifest, stamps and status. `lock` is one per model: revisions share the place where old parts are cleaned up.
    `origins` are base URLs of hubs, tried in order; `tries` counts those in a row that brought no byte.
    """

    published: Path
    parts: Path
    state: Path
    lock: Path
    origins: tuple[str, ...]
    token_file: str | None = None
    streams: int = 3
    stall_seconds: float = 30
    tries: int = 8

    @classmethod
    def from_dict(cls, data: dict) -> Config:
        """Read plain data; raise ConfigError."""
        try:
            paths = {name: Path(data[name]) for name in ("published", "parts", "state", "lock")}
            return cls(**{**data, **paths, "origins": tuple(data["origins"])})
        except (KeyError, TypeError) as error:
            raise ConfigError(f"not a configuration of the fetch agent: {error!r}") from error

    @property
    def config_file(self) -> Path:
        """Where this configuration is kept."""
        return self.state / "config.json"

    @property
    def manifest_file(self) -> Path:
        """The manifest that the published files must equal."""
        return self.state / "manifest.json"

    @property
    def status_file(self) -> Path:
        """What the agent does, for Ansible to read."""
        return self.state / "status.json"


def load(path: str) -> tuple[Config, Manifest]:
    """Read a configuration file and the manifest beside it; raise ConfigError."""
    config = Config.from_dict(_read(Path(path)))
    return config, Manifest.from_dict(_read(config.manifest_file))


def _read(path: Path) -> dict:
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {error}") from error
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: must hold a mapping")
    return data
