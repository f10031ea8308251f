# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One checkpoint revision on this node: what is wanted, what is there, and the unit that closes the gap."""

from __future__ import annotations

import grp
import json
import os
import pwd
import time
from collections.abc import Iterable

from .fetch import status as statuses
from .fetch.config import Config
from .filesystem import make_folder
from .keeper import systemd
from .proof.faults import ConfigError
from .proof.manifest import Manifest, path_fault
from .proof.store import Store, write_atomically

UNIT = "kimi-k3-fetch.service"
STATE = "/var/lib/kimi-k3/checkpoint"


def settings(path: str, model: str, commit: str, state: str = STATE, **choices: object) -> dict:
    """Return the content of the agent's configuration file for one revision of one model."""
    return {
        "published": f"{path}/{model}/{commit}",
        "parts": f"{path}/{model}/.part-{commit}",
        "state": f"{state}/{model}-{commit}",
        "lock": f"{state}/{model}.lock",
        **choices,
    }


class Checkpoint:
    """A revision of a model below a root folder. Raises ConfigError where the input cannot be used."""

    def __init__(
        self,
        path: str,
        model: str,
        manifest: dict,
        origins: Iterable[dict] = (),
        user: str = "kimi-k3",
        **patience: object,
    ):
        self.manifest = Manifest.from_dict(manifest)
        if path_fault(model) or "/" in model:
            raise ConfigError(f"model {model!r}: must be a plain name")
        self._settings = settings(path, model, self.manifest.commit, origins=list(origins), **patience)
        self._user = user
        self.config = Config.from_dict(self._settings)

    def store(self) -> Store:
        """Return the files as their stamps say now."""
        return Store(self.config, self.manifest)

    def status(self) -> dict:
        """Return what the agent said last."""
        return statuses.read(self.config.file("status"))

    def wanted(self) -> dict:
        """Return the content of the files that the agent reads, by path."""
        return {
            self.config.file("config"): json.dumps(self._settings, indent=1, sort_keys=True).encode() + b"\n",
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
            rows.append(_diff(path, changes[path].decode(), self.wanted()[path].decode()))
        if missing := self.store().missing():
            names = "".join(f"{entry.path} ({entry.size} bytes)\n" for entry in missing)
            rows.append(_diff(self.config.published, "", names))
        return rows

    def prepare(self) -> None:
        """Make the folders for the agent's user and write what it reads."""
        try:
            owner, group = pwd.getpwnam(self._user).pw_uid, grp.getgrnam(self._user).gr_gid
        except KeyError:
            raise ConfigError(f"user {self._user}: no such user; remedy: run playbooks/prepare.yml first") from None
        for folder in (self.config.state.parent, self.config.state, self.config.published.parent):
            if folder.is_symlink():
                raise ConfigError(f"{folder} is a symbolic link; remedy: remove it")
            make_folder(folder)
            os.chown(folder, owner, group, follow_symlinks=False)
        for file in self.changes():
            write_atomically(file, self.wanted()[file])

    def start(self, again: bool) -> None:
        """Have the unit fetch this revision; leave one alone that does so already, unless `again`."""
        state = systemd.show(UNIT)
        ours = f"--config={self.config.file('config')}"
        at_work = _is_coming(state) or ours in systemd.command_of(state)
        if again or not at_work:
            self.config.file("status").unlink(missing_ok=True)
            systemd.run(["systemctl", "daemon-reload"])
            systemd.run(["systemctl", "enable", "--quiet", "--", UNIT])
            systemd.run(["systemctl", "reset-failed", "--", UNIT], check=False)
            systemd.run(["systemctl", "restart", "--", UNIT])

    def failure(self) -> str:
        """Return one message: what the agent said of each file, or systemd where it said nothing."""
        status = self.status()
        rows = [
            "{file}: expected {expected}; found {found}; remedy: {remedy}".format(**row)
            for row in status.get("faults", [])
        ]
        if not rows:
            lines = systemd.last_lines(UNIT, 5) or ["no line in its log"]
            return f"{UNIT} ended ({systemd.ending(systemd.show(UNIT))}) and files are missing: {' | '.join(lines)}"
        left = len(self.store().missing()) - len(rows)
        more = [f"missing besides: {left} of {len(self.manifest.files)} files"] if left > 0 else []
        return "the checkpoint is not whole:\n" + "\n".join(f"  - {line}" for line in rows + more)


def _diff(path: object, before: str, after: str) -> dict:
    return {"before_header": str(path), "after_header": str(path), "before": before, "after": after}


def _is_coming(state: dict) -> bool:
    """Whether systemd is about to run the unit: it starts it, or waits before it starts it again."""
    return state.get("ActiveState") == "activating"


def wait(seconds: float) -> bool:
    """Wait until the unit ended; return whether it did."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        state = systemd.show(UNIT)
        if systemd.phase(state) != "up" and not _is_coming(state):
            return True
        time.sleep(0.3)
    return False
