"""Where things are: one checkout, its simulated sites, and the user's cache."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
LABEL = "kimi-k3.rehearsal"


def cache_dir() -> Path:
    """The user's cache of the rehearsal; shared by all checkouts."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "kimi-k3"


@dataclass(frozen=True)
class Site:
    """One simulated site of one checkout: an inventory directory and all names that follow from it."""

    inventory: Path
    name: str
    checkout: Path = CHECKOUT

    @classmethod
    def of(cls, inventory: str, name: str | None = None) -> "Site":
        path = Path(inventory).resolve()
        return cls(path, name or path.name)

    @property
    def id(self) -> str:
        """8 hex digits; differs between checkouts, so two rehearsals never share a name."""
        return hashlib.sha256(f"{self.checkout}\0{self.name}".encode()).hexdigest()[:8]

    @property
    def network(self) -> str:
        return f"kimi-k3-{self.id}"

    def container(self, host: str) -> str:
        return f"{self.network}-{host}"

    @property
    def label(self) -> str:
        return f"{LABEL}={self.id}"

    @property
    def home(self) -> Path:
        """All that the tool writes for this site inside the checkout, apart from the inventory."""
        return self.checkout / ".rehearsal" / self.name

    @property
    def state_file(self) -> Path:
        return self.home / "state.json"

    @property
    def lock_file(self) -> Path:
        return self.home.with_suffix(".lock")

    @property
    def keys(self) -> Path:
        return self.home / "ssh"

    @property
    def hub_files(self) -> Path:
        """Shared with the service host: the hub's request log and its faults."""
        return self.home / "hub"

    @property
    def drive(self) -> Path:
        """What hosts with a drive see at /mnt/drive, read-only: a removable drive that is plugged in there."""
        return self.home / "drive"

    @property
    def disks(self) -> Path:
        """Disks of a size of their own, for the hosts that have one."""
        return self.home / "disks"

    @property
    def logs(self) -> Path:
        return self.home / "logs"

    @property
    def simulated(self) -> Path:
        """The generated inventory file that says where the simulated hosts are."""
        return self.inventory / "simulated.yml"

    @property
    def deploy_state(self) -> Path:
        """What the playbooks leave on the controller for this site."""
        return self.inventory / "state"

    @property
    def sockets(self) -> Path:
        """ssh's control sockets; in the cache because a socket's path may have 107 characters only."""
        return cache_dir() / "ssh" / self.id
