# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A network of its own on this machine: one origin and some nodes, with links of a set rate.

Every host is a network namespace, and so is the switch between them. All links lie between those namespaces: no link
or address of the machine is made, changed or looked at, and a deleted namespace takes its links with it. Both ends of
every link are shaped by tbf, so a rate holds in both directions.

A lock lets one lab exist at a time. So whatever carries the prefix when the lock was free is left over from a run that
crashed, and goes before a new lab comes.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

PREFIX = "kimi-k3-fanout-"
SWITCH = f"{PREFIX}switch"
LOCK = Path("/run/lock/kimi-k3-fanout")
ORIGIN = "origin"
NETWORK = "10.99.0"
# More than the largest segment that TCP hands down in one piece, which would else cost a packet's work for each 1.5 kB.
BURST_BYTES = 128 << 10
QUEUE_SECONDS = 0.03
# Ethernet, IPv4 and TCP with time stamps: what a packet has beside its payload.
HEADER_BYTES = 14 + 20 + 32
# Debian packages by the program that is looked for.
PACKAGES = {
    "ip": "iproute2",
    "tc": "iproute2",
    "nsenter": "util-linux",
    "sysctl": "procps",
    "openssl": "openssl",
    "rsync": "rsync",
    "ncat": "ncat",
    "tar": "tar",
    "tee": "coreutils",
    "curl": "curl",
}


class LabError(Exception):
    """One message for the operator: what is wrong, and what to do."""


@dataclass(frozen=True)
class Counter:
    """What left through one end of a link: TCP payload in bytes, and packets that found the queue full."""

    payload: int
    dropped: int

    def __sub__(self, other: Counter) -> Counter:
        return Counter(self.payload - other.payload, self.dropped - other.dropped)


@dataclass(frozen=True)
class Host:
    """The origin or a node."""

    name: str
    address: str
    mbit: float

    @property
    def namespace(self) -> str:
        return PREFIX + self.name

    def command(self, argv: Sequence[str | Path]) -> list[str]:
        """The same command, in this host's network; the process keeps its number."""
        return ["nsenter", f"--net=/run/netns/{self.namespace}", *map(str, argv)]


@dataclass(frozen=True)
class Lab:
    """One origin behind the site link, and nodes."""

    origin: Host
    nodes: tuple[Host, ...]

    @property
    def hosts(self) -> tuple[Host, ...]:
        return (self.origin, *self.nodes)

    def sent(self) -> dict[str, Counter]:
        """What each host has sent so far."""
        return {host.name: _counter(host.namespace, "eth0") for host in self.hosts}


def require(programs: Sequence[str], root: bool = True) -> None:
    """Raise LabError with the Debian packages of all programs that are missing, or where root is needed."""
    missing = sorted({PACKAGES[program] for program in programs if not shutil.which(program)})
    if missing:
        raise LabError(f"programs are missing: apt-get install {' '.join(missing)}")
    if root and os.geteuid() != 0:
        raise LabError("network namespaces need root: run this as root")


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Hold the lock of all labs, and remove what a crashed run left."""
    with LOCK.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LabError(f"another run holds {LOCK}: two would measure each other") from None
        tear_down()
        yield


@contextlib.contextmanager
def lab(count: int, wan_mbit: float, lan_mbit: float) -> Iterator[Lab]:
    """Build a lab and take it down again, whatever happens."""
    nodes = tuple(Host(f"node{n}", f"{NETWORK}.{n + 1}", lan_mbit) for n in range(1, count + 1))
    built = Lab(Host(ORIGIN, f"{NETWORK}.1", wan_mbit), nodes)
    try:
        _ip("netns", "add", SWITCH)
        _ip("-n", SWITCH, "link", "add", "bridge0", "type", "bridge")
        _ip("-n", SWITCH, "link", "set", "bridge0", "up")
        for host in built.hosts:
            _connect(host)
        yield built
    finally:
        tear_down()


def _connect(host: Host) -> None:
    inside = ("-n", host.namespace)
    _ip("netns", "add", host.namespace)
    _ip("link", "add", "eth0", "netns", host.namespace, "type", "veth", "peer", "name", host.name, "netns", SWITCH)
    _ip("-n", SWITCH, "link", "set", host.name, "master", "bridge0", "up")
    _ip(*inside, "address", "add", f"{host.address}/24", "dev", "eth0")
    for link in ("lo", "eth0"):
        _ip(*inside, "link", "set", link, "up")
    for namespace, link in ((host.namespace, "eth0"), (SWITCH, host.name)):
        rate = ("rate", f"{round(host.mbit * 1000)}kbit", "burst", str(BURST_BYTES))
        shape = ("qdisc", "add", "dev", link, "root", "tbf", *rate, "latency", f"{QUEUE_SECONDS * 1000:.0f}ms")
        _run(["tc", "-n", namespace, *shape])
    _set_congestion_control(host)


def _set_congestion_control(host: Host) -> None:
    """Take cubic, as most hosts do, or where a namespace may not have it reno, which is the same on such short ways.

    Without this a namespace has what this machine has, such as bbr.
    """
    setting = "net.ipv4.tcp_congestion_control"
    try:
        _run(host.command(["sysctl", "-qw", f"{setting}=cubic"]))
    except LabError:
        _run(host.command(["sysctl", "-qw", f"{setting}=reno"]))


def tear_down() -> None:
    """End all processes in namespaces of a lab, then delete them."""
    with undisturbed():
        names = [name for name in _namespaces() if name.startswith(PREFIX)]
        for number in (signal.SIGTERM, signal.SIGKILL):
            if pids := [pid for name in names for pid in _processes(name)]:
                for pid in pids:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, number)
                time.sleep(0.5)
        for name in names:
            _ip("netns", "delete", name)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Let no signal stop what must be done to its end."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _namespaces() -> list[str]:
    return [row["name"] for row in json.loads(_ip("-json", "netns", "list") or "[]")]


def _processes(namespace: str) -> list[int]:
    return [int(pid) for pid in _ip("netns", "pids", namespace).split()]


def _counter(namespace: str, link: str) -> Counter:
    """Read the queue's own counters: unlike the link's they count the packets as the wire would carry them."""
    rows = json.loads(_run(["tc", "-n", namespace, "-s", "-json", "qdisc", "show", "dev", link]))
    return Counter(rows[0]["bytes"] - rows[0]["packets"] * HEADER_BYTES, rows[0]["drops"])


def _ip(*arguments: str) -> str:
    return _run(["ip", *arguments])


def _run(argv: list[str]) -> str:
    """Run a short command to its end; a Ctrl-C on the terminal does not reach it."""
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, process_group=0, check=False)
    if done.returncode:
        raise LabError(f"exit code {done.returncode} of: {' '.join(argv)}\n{done.stderr}".rstrip())
    return done.stdout
