"""What must be true at the end of a drill, asked of the nodes, the hub's log and the operator's screen."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tests.drills import model
from tests.drills.site import DrillSite, Playbook

if TYPE_CHECKING:
    from tests.drills.runner import Drill, Drilled

RECAP = re.compile(r"^(\S+)\s+: ok=\d+\s+changed=\d+\s+unreachable=(\d+)\s+failed=(\d+)", re.MULTILINE)
# Runs on a node as the user of the engines; what the kernel remembers is dropped, so that the disk itself is read.
HASH = """
import hashlib, json, os, sys
found = {}
for folder, _, names in os.walk(sys.argv[1]):
    for path in (os.path.join(folder, name) for name in names):
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            found[os.path.relpath(path, sys.argv[1])] = hashlib.file_digest(file, "sha256").hexdigest()
print(json.dumps(found))
"""


def hashes(site: DrillSite, node: str) -> dict[str, str]:
    """SHA-256 of every published file on a node."""
    return json.loads(site.on(node, f"runuser -u kimi-k3 -- python3 -I -c '{HASH}' {site.folder}"))


def failed_hosts(playbook: Playbook) -> set[str]:
    """The hosts that the playbook's recap calls failed or unreachable."""
    rows = RECAP.findall(playbook.log.read_text(errors="replace"))
    return {host for host, unreachable, failed in rows if int(unreachable) or int(failed)}


def of_run(drilled: Drilled, failing: dict[str, str]) -> Iterator[str]:
    """The runs failed for just the nodes that they had to fail for, and said what they had to say."""
    judged = [playbook for playbook in drilled.playbooks if not playbook.killed]
    for playbook in judged if failing or not drilled.drill.again else []:
        found = failed_hosts(playbook)
        if found != set(failing):
            yield f"{playbook.log.name}: failed for {_names(found)}, not for {_names(failing)}"
        if bool(playbook.code) != bool(failing):
            yield f"{playbook.log.name}: exit code {playbook.code}"
    said = " ".join(playbook.said for playbook in drilled.playbooks)
    for words in (*failing.values(), *drilled.drill.said):
        if not re.search(words, said):
            yield f"the operator did not read {words!r}"


def of_second_run(drilled: Drilled) -> Iterator[str]:
    """The run after the faults made everything whole."""
    playbook = drilled.playbooks[-1]
    if playbook.code:
        yield f"{playbook.log.name}: exit code {playbook.code}: failed for {_names(failed_hosts(playbook))}"


def of_requests(drilled: Drilled, requests: list[dict], wan: float) -> Iterator[str]:
    """The hub sent no more than it should, and was asked as it wants to be asked."""
    if wan > drilled.drill.wan:
        yield f"{wan:.3f} x left the hub, the limit is {drilled.drill.wan:.3f} x"
    for check in drilled.drill.checks:
        yield from CHECKS[check](drilled, requests)


def of_files(drilled: Drilled, failing: dict[str, str]) -> Iterator[str]:
    """Every file is whole on every node that must be complete; a node that failed has none that is wrong."""
    site = drilled.site
    expected = {path: row["sha256"] for path, row in site.manifest.items()}
    running = site.running()
    for node in site.nodes:
        if node not in running:
            continue
        found = hashes(site, node)
        yield from _some(node, "wrong", {path for path in found if expected.get(path, found[path]) != found[path]})
        if node not in failing:
            yield from _some(node, "missing", expected.keys() - found.keys())
            yield from _some(node, "not the checkpoint's", found.keys() - expected.keys())
            yield from _of_node(site, node)


def _some(node: str, what: str, paths: set[str]) -> Iterator[str]:
    if paths:
        first, *more = sorted(paths)
        yield f"{node}: {first}" + (f" and {len(more)} more files are" if more else " is") + f" {what}"


def _of_node(site: DrillSite, node: str) -> Iterator[str]:
    status = site.status(node)
    if status.get("state") != "complete":
        yield f"{node}: the agent says {status.get('state')}: {status.get('last_error')}"
    left = {str(path) for path in (site.seen(node) / model.NAME).glob(".part-*/**/*") if path.is_file()}
    yield from _some(node, "left", left)


def _retry_after(_drilled: Drilled, requests: list[dict]) -> Iterator[str]:
    refused = [row for row in requests if row.get("retry_after")]
    if not refused:
        yield "the hub refused nobody"
    for row in refused:
        same = [other for other in requests if all(other[key] == row[key] for key in ("client", "path"))]
        for other in same:
            waited = other["time"] - other["seconds"] - row["time"]
            if other is not row and 0 <= waited < row["retry_after"]:
                yield f"{row['client']} asked for {row['path']} again after {waited:.1f} s, not {row['retry_after']} s"


def _went_on(drilled: Drilled, _requests: list[dict]) -> Iterator[str]:
    for node, before in drilled.started.items():
        if (after := drilled.site.status(node).get("started")) != before:
            yield f"{node}: the agent that was at work since {before} was started anew at {after}"


def _expired(_drilled: Drilled, requests: list[dict]) -> Iterator[str]:
    if not any(row["status"] == 403 for row in requests):
        yield "no link was used after its time"


CHECKS: dict[str, Callable[[Drilled, list[dict]], Iterator[str]]] = {
    "retry after": _retry_after,
    "went on": _went_on,
    "expired": _expired,
}


def outcome(site: DrillSite, drill: Drill) -> str:
    """What the drill ends with when nothing speaks against it, in a few words."""
    failing = "" if drill.again else " ".join(site.nodes[number - 1] for number in drill.fails)
    count = len(site.nodes) - (0 if drill.again else len(drill.fails))
    return f"{count} complete" + (f", {failing} failed by name" if failing else "")


def _names(nodes: object) -> str:
    return ", ".join(sorted(nodes)) or "no node"
