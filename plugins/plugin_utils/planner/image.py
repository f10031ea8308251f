# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine's image: its reference, and which version of the engine it holds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.catalogue import Entry
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.faults import Fault

REFERENCE = re.compile(
    r"(?P<name>[a-z0-9]+([._-]+[a-z0-9]+)*(:\d+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*)"
    r"(:(?P<tag>[\w][\w.-]{0,127}))?(@(?P<digest>.*))?"
)
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
VERSION = re.compile(r"\d+(\.\d+)+")
VARIABLE = "serving_image"


@dataclass(frozen=True)
class Image:
    """`serving_image` taken apart; `row` is what the engine's catalogue entry knows of it, if anything."""

    given: str
    name: str | None
    tag: str | None
    digest: str | None
    declared: str | None  # serving_engine_version
    row: dict | None
    engine: Entry

    @classmethod
    def read(cls, reference: str | None, declared: str | None, engine: Entry) -> Image | None:
        if reference is None:
            return None
        match = REFERENCE.fullmatch(reference)
        name, tag, digest = match.group("name", "tag", "digest") if match else (None, None, None)
        name = name and full_name(name)
        rows = [
            row
            for row in engine["images"]
            if (row["digest"] == digest if digest else (row["name"], row["tag"]) == (name, tag))
        ]
        return cls(reference, name, tag, digest, declared, rows[0] if rows else None, engine)

    @property
    def reference(self) -> str:
        """What the nodes pull: the digest alone where there is one, so a tag beside it changes nothing."""
        return f"{self.name}@{self.digest}" if self.digest else f"{self.name}:{self.tag or 'latest'}"

    @property
    def version(self) -> str | None:
        return self.row["version"] if self.row else self.declared

    @property
    def comparable(self) -> str | None:
        """The version where it is one."""
        return self.version if self.version and VERSION.match(self.version) else None

    def faults(self, model: Entry | None) -> Iterator[Fault]:
        """Malformed references, contradicting or unknown versions, and versions that are too old."""
        if self.name is None:
            yield Fault(VARIABLE, self.given, "must be NAME[:TAG]@sha256:HEX", self._known())
        elif self.digest is not None and not DIGEST.fullmatch(self.digest):
            limit = "a digest is sha256: and 64 lower-case hex digits"
            yield Fault(VARIABLE, self.given, limit, self._known())
        else:
            yield from self._version_faults(model)

    def _version_faults(self, model: Entry | None) -> Iterator[Fault]:
        where = "serving_engine_version"
        if self.version is None:
            limit = "the catalogue does not know this image, so the site must say which engine it holds"
            yield Fault(where, None, limit, 'write serving_engine_version: "0.29.0", as the image reports it')
        elif not VERSION.match(self.version):
            yield Fault(where, self.version, "must be a version number", 'write it as "0.29.0"')
        elif self.row and self.declared and self.declared != self.version:
            remedy = "leave it out, or choose another image"
            yield Fault(where, self.declared, f"the image holds {self.version}", remedy)
        else:
            needed = model.get("minimum_engine_version") if model else None
            minimum = max(filter(None, (self.engine["minimum_version"], needed)), key=version_key)
            if version_key(self.version) < version_key(minimum):
                limit = f"{model.name if model else self.engine.name} needs version {minimum} or newer"
                yield Fault(VARIABLE, f"{self.given} ({self.version})", limit, self._known())

    def accelerator_fault(self, hardware: Entry, node: str) -> Fault | None:
        if self.row is None or self.row["accelerator"] == hardware["accelerator"]:
            return None
        limit = f"the site's image is for {self.row['accelerator']}, this is {hardware['accelerator']}"
        return Fault("gpu_model", hardware.name, limit, "choose an image for this hardware", node)

    def unpinned(self) -> Fault:
        look = "run playbooks/pin.yml, or append @sha256:HEX as the registry reports it"
        remedy = f"write {self._pinned(self.row)}" if self.row and self.row["digest"] else look
        return Fault(VARIABLE, self.given, "a tag may move; a deployment needs a digest", remedy)

    def _known(self) -> str:
        minimum = version_key(self.engine["minimum_version"])
        rows = [row for row in self.engine["images"] if row["digest"] and version_key(row["version"]) >= minimum]
        return f"known: {', '.join(map(self._pinned, rows))}"

    @staticmethod
    def _pinned(row: dict) -> str:
        return f"{row['name']}:{row['tag']}@{row['digest']}"


def full_name(name: str) -> str:
    """A name without a registry is Docker Hub's; podman wants that said."""
    host, _slash, rest = name.partition("/")
    if rest and (host == "localhost" or "." in host or ":" in host):
        return name
    return f"docker.io/{name}" if rest else f"docker.io/library/{name}"


def version_key(version: str) -> tuple[int, ...]:
    """0.27.1, 0.32.0+cpu and 0.1.dev19262 compare by their leading numbers."""
    return tuple(int(piece) for piece in VERSION.match(version).group().split("."))
