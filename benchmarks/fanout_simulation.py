# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What sites of many nodes would take for K3 itself: a table of simulations."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import fluid, k3_files

LINKS_MBIT = ((10_000, 100_000), (100_000, 100_000))  # site link, node links
# What one thread of the agent receives, hashes and writes; see checkpoint_cpu.
STREAM_BYTES = 0.7e9
STEPS = {64: 500, 512: 200}  # by number of nodes, of a run as long as the limit; the step is the error
ASSUMED = """
Assumed: files of K3's sizes (benchmarks/k3_files.py), one origin behind the site link, a switch that never is the
limit, links shared evenly by streams and never lost on, {streams} origin streams for each node, {stream:g} GB/s for one
stream (one core that receives, hashes and writes), disks that keep up, nobody fails. News reaches all after one step.
{uneven}Not in it: headers of packets (5 %), the start of the agents (seconds), the time of the scheduler itself."""


def rates(wan: float | None, lan: float | None) -> Iterator[tuple[float, float]]:
    """Rates of site link and node links in Mbit/s: those asked for, or both scenarios."""
    if wan or lan:
        yield wan or lan, lan or wan
    else:
        yield from LINKS_MBIT


def simulate(agent: Path, nodes: list[int], wan: float | None, lan: float | None, uneven: float) -> None:
    """Print the table."""
    sizes = k3_files.sizes()
    links = fluid.Links(0, 0, STREAM_BYTES, uneven=uneven)
    print(f"{'site/node link':<20}{'nodes':>6}{'seconds':>9}{'x limit':>9}{'origin xS':>11}{'uplinks xS':>13}")
    for count in nodes:
        for wan_mbit, lan_mbit in rates(wan, lan):
            links.wan, links.lan = wan_mbit * 1e6 / 8, lan_mbit * 1e6 / 8
            limit, started = sum(sizes) / min(links.wan, links.lan), time.monotonic()
            step = limit / next((steps for most, steps in STEPS.items() if count <= most), 200)
            found = fluid.Site(agent, count, sizes, links, step).run()
            uplinks = f"{min(found.uplinks):.2f}-{max(found.uplinks):.2f}"
            numbers = f"{found.seconds:>9.0f}{found.seconds / limit:>9.2f}{found.wan:>11.3f}{uplinks:>13}"
            name = f"{wan_mbit / 1000:g} / {lan_mbit / 1000:g} Gbit/s"
            print(f"{name:<20}{count:>6}{numbers}   simulated in {time.monotonic() - started:.0f} s", flush=True)
    said = f"A node gets {1 - uneven:g} to {1 + uneven:g} of its share of the site link. " if uneven else ""
    print(ASSUMED.format(streams=links.streams, stream=STREAM_BYTES / 1e9, uneven=said))
