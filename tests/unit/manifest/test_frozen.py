"""What a site keeps of the checkpoints it has seen, and what a new revision must show."""

from __future__ import annotations

import json

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils import frozen
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils import manifest as manifests

from tests.unit.running_hub import RunningHub

REPO = "moonshotai/Kimi-K3-tiny"
OLD, NEW = "9f62e4e9fffbd0a83ddd60e1c209d828994b3569", "f831ab66814297da540d832a5235f8e904f29d06"
CODE = "def encode():\n    return 1\n"


class Site:
    """A hub and the site's folder of frozen manifests."""

    def __init__(self, folder):
        self.files, self.state = folder / "hub", folder / "state"
        self.hub = None

    def publish(self, commit, **files):
        for name, text in {"config.json": "{}", "encoding.py": CODE, **files}.items():
            path = self.files / REPO / commit / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def check(self, commit, freeze=True, **choices):
        self.hub = self.hub or RunningHub(self.files)
        answer = manifests.check([self.hub.origin], REPO, commit, state=str(self.state), **choices)
        if freeze and not answer.faults and not answer.kept:
            frozen.Folder(str(self.state)).freeze(answer.manifest, answer.code)
        return answer


@pytest.fixture
def site(tmp_path):
    running = Site(tmp_path)
    running.publish(OLD)
    yield running
    if running.hub:
        running.hub.stop()


def test_a_manifest_that_is_frozen_is_kept(site):
    assert not site.check(OLD).kept
    assert site.check(OLD).kept


def test_an_origin_that_answers_otherwise_than_what_is_frozen_is_refused(site):
    known = site.check(OLD).manifest.digest
    site.publish(OLD, **{"config.json": "[]"})
    [fault] = site.check(OLD).faults
    assert fault.where == "checkpoint_origins"
    assert fault.limit == f"{known}, frozen in {site.state}/{OLD}.json"


def test_what_is_frozen_will_do_where_no_origin_answers(site):
    known = site.check(OLD).manifest
    site.hub.stop()
    answer = site.check(OLD)
    site.hub = None
    assert (answer.manifest, answer.faults) == (known, [])
    assert "cannot be reached" in answer.warnings[0].value


def test_without_an_origin_nothing_else_is_taken_for_the_commit(site):
    site.check(OLD)
    site.hub.stop()
    answer = site.check(NEW)
    site.hub = None
    assert answer.manifest is None
    assert answer.faults


def test_a_revision_with_other_python_files_shows_them_and_waits_for_consent(site):
    site.check(OLD)
    site.publish(NEW, **{"encoding.py": CODE.replace("1", "2"), "more.py": "x = 1\n"})
    answer = site.check(NEW)
    [fault] = answer.faults
    assert fault.value == f"encoding.py, more.py differ from {OLD}, which this site has served"
    assert "checkpoint_code_change_allowed: true" in fault.remedy
    assert [line for line in answer.code_diff if line.startswith(("-  ", "+  "))] == ["-    return 1", "+    return 2"]


def test_a_revision_that_is_allowed_is_asked_for_once(site):
    site.check(OLD)
    site.publish(NEW, **{"encoding.py": CODE.replace("1", "2")})
    assert site.check(NEW, code_change_allowed=True).faults == []
    assert site.check(NEW).faults == []


def test_a_revision_with_the_same_python_files_needs_no_consent(site):
    site.check(OLD)
    site.publish(NEW, **{"config.json": "[]"})
    assert site.check(NEW).faults == []


def test_a_revision_is_compared_with_the_one_that_was_frozen_last(site):
    site.publish(NEW, **{"encoding.py": "y = 1\n"})
    site.check(OLD)
    site.check(NEW, code_change_allowed=True)
    third = "a" * 40
    site.publish(third, **{"encoding.py": "y = 1\n"})
    assert site.check(third).faults == []


@pytest.mark.parametrize("text", ["", "{}", "[]"])
def test_a_frozen_file_that_is_damaged_is_named(site, text):
    site.check(OLD)
    (site.state / f"{OLD}.json").write_text(text)
    [fault] = site.check(OLD).faults
    assert f"{site.state}/{OLD}.json" in fault.value


def test_a_frozen_file_whose_manifest_was_edited_is_refused(site):
    site.check(OLD)
    file = site.state / f"{OLD}.json"
    content = json.loads(file.read_text())
    content["manifest"]["files"].pop()
    file.write_text(json.dumps(content))
    [fault] = site.check(OLD).faults
    assert "its digest is not that of its manifest" in fault.value


def test_a_file_that_appears_or_goes_is_a_difference(site):
    site.check(OLD)
    site.publish(NEW, **{"more.py": ""})
    (site.files / REPO / NEW / "encoding.py").unlink()
    assert site.check(NEW).faults[0].value.startswith("encoding.py, more.py differ")


def test_python_files_of_which_only_the_hashes_are_known_wait_for_consent_too(site, tmp_path):
    site.check(OLD)
    site.publish(NEW, **{"encoding.py": CODE.replace("1", "2")})
    file = tmp_path / "manifest.json"
    file.write_bytes(site.check(NEW, freeze=False).manifest.canonical())
    drive = [{"kind": "drive", "path": "/mnt/kimi-k3"}]
    answer = manifests.check(drive, REPO, NEW, state=str(site.state), manifest_file=str(file))
    assert answer.faults[0].value.startswith("encoding.py differ")
    assert [line.partition("  sha256 ")[0] for line in answer.code_diff] == ["--- a/encoding.py", "+++ b/encoding.py"]


def test_the_text_of_python_files_is_read_beside_a_manifest_as_a_drive_has_it(site):
    site.check(OLD)
    site.publish(NEW, **{"encoding.py": CODE.replace("1", "2")})
    file = site.files / REPO / f"{NEW}.json"
    file.write_bytes(site.check(NEW, freeze=False).manifest.canonical())
    drive = [{"kind": "drive", "path": "/mnt/kimi-k3"}]
    answer = manifests.check(drive, REPO, NEW, state=str(site.state), manifest_file=str(file))
    assert "+    return 2" in answer.code_diff
