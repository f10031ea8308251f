"""What can be made to go wrong on the drills' site. Each kind has a beginning and, where it can be undone, an end.

`at` says when a fault begins: `before` the playbook, at a share of the bytes like `40%`, or so many seconds after the
first byte, like `12s`. The share is that of the first node in `on`, or of the slowest node. `lasts` is in seconds;
without it a fault lasts until the first run of the playbook has ended, or until the second one prints what `until`
matches.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rehearsal import disks
from rehearsal.commands import RehearsalError, as_root, run, tool
from tests.drills import model
from tests.drills.site import HUB, RESET, ROOT, UNIT, DrillSite

if TYPE_CHECKING:
    from tests.drills.runner import Drilled

BAD_BLOCK = Path(__file__).with_name("bad_block.py")
HUB_PORT = 8080
FILE_SECONDS = 20
DROP = (
    "add table inet drill; add chain inet drill input {{ type filter hook input priority 0; }}; "
    "add rule inet drill input {match} drop"
)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault, when it begins, how long it lasts, and on which nodes (counted from 1)."""

    at: str = "before"
    lasts: float | None = None
    until: str = ""
    on: tuple[int, ...] = ()

    def begin(self, drilled: Drilled) -> None:
        """Make it go wrong."""

    def end(self, drilled: Drilled) -> None:
        """Make it right again, as whoever looks after the thing would."""

    def nodes(self, drilled: Drilled) -> list[str]:
        """Names of the nodes that it happens to."""
        return [drilled.site.nodes[number - 1] for number in self.on]


@dataclass(frozen=True, kw_only=True)
class HubAnswers(Fault):
    """The hub answers wrongly: keys of `rehearsal/hub.py`."""

    faults: tuple[dict, ...]

    def begin(self, drilled: Drilled) -> None:
        drilled.site.add_hub_faults(*self.faults)

    def end(self, drilled: Drilled) -> None:
        drilled.site.remove_hub_faults(*self.faults)


@dataclass(frozen=True, kw_only=True)
class HubDown(Fault):
    """Nobody listens where the hub was: connections end, and new ones are refused."""

    def begin(self, drilled: Drilled) -> None:
        drilled.site.on(HUB, "systemctl stop hub.service")

    def end(self, drilled: Drilled) -> None:
        drilled.site.on(HUB, "systemctl start hub.service")


@dataclass(frozen=True, kw_only=True)
class HubSlow(Fault):
    """The hub gives so many bytes a second to each connection."""

    rate: int

    def begin(self, drilled: Drilled) -> None:
        drilled.site.add_hub_faults({"path": "safetensors", "bytes_per_second": self.rate})

    def end(self, drilled: Drilled) -> None:
        drilled.site.remove_hub_faults({"path": "safetensors", "bytes_per_second": self.rate})
        drilled.site.on(HUB, "systemctl restart hub.service")


@dataclass(frozen=True, kw_only=True)
class HubSilent(Fault):
    """What is sent to the hub is lost: no connection ends, and no new one is answered."""

    def begin(self, drilled: Drilled) -> None:
        rules = DROP.format(match=f"tcp dport {HUB_PORT}")
        drilled.site.on(HUB, f"nft '{rules}'")

    def end(self, drilled: Drilled) -> None:
        drilled.site.on(HUB, "nft delete table inet drill")


@dataclass(frozen=True, kw_only=True)
class AgentKilled(Fault):
    """SIGKILL for the agent. systemd starts it again, unless it is `for_good`."""

    for_good: bool = False

    def begin(self, drilled: Drilled) -> None:
        folder = f"/run/systemd/system/{UNIT}.d"
        stay = f"mkdir -p {folder}; printf '[Service]\\nRestart=no\\n' > {folder}/drill.conf; systemctl daemon-reload; "
        for node in self.nodes(drilled):
            drilled.site.on(node, (stay if self.for_good else "") + f"systemctl kill --signal=KILL {UNIT}")

    def end(self, drilled: Drilled) -> None:
        for node in self.nodes(drilled):
            drilled.site.on(node, f"rm -rf /run/systemd/system/{UNIT}.d; systemctl daemon-reload")


@dataclass(frozen=True, kw_only=True)
class AgentStopped(Fault):
    """SIGSTOP for the agent: its connections stay open, and nothing comes."""

    def begin(self, drilled: Drilled) -> None:
        for node in self.nodes(drilled):
            drilled.site.on(node, f"systemctl kill --signal=STOP {UNIT}")

    def end(self, drilled: Drilled) -> None:
        for node in self.nodes(drilled):
            drilled.site.on(node, f"systemctl kill --signal=CONT {UNIT}", check=False)


