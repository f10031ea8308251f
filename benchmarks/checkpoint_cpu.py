# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a byte costs the agent's processor, on loopback with no limit of rate, beside other tools in the same run.

    .venv/bin/python -m benchmarks.checkpoint_cpu [--folder /dev/shm/bench] [--profile FILE]

Core-seconds are user and system time of the processes of a row, best of some runs; the origin's are not in them. A GB
is 10^9 bytes. What an agent's start and end cost, whatever the size, is in its rows and told apart below them.
Everything is in the page cache. Ends with 1 where a bar is passed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import random_model
from benchmarks.fanout_methods import (
    AGENT,
    PROJECT,
    agent_command,
    agent_status,
    installed,
    profiled,
    write_agent_config,
)
from benchmarks.processes import Failed, Processes, wait_for_port
from benchmarks.random_model import COMMIT, REPO, Model
from benchmarks.shaped_lab import LabError, require, undisturbed

FOLDER = PROJECT / ".cache"
ADDRESS, HUB_PORT, RSYNC_PORT, FETCH_PORT = "127.0.0.1", 8741, 8742, 8743
TOGETHER_BAR, VERIFY_BAR, QUICK_BAR = 1.6, 1.2, 1.0
QUICK_FILES, QUICK_BYTES = 118, 4096
SHARDS = 16
PATIENCE_SECONDS = 600
BLOCK = 1 << 20


@dataclass
class Bench:
    """One model, the hub that serves it, and a place for copies."""

    model: Model
    folder: Path
    agent: Path
    runs: int
    profile: Path | None

    @property
    def hub(self) -> str:
        return f"http://{ADDRESS}:{HUB_PORT}"

    def best(self, work: Callable[[Processes, Path], float | None]) -> float:
        """Core-seconds per GB of the model: of all the processes, or of those that `work` returns."""
        found = []
        for _ in range(self.runs):
            copies, processes = self.folder / "copies", Processes(self.folder / "logs")
            shutil.rmtree(copies, ignore_errors=True)
            copies.mkdir()
            self._warm()
            try:
                found.append(work(processes, copies) or processes.seconds)
            finally:
                processes.end()
                shutil.rmtree(copies, ignore_errors=True)
        return min(found) / (self.model.size / 1e9)

    def _warm(self) -> None:
        """Have the model in the page cache: who verifies with care puts it out."""
        for path in self.model.files:
            with (self.model.folder / path).open("rb", buffering=0) as file:
                while file.read(BLOCK):
                    pass


def agents(bench: Bench, processes: Processes, copies: Path, wan: list[str], all_of: list[str]) -> dict[str, float]:
    """Let agents fetch; return the core-seconds of each."""
    nodes = {name: f"{ADDRESS}:{FETCH_PORT + n}" for n, name in enumerate(all_of)}
    running = {}
    for name in nodes:
        more = {"wan_nodes": wan} if len(nodes) > 1 else {}
        config = write_agent_config(copies / name, bench.model, bench.hub, name, nodes, **more)
        command = agent_command(bench.agent, "fetch", config)
        if bench.profile and name == all_of[0]:
            command = profiled(command, bench.profile)
        running[name] = processes.start(command, name)
    costs = {}
    for name, process in running.items():
        before = processes.seconds
        code = processes.wait(process, PATIENCE_SECONDS)
        if code != 0 or agent_status(copies / name).get("state") != "complete":
            raise Failed(f"{name} ended with {code}: {processes.tail(name)}")
        costs[name] = processes.seconds - before
    return costs


def fetch_rows(bench: Bench) -> Iterator[tuple[str, float]]:
    """(what, core-seconds per GB) of bringing the model onto this machine."""
    urls = [f"{bench.hub}/{REPO}/resolve/{COMMIT}/{path}" for path in bench.model.files]

    def curl(processes: Processes, copies: Path) -> None:
        words = [word for url in urls for word in ("--remote-name", url)]
        command = ["curl", "--silent", "--fail", "--parallel", "--parallel-max", "3", *words]
        processes.call(command, "curl", cwd=copies)

    def curl_and_hash(processes: Processes, copies: Path) -> None:
        curl(processes, copies)
        processes.call(random_model.digest_command(bench.model, copies), "openssl")

    def rsync(processes: Processes, copies: Path) -> None:
        processes.call(["rsync", "-a", "--whole-file", f"rsync://{ADDRESS}:{RSYNC_PORT}/model/", f"{copies}/"], "rsync")

    yield "curl, 3 at once, no proof", bench.best(curl)
    yield "curl, then openssl dgst", bench.best(curl_and_hash)
    yield "rsync from a daemon, no proof", bench.best(rsync)
    yield "agent alone: receive, hash", bench.best(lambda p, c: agents(bench, p, c, ["a"], ["a"])["a"])


