# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One run of the agent: every file of the manifest, a few at a time, largest first."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import queue
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .config import Config
from .faults import AlreadyRunning, Fault, FileFailed, OriginsLost, Stopped
from .origin import Origin
from .status import Status
from .store import Store
from .transfer import Transfer

COMPLETE, BAD_FILES, UNUSABLE, LOCKED, FAILED, NO_SPACE, DISK, STOPPED = range(8)
_OUT_OF_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_GRACE_SECONDS = 2


class Agent:
    """Fetches one checkpoint revision; `run` returns the exit code."""

    def __init__(self, config: Config):
        self._config = config
        manifest = config.manifest()
        self._store = Store(config, manifest)
        self._status = Status(config.status_file, manifest)
        self._stop = threading.Event()
        self._ends: set[int] = set()
        self._work: queue.SimpleQueue = queue.SimpleQueue()
        for entry in sorted(manifest.files, key=lambda entry: -entry.size):
            self._work.put(entry)
        origins = [
            Origin(url, manifest.repo, manifest.commit, config.token_file, config.stall_seconds)
            for url in config.origins
        ]
        self._transfer = Transfer(self._store, origins, self._status, self._stop)

    def run(self) -> int:
        """Make all files whole, writing the status each second."""
        for folder in (self._config.published, self._config.parts):
            folder.mkdir(parents=True, exist_ok=True)
        orphans = self._store.remove_orphans()
        self._status.write(orphans_removed=orphans, unknown_files=self._store.unknown_files())
        # Daemons: a thread that waits for a dead source must not keep a stopped agent alive.
        threads = [threading.Thread(target=self._fetch_files, daemon=True) for _ in range(self._config.streams)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads) and not self._stop.is_set():
            self._stop.wait(0.05 if self._work.empty() else 0.5)
            self._status.write()
        deadline = time.monotonic() + _GRACE_SECONDS
        for thread in threads:
            thread.join(max(0, deadline - time.monotonic()))
        return self._finish()

    def _finish(self) -> int:
        code = max(self._ends, default=COMPLETE)
        if code == COMPLETE:
            self._store.remove_parts()
        self._status.write(state={COMPLETE: "complete", STOPPED: "stopped"}.get(code, "failed"), exit_code=code)
        return code

    def stop(self, *_: object) -> None:
        """End soon, keeping all parts: the handler of SIGTERM and SIGINT."""
        self._end_with(STOPPED)

    def _end_with(self, code: int) -> None:
        self._ends.add(code)
        self._stop.set()

    def _fetch_files(self) -> None:
        with contextlib.suppress(queue.Empty, Stopped):
            while not self._stop.is_set():
                self._fetch_file(self._work.get_nowait())

    def _fetch_file(self, entry) -> None:
        try:
            self._transfer.make_whole(entry)
        except FileFailed as error:
            self._ends.add(FAILED)
            self._fail(entry, error.fault)
            if isinstance(error, OriginsLost):
                self._stop.set()
        except OSError as error:
            space = error.errno in _OUT_OF_SPACE
            remedy = "free space there and run again: what is fetched is kept" if space else "mend the filesystem"
            found = f"{error.strerror} at {error.filename or self._config.parts}"
            self._fail(entry, Fault(entry.path, f"{entry.size} bytes", found, remedy))
            self._end_with(NO_SPACE if space else DISK)

    def _fail(self, entry, fault: Fault) -> None:
        self._status.file(entry, "failed")
        self._status.fail(fault)


def fetch(config: Config) -> int:
    """Run the agent, alone on this node for this model; return its exit code."""
    with _alone(config):
        agent = Agent(config)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, agent.stop)
        return agent.run()


def verify(store: Store, full: bool) -> list[Fault]:
    """Compare every published file with the manifest, by stamp or in full; return the faults."""
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        found = pool.map(lambda entry: store.check(entry, hash_always=full), store.manifest.files)
        return [fault for fault in found if fault]


@contextlib.contextmanager
def _alone(config: Config) -> Iterator[None]:
    with open(config.lock, "a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise AlreadyRunning(f"{config.lock} is held by {file.read() or 'another run'}") from None
        file.truncate(0)
        file.write(json.dumps({"pid": os.getpid(), "since": int(time.time()), "fetches": str(config.published)}))
        file.flush()
        yield


def lock_holder(lock: Path) -> str:
    """Return what the last run wrote into its lock file."""
    with contextlib.suppress(OSError):
        return lock.read_text(encoding="utf-8")
    return ""
