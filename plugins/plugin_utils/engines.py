# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the plan to what systemd runs: one record an engine, with its whole command line.

A command is an argument list from the plan to the process; no shell ever sees it.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from ansible_collections.sovereign.kimi_k3.plugins.module_utils import commands
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.network import listening

PODMAN = "/usr/bin/podman"
CACHE = "/var/cache/kimi-k3"  # compiled kernels and the like outlive a start; the unit makes the folder
LABEL = "--label=sovereign.kimi_k3"
STOP_SECONDS = 30  # a headless worker needs 11 s to leave (measured); podman's own 10 s would kill it


def release_of(plan: dict, replica: str, manifest_digest: str) -> str:
    """Twelve hex digits over image, manifest and the arguments and environment of every engine of a replica."""
    engines = [engine for engine in _all(plan) if engine["replica"] == replica]
    content = {
        "image": plan["image"]["reference"],
        "manifest": manifest_digest,
        "engines": sorted([engine["name"], engine["argv"], engine["env"], engine["container"]] for engine in engines),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]


def engines_of(plan: dict, node: str, manifest_digest: str, keeper_port: int = 7655) -> list[dict]:
    """The engines of one node as the role `replica` wants them: name, unit, command, peers and so on."""
    engines = plan["nodes"].get(node, {}).get("engines", [])
    return [_record(plan, engine, manifest_digest, keeper_port) for engine in engines]


def ports_of(plan: dict, node: str) -> list[int]:
    """TCP ports that the engines of one node will listen on."""
    engines = plan["nodes"].get(node, {}).get("engines", [])
    return sorted({port for engine in engines for _name, port in listening(engine["ports"])})


def _record(plan, engine, manifest_digest, keeper_port):
    others = [
        other for other in _all(plan) if other["replica"] == engine["replica"] and other["name"] != engine["name"]
    ]
    release = release_of(plan, engine["replica"], manifest_digest)
    unit = f"kimi-k3-engine@{engine['name']}.service"
    head = next(other for other in [engine, *others] if other["rank"] == 0)
    return {
        "name": engine["name"],
        "replica": engine["replica"],
        "rank": engine["rank"],
        "order": engine["order"],
        "members": sorted({other["node"] for other in others} | {engine["node"]}),
        "release": release,
        "service": {"name": unit, "command": command(plan, engine, release, manifest_digest)},
        "watched": {
            "name": engine["name"],
            "unit": unit,
            "head": _peer(head, keeper_port) if head is not engine else None,
        },
        "endpoint": engine["endpoint"],
        "model": plan["model"]["served_name"],
        "ready_seconds": engine["ready_seconds"],
        "peers": [_peer(other, keeper_port) for other in others],
    }


def _peer(engine, keeper_port):
    return {"engine": engine["name"], "node": engine["node"], "keeper": _url(engine["address"], keeper_port)}


def _url(address, port):
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"


def _all(plan):
    return [engine for node in plan["nodes"].values() for engine in node["engines"]]


def command(plan: dict, engine: dict, release: str, manifest_digest: str) -> list[str]:
    """Argument list that runs one engine as a container; the image's entry point is `vllm serve`."""
    root = plan["checkpoint"]["root"]
    return [
        PODMAN,
        "run",
        f"--name=kimi-k3-{engine['name']}",
        "--rm",
        "--replace",
        "--pull=never",
        "--network=host",
        "--cgroups=split",
        "--log-driver=passthrough",
        f"--stop-timeout={STOP_SECONDS}",
        f"{LABEL}.release={release}",
        f"{LABEL}.manifest={manifest_digest}",
        f"--volume={root}:{root}:ro",
        f"--volume={CACHE}:/root/.cache",
        *engine["container"]["arguments"],
        *(f"--env={name}={value}" for name, value in sorted(engine["env"].items())),
        plan["image"]["reference"],
        *engine["argv"],
    ]


def label_of(command: list[str], name: str) -> str:
    """What a running engine was labelled with (`release`, `manifest`); empty where nothing runs."""
    prefix = f"{LABEL}.{name}="
    return next((word.removeprefix(prefix) for word in command if word.startswith(prefix)), "")


def systemd_words(words: list[str]) -> str:
    """An ExecStart= value that systemd splits into exactly `words`, a flag with its value on each line.

    Source: systemd.service(5), COMMAND LINES.
    """
    return " \\\n  ".join(" ".join(map(_word, group)) for group in commands.folded(words))


def _word(word):
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "%": "%%", "$": "$$"}
    escaped = "".join(escapes.get(letter, letter) for letter in word)
    plain = escaped == word and word and not any(letter in " ';" for letter in word)
    return word if plain else f'"{escaped}"'


def restarting(engines: list[dict], hostvars, register: str) -> list[dict]:
    """Engines of this node that must start again, each with the reason.

    A replica starts as a whole: one engine that does not run as wanted, on whatever member, is a reason for all.
    """
    answer = []
    for engine in engines:
        reasons = [
            f"{row['name'].split('@')[1].removesuffix('.service')}: {row['reason']}"
            for member in engine["members"]
            for row in hostvars[member].get(register, {}).get("differing", [])
            if _same_replica(row["name"], engine["replica"])
        ]
        if reasons:
            answer.append({**engine, "reason": "; ".join(reasons)})
    return answer


def _same_replica(unit, replica):
    return unit.startswith(f"kimi-k3-engine@{replica}-rank-")


def agent_digest(name: str) -> str:
    """SHA-256 over the code of one agent (`keeper`, `fetch`), so that a running agent can be compared with it."""
    code = sorted((Path(__file__).parents[1] / "module_utils" / name).glob("*.py"))
    return hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in code)).hexdigest()
