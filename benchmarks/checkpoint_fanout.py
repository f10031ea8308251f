# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From one origin onto every node: this agent beside other ways, on links of a set rate.

    sudo .venv/bin/python -Bm benchmarks.checkpoint_fanout                     all of it; half an hour
    sudo .venv/bin/python -Bm benchmarks.checkpoint_fanout --nodes 4 --methods agent,chain --wan 50 --lan 100
    .venv/bin/python -m benchmarks.checkpoint_fanout --simulate --nodes 8,64      K3 itself on a model of the links

Builds hosts as network namespaces, with nothing on this machine's own links, and takes them down at the end; what a
crashed run left goes first. The clock of a method stops when all nodes have proved their bytes; then this program
hashes every copy itself, and a wrong one is a failed method. Ends with 1 where the agent passes a bar.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import fanout_methods, fanout_simulation, random_model, shaped_lab
from benchmarks.fanout_methods import METHODS, Run
from benchmarks.processes import Failed, Processes
from benchmarks.shaped_lab import Counter, Lab, LabError

FOLDER = Path(__file__).resolve().parents[1] / ".cache"
BASE_MBIT, BASE_BYTES, BASE_NODES = 100.0, 201_326_592, 4
SHARDS = 32
WAN_BYTES_BAR, CORE_SECONDS_BAR = 1.02, 1.6
TIME_BARS = {0.5: 1.25, 1.0: 1.40}  # by WAN rate over LAN rate
SLOWEST = 12  # times the limit: then a method has failed
BUSY_BAR = 0.85


@dataclass(frozen=True)
class Scenario:
    """So many nodes on such links."""

    nodes: int
    wan_mbit: float
    lan_mbit: float
    size: int

    @property
    def limit(self) -> float:
        """Seconds that no method can beat: every byte comes through the site link once and into each node once."""
        return self.size * 8 / (min(self.wan_mbit, self.lan_mbit) * 1e6)

    @property
    def time_bar(self) -> float | None:
        return TIME_BARS.get(self.wan_mbit / self.lan_mbit)

    def __str__(self) -> str:
        rates = f"site link {self.wan_mbit:g} Mbit/s, node links {self.lan_mbit:g} Mbit/s"
        return f"{self.nodes} nodes, {rates}, {self.size / 1e6:.0f} MB; physical limit {self.limit:.1f} s"


@dataclass
class Result:
    """One row of the table; multiples of the model's size where nothing else is said."""

    method: str
    nodes: int
    failed: str | None = None
    seconds: float = 0
    limit: float = 0
    origin_link: float = 0
    origin_hub: float | None = None
    uplinks: tuple[float, ...] = ()
    core_seconds_per_gb: float = 0
    dropped_packets: int = 0
    busy: float = 0
    timeline: tuple[tuple[float, ...], ...] = ()

    @property
    def times_limit(self) -> float:
        return self.seconds / self.limit

    @property
    def origin(self) -> float:
        """What left the origin: the larger of what its link and its log say."""
        return max(self.origin_link, self.origin_hub or 0)


def measure(name: str, scenario: Scenario, run: Run) -> Result:
    """Run one method, and judge what it left on the nodes."""
    method, processes, size = METHODS[name], run.processes, run.model.size
    result = Result(name, scenario.nodes, limit=scenario.limit)
    try:
        if method.has_hub:
            fanout_methods.start_hub(run)
        with _deadline(processes, scenario.limit * SLOWEST + 60), _meters(result, run.lab, size):
            method.work(run)
        _judge(run)
    except Failed as error:
        result.failed = str(error)
    finally:
        with shaped_lab.undisturbed():
            processes.end()
    result.core_seconds_per_gb = processes.seconds / (scenario.nodes * size / 1e9)
    if method.has_hub:
        result.origin_hub = fanout_methods.hub_bytes(run) / size
    return result


def _judge(run: Run) -> None:
    for node in run.lab.nodes:
        if wrong := list(random_model.wrong_files(run.model, run.place(node))):
            raise Failed(f"{node.name} holds {len(wrong)} wrong files, such as {wrong[0]}")