@dataclass(frozen=True, kw_only=True)
class PowerCut(Fault):
    """The nodes lose power, all at the same moment. They boot when it ends."""

    def begin(self, drilled: Drilled) -> None:
        drilled.site.cut_power(*self.nodes(drilled))

    def end(self, drilled: Drilled) -> None:
        drilled.site.boot(*self.nodes(drilled))


@dataclass(frozen=True, kw_only=True)
class Isolated(Fault):
    """The nodes and the others lose what they send each other; hub and controller still reach them."""

    def begin(self, drilled: Drilled) -> None:
        for node in self.nodes(drilled):
            others = ", ".join(drilled.site.hosts[name].address for name in drilled.site.nodes if name != node)
            rules = DROP.format(match=f"ip saddr {{ {others} }}")
            drilled.site.on(node, f"nft '{rules}'")

    def end(self, drilled: Drilled) -> None:
        for node in self.nodes(drilled):
            drilled.site.on(node, "nft delete table inet drill", check=False)


@dataclass(frozen=True, kw_only=True)
class DiskFull(Fault):
    """Somebody else fills the nodes' disks, up to a few bytes."""

    left: int = 1 << 20

    def begin(self, drilled: Drilled) -> None:
        for node in self.nodes(drilled):
            free = f"$(($(stat -f -c %a*%S {ROOT}) - {self.left}))"
            drilled.site.on(node, f"fallocate --length {free} {ROOT}/somebody-elses")

    def end(self, drilled: Drilled) -> None:
        for node in self.nodes(drilled):
            drilled.site.on(node, f"rm -f {ROOT}/somebody-elses")


@dataclass(frozen=True, kw_only=True)
class DiskLies(Fault):
    """A node's disk gives back one byte of a published file other than it was written: below the filesystem, so that
    size, times and inode stay what they were. Without `file` it is one that no other node has yet; the others do not
    reach the node until that is so."""

    file: str = ""

    def begin(self, drilled: Drilled) -> None:
        for node in self.nodes(drilled):
            apart = Isolated(on=self.on)
            if not self.file:
                apart.begin(drilled)
            name = self.file or _only_on(drilled.site, node)
            path, image = drilled.site.published(node, name), disks.image(drilled.site.site, node)
            run(as_root([tool("python"), str(BAD_BLOCK), str(path), str(image)]))
            drilled.note(f"{node}: {name} was damaged")
            if not self.file:
                apart.end(drilled)


def _only_on(site: DrillSite, node: str) -> str:
    """A shard that a node has published and no other node has; waits for one."""
    others, end = [name for name in site.nodes if name != node], time.monotonic() + FILE_SECONDS
    while time.monotonic() < end:
        for name in map(model.shard, range(len(site.sizes), 0, -1)):
            if site.published(node, name).exists() and not any(site.published(o, name).exists() for o in others):
                return name
        time.sleep(0.1)
    raise RehearsalError(f"{node} published no shard within {FILE_SECONDS} s that no other node had")


@dataclass(frozen=True, kw_only=True)
class Replaced(Fault):
    """The nodes come back as new machines: no checkpoint, and nothing known of one."""

    def begin(self, drilled: Drilled) -> None:
        for node in self.nodes(drilled):
            drilled.site.on(node, RESET)


@dataclass(frozen=True, kw_only=True)
class Leftovers(Fault):
    """A former run left a part of another revision, and a part of a file that this revision does not have."""

    def begin(self, drilled: Drilled) -> None:
        for node in self.nodes(drilled):
            for folder in (f".part-{'1' * 40}", f".part-{drilled.site.commit}"):
                place = f"{ROOT}/{model.NAME}/{folder}"
                drilled.site.on(node, f"mkdir -p {place} && head -c 5000000 /dev/urandom > {place}/model-x.part")
            drilled.site.on(node, f"chown -R kimi-k3: {ROOT}/{model.NAME}")


@dataclass(frozen=True, kw_only=True)
class ControllerKilled(Fault):
    """SIGKILL for ansible-playbook and all that it started on the controller."""

    def begin(self, drilled: Drilled) -> None:
        drilled.playbooks[-1].kill()
        drilled.started = {node: drilled.site.status(node).get("started") for node in drilled.site.nodes}


@dataclass(frozen=True, kw_only=True)
class SecondRun(Fault):
    """Somebody else runs the same playbook too."""

    def begin(self, drilled: Drilled) -> None:
        drilled.play()
