# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checkpoint of all nodes, seen from the controller: what they need of it, and what forbids that engines start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from . import faults

REMEDY = "run playbooks/checkpoint.yml"
_NAMED = 3


def place_faults(results: Mapping[str, dict], shared: bool) -> Iterator[dict]:
    """Rows for filesystems that several nodes would write at the same time, path for path.

    `results` is each node's registered M(sovereign.kimi_k3.checkpoint_facts).
    """
    nodes: dict[tuple[str, str], list[str]] = {}
    for node, result in results.items():
        if result.get("is_network") and not shared:
            nodes.setdefault((result["filesystem"], result["source"]), []).append(node)
    for (kind, source), same in nodes.items():
        if len(same) > 1:
            yield {
                "where": "checkpoint_path",
                "value": f"{', '.join(same)} have the same {kind} there, {source}",
                "limit": "one node writes a shared filesystem, all others only read it",
                "remedy": "write checkpoint_shared: true, or give each node a filesystem of its own",
            }


def gate_faults(digest: str, results: Mapping[str, dict]) -> list[dict]:
    """Rows for each node that does not hold the whole checkpoint of this digest.

    `results` is each node's registered M(sovereign.kimi_k3.checkpoint_facts).
    """
    return [row for node, result in results.items() for row in _node_faults(node, digest, result)]


def _node_faults(node: str, digest: str, result: dict) -> Iterator[dict]:
    if unread := faults.of_host(node, [{**result, "faults": []}]):
        yield from unread
        return
    found, missing = result["manifest_digest"], result["missing_files"]
    if found != digest:
        yield _row(node, f"manifest {found or 'none'}", f"{digest}, which the site serves")
    elif missing:
        names = ", ".join(missing[:_NAMED]) + (f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else "")
        yield _row(node, f"{len(missing)} files missing or damaged: {names}", f"every file of {digest}")
    else:
        # Nothing is missing, yet it lies where it must not: not on its disk, for one.
        yield from ({**row, "where": f"{node}: {row['where']}"} for row in result["faults"])


def _row(node: str, value: str, limit: str) -> dict:
    return {"where": node, "value": value, "limit": limit, "remedy": REMEDY}


def judged(digest: str, nodes: Sequence[str], hosts: Sequence[str]) -> str:
    """Say which of the site's nodes were found to hold the checkpoint: all, or those that the run touches."""
    touched = [node for node in nodes if node in hosts]
    if len(touched) == len(nodes):
        return f"all {len(nodes)} nodes hold {digest}"
    left_out = ", ".join(node for node in nodes if node not in hosts)
    return f"{len(touched)} of {len(nodes)} nodes were judged, they hold {digest}; --limit leaves out {left_out}"


def controller_files(origins: Sequence[dict], token_file: str, ca_file: str) -> list[dict]:
    """[{source, name}] of the files on the controller that the agent of a node reads, by their names there.

    The module `checkpoint` knows the same names.
    """
    lists = {f"urls-{number}.json": origin.get("urls_file") for number, origin in enumerate(origins)}
    files = {"token": token_file, "ca.pem": ca_file, **lists}
    return [{"source": source, "name": name} for name, source in files.items() if source]