def site_rows(bench: Bench) -> Iterator[tuple[str, float]]:
    """(what, core-seconds per GB received) of two agents that hand on to each other."""
    costs: list[dict[str, float]] = []

    def one_link(processes: Processes, copies: Path) -> float:
        costs.append(agents(bench, processes, copies, ["a"], ["a", "b"]))
        return costs[-1]["a"]

    def two_links(processes: Processes, copies: Path) -> float:
        return sum(agents(bench, processes, copies, ["a", "b"], ["a", "b"]).values()) / 2

    yield "agent: receive, hash, serve all of it", bench.best(one_link)
    yield "agent that got all from that one", min(cost["b"] for cost in costs) / (bench.model.size / 1e9)
    yield "agent: receive, hash, serve half of it", bench.best(two_links)


def fixed_seconds(bench: Bench) -> float:
    """Core-seconds of an agent with nothing to speak of to fetch."""
    config = write_agent_config(bench.folder / "fixed", bench.model, bench.hub, "a", {"a": ""})
    manifest = config.with_name("manifest.json")
    data = json.loads(manifest.read_text())
    small = [file for file in data["files"] if not file["path"].endswith(".safetensors")]
    manifest.write_text(json.dumps(data | {"files": small}))
    spent = []
    for _ in range(bench.runs):
        processes = Processes(bench.folder / "logs")
        processes.call(agent_command(bench.agent, "fetch", config), "fixed")
        shutil.rmtree(bench.folder / "fixed/model")
        spent.append(processes.seconds)
    shutil.rmtree(bench.folder / "fixed")
    return min(spent)