@contextlib.contextmanager
def _deadline(processes: Processes, seconds: float) -> Iterator[None]:
    """End all processes of a method that takes too long; it then fails by their exit codes."""
    timer = threading.Timer(seconds, processes.end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextlib.contextmanager
def _meters(result: Result, lab: Lab, size: int) -> Iterator[None]:
    """Take the time, the bytes of every link, and how busy this machine's cores were."""
    before, cores, start = lab.sent(), _core_times(), time.monotonic()
    stop, rows = threading.Event(), []

    def sample() -> None:
        while not stop.wait(1):
            rows.append((time.monotonic() - start, lab.sent()))

    sampler = threading.Thread(target=sample, daemon=True)
    sampler.start()
    try:
        yield
    finally:
        result.seconds = time.monotonic() - start
        stop.set()
        sampler.join()
        sent = {name: counter - before[name] for name, counter in lab.sent().items()}
        idle, total = (after - earlier for after, earlier in zip(_core_times(), cores, strict=True))
        result.busy = 1 - idle / max(total, 1)
    result.origin_link = sent[lab.origin.name].payload / size
    result.uplinks = tuple(sent[node.name].payload / size for node in lab.nodes)
    result.dropped_packets = sum(counter.dropped for counter in sent.values())
    result.timeline = tuple((round(at, 1), *_row(lab, before, counters, size)) for at, counters in rows)


def _row(lab: Lab, before: dict[str, Counter], now: dict[str, Counter], size: int) -> tuple[float, ...]:
    return tuple(round((now[host.name] - before[host.name]).payload / size, 3) for host in lab.hosts)


def _core_times() -> tuple[int, int]:
    """Idle and total ticks of all cores."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)


LEGEND = f"""
Time ends when every node has proved its bytes. Origin: what its link and, where there is one, the hub's log count, the
larger. Core-seconds: user and system, of the processes on the nodes; those on the origin are not counted. Where cores
are more than {BUSY_BAR:.0%} busy, they and not the links may have set the pace: end other work, or lower the rates."""
HEAD = f"{'method':<24}{'nodes':>6}{'seconds':>9}{'x limit':>9}{'origin xS':>11}{'core-s/GB':>11}  uplinks xS"


def row(result: Result) -> str:
    """One line of the table."""
    name = f"{METHODS[result.method].words:<24}{result.nodes:>6}"
    if result.failed:
        return f"{name}   failed after {result.seconds:.0f} s: {result.failed}"
    numbers = (
        f"{result.seconds:>9.1f}{result.times_limit:>9.2f}{result.origin:>11.2f}{result.core_seconds_per_gb:>11.2f}"
    )
    busy = f"  (cores {result.busy:.0%} busy)" if result.busy > BUSY_BAR else ""
    return f"{name}{numbers}  {' '.join(f'{uplink:.2f}' for uplink in result.uplinks)}{busy}"


def bars(scenario: Scenario, result: Result) -> Iterator[tuple[str, bool]]:
    """What the agent is held to, and whether it holds."""
    if result.failed:
        yield "ends complete", False
        return
    if scenario.time_bar:
        said = f"{result.times_limit:.2f} x the limit, at most {scenario.time_bar:.2f}"
        yield said, result.times_limit <= scenario.time_bar
    yield f"{result.origin:.3f} x S left the origin, at most {WAN_BYTES_BAR}", result.origin <= WAN_BYTES_BAR


def scenarios(options: argparse.Namespace) -> Iterator[Scenario]:
    """For each number of nodes: the rates asked for, or WAN half of LAN and both equal."""
    for nodes in options.nodes:
        # Two cores carry only so many bytes per second, whatever the number of nodes: rates and bytes shrink together.
        share = min(1, BASE_NODES / nodes)
        lan = options.lan or BASE_MBIT * share
        size = options.size or round(BASE_BYTES * share)
        for wan in [options.wan] if options.wan else [lan / 2, lan]:
            yield Scenario(nodes, wan, lan, size)


def run_all(options: argparse.Namespace) -> int:
    """Measure and print; return how many bars were passed."""
    folder, passed, report = _own_folder(options), 0, []
    agent = fanout_methods.installed(options.agent, folder / "kimi-k3")
    for scenario in scenarios(options):
        model = random_model.make(folder / "origin", scenario.size, options.shards)
        print(f"\n{scenario}\n{HEAD}", flush=True)
        for name in options.methods:
            rates = (scenario.wan_mbit, scenario.lan_mbit)
            with _emptied(folder / "run"), shaped_lab.lab(scenario.nodes, *rates) as lab:
                processes = Processes(folder / "run/logs")
                run = Run(lab, model, folder / "run", processes, agent, options.profile, options.wan_nodes)
                result = measure(name, scenario, run)
            print(row(result), flush=True)
            report.append({"scenario": asdict(scenario), **asdict(result)})
            for said, held in bars(scenario, result) if name == "agent" else ():
                print(f"    {'pass' if held else 'FAIL'}  {said}", flush=True)
                passed += not held
            if options.json:
                options.json.write_text(json.dumps(report, indent=1))
    print(LEGEND)
    return passed


def _own_folder(options: argparse.Namespace) -> Path:
    """What this program may empty, in a folder that may hold other things."""
    return options.folder / "checkpoint_fanout"


@contextlib.contextmanager
def _emptied(folder: Path) -> Iterator[None]:
    """Have nothing in a folder, before and after."""
    shutil.rmtree(folder, ignore_errors=True)
    try:
        yield
    finally:
        with shaped_lab.undisturbed():
            shutil.rmtree(folder, ignore_errors=True)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""

    def numbers(text: str) -> list[int]:
        return [int(word) for word in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=numbers, help="default 2,4,8; simulated 8,64,512, where the last takes an hour")
    parser.add_argument("--wan", type=float, help="Mbit/s of the site link (default: half of LAN, then equal)")
    parser.add_argument("--lan", type=float, help="Mbit/s of a node's link (default: 100; above 4 nodes less)")
    parser.add_argument("--size", type=int, help="bytes of the model (default: 201 MB; above 4 nodes less)")
    parser.add_argument("--shards", type=int, default=SHARDS)
    parser.add_argument("--methods", type=lambda text: text.split(","), default=list(METHODS), help=",".join(METHODS))
    parser.add_argument("--json", type=Path, metavar="FILE", help="all numbers, with a sample of each link per second")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="for model and copies; default .cache")
    parser.add_argument("--agent", type=Path, default=fanout_methods.AGENT, help="another version of the agent")
    parser.add_argument("--profile", type=Path, metavar="FILE", help="where the first node's agent spends its time")
    parser.add_argument("--wan-nodes", type=int, help="so many nodes alone use the origin, with the agent")
    parser.add_argument("--simulate", action="store_true", help="the agent's scheduler alone, with K3's file sizes")
    parser.add_argument(
        "--uneven", type=float, default=0, help="simulated: 0.5 is from half to one and a half of a share"
    )
    parser.add_argument("--clean", action="store_true", help="only remove what a crashed run left")
    options = parser.parse_args(arguments)
    if unknown := set(options.methods) - set(METHODS):
        parser.error(f"--methods: {', '.join(sorted(unknown))}: not one of {', '.join(METHODS)}")
    options.nodes = options.nodes or ([8, 64, 512] if options.simulate else [2, 4, 8])
    return options


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    if options.simulate:
        fanout_simulation.simulate(options.agent, options.nodes, options.wan, options.lan, options.uneven)
        return 0
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    programs = [
        "ip",
        "tc",
        "nsenter",
        "sysctl",
        "openssl",
        *(p for name in options.methods for p in METHODS[name].programs),
    ]
    try:
        shaped_lab.require(programs)
        with shaped_lab.alone(), _emptied(_own_folder(options)):
            return int(not options.clean and run_all(options) > 0)
    except LabError as error:
        print(f"checkpoint_fanout: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("checkpoint_fanout: stopped; the lab is taken down", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
