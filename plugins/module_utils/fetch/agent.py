# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One run of the agent: every file of the manifest, a few at a time, largest first."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import queue
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from .config import Config
from .faults import AlreadyRunning, Fault, FileFailed, Stopped
from .manifest import Entry, Manifest
from .origin import Origin
from .status import STATUS_SECONDS, Status
from .store import Store
from .transfer import Transfer

COMPLETE, BAD_FILES, UNUSABLE, LOCKED, FAILED, NO_SPACE, DISK, STOPPED = range(8)
_OUT_OF_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_GRACE_SECONDS = 2


class Agent:
    """Fetches one checkpoint revision; `run` returns the exit code."""

    def __init__(self, config: Config, manifest: Manifest):
        self._config, self._store = config, Store(config, manifest)
        self._status = Status(config.status_file, manifest)
        self._stop, self._ends = threading.Event(), {COMPLETE}
        self._work: queue.SimpleQueue[Entry] = queue.SimpleQueue()
        for entry in sorted(manifest.files, key=lambda entry: -entry.size):
            self._work.put(entry)
        about = (manifest.repo, manifest.commit, config.token_file, config.stall_seconds)
        origins = [Origin(url, *about) for url in config.origins]
        self._transfer = Transfer(self._store, origins, self._status, self._stop)

    def run(self) -> int:
        """Make all files whole, writing the status each second."""
        for folder in (self._config.published, self._config.parts):
            folder.mkdir(parents=True, exist_ok=True)
        orphans, unknown = self._store.remove_orphans(), self._store.unknown_files()
        self._status.write(orphans_removed=orphans, unknown_files=unknown)
        # Daemons: a thread that waits for a silent source must not keep a stopped agent alive.
        threads = [threading.Thread(target=self._work_off, daemon=True) for _ in range(self._config.streams)]
        for thread in threads:
            thread.start()
        while (alive := [thread for thread in threads if thread.is_alive()]) and not self._stop.is_set():
            alive[0].join(STATUS_SECONDS)
            self._status.write()
        deadline = time.monotonic() + _GRACE_SECONDS
        for thread in threads:
            thread.join(max(0, deadline - time.monotonic()))
        code = max(self._ends)
        if code == COMPLETE and self._store.missing():
            code = FAILED  # a thread died of a fault of our own: its traceback is in the journal
        if code == COMPLETE:
            shutil.rmtree(self._config.parts, ignore_errors=True)
        self._status.write(state={COMPLETE: "complete", STOPPED: "stopped"}.get(code, "failed"), exit_code=code)
        return code

    def stop(self, *_: object) -> None:
        """End soon, keeping all parts: the handler of SIGTERM and SIGINT."""
        self._end(STOPPED)

    def _end(self, code: int) -> None:
        self._ends.add(code)
        self._stop.set()

    def _work_off(self) -> None:
        with contextlib.suppress(queue.Empty, Stopped):
            while not self._stop.is_set():
                self._make_whole(self._work.get_nowait())

    def _make_whole(self, entry: Entry) -> None:
        try:
            self._transfer.make_whole(entry)
        except FileFailed as error:
            self._status.fail(entry, error.fault)
            self._ends.add(FAILED)
            if error.origins_lost:
                self._stop.set()
        except OSError as error:
            full = error.errno in _OUT_OF_SPACE
            found = f"{error.strerror} at {error.filename or self._config.parts}"
            remedy = "free space there and run again: what is fetched is kept" if full else "mend the filesystem"
            self._status.fail(entry, Fault(entry.path, f"room for {entry.size} bytes", found, remedy))
            self._end(NO_SPACE if full else DISK)


def fetch(config: Config, manifest: Manifest) -> int:
    """Run the agent, alone on this node for this model; return its exit code."""
    with _alone(config):
        agent = Agent(config, manifest)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, agent.stop)
        return agent.run()


@contextlib.contextmanager
def _alone(config: Config) -> Iterator[None]:
    with open(config.lock, "a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise AlreadyRunning(f"{config.lock} is held by another run: {file.read()}") from None
        file.truncate(0)
        file.write(f"process {os.getpid()} fetches {config.published} since {time.strftime('%F %T %z')}")
        file.flush()
        yield


def verify(store: Store, full: bool) -> list[Fault]:
    """Compare every published file with the manifest, by stamp or in full; return the faults."""
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        found = pool.map(lambda entry: store.check(entry, always=full), store.manifest.files)
        return [fault for fault in found if fault]
