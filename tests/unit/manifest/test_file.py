"""A manifest that comes from a file, and the origins that have none."""

from __future__ import annotations

import json
import shutil

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils import frozen
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils import manifest as manifests

from tests.unit.running_hub import RunningHub

REPO, COMMIT = "moonshotai/Kimi-K3-tiny", "9f62e4e9fffbd0a83ddd60e1c209d828994b3569"
FILES = {"config.json": b"{}", "a b.py": b"x = 1\n", "empty": b"", "model-00001-of-000001.safetensors": bytes(1000)}
DRIVE = {"kind": "drive", "path": "/mnt/kimi-k3"}
NOBODY = "http://127.0.0.1:9"


class Site:
    """A hub whose files an HTTP mirror has too, and the manifest in a file."""

    def __init__(self, folder):
        self.folder, self.place = folder, folder / REPO / COMMIT
        for name, data in FILES.items():
            self.place.mkdir(parents=True, exist_ok=True)
            (self.place / name).write_bytes(data)
        self.hub = RunningHub(folder)
        self.mirror = {"kind": "http", "url": f"{self.hub.url}/{REPO}/resolve/{COMMIT}"}
        self.file = folder / "manifest.json"
        self.file.write_bytes(manifests.check([self.hub.origin], REPO, COMMIT).manifest.canonical())

    def check(self, *origins, file=None, **choices):
        return manifests.check(list(origins), REPO, COMMIT, manifest_file=str(file or self.file), **choices)

    def signed(self, **urls):
        """An origin of signed URLs, of every file and as given."""
        file = self.folder / "urls.json"
        usual = {name: f"{self.mirror['url']}/{name.replace(' ', '%20')}?sig=word" for name in FILES}
        file.write_text(json.dumps({name: url for name, url in {**usual, **urls}.items() if url}))
        return {"kind": "http", "urls_file": str(file)}


@pytest.fixture
def site(tmp_path):
    running = Site(tmp_path)
    yield running
    running.hub.stop()


def only_fault(answer):
    [fault] = answer.faults
    return fault


def test_a_drive_is_asked_nothing_and_the_files_manifest_is_taken(site):
    before = len(site.hub.requests("/"))
    answer = site.check(DRIVE)
    assert (answer.faults, answer.warnings) == ([], [])
    assert answer.manifest.canonical() == site.file.read_bytes()
    assert len(site.hub.requests("/")) == before


def test_a_mirror_is_asked_for_one_byte_of_its_smallest_file(site):
    before = len(site.hub.requests("/"))
    assert site.check(site.mirror).faults == []
    [asked] = site.hub.requests("/")[before:]
    assert asked["path"].endswith("/config.json")
    assert (asked["method"], asked["range"], asked["sent"]) == ("GET", "bytes=0-0", 1)


def test_what_another_site_froze_is_a_manifest_with_its_python_files(site, tmp_path):
    answer = manifests.check([site.hub.origin], REPO, COMMIT)
    file = frozen.Folder(str(tmp_path / "other")).freeze(answer.manifest, answer.code)
    taken = site.check(DRIVE, file=file)
    assert (taken.manifest, taken.code) == (answer.manifest, {"a b.py": "x = 1\n"})


def test_without_a_file_a_site_without_a_hub_has_no_manifest(site):
    fault = only_fault(manifests.check([site.mirror], REPO, COMMIT))
    assert (fault.where, fault.limit) == ("checkpoint_manifest_file", "a manifest, as no origin is a hub")


# what is wrong with the mirror: (the hub's faults, what is said of it, remedy)
MIRRORS = {
    "it forbids": ({"status": 403}, "answered 403", "let this site read it"),
    "it has not the file": ({"status": 404}, "answered 404", "name the folder that holds the manifest's files"),
    "it is ill": ({"status": 503}, "answered 503", "name another origin"),
}


@pytest.mark.parametrize("case", MIRRORS)
def test_a_mirror_is_refused_where(site, case):
    fault, words, remedy = MIRRORS[case]
    site.hub.inject({"path": "/resolve/", **fault})
    found = only_fault(site.check(site.mirror))
    assert found.where == "checkpoint_origins[0]"
    assert found.value.startswith(f"{site.mirror['url']}/config.json")
    assert words in found.value
    assert remedy in found.remedy


def test_a_mirror_that_nobody_listens_at_is_refused(site):
    fault = only_fault(site.check({"kind": "http", "url": f"{NOBODY}/k3"}))
    assert f"{NOBODY}/k3/config.json cannot be reached: 127.0.0.1 port 9" in fault.value


def test_a_signed_url_that_is_none_is_refused(site):
    fault = only_fault(site.check(site.signed(**{"config.json": "http://127.0.0.1:x/?sig=word"})))
    assert fault.value.startswith("http://127.0.0.1:x/ cannot be reached")
    assert "word" not in fault.value


