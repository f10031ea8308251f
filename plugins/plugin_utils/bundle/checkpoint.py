# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checkpoint on the drive: fetched by the agent that nodes run, with its resume and its proof."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ansible_collections.sovereign.kimi_k3.plugins.module_utils.checkpoint import Checkpoint
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.proof.store import write_atomically
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.bundle.drive import Drive
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.bundle.work import SHOW_SECONDS, Failed, Say, tied
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.progress import progress_line
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.reach import Access

PIPES = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
AGENT = Path(__file__).parents[2] / "module_utils" / "fetch"


class OnDrive:
    """One revision of a model on a drive. Raises ConfigError where the input cannot be used."""

    name = "checkpoint"

    def __init__(self, drive: Drive, model: str, manifest: dict, origins: list[dict], access: Access | None = None):
        self.model, self._drive = model, drive
        organisation, _, name = str(manifest["repo"]).partition("/")
        place, state = drive.checkpoints / organisation, drive.work / "checkpoint"
        access = access or Access()
        way = {"token_file": access.token_file, "ca_file": access.ca_file, "proxy": access.proxy_url()}
        self._checkpoint = Checkpoint(str(place), name, manifest, origins, state=str(state), **way)
        self.manifest, self.folder = self._checkpoint.manifest, self._checkpoint.config.published

    @property
    def manifest_file(self) -> Path:
        """The manifest in the bytes that its digest is taken over, beside the folder that it describes."""
        return self.folder.with_name(f"{self.folder.name}.json")

    def missing(self) -> tuple[list[str], int]:
        """(the files that are not there or not proved, the bytes that are still to come)."""
        store = self._checkpoint.store()
        missing = store.missing()
        return [entry.path for entry in missing], sum(map(store.bytes_to_fetch, missing))

    def is_whole(self) -> bool:
        """Whether every file is there and proved, by its stamp."""
        return not self.missing()[0] and _holds(self.manifest_file, self.manifest.canonical())

    def make(self, say: Say) -> bool:
        """Make it whole; return whether a byte came. A run that was ended goes on where it was."""
        fetched = self._fetch(say) if self.missing()[0] else 0
        return write(self.manifest_file, self.manifest.canonical()) or fetched > 0

    def _fetch(self, say: Say) -> int:
        """Everything that this collection's agent wants of its caller stands here."""
        config = self._checkpoint.config
        config.state.mkdir(parents=True, exist_ok=True)
        for file, data in self._checkpoint.wanted().items():
            write_atomically(file, data)
        config.file("status").unlink(missing_ok=True)
        argv = [sys.executable, "-I", str(AGENT), "fetch", "--config", str(config.file("config"))]
        try:
            with subprocess.Popen(tied(argv), **PIPES) as agent:
                said = self._watch(agent, say)
        finally:
            config.file("config").unlink(missing_ok=True)  # a drive is carried about: no proxy's password goes with it
        if agent.returncode:
            faults = self._checkpoint.status().get("faults", [])
            rows = ["{file}: expected {expected}; found {found}; remedy: {remedy}".format(**fault) for fault in faults]
            raise Failed("the checkpoint is not whole:\n" + "\n".join(f"    {line}" for line in rows or said[-5:]))
        return self._checkpoint.status().get("bytes_fetched", 0)

    def _watch(self, agent: subprocess.Popen, say: Say) -> list[str]:
        try:
            while True:
                try:
                    out, _ = agent.communicate(timeout=SHOW_SECONDS)
                    return out.decode(errors="replace").splitlines()
                except subprocess.TimeoutExpired:
                    say(progress_line("checkpoint", self._checkpoint.status()))
        finally:
            agent.terminate()

    @property
    def roots(self) -> list[Path]:
        """Where its files are."""
        return [self.folder, self.manifest_file]

    def about(self) -> dict:
        """What the index says of it."""
        licence = next((entry.path for entry in self.manifest.files if entry.path.upper().startswith("LICEN")), None)
        return {
            "model": self.model,
            "repo": self.manifest.repo,
            "commit": self.manifest.commit,
            "path": str(self.folder.relative_to(self._drive.root)),
            "manifest": str(self.manifest_file.relative_to(self._drive.root)),
            "manifest_digest": self.manifest.digest,
            "licence": licence,
        }

    def known(self) -> dict[Path, str]:
        """{file: SHA-256} of what was proved already."""
        return {self.folder / entry.path: entry.sha256 for entry in self.manifest.files}


def _holds(path: Path, data: bytes) -> bool:
    return path.is_file() and path.read_bytes() == data


def write(path: Path, data: bytes) -> bool:
    """Give a file its content; return whether it had another."""
    if _holds(path, data):
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, data)
    return True
