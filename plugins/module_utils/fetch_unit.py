# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The systemd unit that runs the fetch agent: whether it is at work on a checkpoint, and what its present run says."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator

from .checkpoint import Checkpoint
from .keeper import systemd
from .proof.manifest import Entry

UNIT = "kimi-k3-fetch.service"
_LOOK_SECONDS = 0.3


class FetchUnit:
    """The agent of one checkpoint. It may say that it is done and still run, to serve the other nodes."""

    def __init__(self, checkpoint: Checkpoint):
        self._checkpoint = checkpoint

    def word(self) -> str:
        """Return `running`, `complete` or `failed`: what the present run says, or the files where none is at work."""
        state = systemd.show(UNIT)
        if self._runs(state):
            status = self._checkpoint.status()
            of_this_run = str(status.get("pid")) == state.get("MainPID")
            said = status.get("state") if of_this_run and self._is_ours(status) else None
            if said not in ("complete", "failed"):
                return "running"
            return "complete" if said == "complete" and self._checkpoint.is_whole() else "failed"
        if _is_coming(state):
            return "running"
        return "complete" if self._checkpoint.is_whole() else "failed"

    def _runs(self, state: dict) -> bool:
        return f"--config={self._checkpoint.config.file('config')}" in systemd.command_of(state)

    def _is_ours(self, status: dict) -> bool:
        return status.get("manifest_digest") == self._checkpoint.manifest.digest

    def start(self, again: bool = False) -> bool:
        """Have the agent work on this checkpoint; leave one alone that does so already, unless `again`.

        One that failed is started anew, though it may still run: whoever starts it has seen to the cause. Returns
        whether it was started.
        """
        with self._alone():
            state = systemd.show(UNIT)
            at_work = self._runs(state) or _is_coming(state)
            needed = again or not at_work or state.get("NeedDaemonReload") == "yes" or self.word() == "failed"
            if needed:
                self._checkpoint.config.file("status").unlink(missing_ok=True)
                systemd.run(["systemctl", "daemon-reload"])
                systemd.run(["systemctl", "enable", "--quiet", "--", UNIT])
                systemd.run(["systemctl", "reset-failed", "--", UNIT], check=False)
                systemd.run(["systemctl", "restart", "--", UNIT])
            return needed

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Two runs that start the agent take turns: the second finds it at work."""
        folder = os.open(self._checkpoint.config.state, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def wait(self, seconds: float) -> str:
        """Wait until the agent's word is another than `running`, or the time is over; return it."""
        deadline = time.monotonic() + seconds
        while (word := self.word()) == "running" and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)
        return word

    def failure(self) -> str:
        """Return one message: what the agent said of each file, or systemd where it said nothing."""
        status = self._checkpoint.status()
        faults = status.get("faults", []) if self._is_ours(status) else []
        missing, total = self._checkpoint.store().missing(), len(self._checkpoint.manifest.files)
        if self._checkpoint.reads_only:
            faults = [self._of_the_writer(entry) for entry in missing]
        rows = ["{file}: expected {expected}; found {found}; remedy: {remedy}".format(**row) for row in faults]
        if not rows:
            lines = systemd.last_lines(UNIT, 5) or ["no line in its log"]
            lack = f"{len(missing)} of {total} files are missing" if missing else "the files were not read back"
            return f"{UNIT} ended ({systemd.ending(systemd.show(UNIT))}) and {lack}: {' | '.join(lines)}"
        left = len(missing) - len(rows)
        more = [f"missing besides: {left} of {total} files"] if left > 0 else []
        return "the checkpoint is not whole:\n" + "\n".join(f"  - {line}" for line in rows + more)

    def _of_the_writer(self, entry: Entry) -> dict:
        place = self._checkpoint.config.published
        found = "other bytes" if (place / entry.path).is_file() else f"no such file in {place}"
        remedy = "see that this is the filesystem that the writing node has, and run playbooks/checkpoint.yml again"
        expected = f"{entry.size} bytes with SHA-256 {entry.sha256}, as another node wrote it"
        return {"file": entry.path, "expected": expected, "found": found, "remedy": remedy}


def _is_coming(state: dict) -> bool:
    """Whether systemd is about to run the unit: it stops or starts it, waits before the next try, or the host boots."""
    if state.get("ActiveState") in ("activating", "deactivating", "reloading"):
        return True
    job = systemd.run(["systemctl", "show", "--property=Job", "--value", "--", UNIT], check=False)
    if job.strip() not in ("", "0"):
        return True
    return systemd.run(["systemctl", "is-system-running"], check=False).strip() == "stopping"
