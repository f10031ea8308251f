# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ways to bring a model from one origin to all nodes. Each returns when every node has proved what it holds."""

from __future__ import annotations

import compileall
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks import random_model
from benchmarks.processes import Failed, Processes, wait_for_port
from benchmarks.random_model import COMMIT, REPO, Model
from benchmarks.shaped_lab import Host, Lab

PROJECT = Path(__file__).resolve().parents[1]
AGENT = PROJECT / "plugins/module_utils/fetch"
HUB_PORT, RSYNC_PORT, CHAIN_PORT, FETCH_PORT = 8000, 8730, 8900, 7654
POLL_SECONDS = 0.1
LINGER_SECONDS = 15


@dataclass
class Run:
    """One method on one lab."""

    lab: Lab
    model: Model
    folder: Path
    processes: Processes
    agent: Path = AGENT
    profile: Path | None = None
    wan_nodes: int | None = None

    def place(self, host: Host) -> Path:
        """Where a node puts the files."""
        return self.folder / host.name / "model"

    @property
    def hub(self) -> str:
        return f"http://{self.lab.origin.address}:{HUB_PORT}"

    def start(self, host: Host, argv: list, log: str, **how: object) -> subprocess.Popen:
        """Start a process on a host. What runs on the origin is never counted."""
        counted = host is not self.lab.origin
        return self.processes.start(host.command(argv), f"{host.name}-{log}", counted=counted, **how)

    def call(self, host: Host, argv: list, log: str, **how: object) -> None:
        """Run a process on a host, which must succeed."""
        self.processes.check(self.start(host, argv, log, **how), f"{host.name}-{log}")

    def verify(self, host: Host) -> None:
        """Hash a node's copy on the node, for methods that prove nothing themselves."""
        output = self.folder / f"{host.name}.sha256"
        with output.open("wb") as file:
            self.call(host, random_model.digest_command(self.model, self.place(host)), "verify", stdout=file)
        if random_model.digests(output.read_text(), self.place(host)) != self.model.files:
            raise Failed(f"{host.name} holds wrong bytes")

    def on_all(self, work: Callable[[Host], None]) -> None:
        """Do the same for all nodes at once."""
        with ThreadPoolExecutor(len(self.lab.nodes)) as pool:
            tasks = [pool.submit(work, node) for node in self.lab.nodes]
            try:
                for task in tasks:
                    task.result()
            except BaseException:
                self.processes.end()  # or the others would be waited for
                raise


def agent(run: Run) -> None:
    """This project's agent, on all nodes at once."""
    nodes = {node.name: f"{node.address}:{FETCH_PORT}" for node in run.lab.nodes}
    running, wan = {}, {"wan_nodes": list(nodes)[: run.wan_nodes]}
    for node in run.lab.nodes:
        config = write_agent_config(run.folder / node.name, run.model, run.hub, node.name, nodes, **wan)
        command = agent_command(run.agent, "fetch", config)
        if run.profile and node is run.lab.nodes[0]:
            command = profiled(command, run.profile)
        running[node.name] = run.start(node, command, "agent")
    while states := _agent_states(run):
        if "failed" in states.values():
            raise Failed(f"the agent failed: {states}")
        for name, process in running.items():
            if name in states and run.processes.wait(process, 0) is not None:
                raise Failed(f"{name} ended with {process.returncode}: {run.processes.tail(f'{name}-agent')}")
        time.sleep(POLL_SECONDS)
    for process in running.values() if run.profile else ():
        run.processes.wait(process, LINGER_SECONDS)


def installed(agent: Path, folder: Path) -> Path:
    """Put the agent's code where it can be compiled, as on a node, and return its program."""
    shutil.copytree(agent.resolve().parent, folder, ignore=shutil.ignore_patterns("__pycache__"))
    compileall.compile_dir(folder, quiet=1)
    return folder / agent.name


def agent_command(program: Path, command: str, config: Path, *options: str) -> list:
    """The command line that the unit runs."""
    return [sys.executable, "-I", program, command, "--config", config, *options]


def profiled(command: list, output: Path) -> list:
    """The same command line of the agent, with a profile of all its threads."""
    return [command[0], PROJECT / "benchmarks/thread_profile.py", output, *command[2:]]


def write_agent_config(folder: Path, model: Model, hub: str, name: str, nodes: dict[str, str], **more: object) -> Path:
    """Write what the `checkpoint` module would: the agent's configuration and manifest."""
    state, published = folder / "state", folder / "model"
    state.mkdir(parents=True, exist_ok=True)
    places = {"published": published, "parts": folder / ".part-model", "state": state, "lock": folder / "lock"}
    config = {key: str(path) for key, path in places.items()} | {"origins": [{"kind": "hub", "url": hub}]}
    if len(nodes) > 1:
        config |= {"node": name, "nodes": nodes, "linger_seconds": LINGER_SECONDS}
    (state / "config.json").write_text(json.dumps(config | more))
    (state / "manifest.json").write_text(json.dumps(model.manifest))
    return state / "config.json"


def _agent_states(run: Run) -> dict[str, str]:
    """The states of the nodes that are not complete."""
    found = {node.name: agent_status(run.folder / node.name).get("state", "starting") for node in run.lab.nodes}
    return {name: state for name, state in found.items() if state != "complete"}


def agent_status(folder: Path) -> dict:
    """What an agent wrote last."""
    try:
        return json.loads((folder / "state/status.json").read_bytes())
    except (OSError, ValueError):
        return {}


