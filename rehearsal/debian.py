"""Debian trees made by mmdebstrap, from the machine's own mirror where it has one."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from rehearsal.commands import Job, as_root, run

MIRROR_VARIABLE = "KIMI_K3_DEBIAN_MIRROR"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
LEFT_OUT = ("/usr/share/man/*", "/usr/share/locale/*", "/usr/share/doc/*")


def mirror() -> str | None:
    """Address of a Debian mirror: KIMI_K3_DEBIAN_MIRROR, else the one this machine uses, else mmdebstrap's default."""
    if chosen := os.environ.get(MIRROR_VARIABLE):
        return chosen
    fields = "$(ORIGIN) $(LABEL) $(REPO_URI)"
    return machine_mirror(run(["apt-get", "indextargets", "--format", fields], check=False).stdout)


def machine_mirror(targets: str) -> str | None:
    """The first mirror of Debian itself in what `apt-get indextargets` prints; None on Ubuntu and the like."""
    for line in targets.splitlines():
        if line.startswith("Debian Debian http"):
            return line.split()[2].rstrip("/")
    return None


def packages(listing: Path) -> list[str]:
    """The names in a package list, one a line; `#` starts a comment."""
    lines = (line.partition("#")[0].strip() for line in listing.read_text().splitlines())
    return [line for line in lines if line]


def tree_command(suite: str, include: Iterable[str], hooks: Sequence[str] = ()) -> list[str]:
    """The command that writes a minimal tree of a suite to its standard output, as a tar."""
    address = mirror()
    return as_root(
        [
            *("mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(include)}"),
            '--aptopt=APT::Install-Recommends "false"',
            *(f"--dpkgopt=path-exclude={path}" for path in LEFT_OUT),
            *([f"--keyring={KEYRING}"] if KEYRING.exists() else []),
            *(f"--customize-hook={hook}" for hook in hooks),
            *(suite, "-", *([f"deb {address} {suite} main"] if address else [])),
        ]
    )


def make_tree(command: list[str], target: Path, log: Path) -> None:
    """Run a tree_command(); `target` appears only when it is whole."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(".part")
    part.unlink(missing_ok=True)
    try:
        Job(command, log, stdout=part).wait()
        part.rename(target)
    finally:
        part.unlink(missing_ok=True)
