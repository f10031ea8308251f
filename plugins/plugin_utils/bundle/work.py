# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Running other programs: they end with this one, their failure comes in their own words, and progress is shown."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

POLL_SECONDS = 0.2
SHOW_SECONDS = 10
LAST_LINES = 8

Say = Callable[[str], None]


class Failed(Exception):
    """A part of the bundle could not be made; says why and what to do."""


def output(argv: Sequence[object], environment: Mapping[str, str] | None = None) -> str:
    """Run a short program and return what it prints; raise Failed."""
    options = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
    done = subprocess.run(tied(argv), check=False, env=_environment(environment), **options)
    if done.returncode:
        raise Failed(_words(argv, done.returncode, done.stderr or done.stdout))
    return done.stdout


def follow(
    argv: Sequence[object],
    say: Say,
    progress: Callable[[], str],
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> None:
    """Run a long program, saying every few seconds how far it is; raise Failed."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            tied(argv),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=_environment(environment),
        )
        shown = time.monotonic()
        try:
            while process.poll() is None:
                time.sleep(POLL_SECONDS)
                if time.monotonic() - shown > SHOW_SECONDS:
                    shown = time.monotonic()
                    say(progress())
        finally:
            process.kill()  # nothing where it has ended
            process.wait()
        if process.returncode:
            log.seek(0)
            raise Failed(_words(argv, process.returncode, log.read().decode(errors="replace")))


def tied(argv: Sequence[object]) -> list[str]:
    """The command so that the kernel ends it with this process: two that write one place would spoil it."""
    setpriv = shutil.which("setpriv")
    return [*([setpriv, "--pdeathsig=KILL", "--"] if setpriv else []), *map(str, argv)]


def _environment(changes: Mapping[str, str] | None) -> dict[str, str]:
    """What is printed is read here, so it is in no other language."""
    return {**os.environ, "LC_ALL": "C.UTF-8", **(changes or {})}


def _words(argv: Sequence[object], code: int, said: str) -> str:
    lines = [line for line in said.splitlines() if line.strip()][-LAST_LINES:]
    command = " ".join(map(str, argv))
    return f"exit code {code} of {command}:\n" + "\n".join(f"    {line}" for line in lines)


def size_of(folder: Path) -> int:
    """Bytes of all files below a folder; what disappears meanwhile does not count."""
    total = 0
    for place, _folders, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_size
            except OSError:
                continue
    return total


def amount(size: float) -> str:
    """Bytes as people say them: `1.56 TB`, `9.8 GB`, `317 MB`."""
    for unit, scale, digits in (("TB", 1e12, 2), ("GB", 1e9, 1), ("MB", 1e6, 0)):
        if size >= scale:
            return f"{size / scale:.{digits}f} {unit}"
    return f"{size / 1e3:.0f} kB"
