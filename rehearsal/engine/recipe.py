"""What the engine image is made from, and the key that names one image in the cache."""
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable
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


def inputs() -> dict[str, bytes]:
    """The files that decide what is in the image: code, lock and lists, by name."""
    kinds = {".py", ".lock", ".txt"}
    files = [*(path for path in HERE.iterdir() if path.suffix in kinds), HERE.parent / "debian.py"]
    return {path.name: path.read_bytes() for path in files}


def key(files: dict[str, bytes], day: datetime.date) -> str:
    """Sixteen hex digits that change with every input, and with the ISO week (the suite's packages move)."""
    year, week, _ = day.isocalendar()
    total = hashlib.sha256(f"{year}-W{week}".encode())
    for name in sorted(files):
        total.update(f"\n{name} {hashlib.sha256(files[name]).hexdigest()}".encode())
    return total.hexdigest()[:16]


def rules(text: str) -> list[str]:
    """The lines of a list, without comments and empty lines."""
    return [line for raw in text.splitlines() if (line := raw.partition("#")[0].strip())]