def hub_client(run: Run) -> None:
    """One download per node with the hub's own client, then a verification."""

    def download(node: Host) -> None:
        home = run.folder / node.name / "home"
        environment = {"HF_ENDPOINT": run.hub, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1"}
        environment |= {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
        environment |= {"HF_HUB_DISABLE_UPDATE_CHECK": "1"}
        command = [_hub_program(), "download", REPO, "--revision", COMMIT, "--local-dir", run.place(node)]
        run.call(node, command, "hf", environment=environment)
        run.verify(node)

    run.on_all(download)


def _hub_program() -> str:
    found = shutil.which("hf", path=f"{PROJECT / '.venv/bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}")
    if not found:
        raise Failed("there is no program hf: run tools/setup python")
    return found


def rsync_series(run: Run) -> None:
    """From the origin to the first node, and from there to the others one by one; each verifies its copy."""
    first, *others = run.lab.nodes
    with ThreadPoolExecutor() as pool:
        _serve_rsync(run, run.lab.origin, run.model.folder)
        _copy(run, run.lab.origin, first)
        checks = [pool.submit(run.verify, first)]
        _serve_rsync(run, first, run.place(first))
        for node in others:
            _copy(run, first, node)
            checks.append(pool.submit(run.verify, node))
        for check in checks:
            check.result()


def _serve_rsync(run: Run, host: Host, folder: Path) -> None:
    config = run.folder / f"{host.name}-rsyncd.conf"
    config.write_text(f"use chroot = no\nuid = 0\ngid = 0\n[model]\npath = {folder}\n")
    where = ["--address", host.address, "--port", RSYNC_PORT]
    daemon = run.start(host, ["rsync", "--daemon", "--no-detach", "--config", config, *where], "rsync-daemon")
    wait_for_port(daemon, host.address, RSYNC_PORT)


def _copy(run: Run, source: Host, node: Host) -> None:
    run.place(node).mkdir(parents=True)
    url = f"rsync://{source.address}:{RSYNC_PORT}/model/"
    run.call(node, ["rsync", "-a", "--whole-file", url, f"{run.place(node)}/"], "rsync")


def chain(run: Run) -> None:
    """tar through ncat from node to node: each unpacks with tee what it hands on; all verify at the end."""
    nodes = run.lab.nodes
    writers = []
    for number in range(len(nodes), 0, -1):
        writers += _link(run, nodes[number - 1], nodes[number] if number < len(nodes) else None)
    with_tar = ["tar", "--create", "--directory", run.model.folder, "."]
    archive = run.start(run.lab.origin, with_tar, "tar", stdout=subprocess.PIPE)
    run.call(run.lab.origin, ["ncat", "--send-only", nodes[0].address, CHAIN_PORT], "ncat", stdin=archive.stdout)
    for host, process in writers:
        run.processes.check(process, f"{host.name}-chain")
    run.on_all(run.verify)


def _link(run: Run, node: Host, following: Host | None) -> list[tuple[Host, subprocess.Popen]]:
    """Start what receives on one node, unpacks, and sends to the next one, which must listen already."""
    run.place(node).mkdir(parents=True)
    listen = ["ncat", "--listen", "--recv-only", node.address, CHAIN_PORT]
    unpack = ["tar", "--extract", "--directory", run.place(node)]
    receiver = run.start(node, listen, "chain", stdout=subprocess.PIPE)
    wait_for_port(receiver, node.address, CHAIN_PORT)
    started = [receiver]
    data = receiver.stdout
    if following:
        send = ["ncat", "--send-only", following.address, CHAIN_PORT]
        sender = run.start(node, send, "chain", stdin=subprocess.PIPE)
        pipe = sender.stdin.fileno()
        tee = run.start(node, ["tee", f"/dev/fd/{pipe}"], "chain", stdin=data, stdout=subprocess.PIPE, pass_fds=[pipe])
        sender.stdin.close()
        data.close()
        data = tee.stdout
        started += [sender, tee]
    started.append(run.start(node, unpack, "chain", stdin=data))
    data.close()
    return [(node, process) for process in started]


@dataclass(frozen=True)
class Method:
    """A way, the words of its row, and the programs that it needs."""

    work: Callable[[Run], None]
    words: str
    programs: tuple[str, ...] = ()
    has_hub: bool = False


METHODS = {
    "agent": Method(agent, "this agent", has_hub=True),
    "hf": Method(hub_client, "hf download per node", has_hub=True),
    "rsync": Method(rsync_series, "rsync in series", ("rsync",)),
    "chain": Method(chain, "tar, ncat, tee chain", ("ncat", "tar", "tee")),
}


def start_hub(run: Run) -> None:
    """Serve the model on the origin."""
    where = ["--root", run.model.root, "--listen", f"{run.lab.origin.address}:{HUB_PORT}", "--log", hub_log(run)]
    hub = run.start(run.lab.origin, [sys.executable, "-B", PROJECT / "rehearsal/hub.py", *where], "hub")
    wait_for_port(hub, run.lab.origin.address, HUB_PORT)


def hub_log(run: Run) -> Path:
    """The hub's list of requests."""
    return run.folder / "requests.log"


def hub_bytes(run: Run) -> int:
    """Bytes of files that the hub handed to the network."""
    if not hub_log(run).is_file():
        return 0
    lines = map(json.loads, hub_log(run).read_text().splitlines())
    return sum(line["sent"] for line in lines if "/resolve/" in line["path"])
