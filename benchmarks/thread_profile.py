# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a program and say where its processor time goes, all threads together:

    python benchmarks/thread_profile.py OUTPUT PROGRAM ARGUMENTS...

The clock is that of each thread's own processor time, so waiting does not count. What a profile costs is in the
numbers of functions that are called often: read shares, not seconds.
"""

from __future__ import annotations

import cProfile
import pstats
import runpy
import sys
import threading
import time
from pathlib import Path

ROWS = 20


def main(output: Path, program: str, arguments: list[str]) -> None:
    """Run it in this process; the table is written however it ends."""
    profiles, run = [], threading.Thread.run

    def profiled(thread: threading.Thread) -> None:
        profile = cProfile.Profile(time.thread_time)
        profiles.append(profile)
        profile.enable()
        try:
            run(thread)
        finally:
            profile.disable()

    threading.Thread.run = profiled
    sys.argv = [program, *arguments]
    first = cProfile.Profile(time.thread_time)
    profiles.append(first)
    try:
        first.runcall(runpy.run_path, program, run_name="__main__")
    finally:
        # A thread that works on without end cannot be read; the table then lacks it.
        _write(output, [profile for profile in profiles if profile.getstats()])


def _write(output: Path, profiles: list[cProfile.Profile]) -> None:
    with output.open("w") as file:
        stats = pstats.Stats(*profiles, stream=file)
        stats.strip_dirs().sort_stats("tottime").print_stats(ROWS)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
