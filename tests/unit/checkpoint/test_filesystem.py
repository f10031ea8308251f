"""Where a checkpoint may lie."""

from __future__ import annotations

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.module_utils import filesystem
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.filesystem import Filesystem

MOUNTINFO = """\
22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
30 22 8:17 / {0}/mounted\\040here rw,relatime shared:1 - xfs /dev/sdb1 rw
31 22 0:40 / {0}/memory rw - tmpfs tmpfs rw
"""
REFUSED_KINDS = ["tmpfs", "overlay"]


def place(mount_point="/srv/models", kind="xfs", bytes_free=0):
    return Filesystem("/srv/models", mount_point, kind, bytes_free, False)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/", "not one of the system's"),
        ("/var/lib/", "not one of the system's"),
        ("//srv", "an absolute path"),
        ("/var/lib", "not one of the system's"),
        ("/etc/models", "not one of the system's"),
        ("/usr", "not one of the system's"),
        ("models", "an absolute path"),
        ("/srv/../etc", "an absolute path"),
        ("/srv/my models", "an absolute path"),
        ("/srv/%h", "an absolute path"),
    ],
)
def test_refuses_the_path(path, reason):
    (fault,) = filesystem.path_faults(path)
    assert reason in fault["limit"]


def test_takes_a_folder_of_its_own_that_is_not_there_yet():
    assert list(filesystem.path_faults("/srv/no-such-folder/models")) == []


@pytest.fixture
def outside_tmp(monkeypatch):
    """Let test folders below /tmp pass for a place of one's own."""
    monkeypatch.setattr(filesystem, "_SYSTEM_TREES", ())


def test_refuses_what_is_not_a_folder(tmp_path, outside_tmp):
    (tmp_path / "models").write_text("")
    (fault,) = filesystem.path_faults(f"{tmp_path}/models")
    assert "is not a folder" in fault["value"]


def test_refuses_a_path_through_a_link_and_says_where_it_leads(tmp_path, outside_tmp):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (fault,) = filesystem.path_faults(f"{tmp_path}/link")
    assert fault["remedy"] == f"write checkpoint_path: {tmp_path}/real"


@pytest.mark.parametrize(
    ("path", "mount_point", "kind", "source"),
    [
        ("mounted here/models/deep", "mounted here", "xfs", "/dev/sdb1"),
        ("memory", "memory", "tmpfs", "tmpfs"),
        ("not mounted", None, "ext4", "/dev/sda1"),
    ],
)
def test_finds_the_filesystem_that_would_hold_a_path(tmp_path, path, mount_point, kind, source):
    (tmp_path / "mounted here").mkdir()
    (tmp_path / "memory").mkdir()
    (tmp_path / "mountinfo").write_text(MOUNTINFO.format(tmp_path))
    found = filesystem.look(f"{tmp_path}/{path}", str(tmp_path / "mountinfo"))
    assert found.mount_point == (f"{tmp_path}/{mount_point}" if mount_point else "/")
    assert (found.kind, found.source) == (kind, source)


@pytest.mark.parametrize(
    ("kind", "is_network"),
    [("nfs4", True), ("lustre", True), ("fuse.sshfs", True), ("9p", True), ("xfs", False), ("fuse.mergerfs", False)],
)
def test_knows_what_other_machines_may_have_too(kind, is_network):
    assert place(kind=kind).is_network == is_network


@pytest.mark.parametrize(
    ("found", "mount_required", "value"),
    [
        (place("/"), True, "/srv/models is not mounted: it lies on /"),
        (place(kind="tmpfs"), True, "/srv/models lies on tmpfs (/srv/models)"),
        (place("/", kind="overlay"), False, "/srv/models lies on overlay (/)"),
    ],
)
def test_refuses_the_place(found, mount_required, value):
    (fault,) = filesystem.place_faults("/srv/models", found, mount_required, REFUSED_KINDS)
    assert fault["value"] == value


@pytest.mark.parametrize(("found", "mount_required"), [(place(), True), (place("/"), False)])
def test_takes_the_place(found, mount_required):
    assert list(filesystem.place_faults("/srv/models", found, mount_required, REFUSED_KINDS)) == []


def test_space_must_hold_what_is_missing_and_two_percent():
    assert list(filesystem.space_faults("/srv/models", place(bytes_free=1020), 1000)) == []
    (fault,) = filesystem.space_faults("/srv/models", place(bytes_free=1019), 1000)
    assert fault["value"] == "1019 bytes free on /srv/models"
    assert fault["limit"].startswith("1020 bytes: 1000 to fetch")
    assert fault["remedy"].startswith("free 1 bytes")


def test_space_that_lacks_says_what_older_revisions_hold():
    (fault,) = filesystem.space_faults("/srv/models", place(bytes_free=0), 1000, old_bytes=5000)
    assert "5000 bytes there are older revisions, kept until" in fault["remedy"]
