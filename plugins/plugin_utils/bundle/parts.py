# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of one bundle: what it shall hold, whether the drive can take it, and its index."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.bundle import (
    checkpoint,
    drive,
    images,
    index,
    packages,
    python,
)
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.bundle.work import Failed, Say
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.reach import Access

# What wheels and packages of the distribution take, generously, where they are not there yet.
ALLOWANCE_BYTES = {"python": 500_000_000, "packages": 500_000_000}
PROGRAMS = {"images": ["skopeo"], "packages": ["apt-get", "reprepro", "gpg"]}


class Part(Protocol):
    """One thing on the drive."""

    name: str
    roots: list[Path]

    def is_whole(self) -> bool:
        """Whether nothing of it is to do."""

    def make(self, say: Say) -> bool:
        """Make it whole; return whether that changed anything. Raises Failed."""

    def about(self) -> dict:
        """What the index says of it."""


@dataclass(frozen=True)
class Wanted:
    """What a bundle shall hold, as modules/bundle.py describes it."""

    path: str
    model: str
    manifest: dict
    origins: list[dict]
    images: list[str]
    access: Mapping[str, str | None] = field(default_factory=dict)
    insecure_registries: list[str] = field(default_factory=list)
    architectures: list[str] = field(default_factory=list)
    platforms: list[str] | None = None
    package_sources: Mapping[str, list[str]] = field(default_factory=dict)
    requirements: str | None = None
    python_version: str | None = None
    python_machine: str | None = None
    mount_required: bool = True


class Bundle:
    """The parts by name, each a list: `checkpoint`, `images`, `collection`, `python`, `packages`."""

    def __init__(self, wanted: Wanted):
        self.wanted, self.drive = wanted, drive.Drive(Path(wanted.path))

    @cached_property
    def parts(self) -> Mapping[str, list[Part]]:
        """All parts in the order in which they are made."""
        wanted, place = self.wanted, self.drive
        requirements = Path(wanted.requirements or python.COLLECTION / "requirements.txt")
        return {
            "checkpoint": [
                checkpoint.OnDrive(place, wanted.model, wanted.manifest, wanted.origins, Access(**wanted.access))
            ],
            "images": [images.OnDrive(place, image, wanted.insecure_registries) for image in wanted.images],
            "collection": [python.Tarball(place)],
            "python": [python.Wheels(place, requirements, wanted.python_version, wanted.python_machine)],
            "packages": [
                packages.Repository(place, name, wanted.architectures, wanted.package_sources.get(name, ()))
                for name in wanted.platforms or []
            ],
        }

    def faults(self) -> list[dict]:
        """Everything that forbids filling the drive, read before a byte is written."""
        largest = max((entry["size"] for entry in self.wanted.manifest["files"]), default=0)
        rows = list(drive.place_faults(self.wanted.path, self.wanted.mount_required, largest))
        rows += [*packages.platform_faults(self.wanted.platforms), *self._program_faults()]
        if rows:
            return rows
        for image in self.parts["images"]:
            try:
                rows += image.processor_faults(self.wanted.architectures)
            except Failed as error:
                remedy = "see to the registry and the route to it; behind a login: skopeo login"
                rows.append(drive.row(str(error), f"a registry that gives {image.reference}", remedy, "serving_image"))
        return rows or list(drive.space_faults(self.wanted.path, self.missing()))

    def _program_faults(self) -> Iterator[dict]:
        used = ["images", *(["packages"] if self.wanted.platforms else [])]
        for name in (program for part in used for program in PROGRAMS[part]):
            if not shutil.which(name):
                package = {"apt-get": "apt", "gpg": "gnupg"}.get(name, name)
                yield drive.row(f"{name} is missing here", "installed", f"apt install {package}", "this machine")

    def missing(self) -> dict[str, int]:
        """{part: bytes that are still to come}; of wheels and packages the most that they may be."""
        found = {part.name: part.missing()[1] for kind in ("checkpoint", "images") for part in self.parts[kind]}
        for kind, size in ALLOWANCE_BYTES.items():
            found |= {part.name: size for part in self.parts[kind] if not all(root.exists() for root in part.roots)}
        return found

    @property
    def roots(self) -> list[Path]:
        """Where the files of all parts are."""
        return [root for parts in self.parts.values() for part in parts for root in part.roots]

    def index(self) -> bytes:
        """The index of what is on the drive now."""
        kept = {kind: [part.about() for part in parts] for kind, parts in self.parts.items()}
        about = {**kept, **{kind: kept[kind][0] for kind in ("checkpoint", "collection", "python")}}
        known: dict[Path, str] = {}
        for part in (*self.parts["checkpoint"], *self.parts["images"]):
            known |= part.known()
        return index.index(self.drive, about, known, self.roots)
