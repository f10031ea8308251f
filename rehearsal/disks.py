"""Disks of simulated hosts: an ext4 in a file of this machine, seen by one host at /srv/models.

The machine mounts it and the host gets the mount, so a disk outlives a power cut of its host, has a size of its own,
and can be damaged below its filesystem: a byte changed in the file is a byte that the disk gives back wrong.
"""

from pathlib import Path

from rehearsal.commands import RehearsalError, as_root, run
from rehearsal.places import Site


def image(site: Site, host: str) -> Path:
    """The file that is the disk of a host."""
    return site.disks / f"{host}.img"


def mount_point(site: Site, host: str) -> Path:
    """Where this machine sees what the host has at /srv/models."""
    return site.disks / host


def make(site: Site, host: str, mebibytes: int) -> Path:
    """Make an empty disk and mount it; the file takes only the room of what is written. Returns the mount point."""
    file, place = image(site, host), mount_point(site, host)
    place.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as new:
        new.truncate(mebibytes << 20)
    run(as_root(["mkfs.ext4", "-q", "-m", "0", str(file)]))
    done = run(as_root(["mount", "-o", "loop,noatime", str(file), str(place)]), check=False)
    if done.returncode:
        reason = (done.stderr or done.stdout).strip()
        raise RehearsalError(f"the disk of {host} cannot be mounted: {reason}: this machine must allow loop devices")
    return place


def unmount(site: Site) -> None:
    """Unmount the disks of a site whose hosts are gone; their files go with the site's folder."""
    if site.disks.is_dir():
        for place in sorted(site.disks.iterdir()):
            if place.is_mount():
                run(as_root(["umount", str(place)]))
