"""The container engine of this machine, podman or docker, and the arguments that make a container a host.

Never add a bind mount of /sys/fs/cgroup or `--systemd=always`: both let the systemd of a simulated host
work in the machine's own control groups, and break the machine.
"""

import os
import resource
import shutil
from dataclasses import dataclass
from pathlib import Path

from rehearsal.commands import RehearsalError, as_root, run
from rehearsal.places import Site, cache_dir

CAP_SYS_RESOURCE = 24
MODEST_PROCESSES = 4096
VARIABLE = "KIMI_K3_CONTAINER_ENGINE"


@dataclass(frozen=True)
class Host:
    """One simulated host. `role` is `host` (a bare node) or `service`."""

    name: str
    role: str
    address: str


@dataclass(frozen=True)
class Engine:
    """podman or docker: the command line differs in a handful of places, all of them here."""

    name: str
    command: tuple[str, ...]

    def __call__(self, *args: str, check: bool = True, stdin: bytes | None = None) -> str:
        return run([*self.command, *args], check=check, stdin=stdin).stdout.strip()

    def ids(self, kind: str, label: str) -> list[str]:
        """Identifiers of the containers, networks or images that carry a label."""
        listing = {"container": ["ps", "-a"], "network": ["network", "ls"], "image": ["images", "-a"]}[kind]
        return self(*listing, "-q", "--filter", f"label={label}").split()

    def remove_containers(self, ids: list[str]) -> None:
        """With their anonymous volumes, which plain `rm -f` leaves behind."""
        if ids:
            self("rm", "-f", "-v", *(["-t", "0"] if self.name == "podman" else []), *ids)


def detect(wanted: str | None = None) -> Engine:
    """The engine to use: KIMI_K3_CONTAINER_ENGINE, else podman, else docker."""
    wanted = wanted or os.environ.get(VARIABLE)
    if wanted not in (None, "podman", "docker"):
        raise RehearsalError(f"{VARIABLE}={wanted}: it must be podman or docker")
    for name in (wanted,) if wanted else ("podman", "docker"):
        if shutil.which(name) and (engine := _working(name)):
            return engine
    raise RehearsalError(f"no working {wanted or 'podman or docker'} on this machine: install it, or set {VARIABLE}")


def every_engine() -> list[Engine]:
    """All engines that answer; for cleaning up."""
    return [e for name in ("podman", "docker") if shutil.which(name) and (e := _working(name))]


def _working(name: str) -> Engine | None:
    plain, root = (name,), tuple(as_root([name]))
    if name == "podman":
        # Rootless podman cannot make privileged hosts with networks of their own.
        configuration = limits_configuration()
        root = (*as_root(["env", f"CONTAINERS_CONF={configuration}"]), name) if configuration else root
        choices = (root,)
    else:
        choices = (plain, root) if root != plain else (plain,)
    for command in choices:
        if run([*command, "version"], check=False).returncode == 0:
            return Engine(name, command)
    return None


def may_raise_limits(status: str) -> bool:
    """Whether the capability to raise limits is to be had. `status` is the text of /proc/self/status."""
    bounding = next(line.split()[1] for line in status.splitlines() if line.startswith("CapBnd:"))
    return bool(int(bounding, 16) >> CAP_SYS_RESOURCE & 1)


def limits_configuration() -> Path | None:
    """A containers.conf for podman where its defaults cannot work; None on an ordinary machine.

    podman raises limits by default, which some machines (containers, small VMs) forbid; and crun refuses
    cgroups v1 in places where runc does not.
    """
    forbidden = not may_raise_limits(Path("/proc/self/status").read_text())
    old_cgroups = not Path("/sys/fs/cgroup/cgroup.controllers").exists()
    if not forbidden and not old_cgroups:
        return None
    text = '[engine]\nruntime = "runc"\n' if old_cgroups and _find_runc() else ""
    if forbidden:
        text += f"[containers]\ndefault_ulimits = {limits()}\n".replace("'", '"')
    path = cache_dir() / "containers.conf"
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    return path


def limits() -> list[str]:
    """Limits that need no capability: podman itself runs with fewer processes than its parent may have."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return [f"nofile={files}:{files}", f"nproc={MODEST_PROCESSES}:{MODEST_PROCESSES}"]


def _find_runc() -> str | None:
    return shutil.which("runc", path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")


def run_arguments(engine: str, site: Site, host: Host, image: str, mounts: dict[Path, str]) -> list[str]:
    """Arguments of `podman run` or `docker run` that start one host.

    `mounts` maps directories of this machine to places in the host, each with `:ro` where it is read-only.
    The anonymous volumes are real filesystems: /srv/models is a mount point, as on a node, unless it is a disk.
    """
    wanted = ["/var/lib/containers", "/srv/models"] if host.role == "host" else ["/var/lib/docker-registry"]
    volumes = [path for path in wanted if path not in mounts.values()]
    return [
        *("run", "--detach", "--name", site.container(host.name), "--hostname", host.name),
        *("--label", site.label, "--network", site.network, "--ip", host.address, "--network-alias", host.name),
        *("--privileged", "--cgroupns=private", *(["--systemd=false"] if engine == "podman" else [])),
        *(f"--tmpfs={path}" for path in ("/run", "/run/lock", "/tmp")),
        *(f"--volume={path}" for path in volumes),
        *(f"--volume={source}:{target}" for source, target in mounts.items()),
        image,
    ]
