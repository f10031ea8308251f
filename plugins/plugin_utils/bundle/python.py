# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""This collection and the Python packages of a controller, so that one can be set up where no index is reached."""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ansible_collections.sovereign.kimi_k3.plugins.module_utils.proof.store import hash_file
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.bundle.checkpoint import write
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.bundle.drive import Drive
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.bundle.work import (
    Failed,
    Say,
    amount,
    follow,
    output,
    size_of,
)

COLLECTION = Path(__file__).resolve().parents[3]
# What a tarball says of its content; both hold SHA-256 of all the rest.
LISTS = ("MANIFEST.json", "FILES.json")
# C libraries that wheels are built for, newest first: those of Debian 12 and newer, Ubuntu 24.04, RHEL 9.
LIBRARIES = ("manylinux_2_34", "manylinux_2_28", "manylinux_2_17", "manylinux2014")


class Tarball:
    """The collection as `ansible-galaxy collection install` takes it."""

    name = "collection"

    def __init__(self, drive: Drive, source: Path = COLLECTION):
        self._drive, self._source = drive, source
        self.folder = drive.collection

    def is_whole(self) -> bool:
        """Whether the tarball on the drive holds what one built now would."""
        with tempfile.TemporaryDirectory() as folder:
            new = self._build(Path(folder))
            names = [path.name for path in self.folder.glob("*")]
            return names == [new.name] and _lists(self.folder / new.name) == _lists(new)

    def make(self, say: Say) -> bool:
        """Build it and put it in place."""
        with tempfile.TemporaryDirectory() as folder:
            new = self._build(Path(folder))
            part = self._drive.work / new.name
            shutil.copyfile(new, part)
            self.folder.mkdir(parents=True, exist_ok=True)
            for other in self.folder.iterdir():
                other.unlink()
            part.replace(self.folder / new.name)
        return True

    @property
    def roots(self) -> list[Path]:
        """Where its files are."""
        return [self.folder]

    def about(self) -> dict:
        """What the index says of it."""
        return {"path": str(next(self.folder.iterdir()).relative_to(self._drive.root))}

    def _build(self, folder: Path) -> Path:
        """From a checkout with galaxy's own builder, from an installed collection as it was installed."""
        if (self._source / "galaxy.yml").is_file():
            galaxy = Path(sys.executable).with_name("ansible-galaxy")
            output([galaxy, "collection", "build", "--output-path", folder, self._source])
        else:
            about = json.loads((self._source / LISTS[0]).read_bytes())["collection_info"]
            with tarfile.open(folder / "{namespace}-{name}-{version}.tar.gz".format(**about), "w:gz") as tar:
                rows = json.loads((self._source / LISTS[1]).read_bytes())["files"]
                for name in (*LISTS, *(row["name"] for row in rows if row["name"] != ".")):
                    tar.add(self._source / name, name, recursive=False)
        return next(folder.glob("*.tar.gz"))


def _lists(tarball: Path) -> list[bytes] | None:
    try:
        with tarfile.open(tarball) as tar:
            return [tar.extractfile(name).read() for name in LISTS]
    except (OSError, KeyError, tarfile.TarError):
        return None


class Wheels:
    """The packages of a requirements file and all that they need, for one version of Python and one processor."""

    name = "Python packages"

    def __init__(self, drive: Drive, requirements: Path, version: str | None = None, machine: str | None = None):
        self._drive, self._requirements = drive, requirements
        self.version = version or ".".join(platform.python_version_tuple()[:2])
        self.machine = machine or platform.machine()
        self.folder, self.lock = drive.python / "wheels", drive.python / "requirements.txt"

    @property
    def _key(self) -> str:
        wanted = f"{self.version} {self.machine} {hash_file(self._requirements)}"
        return hashlib.sha256(wanted.encode()).hexdigest()[:16]

    @property
    def _header(self) -> str:
        return f"# Python {self.version} on {self.machine}; made from {self._requirements.name}, key {self._key}\n"

    def is_whole(self) -> bool:
        """Whether the list is that of these requirements, and each wheel has the hash that it gives."""
        try:
            return self.lock.read_text(encoding="utf-8") == self._header + "".join(self._lines(self.folder))
        except OSError:
            return False

    def make(self, say: Say) -> bool:
        """Download what is missing. pip compares each file with the hash that its index gives."""
        part = self._drive.work / f"wheels-{self._key}"
        for other in self._drive.work.glob("wheels-*"):
            if other != part:
                shutil.rmtree(other)
        part.mkdir(parents=True, exist_ok=True)
        self._download(part, say)
        lines = "".join(self._lines(part))
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        part.replace(self.folder)
        write(self.lock, (self._header + lines).encode())
        return True

    def _download(self, folder: Path, say: Say) -> None:
        """Have pip bring all that the requirements want; it keeps what is there already."""
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
        target = ["--only-binary=:all:", "--implementation=cp", f"--python-version={self.version}"]
        target += [f"--platform={library}_{self.machine}" for library in LIBRARIES]
        try:
            output([*pip, "--version"])
        except Failed as error:
            raise Failed(f"{error}\n    remedy: python3 -m ensurepip, for the Python that runs Ansible") from None
        with tempfile.TemporaryDirectory() as report:
            wanted = ["--requirement", self._requirements, "--dest", folder]

            def progress() -> str:
                return f"{self.name}  {amount(size_of(folder))}"

            follow([*pip, "download", "--progress-bar=off", *target, *wanted], say, progress, folder=Path(report))

    @staticmethod
    def _lines(folder: Path) -> Iterator[str]:
        for wheel in sorted(folder.iterdir()):
            name, version = wheel.name.split("-")[:2]
            yield f"{name}=={version} --hash=sha256:{hash_file(wheel)}\n"

    @property
    def roots(self) -> list[Path]:
        """Where its files are."""
        return [self._drive.python]

    def about(self) -> dict:
        """What the index says of it."""
        place = self._drive.python.relative_to(self._drive.root)
        return {"path": str(place), "python": self.version, "machine": self.machine}
