# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One checkpoint revision on this node: what is wanted, what is there, and what the agent needs to close the gap."""

from __future__ import annotations

import grp
import json
import os
import pwd
import re
from collections.abc import Iterable
from pathlib import Path

from . import revisions
from .fetch import status as statuses
from .fetch.config import Config
from .filesystem import make_folder
from .proof.faults import ConfigError
from .proof.manifest import Entry, Manifest, path_fault
from .proof.store import Store, write_atomically
from .revisions import STATE, settings
from .service_user import as_user

# What an origin of each kind must say, one of these.
KINDS = {"hub": ("url",), "http": ("url", "urls_file"), "drive": ("path",)}
# Where the role puts what only the agent may read.
SECRETS = "/etc/kimi-k3/checkpoint"


class Checkpoint:
    """A revision of a model below a root folder. Raises ConfigError where the input cannot be used.

    With `reads_only` another node writes the files, to a filesystem that both see; this one proves them.
    """

    def __init__(
        self,
        path: str,
        model: str,
        manifest: dict,
        origins: Iterable[dict] = (),
        user: str = "kimi-k3",
        reads_only: bool = False,
        **choices: object,
    ):
        self.manifest = Manifest.from_dict(manifest)
        if path_fault(model) or "/" in model:
            raise ConfigError(f"model {model!r}: must be a plain name")
        if faults := [origin_fault(origin) for origin in origins if origin_fault(origin)]:
            raise ConfigError("; ".join(faults))
        if reads_only:
            # Nothing that it does may reach the shared files, and nothing that is missing will come by waiting.
            origins, choices = (), {**choices, "nodes": {}, "wan_nodes": [], "read_back": False, "patience_seconds": 1}
        self.reads_only, self.user = reads_only, user
        place = {"state": choices.pop("state", STATE), "reads_only": reads_only}
        self._settings = settings(path, model, self.manifest.commit, **place, origins=list(origins), **choices)
        self.config = Config.from_dict(self._settings)

    def store(self) -> Store:
        """Return the files as their stamps say now."""
        return Store(self.config, self.manifest)

    def status(self) -> dict:
        """Return what the agent said last."""
        return statuses.read(self.config.file("status"))

    def digest_on_node(self) -> str:
        """Return the digest of the manifest that the agent of this node works by; empty where it has none."""
        try:
            return Manifest.from_dict(json.loads(self.config.file("manifest").read_bytes())).digest
        except (OSError, ValueError):  # ConfigError is a ValueError
            return ""

    def is_proved(self) -> bool:
        """Whether every file was read back from the disk, where that is wanted."""
        return not self.config.read_back or self.store().is_proved()

    def prove_again(self) -> bool:
        """Have the agent read everything once more; return whether that needs a new start."""
        proof = self.config.file("stamps" if self.reads_only else "proved")
        was_proved = proof.exists() and self.is_whole()
        proof.unlink(missing_ok=True)
        return was_proved

    def is_whole(self) -> bool:
        """Whether every file is there and proved, as its stamp says."""
        return not self.store().missing() and self.is_proved()

    def missing(self) -> tuple[list[Entry], int]:
        """(files without a valid stamp, bytes of them that are not on this node yet, in an older revision either)."""
        store = self.store()
        missing, adoptable = store.missing(), {} if self.reads_only else revisions.adoptable(store)
        return missing, sum(store.bytes_to_fetch(entry) for entry in missing if entry.path not in adoptable)

    def wanted(self) -> dict:
        """Return the content of the files that the agent reads, by path."""
        return {
            self.config.file("config"): json.dumps(self._settings, indent=1).encode() + b"\n",
            self.config.file("manifest"): self.manifest.canonical(),
        }

    def changes(self) -> dict:
        """Return what those files hold now that are not as wanted, by path."""
        present = {path: path.read_bytes() if path.is_file() else b"" for path in self.wanted()}
        return {path: present[path] for path, data in self.wanted().items() if present[path] != data}

    def diff(self) -> list[dict]:
        """Return what would be written and fetched, as Ansible shows it."""
        rows = []
        if (path := self.config.file("config")) in (changes := self.changes()):
            rows.append(_diff(path, _hidden(changes[path].decode()), _hidden(self.wanted()[path].decode())))
        if missing := self.store().missing():
            names = "".join(f"{entry.path} ({entry.size} bytes)\n" for entry in missing)
            rows.append(_diff(self.config.published, "", names))
        return rows

    def prepare(self) -> list[str]:
        """Make the folders for the agent's user, write what it reads, take over what an older revision has of it."""
        try:
            owner, group = pwd.getpwnam(self.user).pw_uid, grp.getgrnam(self.user).gr_gid
        except KeyError:
            raise ConfigError(f"user {self.user}: no such user; remedy: run playbooks/prepare.yml first") from None
        shared = [] if self.reads_only else [self.config.published.parent]
        for folder in (self.config.state.parent, self.config.state, *shared):
            if folder.is_symlink():
                raise ConfigError(f"{folder} is a symbolic link; remedy: remove it")
            make_folder(folder)
            _give(folder, owner, group)
        if _hidden(text := self.wanted()[self.config.file("config")].decode()) != text:
            self.config.state.chmod(0o750)  # what is written there is otherwise for all to read
        for file in self.changes():
            write_atomically(file, self.wanted()[file])
        return [] if self.reads_only else as_user(self.user, revisions.adopt, self.store())


def origin_fault(origin: dict) -> str | None:
    """Say why an origin cannot be used, or None."""
    if [name for name in KINDS.get(origin.get("kind"), ()) if origin.get(name)]:
        return None
    known = ", ".join(f"{{kind: {kind}, {' or '.join(names)}}}" for kind, names in KINDS.items())
    return f"origin {json.dumps(origin)}: expected one of {known}"


def on_node(origins: list[dict]) -> list[dict]:
    """Return origins with the files of the controller that they name where the role puts them on a node."""
    return [
        {**origin, "urls_file": f"{SECRETS}/urls-{number}.json"} if origin.get("urls_file") else origin
        for number, origin in enumerate(origins)
    ]


def _give(folder: Path, owner: int, group: int) -> None:
    found = folder.stat()
    if (found.st_uid, found.st_gid) == (owner, group):
        return
    try:
        os.chown(folder, owner, group, follow_symlinks=False)
    except PermissionError:  # an NFS server that squashes root
        if found.st_uid != owner:
            remedy = f"have its server give it to {owner}:{group}, as root may not here"
            raise ConfigError(f"{folder}: expected owner {owner}; found {found.st_uid}; remedy: {remedy}") from None


def _hidden(text: str) -> str:
    """Return a configuration without the parts of its URLs that give access: a password, a signature."""
    return re.sub(r'://[^/"@]*@', "://...@", re.sub(r'(://[^"?]*\?)[^"]*', r"\1...", text))


def _diff(path: object, before: str, after: str) -> dict:
    return {"before_header": str(path), "after_header": str(path), "before": before, "after": after}
