# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pictures in text: a box for each replica, a bar for the memory of one of its GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.faults import several

WIDTH = 110
BAR = 40
# Sign and name of each part of a bar, from the left.
PARTS = (("█", "weights"), ("▒", "workspace"), ("░", "KV"), ("·", "left free"))


def box(replica: dict, engines: Sequence[dict]) -> list[str]:
    """One replica as a box with a row for each of its nodes; below it, where HTTP is served."""
    rows = [f"{e['node']}  rank {e['rank']}  {e['hardware']['gpus']} x {e['hardware']['model']}" for e in engines]
    title, foot = f" {replica['name']} {replica['parallel']} ", f" {endpoints(replica['endpoints'])} "
    width = max(map(len, [*rows, title, foot])) + 2
    return [
        f"┌{title:─<{width}}┐",
        *(f"│ {row:<{width - 2}} │" for row in rows),
        f"└{foot:─>{width}}┘",
    ]


def endpoints(urls: Sequence[str]) -> str:
    return urls[0] if len(urls) == 1 else f"{urls[0]} +{len(urls) - 1}"


def side_by_side(boxes: Sequence[list[str]]) -> Iterator[str]:
    """Boxes in rows, as many as fit; shorter ones are filled up with blanks."""
    row: list[list[str]] = []
    for box in [*boxes, None]:
        if row and (box is None or sum(len(other[0]) + 2 for other in row) + len(box[0]) > WIDTH):
            for n in range(max(map(len, row))):
                yield "  " + "  ".join(o[n] if n < len(o) else " " * len(o[0]) for o in row).rstrip()
            row = []
        row.append(box or [])


def bar(memory: dict) -> str:
    """One GPU from empty to full, in its own proportions."""
    sizes = _sizes(memory)
    edges, total = [0], 0.0
    for size in sizes:
        total += size
        edges.append(round(total / memory["usable_gib"] * BAR))
    return "".join(sign * (right - left) for (sign, _n), left, right in zip(PARTS, edges, edges[1:], strict=False))


def figures(memory: dict) -> str:
    """weights 191.9, workspace 19.8, KV 42.9, left free 13.4 of 268 GiB"""
    told = [
        f"{name} {'at most ' if name == 'KV' and memory['kv_at_most'] else ''}{size:.1f}"
        for (_sign, name), size in zip(PARTS, _sizes(memory), strict=True)
        if size
    ]
    return f"{', '.join(told)} of {memory['usable_gib']:g} GiB"


def _sizes(memory: dict) -> list[float]:
    free = memory["usable_gib"] * (1 - memory["utilization"])
    return [memory["weights_gib"], memory["workspace_gib"] or 0, memory["kv_gib"], free]


def memory_lines(replicas: Sequence[dict], hardware: dict[str, str]) -> Iterator[str]:
    """A bar for each kind of replica; `hardware` is {replica: GPU model}."""
    kinds: dict[tuple, dict] = {}
    for replica in replicas:
        if replica["memory"]:
            kinds.setdefault((replica["pool"], replica["parallel"], hardware[replica["name"]]), replica["memory"])
    for (pool, parallel, model), memory in kinds.items():
        ranks = f" on each of {memory['data_ranks']} ranks" if memory["data_ranks"] > 1 else ""
        tokens = f"{memory['kv_tokens']:,} tokens of KV{ranks}, {memory['full_length_requests']:g} requests in all"
        yield f"  {pool} {parallel}, one {model}"
        yield f"    ▕{bar(memory)}▏ {figures(memory)}"
        yield f"     {'at most ' if memory['kv_at_most'] else ''}{tokens} of {memory['max_model_len']:,}"


def checkpoint_lines(checkpoint: dict) -> Iterator[str]:
    """Where the checkpoint comes from, who brings how much of it, and whom it reaches from there."""
    size = _size(checkpoint["bytes"])
    yield f"Checkpoint: {size} in {checkpoint['files'] or 'so many'} files, from the origin once:"
    yield f"  {', else '.join(_origin(origin, checkpoint) for origin in checkpoint['origins'])}"
    owners = checkpoint["owners"]
    each = " each" if len(owners) > 1 else ""
    yield f"    ─► {several([row['node'] for row in owners])}: {_size(owners[0]['bytes'])}{each}"
    if target := _target(checkpoint):
        yield f"    ─► {target}"


def _origin(origin: dict, checkpoint: dict) -> str:
    """One origin in words; of a file of signed URLs its name."""
    words = f"{origin['kind']} {origin.get('url') or origin.get('path') or origin['urls_file']}"
    places = [row["nodes"] for row in checkpoint["drives"] if row["path"] == origin.get("path")]
    return f"{words} on {several(places[0])}" if places else words


def _target(checkpoint: dict) -> str:
    """Those that the nodes which use an origin hand it on to."""
    if checkpoint["shared"]:
        return f"{checkpoint['root']}, which all nodes share"
    users = checkpoint["wan_nodes"]
    others = [name for name in checkpoint["nodes"] if name not in users]
    parts = ["each other"] if len(users) > 1 else []
    parts += [several(others)] if others else []
    return f"{' and '.join(parts)}, on port {checkpoint['port']}" if parts else ""


def _size(size: int | None) -> str:
    if size is None:
        return "as many bytes as its manifest says"
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"
