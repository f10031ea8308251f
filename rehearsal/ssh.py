"""Keys of a simulated site, made new with it, and its control sockets."""

import shutil
import time

from rehearsal.commands import RehearsalError, run
from rehearsal.containers import Host
from rehearsal.places import Site

PATIENCE_SECONDS = 60


def make_keys(site: Site) -> None:
    """One key pair for the operator and one for the hosts: every host of the site has the same host key."""
    site.keys.mkdir(parents=True, exist_ok=True)
    site.sockets.mkdir(parents=True, exist_ok=True)
    for path in (site.keys / "id_ed25519", site.keys / "host_key"):
        if not path.exists():
            run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "rehearsal", "-f", str(path)])


def configure(site: Site, hosts: list[Host]) -> None:
    """known_hosts, and a configuration with which `ssh -F FILE node-01` reaches a host by its name."""
    public = " ".join((site.keys / "host_key.pub").read_text().split()[:2])
    (site.keys / "known_hosts").write_text("".join(f"{host.address} {public}\n" for host in hosts))
    common = f"""
    User ops
    IdentityFile "{site.keys / "id_ed25519"}"
    IdentitiesOnly yes
    UserKnownHostsFile "{site.keys / "known_hosts"}"
    StrictHostKeyChecking yes
"""
    rows = "".join(f"Host {host.name}\n    HostName {host.address}\n" for host in hosts)
    (site.keys / "config").write_text(f"{rows}Host *{common}")


def wait(site: Site, hosts: list[Host]) -> None:
    """Until every host has booted to the end and answers over ssh."""
    limit = time.monotonic() + PATIENCE_SECONDS
    for host in hosts:
        while (answer := _booted(site, host)) not in ("running", "degraded"):
            if time.monotonic() > limit:
                raise RehearsalError(f"{host.name} ({host.address}) not booted in {PATIENCE_SECONDS} s: {answer}")
            time.sleep(0.3)


def _booted(site: Site, host: Host) -> str:
    config = str(site.keys / "config")
    argv = ["ssh", "-F", config, "-o", "ConnectTimeout=5", host.name, "systemctl is-system-running --wait"]
    done = run(argv, check=False)
    return done.stdout.strip() or done.stderr.strip()


def end_connections(site: Site) -> None:
    """Masters that Ansible left open for the next run."""
    if site.sockets.is_dir():
        for socket in site.sockets.iterdir():
            run(["ssh", "-S", str(socket), "-O", "exit", "none"], check=False)
        shutil.rmtree(site.sockets, ignore_errors=True)