def test_a_mirror_with_another_file_is_refused(site):
    (site.place / "config.json").write_bytes(b"{   }")
    fault = only_fault(site.check(site.mirror))
    assert fault.value.endswith("/config.json has 5 bytes")
    assert fault.limit == "2 bytes, says the manifest"


def test_signed_urls_that_ran_out_are_to_be_signed_anew_and_are_not_shown(site):
    site.hub.inject({"path": "/resolve/", "status": 403})
    fault = only_fault(site.check(site.signed()))
    assert fault.remedy == "sign the URLs anew: they run out"
    assert "word" not in fault.value


@pytest.mark.parametrize(
    ("urls", "words"),
    [
        ({"config.json": None}, "has no http(s) URL of config.json"),
        (dict.fromkeys(FILES), "URL of a b.py, config.json, empty and 1 more"),
        ({"empty": "file:///etc/passwd"}, "has no http(s) URL of empty"),
    ],
)
def test_a_file_of_signed_urls_that_lacks_some_is_refused_whatever_else_there_is(site, urls, words):
    fault = only_fault(site.check(DRIVE, site.signed(**urls)))
    assert fault.where == "checkpoint_origins[1].urls_file"
    assert words in fault.value


@pytest.mark.parametrize(("text", "words"), [(None, "No such file"), ("[", "no JSON"), ("[]", "has no http(s) URL of")])
def test_a_file_of_signed_urls_that_is_none_is_refused(site, text, words):
    file = site.folder / "none.json"
    if text:
        file.write_text(text)
    fault = only_fault(site.check({"kind": "http", "urls_file": str(file)}))
    assert words in fault.value


def test_a_mirror_that_fails_is_a_warning_where_another_origin_is_there(site):
    answer = site.check({"kind": "http", "url": NOBODY}, site.mirror)
    assert answer.faults == []
    assert [fault.where for fault in answer.warnings] == ["checkpoint_origins[0]"]


def test_a_mirror_that_fails_is_a_warning_where_the_site_has_frozen_the_manifest(site, tmp_path):
    state = tmp_path / "state"
    first = site.check(DRIVE, state=str(state))
    frozen.Folder(str(state)).freeze(first.manifest, first.code)
    answer = site.check({"kind": "http", "url": NOBODY}, state=str(state))
    assert (answer.faults, answer.kept, len(answer.warnings)) == ([], True, 1)


def test_a_hub_that_says_the_same_as_the_file_is_sound(site):
    assert site.check(site.hub.origin).faults == []


def test_a_hub_that_says_otherwise_than_the_file_is_refused(site):
    (site.place / "config.json").write_bytes(b"[]")
    fault = only_fault(site.check(site.hub.origin))
    assert fault.where == "checkpoint_manifest_file"
    assert fault.value.startswith(f"{site.file}: sha256:")
    assert fault.limit.endswith(", says the hub")


def test_a_hub_that_is_away_leaves_the_files_manifest_for_the_origins_that_are_there(site):
    answer = site.check({"kind": "hub", "url": NOBODY}, site.mirror)
    assert answer.faults == []
    assert "cannot be reached" in answer.warnings[0].value
    assert answer.manifest.canonical() == site.file.read_bytes()


def test_a_hub_that_is_away_is_refused_where_it_is_the_only_origin(site):
    assert "cannot be reached" in only_fault(site.check({"kind": "hub", "url": NOBODY})).value


@pytest.mark.parametrize(
    ("change", "words", "limit"),
    [
        (None, "No such file", "a file that can be read"),
        (lambda text: "{", "Expecting property name", "a manifest as JSON"),
        (lambda text: "{}", "not a manifest", "a manifest as JSON"),
        (lambda text: text.replace("config.json", "../config.json"), "must stay inside", "a manifest as JSON"),
        (lambda text: text.replace(COMMIT, "a" * 40), f"is of {REPO} at {'a' * 40}", f"{REPO} at {COMMIT}"),
        (lambda text: text.replace(REPO, "other/model"), "is of other/model", f"{REPO} at {COMMIT}"),
    ],
)
def test_a_file_that_is_not_this_manifest_is_refused(site, change, words, limit):
    file = site.folder / "other.json"
    if change:
        file.write_text(change(site.file.read_text()))
    fault = only_fault(site.check(DRIVE, file=file))
    assert fault.where == "checkpoint_manifest_file"
    assert words in fault.value
    assert fault.limit == limit


def test_the_files_manifest_must_be_the_one_that_the_site_has_frozen(site, tmp_path):
    state = tmp_path / "state"
    first = site.check(DRIVE, state=str(state))
    frozen.Folder(str(state)).freeze(first.manifest, first.code)
    shutil.copy(site.file, site.folder / "kept.json")
    site.file.write_text(site.file.read_text().replace('"size":2}', '"size":3}'))
    fault = only_fault(site.check(DRIVE, state=str(state)))
    assert f"frozen in {state}/{COMMIT}.json" in fault.limit
