# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What systemd knows of a unit, read through its own commands."""

from __future__ import annotations

import os
import re
import subprocess

PROPERTIES = (
    "LoadState",
    "ActiveState",
    "SubState",
    "Result",
    "MainPID",
    "ExecMainCode",
    "ExecMainStatus",
    "InvocationID",
    "UnitFileState",
    "NeedDaemonReload",
)

# What podman writes of an event: `2026-11-30 17:53:28.62 +0000 UTC m=+0.25 container create 342278dd...`
STEP = re.compile(r"\S+ \S+ \S+ \S+ m=\+[0-9.]+ (container|image) ")

# ExecMainCode holds the si_code of waitid(2): how the main process ended.
ENDED_BY_SIGNAL = ("2", "3")  # CLD_KILLED, CLD_DUMPED


class SystemdError(Exception):
    """A systemctl call that failed; the text is its own."""


def run(argv, check=True):
    """Standard output of a command, as text; SystemdError with its last words where it fails and `check` is set."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise SystemdError("{}: {}".format(" ".join(argv), (done.stderr or done.stdout).strip()))
    return done.stdout


def show(unit, runner=run):
    """The properties above of one unit, as strings; an unknown unit has LoadState `not-found`."""
    text = runner(["systemctl", "show", "--property=" + ",".join(PROPERTIES), "--", unit], check=False)
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def phase(state):
    """`up`, `starting` (its checks before the start still run) or `down`; the pause between two tries is down."""
    if state.get("ActiveState") == "active":
        return "up"
    before_start = state.get("SubState") in ("start-pre", "start", "condition")
    return "starting" if state.get("ActiveState") == "activating" and before_start else "down"


def ending(state):
    """How the unit's last process ended, in words: `exit code 0`, `signal 9`, or systemd's own result."""
    if state.get("ExecMainCode") in ENDED_BY_SIGNAL:
        return "signal {}".format(state.get("ExecMainStatus"))
    if state.get("ExecMainCode") == "1":
        return "exit code {}".format(state.get("ExecMainStatus"))
    return "result %s" % (state.get("Result") or "unknown")


def command_of(state, proc="/proc"):
    """Argument list of the unit's running main process; empty where none runs."""
    pid = state.get("MainPID", "0")
    if phase(state) != "up" or pid == "0":
        return []
    try:
        with open(os.path.join(proc, pid, "cmdline"), "rb") as file:
            return [word.decode("utf-8", "surrogateescape") for word in file.read().split(b"\0")[:-1]]
    except OSError:
        return []


def last_lines(unit, count=20, runner=run):
    """The last `count` journal lines of a unit, without the container engine's own reports of each step."""
    argv = ["journalctl", "--no-pager", "--quiet", "--output=cat", f"--lines={3 * count}", "--unit=" + unit]
    return [line for line in runner(argv, check=False).splitlines() if not STEP.match(line)][-count:]
