"""The drills' site: simulated hosts with disks of their own, a hub that can be told to fail, and a way back."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rehearsal import containers, disks, inventory, parts, ssh
from rehearsal.commands import RehearsalError, tool
from rehearsal.deploy import environment
from rehearsal.places import CHECKOUT, Site
from rehearsal.session import Session
from rehearsal.state import State
from tests.drills import inventory as drill_inventory
from tests.drills import model, stub_image

HERE = Path(__file__).parent
UNIT = "kimi-k3-fetch.service"
AGENT_STATE = "/var/lib/kimi-k3/checkpoint"
ROOT = "/srv/models"
HUB = "service-01"
# Bytes a second of each answer of the hub: a fetch that takes some seconds, so that there is a middle to fail in.
PACE = 3_000_000
RESET = f"""
systemctl kill --signal=KILL {UNIT}; systemctl stop {UNIT}; systemctl disable {UNIT}
rm -rf /etc/systemd/system/kimi-k3-fetch.service /run/systemd/system/{UNIT}.d
systemctl daemon-reload; systemctl reset-failed
nft delete table inet drill
rm -rf {AGENT_STATE} {ROOT}/*
true
"""


class DrillSite:
    """A site that is up. Commands on its hosts go past ssh, so that a fault of the network is not in their way."""

    def __init__(self, site: Site, state: State, total: int):
        self.site, self.hosts = site, {host.name: host for host in state.hosts}
        self.nodes = [host.name for host in state.hosts if host.role == "host"]
        self.engine = containers.detect(state.engine)
        self.commit = model.commit(total)
        self.manifest = model.manifest(parts.HUB_CACHE / model.REPOSITORY / self.commit)
        self.total = sum(row["size"] for row in self.manifest.values())
        self.sizes = model.sizes(total)
        self.folder = f"{ROOT}/{model.NAME}/{self.commit}"
        self._hub_faults: list[dict] = []

    def on(self, host: str, command: str, check: bool = True) -> str:
        """Output of a shell command that root runs on a host."""
        return self.engine("exec", self.site.container(host), "sh", "-c", command, check=check)

    def on_nodes(self, command: str, check: bool = True) -> None:
        """Run a command on all nodes at once."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda node: self.on(node, command, check), self.nodes))

    def cut_power(self, *hosts: str) -> None:
        """Kill every process of the hosts at once."""
        self.engine("kill", "--signal=KILL", *map(self.site.container, hosts), check=False)

    def boot(self, *hosts: str) -> None:
        """Start hosts that have no power, and wait until they answer."""
        self.engine("start", *map(self.site.container, hosts))
        ssh.wait(self.site, [self.hosts[name] for name in hosts])

    def running(self) -> set[str]:
        """The hosts that have power."""
        names = self.engine("ps", "--format", "{{.Names}}", "--filter", f"label={self.site.label}").split()
        return {host for host in self.hosts if self.site.container(host) in names}

    def seen(self, node: str) -> Path:
        """Where this machine sees the node's checkpoints."""
        return disks.mount_point(self.site, node)

    def published(self, node: str, name: str) -> Path:
        """Where this machine sees a file of the checkpoint on a node."""
        return self.seen(node) / model.NAME / self.commit / name

    def present(self, node: str) -> int:
        """Bytes of the checkpoint on a node's disk, whole or on their way."""
        found = 0
        for folder, _, names in os.walk(self.seen(node) / model.NAME):
            for name in names:
                with contextlib.suppress(OSError):
                    found += os.lstat(os.path.join(folder, name)).st_size
        return min(found, self.total)

    def status(self, node: str) -> dict:
        """What the node's agent said last."""
        path = f"{AGENT_STATE}/{model.NAME}-{self.commit}/status.json"
        try:
            return json.loads(self.on(node, f"cat {path}"))
        except (ValueError, RehearsalError):
            return {}

    def add_hub_faults(self, *faults: dict) -> None:
        """The hub does this wrong from now on, besides what it does wrong already."""
        self._hub_faults += faults
        self._write_hub_faults()

    def remove_hub_faults(self, *faults: dict) -> None:
        """The hub no longer does this wrong."""
        self._hub_faults = [fault for fault in self._hub_faults if fault not in faults]
        self._write_hub_faults()

    def _write_hub_faults(self) -> None:
        new = self.site.hub_files / "faults.new"
        new.write_text(json.dumps(self._hub_faults))
        new.replace(self.site.hub_files / "faults.json")

    def requests(self, since: int) -> list[dict]:
        """The requests that the hub has logged after the first `since`, those still open too: the hub is restarted."""
        self.on(HUB, "systemctl restart hub.service")
        return self._log()[since:]

    def _log(self) -> list[dict]:
        log = self.site.hub_files / "requests.log"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def count_requests(self) -> int:
        """How many requests the hub has logged so far."""
        return len(self._log())

    def reset(self) -> None:
        """Take the nodes back to where no checkpoint ever was, and the hub to where it answers well."""
        if away := [host for host in self.hosts if host not in self.running()]:
            self.boot(*away)
        self.on_nodes(RESET)
        self.on(HUB, "nft delete table inet drill; systemctl restart hub.service", check=False)
        self._hub_faults = []
        self.add_hub_faults({"path": "safetensors", "bytes_per_second": PACE})


class Playbook:
    """checkpoint.yml at work on the site, as an operator would run it; its words go to a file."""

    def __init__(self, site: Site, log: Path, variables: dict, name: str = "playbooks/checkpoint.yml"):
        argv = [tool("ansible-playbook"), name, "-i", str(site.inventory), "-e", json.dumps(variables)]
        self.log, self.killed = log, False
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                argv,
                cwd=CHECKOUT,
                env=os.environ | environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._process.poll()

    @property
    def said(self) -> str:
        """All that it printed, in one line, since Ansible breaks lines where it likes."""
        return " ".join(self.log.read_text(errors="replace").split())

    def kill(self) -> None:
        """SIGKILL for it and all that it started."""
        self.killed = True
        for process in [*_descendants(self._process.pid), self._process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._process.wait()


def _descendants(process: int) -> Iterator[int]:
    for tasks in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, tasks.read_text().split()):
                yield from _descendants(child)
                yield child


def bring_up(site: Site, count: int, total: int, fresh: bool) -> DrillSite:
    """Start the site, or keep the one that is up, and do what comes before a checkpoint."""
    model.build(parts.HUB_CACHE, total)
    drill_inventory.write(site.inventory, count, total)
    Session(site, fresh).up()
    state = State.load(site.state_file)
    service = next(host for host in state.hosts if host.name == HUB)
    inventory.write(site, state.hosts, stub_image.push(f"{service.address}:{inventory.REGISTRY_PORT}"))
    prepare = Playbook(site, site.logs / "prepare.log", {}, str(HERE / "prepare.yml"))
    while prepare.code is None:
        time.sleep(0.1)
    if prepare.code:
        raise RehearsalError(f"the nodes could not be prepared: see {prepare.log}")
    return DrillSite(site, state, total)
