"""What the engine image is made from, and the key that names one image in the cache."""
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import datetime
import hashlib
import os
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

VERSION = "0.32.0"
SUITE = "bookworm"
PACKAGES = ("python3", "libnuma1", "ca-certificates")
PYTHON = "3.11"  # of the suite
PLATFORM = "x86_64-manylinux_2_36"  # of the suite
SITE = f"usr/local/lib/python{PYTHON}/dist-packages"
HERE = Path(__file__).parent
LOCK = HERE / "requirements.lock"

Log = Callable[[str], None]


class BuildError(Exception):
    """The image cannot be built: what was tried, what was seen, what to do."""


def inputs() -> dict[str, bytes]:
    """The files beside this one that decide what is in the image: code, lock, lists."""
    kinds = {".py", ".lock", ".txt"}
    return {path.name: path.read_bytes() for path in HERE.iterdir() if path.suffix in kinds}


def key(files: dict[str, bytes], day: datetime.date) -> str:
    """Sixteen hex digits that change with every input, and with the ISO week (the suite's packages move)."""
    year, week, _ = day.isocalendar()
    total = hashlib.sha256(f"{year}-W{week}".encode())
    for name in sorted(files):
        total.update(f"\n{name} {hashlib.sha256(files[name]).hexdigest()}".encode())
    return total.hexdigest()[:16]


def cache() -> Path:
    """Where built images are kept: kimi-k3/engine in the user's cache folder."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "kimi-k3" / "engine"


def rules(text: str) -> list[str]:
    """The lines of a list, without comments and empty lines."""
    return [line for raw in text.splitlines() if (line := raw.partition("#")[0].strip())]


def run(command: Iterable[str | Path], **environment: str) -> str:
    """Run a command and return what it printed.

    Raises BuildError with the command and its last lines when it fails or does not exist.
    """
    argv = [str(word) for word in command]
    try:
        done = subprocess.run(
            argv, env=os.environ | environment, text=True, capture_output=True, check=False, stdin=subprocess.DEVNULL
        )
    except FileNotFoundError:
        raise BuildError(f"{argv[0]} is not installed; `make setup` installs it") from None
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-12:])
        raise BuildError(f"{' '.join(argv[:3])} ... ended with exit code {done.returncode}:\n{tail}")
    return done.stdout
