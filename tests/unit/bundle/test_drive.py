"""What forbids filling a drive, before a byte is written."""

import os

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.module_utils import filesystem
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.bundle import drive as drives
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.bundle.drive import Drive
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.bundle.parts import Bundle, Wanted
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.bundle.work import Failed

from tests.unit.bundle.samples import Image

COMMIT = "9f62e4e9fffbd0a83ddd60e1c209d828994b3569"
LARGE = {"path": "model.safetensors", "size": 10**18, "sha256": "0" * 64}


def bundle(path, images=(), files=(LARGE,), **wanted):
    manifest = {"repo": "moonshotai/Kimi-K3", "commit": COMMIT, "files": list(files)}
    given = {"platforms": [], "mount_required": False, "architectures": ["x86_64"], **wanted}
    return Bundle(Wanted(str(path), "kimi-k3", manifest, [{"kind": "hub", "url": "http://h"}], list(images), **given))


def lying_on(monkeypatch, kind, mount_point="/mnt/drive"):
    found = filesystem.Filesystem("/mnt/drive", mount_point, kind, 10**12, mount_point == "/")
    monkeypatch.setattr(drives.filesystem, "look", lambda path: found)


def test_too_little_space_is_refused_with_what_each_part_takes(drive, skopeo):
    image = Image()
    skopeo.give(image)
    (fault,) = bundle(drive, [image.reference]).faults()
    assert fault["value"].endswith(f"bytes free on {drive}")
    assert "1000000000000000000 of checkpoint" in fault["limit"]
    assert "of image vllm/engine" in fault["limit"]
    assert fault["remedy"].startswith("free ")
    assert os.listdir(drive) == []


def test_a_folder_that_is_not_there_is_refused(drive):
    (fault,) = bundle(drive / "elsewhere").faults()
    assert "mount the drive" in fault["remedy"]


def test_a_run_that_names_no_folder_is_told_which_variable_it_wants():
    (fault,) = bundle("").faults()
    assert (fault["where"], fault["value"]) == ("bundle_path", "missing")


def test_a_folder_of_the_systems_own_disk_is_refused_unless_it_is_meant(drive, monkeypatch):
    lying_on(monkeypatch, "ext4", "/")
    (fault,) = drives.place_faults(str(drive), True, 1)
    assert "it lies on /" in fault["value"] and "bundle_mount_required=false" in fault["remedy"]
    assert list(drives.place_faults(str(drive), False, 1)) == []


def test_a_filesystem_whose_files_are_too_short_is_refused(drive, monkeypatch):
    lying_on(monkeypatch, "vfat")
    (fault,) = drives.place_faults(str(drive), True, 17_000_000_000)
    assert "4294967295" in fault["value"] and "exfat" in fault["remedy"]
    assert list(drives.place_faults(str(drive), True, 4_000_000_000)) == []


def test_all_faults_of_the_machine_come_in_one_answer(drive, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    faults = bundle(drive, platforms=["debian-13", "suse-15"]).faults()
    said = [f"{fault['where']}: {fault['value']}" for fault in faults]
    assert "bundle_platforms: suse-15" in said
    assert {"this machine: skopeo is missing here", "this machine: reprepro is missing here"} <= set(said)


def test_a_site_that_does_not_say_which_platforms_it_has_is_asked(drive, skopeo):
    (fault,) = bundle(drive, platforms=None, files=[]).faults()
    assert fault["where"] == "bundle_platforms" and "[debian-13]" in fault["remedy"]


def test_a_registry_that_does_not_answer_is_a_fault_and_no_traceback(drive, skopeo):
    skopeo.go_down()
    (fault,) = bundle(drive, [Image().reference]).faults()
    assert fault["where"] == "serving_image" and "connection refused" in fault["value"]


def test_two_runs_do_not_fill_one_drive(drive):
    holder = f"being filled by process {os.getpid()}"
    with Drive(drive).alone(), pytest.raises(Failed, match=holder), Drive(drive).alone():
        pass
