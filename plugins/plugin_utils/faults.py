# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults in one answer: each with where, value, limit and remedy."""

from __future__ import annotations


def of_host(host, results):
    """Rows of one host's registered results; a host that could not be read is one row, whatever was asked of it."""
    lost = next((result for result in results if result.get("unreachable")), None)
    if lost:
        remedy = f"{str(lost.get('msg', '')).strip()}: see to the host, its address (ansible_host) or its key"
        return [{"where": host, "value": "unreachable", "limit": "every host answers over ssh", "remedy": remedy}]
    broken = next((result for result in results if result.get("failed")), None)
    if broken:
        remedy = f"{str(broken.get('msg', '')).strip()}: mend what this names, and run again"
        return [{"where": host, "value": "could not be read", "limit": "every host can be read", "remedy": remedy}]
    return [
        {**row, "where": row["where"] if result.get("of_site") else f"{host}: {row['where']}"}
        for result in results
        for row in result.get("faults", ())
    ]


def split_replicas(plan, hosts):
    """Rows for replicas of which a run touches some nodes and not others: half a replica cannot be changed."""
    rows = []
    for replica in plan.get("replicas", ()):
        left_out = [node for node in replica["nodes"] if node not in hosts]
        if left_out and len(left_out) < len(replica["nodes"]):
            rows.append(
                {
                    "where": f"--limit, replica {replica['name']}",
                    "value": f"leaves out {', '.join(left_out)}",
                    "limit": f"all of {', '.join(replica['nodes'])}, or none: they start and stop together",
                    "remedy": f"--limit {','.join(replica['nodes'])},service_hosts",
                }
            )
    return rows


def message(rows):
    """One paragraph a fault, equal ones once."""
    lines = [f"{row['where']}: {row['value']!s}; needed: {row['limit']}; remedy: {row['remedy']}" for row in rows]
    unique = list(dict.fromkeys(lines))
    count = "1 fault" if len(unique) == 1 else f"{len(unique)} faults"
    return f"{count}, nothing was changed:\n" + "\n".join(f"  - {line}" for line in unique)
