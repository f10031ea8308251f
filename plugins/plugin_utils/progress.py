# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far a fetch is, in one line."""

from __future__ import annotations


def progress_line(node: str, status: dict) -> str:
    """Return e.g. `node-01  12.3/48.0 MB  25 %  10.0 MB/s  4 s left`, from an agent's status."""
    done, total = status.get("bytes_done", 0), status.get("bytes_total", 0)
    if not total:
        return f"{node}  the agent starts"
    unit, size = next(
        (unit, size) for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)) if total >= size or size == 1e6
    )
    left = status.get("seconds_left")
    checking = any(file["state"] == "checking" for file in status.get("files", {}).values())
    parts = [
        node,
        f"{done / size:.1f}/{total / size:.1f} {unit}",
        f"{100 * done // total} %",
        f"{status.get('bytes_per_second', 0) / 1e6:.1f} MB/s",
        f"{duration(left)} left" if left is not None else "checks what is there" if checking else "no byte comes",
    ]
    if (error := status.get("last_error")) and left is None:
        parts.append(f"last error: {error['message']}")
    return "  ".join(parts)


def duration(seconds: int) -> str:
    """Return seconds as a person would say them: `4 s`, `3 min 20 s`, `2 h 5 min`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
