# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The distribution's packages that the roles install, with all that these need, as a small signed repository.

apt finds and downloads them as a host without a single package would, for the nodes' distribution and not for that of
this machine, and proves them by the distribution's own key. reprepro makes the repository. It is signed with a key that
is made for it and thrown away at once, so nobody can sign another one in its name; nodes get the public half over ssh.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.bundle.drive import Drive, row
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.bundle.images import PROCESSORS
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.bundle.work import (
    Failed,
    Say,
    amount,
    follow,
    output,
    size_of,
)

ROLES = Path(__file__).parents[3] / "roles"
# Ansible needs the first on each host; the second and third make a controller of one.
ALWAYS = ("python3-apt", "python3-venv", "openssh-client")
KEY = "archive-key.asc"


@dataclass(frozen=True)
class Release:
    """A distribution's release: where its packages come from and whose key proves them."""

    suite: str
    keyring: str
    sources: tuple[str, ...]


DEBIAN = "/usr/share/keyrings/debian-archive-keyring.gpg"
UBUNTU = "/usr/share/keyrings/ubuntu-archive-keyring.gpg"
RELEASES = {
    "debian-12": Release(
        "bookworm",
        DEBIAN,
        (
            "http://deb.debian.org/debian bookworm main",
            "http://deb.debian.org/debian-security bookworm-security main",
        ),
    ),
    "debian-13": Release(
        "trixie",
        DEBIAN,
        ("http://deb.debian.org/debian trixie main", "http://deb.debian.org/debian-security trixie-security main"),
    ),
    "ubuntu-24": Release(
        "noble",
        UBUNTU,
        (
            "http://archive.ubuntu.com/ubuntu noble main universe",
            "http://archive.ubuntu.com/ubuntu noble-updates main universe",
            "http://security.ubuntu.com/ubuntu noble-security main universe",
        ),
    ),
}


def names(platform: str, roles: Path = ROLES) -> list[str]:
    """The packages that the roles install on a platform: every list `__<role>_packages` of their vars."""
    file = "{}_{}.yml".format(*platform.capitalize().split("-"))
    found = set(ALWAYS)
    for path in roles.glob(f"*/vars/{file}"):
        content = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        found.update(*(value for name, value in content.items() if name.endswith("_packages")))
    return sorted(found)


def platform_faults(platforms: Sequence[str] | None) -> Iterator[dict]:
    """Yield what is wrong with the platforms that the site names, and what this machine lacks for them."""
    where, example = "bundle_platforms", "write bundle_platforms: [debian-13]"
    if platforms is None:
        limit = f"the platforms of the site's hosts, of {', '.join(RELEASES)}"
        yield row("missing", limit, f"{example}, or [] where hosts have package sources of their own", where)
    for platform in platforms or []:
        if platform not in RELEASES:
            limit = f"one of {', '.join(RELEASES)}"
            yield row(platform, limit, "leave it out: its hosts need a package mirror of their own", where)
        elif not os.path.exists(RELEASES[platform].keyring):
            keyring = RELEASES[platform].keyring
            package = "debian-archive-keyring" if keyring == DEBIAN else "ubuntu-keyring"
            yield row(f"{keyring} is missing", "the key of that distribution", f"apt install {package}", where)


