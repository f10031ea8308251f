# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far a fetch is, in one line for a node and one for the site."""

from __future__ import annotations

from collections import deque

# The site's rate is that of the last looks: a minute, at one look each ten seconds.
_LOOKS = 7


class Progress:
    """What is shown of one node while a run waits for it; of the whole site where that node speaks for it."""

    def __init__(self, node: str, site: str):
        self._node, self._site = node, site
        self._looks: deque[tuple[float, int]] = deque(maxlen=_LOOKS)

    def lines(self, status: dict, now: float) -> list[str]:
        """Return the lines that tell what an agent's status says at this moment."""
        lines, site = [progress_line(self._node, status)], status.get("site") or {}
        if site:
            self._looks.append((now, site["bytes_done"]))
        if site.get("leads") and site["nodes"] > 1:
            (start, before), (end, after) = self._looks[0], self._looks[-1]
            lines.append(site_line(self._site, site, max(0, after - before) / (end - start) if end > start else None))
        return lines


def progress_line(node: str, status: dict) -> str:
    """Return e.g. `node-01  12.3/48.0 MB  25 %  10.0 MB/s  4 s left`, from an agent's status."""
    verifying, total = status.get("state") == "verifying", status.get("bytes_total", 0)
    if not total:
        return f"{node}  the agent starts"
    done = status.get("bytes_verified" if verifying else "bytes_done", 0)
    left = status.get("seconds_left")
    parts = [node, share(done, total), rate(status.get("bytes_per_second", 0))]
    parts.append(f"{duration(left)} left" if left is not None else _pause(status))
    if verifying:
        parts.append("reads back what is on the disk")
    if (error := status.get("last_error")) and left is None:
        parts.append(f"last error: {error['message']}")
    return "  ".join(parts)


def _pause(status: dict) -> str:
    checking = any(file["state"] == "checking" for file in status.get("files", {}).values())
    return "checks what is there" if checking else "no byte comes"


def site_line(site: str, said: dict, speed: float | None) -> str:
    """Return e.g. `lima  3.1/12.5 TB  25 %  4.9 GB/s  32 min left  2 of 8 nodes whole`, as one node sees the site."""
    done, total = said["bytes_done"], said["bytes_total"]
    parts = [site, share(done, total)]
    if speed is not None:
        parts += [rate(speed), f"{duration((total - done) / speed)} left" if speed else "no byte comes"]
    parts.append(f"{said['complete']} of {said['nodes']} nodes whole")
    parts += [f"{word}: {', '.join(said[word])}" for word in ("failed", "unseen") if said.get(word)]
    return "  ".join(parts)


def share(done: int, total: int) -> str:
    """Return how much of a whole is there: `12.3/48.0 MB  25 %`."""
    unit, size = next(
        (unit, size) for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)) if total >= size or size == 1e6
    )
    return f"{done / size:.1f}/{total / size:.1f} {unit}  {100 * done // total if total else 100} %"


def rate(bytes_per_second: float) -> str:
    """Return a rate: `10.0 MB/s`, `4.9 GB/s`."""
    unit, size = ("GB/s", 1e9) if bytes_per_second >= 1e9 else ("MB/s", 1e6)
    return f"{bytes_per_second / size:.1f} {unit}"


def duration(seconds: float) -> str:
    """Return seconds as a person would say them: `4 s`, `3 min 20 s`, `32 min`, `2 h 5 min`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    if minutes >= 10 or minutes and not rest:
        return f"{minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
