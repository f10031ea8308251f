# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes of one measurement: what they cost, and that none outlives it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path

GRACE_SECONDS = 5
POLL_SECONDS = 0.05


class Failed(Exception):
    """A measurement that gives no number; says why."""


class Processes:
    """Starts processes, sums the processor seconds of those that count, and ends what still runs.

    The seconds are the user and system time that the kernel reports when a process ends, its own ended children
    included. Safe to use from several threads.
    """

    def __init__(self, logs: Path):
        self._logs, self._running, self._lock = logs, {}, threading.Lock()
        self.seconds = 0.0
        logs.mkdir(parents=True, exist_ok=True)

    def start(
        self, argv: Sequence[str | Path], log: str, counted: bool = True, environment: dict | None = None, **how: object
    ) -> subprocess.Popen:
        """Start a process; its errors, and its output unless that goes elsewhere, are kept in a log."""
        with (self._logs / f"{log}.log").open("ab") as file:
            streams = {"stdin": subprocess.DEVNULL, "stdout": file, "stderr": file, **how}
            # A proxy is no way to a host of a lab.
            known = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
            known |= environment or {}
            with self._lock:
                process = subprocess.Popen([*map(str, argv)], env=known, process_group=0, **streams)
                self._running[process.pid] = (process, counted)
        return process

    def wait(self, process: subprocess.Popen, seconds: float | None = None) -> int | None:
        """Wait for the end of a process; return its exit code, None when it still runs after so many seconds."""
        end = None if seconds is None else time.monotonic() + seconds
        self._reap(process)
        while process.returncode is None and (end is None or time.monotonic() < end):
            time.sleep(POLL_SECONDS)
            self._reap(process)
        return process.returncode

    def _reap(self, process: subprocess.Popen) -> None:
        with self._lock:
            if process.returncode is not None:
                return
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                process.returncode = os.waitstatus_to_exitcode(status)
                if self._running.pop(pid)[1]:
                    self.seconds += usage.ru_utime + usage.ru_stime

    def check(self, process: subprocess.Popen, log: str) -> None:
        """Wait for a process that must succeed."""
        if code := self.wait(process):
            raise Failed(f"{Path(process.args[0]).name} ended with {code}: {self.tail(log)}")

    def call(self, argv: Sequence[str | Path], log: str, **how: object) -> None:
        """Run a process that must succeed."""
        self.check(self.start(argv, log, **how), log)

    def tail(self, log: str) -> str:
        """The last lines of a log."""
        with contextlib.suppress(OSError):
            return " | ".join((self._logs / f"{log}.log").read_text(errors="replace").split("\n")[-4:])
        return ""

    def end(self) -> None:
        """End all that still run: politely, then for good."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with self._lock:
                running = [process for process, _ in self._running.values()]
            for process in running:
                # The process has not been waited for, so its number is still its own.
                os.killpg(process.pid, number)
            deadline = time.monotonic() + GRACE_SECONDS
            for process in running:
                self.wait(process, max(0, deadline - time.monotonic()))


def wait_for_port(process: subprocess.Popen, address: str, port: int, seconds: float = 30) -> None:
    """Wait until something in the network of a process listens on an address and port."""
    reversed_hex = socket.inet_aton(address)[::-1].hex().upper()
    wanted, deadline = f" {reversed_hex}:{port:04X} ", time.monotonic() + seconds
    while time.monotonic() < deadline and process.returncode is None:
        with contextlib.suppress(OSError), open(f"/proc/{process.pid}/net/tcp") as table:
            if any(wanted in row and " 0A " in row for row in table):  # 0A: listening
                return
        time.sleep(POLL_SECONDS)
    raise Failed(f"nothing listens on {address}:{port} after {seconds:.0f} s: {process.args}")