@dataclass(frozen=True)
class Repository:
    """The packages for one platform, for one or more processors."""

    drive: Drive
    platform: str
    architectures: Sequence[str]
    sources: Sequence[str] = ()
    packages: Sequence[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"packages for {self.platform}"

    @property
    def folder(self) -> Path:
        """Where the repository lies on the drive."""
        return self.drive.packages / self.platform

    @property
    def release(self) -> Release:
        return RELEASES[self.platform]

    def is_whole(self) -> bool:
        """Whether the repository holds just what the distribution has now."""
        wanted: set[str] = set()
        for architecture in self.architectures:
            with self._apt(architecture) as settings:
                wanted |= self._wanted(settings)
        return {path.name for path in self.folder.glob("pool/**/*.deb")} == {_in_pool(name) for name in wanted}

    def make(self, say: Say) -> bool:
        """Download what is missing and make the repository anew."""
        archives = self.drive.work / "archives" / self.platform
        (archives / "partial").mkdir(parents=True, exist_ok=True)
        wanted: set[str] = set()

        def progress() -> str:
            return f"{self.name}  {amount(size_of(archives))}"

        for architecture in self.architectures:
            with self._apt(architecture) as settings:
                wanted |= self._wanted(settings)
                place = f"Dir::Cache::Archives={archives}/"
                follow(["apt-get", "--download-only", "-o", place, *self._install], say, progress, settings)
        for path in archives.glob("*.deb"):
            if path.name not in wanted:
                path.unlink()
        self._publish(sorted(archives.glob("*.deb")))
        return True

    @property
    def roots(self) -> list[Path]:
        """Where its files are."""
        return [self.folder]

    @property
    def _install(self) -> list[str]:
        return ["install", "--yes", "--no-install-recommends", *(self.packages or names(self.platform))]

    def _wanted(self, settings: dict[str, str]) -> set[str]:
        """Names of all files that a host without a single package would need."""
        lines = output(["apt-get", "--print-uris", *self._install], settings).splitlines()
        return {line.split()[1] for line in lines if line.startswith("'")}

    @contextlib.contextmanager
    def _apt(self, architecture: str) -> Iterator[dict[str, str]]:
        """The environment for an apt of that processor, which knows the distribution's packages of this minute."""
        with tempfile.TemporaryDirectory(prefix="kimi-k3-apt-") as folder:
            processor = PROCESSORS.get(architecture, architecture)
            settings = {"APT_CONFIG": str(self._configure(Path(folder), processor))}
            output(["apt-get", "update", "--error-on=any"], settings)
            yield settings

    def _configure(self, folder: Path, processor: str) -> Path:
        """An apt that knows nothing of this machine: no package is installed, no source is set up."""
        for name in ("lists/partial", "archives/partial", "parts"):
            (folder / name).mkdir(parents=True)
        (folder / "status").touch()
        signed = f"arch={processor} signed-by={self.release.keyring}"
        lines = [source if source.startswith("deb ") else f"deb [{signed}] {source}" for source in self._sources]
        (folder / "sources.list").write_text("\n".join(lines) + "\n", encoding="utf-8")
        values = {
            "Dir::Etc::Main": "/dev/null",
            "Dir::Etc::Parts": f"{folder}/parts",
            "Dir::Etc::PreferencesParts": f"{folder}/parts",
            "Dir::Etc::SourceList": f"{folder}/sources.list",
            "Dir::Etc::SourceParts": f"{folder}/parts",
            "Dir::State::Lists": f"{folder}/lists",
            "Dir::State::Status": f"{folder}/status",
            "Dir::Cache": str(folder),
            "APT::Architecture": processor,
            "APT::Architectures": processor,
            "APT::Sandbox::User": "",
            "Acquire::Languages": "none",
            "Acquire::Retries": "5",
            "Debug::NoLocking": "true",
        }
        file = folder / "apt.conf"
        file.write_text("".join(f'{name} "{value}";\n' for name, value in values.items()), encoding="utf-8")
        return file

    @property
    def _sources(self) -> Sequence[str]:
        return self.sources or self.release.sources

    def _publish(self, debs: Iterable[Path]) -> None:
        """Make the repository beside the old one and put it in its place."""
        new = self.drive.work / "repository"
        shutil.rmtree(new, ignore_errors=True)
        # Short, and on a filesystem of this machine: gpg keeps sockets there.
        with tempfile.TemporaryDirectory(prefix="kimi-k3-") as home:
            conf = Path(home) / "conf"
            conf.mkdir()
            settings = {"GNUPGHOME": home}
            key = _make_key(settings)
            processors = " ".join(PROCESSORS.get(name, name) for name in self.architectures)
            (conf / "distributions").write_text(
                f"Codename: {self.release.suite}\nArchitectures: {processors}\nComponents: main\n"
                f"Description: packages that sovereign.kimi_k3 installs\nSignWith: {key}\n",
                encoding="utf-8",
            )
            reprepro = ["reprepro", "--silent", f"--confdir={conf}", f"--dbdir={home}/db", f"--outdir={new}"]
            try:
                output([*reprepro, "includedeb", self.release.suite, *debs], settings)
                public = output(["gpg", "--batch", "--armor", "--export", key], settings)
            finally:
                output(["gpgconf", "--kill", "all"], settings)
        (new / KEY).write_text(public, encoding="ascii")
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        new.replace(self.folder)

    def about(self) -> dict:
        """What the index says of it."""
        return {
            "platform": self.platform,
            "suite": self.release.suite,
            "path": str(self.folder.relative_to(self.drive.root)),
            "key_file": KEY,
            "architectures": [PROCESSORS.get(name, name) for name in self.architectures],
        }


def _make_key(settings: dict[str, str]) -> str:
    """A signing key in the keyring that `settings` name; returns its fingerprint."""
    identity = "sovereign.kimi_k3 bundle"
    gpg = ["gpg", "--batch", "--quiet", "--with-colons"]
    output([*gpg, "--passphrase", "", "--quick-generate-key", identity, "ed25519", "sign", "never"], settings)
    listing = output([*gpg, "--list-keys", identity], settings)
    try:
        return next(line.split(":")[9] for line in listing.splitlines() if line.startswith("fpr:"))
    except StopIteration:
        raise Failed(f"gpg made no key: {listing}; remedy: see whether gpg --quick-generate-key works here") from None


def _in_pool(name: str) -> str:
    """The name that reprepro gives a file of apt's: without the epoch of its version."""
    package, version, rest = name.split("_")
    return f"{package}_{version.partition('%3a')[2] or version}_{rest}"