def hash_rows(bench: Bench) -> Iterator[tuple[str, float]]:
    """(what, GB/s of one core) of proving what is there."""

    def verify(processes: Processes, copies: Path) -> None:
        config = write_agent_config(copies / "a", bench.model, bench.hub, "a", {"a": ""})
        (copies / "a/model").symlink_to(bench.model.folder)
        processes.call(agent_command(bench.agent, "verify", config, "--full"), "verify")

    def openssl(processes: Processes, _: Path) -> None:
        processes.call(random_model.digest_command(bench.model, bench.model.folder), "openssl")

    def memory(_processes: Processes, _: Path) -> float:
        block, digest, start = os.urandom(BLOCK), hashlib.sha256(), time.process_time()
        for _ in range(bench.model.size // BLOCK):
            digest.update(block)
        return time.process_time() - start

    yield "agent, verify --full from page cache", 1 / bench.best(verify)
    yield "openssl dgst -sha256 from page cache", 1 / bench.best(openssl)
    yield "hashlib.sha256 in memory", 1 / bench.best(memory)


def quick_seconds(bench: Bench) -> float:
    """Seconds from start to end of `verify --quick` on so many files, all whole."""
    folder, sizes = bench.folder / "quick", [QUICK_BYTES] * QUICK_FILES
    model = random_model.Model(folder, {}, sum(sizes))
    for number in range(QUICK_FILES):
        data, path = os.urandom(QUICK_BYTES), model.folder / f"{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        model.files[path.name] = hashlib.sha256(data).hexdigest()
    config, processes = write_agent_config(folder / "a", model, bench.hub, "a", {"a": ""}), Processes(folder / "logs")
    (folder / "a/model").symlink_to(model.folder)
    processes.call(agent_command(bench.agent, "verify", config, "--full"), "verify")
    spent = []
    for _ in range(bench.runs):
        start = time.monotonic()
        processes.call(agent_command(bench.agent, "verify", config, "--quick"), "verify")
        spent.append(time.monotonic() - start)
    shutil.rmtree(folder)
    return min(spent)


def serve(bench: Bench, processes: Processes) -> None:
    """Start what gives the bytes: the hub and an rsync daemon."""
    where = ["--root", bench.model.root, "--listen", f"{ADDRESS}:{HUB_PORT}", "--log", bench.folder / "requests.log"]
    hub = processes.start([sys.executable, PROJECT / "rehearsal/hub.py", *where], "hub")
    config = bench.folder / "rsyncd.conf"
    config.write_text(f"use chroot = no\n[model]\npath = {bench.model.folder}\n")
    where = ["--address", ADDRESS, "--port", str(RSYNC_PORT)]
    rsync = processes.start(["rsync", "--daemon", "--no-detach", "--config", config, *where], "rsync-daemon")
    wait_for_port(hub, ADDRESS, HUB_PORT)
    wait_for_port(rsync, ADDRESS, RSYNC_PORT)


def measure(bench: Bench) -> int:
    """Print all rows and bars; return how many bars were passed."""
    report, missed = {}, 0
    hashing = dict(hash_rows(bench))
    plain = 1 / hashing["hashlib.sha256 in memory"]
    print(f"\n{'core-seconds per GB':<42}{'':>8}{'x curl and plain hashing':>27}")
    together = 0.0
    for rows in (fetch_rows, site_rows):
        for what, cost in rows(bench):
            report[what] = cost
            base = report["curl, 3 at once, no proof"] + plain
            print(f"{what:<42}{cost:>8.2f}{cost / base:>27.2f}", flush=True)
            together = max(together, cost) if "serve" in what else together
    print(f"{'(start and end of an agent: core-seconds)':<42}{fixed_seconds(bench):>8.2f}")
    print(f"\n{'GB/s of one core':<42}{'':>8}{'x hashing in memory':>27}")
    for what, rate in hashing.items():
        print(f"{what:<42}{rate:>8.2f}{rate * plain:>27.2f}")
    quick = quick_seconds(bench)
    verified = hashing["agent, verify --full from page cache"]
    print()
    for said, held in (
        (f"receive, hash and serve: {together:.2f} core-s/GB, at most {TOGETHER_BAR}", together <= TOGETHER_BAR),
        (f"verify --full: {verified:.2f} GB/s of one core, at least {VERIFY_BAR}", verified >= VERIFY_BAR),
        (f"verify --quick of {QUICK_FILES} files: {quick:.2f} s, at most {QUICK_BAR:g}", quick <= QUICK_BAR),
    ):
        print(f"{'pass' if held else 'FAIL'}  {said}")
        missed += not held
    return missed


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=2_147_483_648, help="bytes of the model")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="for the model and the copies")
    parser.add_argument("--runs", type=int, default=3, help="the best of so many counts")
    parser.add_argument("--agent", type=Path, default=AGENT, help="another version of the agent")
    parser.add_argument(
        "--profile", type=Path, metavar="FILE", help="where an agent that does all three spends its time"
    )
    return parser.parse_args(arguments)


def filesystem(folder: Path) -> str:
    """The kind of filesystem that holds a folder, such as ext4."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    inside = [row for row in mounts if folder.resolve().is_relative_to(row[1])]
    return max(inside, key=lambda row: len(row[1]))[2]


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    try:
        require(["curl", "rsync", "openssl"], root=False)
    except LabError as error:
        print(f"checkpoint_cpu: {error}", file=sys.stderr)
        return 2
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    folder = options.folder / "checkpoint_cpu"
    shutil.rmtree(folder, ignore_errors=True)
    processes = Processes(folder / "logs")
    try:
        return run(options, folder, processes)
    except (Failed, KeyboardInterrupt) as error:
        print(f"checkpoint_cpu: {str(error) or 'stopped'}", file=sys.stderr)
        return 2
    finally:
        with undisturbed():
            processes.end()
            shutil.rmtree(folder)


def run(options: argparse.Namespace, folder: Path, processes: Processes) -> int:
    """Measure in a folder of its own; return the exit code."""
    model = random_model.make(folder / "origin", options.size, SHARDS)
    bench = Bench(model, folder, installed(options.agent, folder / "kimi-k3"), options.runs, None)
    serve(bench, processes)
    print(f"{model.size / 1e9:.2f} GB on {filesystem(folder)} at {folder}, best of {options.runs}")
    if not options.profile:
        return int(measure(bench) > 0)
    bench.runs, bench.profile = 1, options.profile
    what, cost = next(site_rows(bench))
    print(f"{what}: {cost:.2f} core-seconds per GB with the profile's own\n\n{options.profile.read_text()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
