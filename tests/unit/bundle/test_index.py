"""The index of a bundle."""

import json

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.bundle import index
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.bundle.drive import Drive

EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_it_lists_every_file_of_the_bundle_and_reads_none_that_was_proved(drive):
    (drive / "a").mkdir()
    (drive / "a/empty").touch()
    (drive / "proved").write_text("x")
    (drive / ".work").mkdir()
    (drive / ".work/part").touch()
    roots = [drive / "a", drive / "proved"]
    data = index.index(Drive(drive), {"site": "lima"}, {drive / "proved": "known"}, roots)
    content = json.loads(data)
    assert content["site"] == "lima"
    assert content["bytes"] == 1
    assert content["files"] == [
        {"path": "a/empty", "bytes": 0, "sha256": EMPTY},
        {"path": "proved", "bytes": 1, "sha256": "known"},
    ]
    assert index.index(Drive(drive), {"site": "lima"}, {drive / "proved": "known"}, reversed(roots)) == data


def test_what_belongs_to_no_part_is_named(drive):
    for path in ("checkpoint/k3/new", "checkpoint/k3/old", "photos", "lost+found", ".work"):
        (drive / path).mkdir(parents=True)
    assert index.strays(Drive(drive), [drive / "checkpoint/k3/new"]) == [
        str(drive / "checkpoint/k3/old"),
        str(drive / "photos"),
    ]
