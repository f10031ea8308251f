# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the agent does, as a small JSON file that is replaced at least once a second.

`state` is running, verifying, complete, failed or stopped; that of a file waiting, checking, fetching, verifying or
done. `bytes_done` counts what is on the node, parts too; `bytes_fetched` what this run received, by source in
`sources`; `bytes_verified` what it read back. Rate and time left are those of fetching, then of verifying.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter, deque
from dataclasses import asdict
from pathlib import Path

from ..proof.faults import Fault
from ..proof.manifest import Entry, Manifest
from ..proof.store import write_atomically

STATUS_SECONDS = 0.5
# The rate is that of the last ten seconds.
_SAMPLES = 21


class Status:
    """Progress of one run. Safe to use from several threads."""

    def __init__(self, path: Path, manifest: Manifest):
        self._path, self._lock, self._samples = path, threading.Lock(), deque([(time.monotonic(), 0)], _SAMPLES)
        self._files = {entry.path: {"state": "waiting", "bytes": 0} for entry in manifest.files}
        self._sources: Counter[str] = Counter()
        self._faults: dict[str, dict] = {}
        self._about = {
            "state": "running",
            "pid": os.getpid(),
            "started": round(time.time(), 3),
            "manifest_digest": manifest.digest,
            "bytes_total": manifest.bytes,
            "bytes_verified": 0,
            "files_total": len(manifest.files),
            "files_fetched": 0,
            "last_error": None,
        }

    def file(self, entry: Entry, state: str, size: int | None = None) -> None:
        """Say where a file stands."""
        with self._lock:
            file = self._files[entry.path]
            if state == "done":
                self._about["files_fetched"] += file["state"] == "fetching"
                self._faults.pop(entry.path, None)
            self._files[entry.path] = {"state": state, "bytes": file["bytes"] if size is None else size}

    def received(self, entry: Entry, source: str, count: int) -> None:
        """Count bytes of a file: from a source, or without one read from the disk."""
        with self._lock:
            file = self._files[entry.path]
            verified = file["state"] == "verifying"
            self._about["bytes_verified"] += count * verified
            file["bytes"] += count * (not verified)
            if source:
                self._sources[source] += count

    def note(self, error: str) -> None:
        """Keep the last thing that went wrong, and say it in the journal."""
        print(error, flush=True)
        with self._lock:
            self._about["last_error"] = {"time": round(time.time(), 3), "message": error}

    def fail(self, fault: Fault) -> None:
        """Add a fault that this run does not get over, unless another source turns up."""
        if self._faults.get(fault.file) != asdict(fault):
            self.note(str(fault))
        with self._lock:
            self._faults[fault.file] = asdict(fault)

    @property
    def bytes_done(self) -> int:
        """Bytes that are on the node."""
        with self._lock:
            return sum(file["bytes"] for file in self._files.values())

    def write(self, **about: object) -> None:
        """Write the file; `about` adds to or replaces what it says from now on."""
        done = self.bytes_done
        with self._lock:
            self._about.update(about)
            fetched, verified = sum(self._sources.values()), self._about["bytes_verified"]
            self._samples.append((time.monotonic(), fetched + verified))
            (start, before), (now, after) = self._samples[0], self._samples[-1]
            rate = (after - before) / max(now - start, 0.001)
            left = self._about["bytes_total"] - (verified if self._about["state"] == "verifying" else done)
            now_known = {
                "updated": round(time.time(), 3),
                "bytes_done": done,
                "bytes_fetched": fetched,
                "bytes_per_second": round(rate),
                "seconds_left": round(left / rate) if rate else None if left else 0,
                "files_done": sum(file["state"] == "done" for file in self._files.values()),
                "faults": list(self._faults.values()),
            }
            text = json.dumps({**self._about, **now_known, "sources": self._sources, "files": self._files}, indent=1)
        write_atomically(self._path, text.encode())


def read(path: Path) -> dict:
    """Return the status that an agent wrote last; empty when there is none."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
