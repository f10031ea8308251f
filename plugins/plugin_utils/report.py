# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a deploy ended with: which engine runs which release, and what a client was answered."""

from __future__ import annotations

from .engines import label_of


def report(plan: dict, running: dict[str, dict], ready: dict[str, dict], seen: list[dict]) -> dict:
    """Plain data: what runs, not what was wanted.

    `running` is each node's registered M(sovereign.kimi_k3.unit_facts), `ready` each node's registered wait, `seen`
    the registered questions of each host that asked.
    """
    waits = [row for result in ready.values() for row in result.get("results", []) if "item" in row]
    seconds = {row["item"]["name"]: row.get("seconds") for row in waits}
    commands = {unit: command for result in running.values() for unit, command in result.get("running", {}).items()}
    engines = []
    for engine in (engine for node in plan["nodes"].values() for engine in node["engines"]):
        command = commands.get(f"kimi-k3-engine@{engine['name']}.service", [])
        engines.append(
            {
                "node": engine["node"],
                "engine": engine["name"],
                "rank": engine["rank"],
                "release": label_of(command, "release"),
                "manifest": label_of(command, "manifest"),
                "load_seconds": seconds.get(engine["name"]),
            }
        )
    answers = [row for result in seen for row in result.get("results", [])]
    return {
        "site": plan["site"],
        "profile": plan["profile"],
        "model": plan["model"]["served_name"],
        "image": plan["image"]["reference"],
        "plan": plan["digest"],
        "engines": sorted(engines, key=lambda row: (row["engine"], row["rank"])),
        "endpoints": [{key: row.get(key) for key in ("endpoint", "models", "answer", "seconds")} for row in answers],
        "answer": next((row["answer"] for row in answers if row.get("answer")), ""),
    }


def lines(content: dict) -> list[str]:
    """The report as a table, one line a row."""
    rows = [("node", "engine", "rank", "release", "seconds to ready")]
    for engine in content["engines"]:
        waited = "" if engine["load_seconds"] is None else f"{engine['load_seconds']:.1f}"
        rows.append((engine["node"], engine["engine"], str(engine["rank"]), engine["release"], waited))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    answers = [f"{row['endpoint']} answers in {row['seconds']} s: {row['answer']}" for row in content["endpoints"]]
    return [*table, "", *answers]
