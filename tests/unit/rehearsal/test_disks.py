"""Disks of hosts, as this machine makes and forgets them."""

import subprocess

import pytest

from rehearsal import disks
from rehearsal.commands import RehearsalError
from rehearsal.places import Site


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path / "inventory", "trial", tmp_path)


@pytest.fixture
def calls(monkeypatch):
    """The commands that were run, with a mount that fails when it is told to."""
    found = []

    def run(argv, check=True):
        found.append(argv)
        return subprocess.CompletedProcess(argv, int("mount" in argv and "refuse" in found), "", "no")

    monkeypatch.setattr(disks, "run", run)
    monkeypatch.setattr(disks, "as_root", list)
    return found


def test_a_disk_has_its_size_and_takes_no_room_before_it_is_written(site, calls):
    disks.make(site, "node-01", 300)

    file = disks.image(site, "node-01").stat()
    assert (file.st_size, file.st_blocks) == (300 << 20, 0)


def test_a_machine_without_loop_devices_is_told_so(site, calls):
    calls.append("refuse")

    with pytest.raises(RehearsalError, match=r"node-01 .* loop devices"):
        disks.make(site, "node-01", 1)


def test_only_what_is_mounted_is_unmounted(site, calls):
    disks.make(site, "node-01", 1)
    calls.clear()

    disks.unmount(site)

    assert calls == []
