"""The site's file: where the image is declared, what is written there, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils import pin as pins
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.pin import Pin, Refused

from tests.unit.pin.running_registry import DIGEST

IMAGE = "quay.io/vllm/vllm-openai:v0.29.0"
PINNED = f"{IMAGE}@{DIGEST}"
SITE = f"all:\n  vars:\n    # The engine\n    serving_image: {IMAGE}   # why\n\n    site_name: lima\n"


@pytest.fixture(autouse=True)
def asked(monkeypatch) -> list[str]:
    """The images that a registry was asked for; every one has the same digest."""
    images = []
    monkeypatch.setattr(pins.Repository, "digest", lambda repository: images.append(repository.reference) or DIGEST)
    return images


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.yml"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode())


def pin(folder: Path, *values: str) -> Pin:
    return pins.pin([str(folder)], values or [IMAGE], [])


def refusal(folder: Path, *values: str) -> dict:
    with pytest.raises(Refused) as refused:
        pin(folder, *values)
    return refused.value.row


@pytest.mark.parametrize(
    "text",
    [
        SITE,
        f"all: {{vars: {{serving_image: {IMAGE}, site_name: 'lima'}}}}\n",
        f"all:\n  vars:\n    serving_image: '{IMAGE}' # why\n    x: 'y'\n",
        f'all:\n  vars:\n    "serving_image": "{IMAGE}"\n',
        f"all:\n  vars:\n    serving_image: >- # {IMAGE}\n      {IMAGE}\n\n    # {IMAGE}\n    x: y\n",
        f"all:\n  vars:\n    serving_image: |-\n      {IMAGE}\n",
        f"all:\n  vars:\n    serving_image:\n      {IMAGE}\n",
        f"all:\n  vars:\n    serving_image: &image !!str {IMAGE}\n",
        f"all:\r\n  vars:\r\n    serving_image: {IMAGE}\r\n    x: ñandú\r\n",
        f"\ufeff# ¿Cuál?\nall: {{vars: {{serving_image: {IMAGE}}}}}",
        f"x: &shared {{serving_image: {IMAGE}}}\n",
    ],
    ids=["plain", "flow", "single", "double", "folded", "literal", "next-line", "anchor", "crlf", "mark", "nested"],
)
def test_only_the_digest_is_added_to_the_file(tmp_path, text):
    write(tmp_path, site=text)
    found = pin(tmp_path)
    found.write()
    after = (tmp_path / "site.yml").read_bytes().decode()
    assert after.replace(f"@{DIGEST}", "") == text
    assert pins.pin([str(tmp_path)], [PINNED], []).text is None


def test_a_file_of_group_vars_is_written_where_that_declares_the_image(tmp_path):
    write(tmp_path, hosts="all: {}\n", group_vars__all=f"serving_image: {IMAGE}\n")
    (tmp_path / "group_vars/all.yml").rename(tmp_path / "group_vars/all")
    assert pin(tmp_path).place.file == tmp_path / "group_vars/all"


def test_of_a_file_given_with_i_its_neighbours_are_left_out(tmp_path):
    write(tmp_path, lima=SITE, cusco=SITE, group_vars__all="serving_profile: x\n")
    assert pins.pin([str(tmp_path / "lima.yml"), "gpu-01,"], [IMAGE], []).place.file == tmp_path / "lima.yml"


def test_mode_owner_and_link_of_the_file_stay(tmp_path):
    write(tmp_path, real__site=SITE, folder__hosts="all: {}\n")
    file, link = tmp_path / "real/site.yml", tmp_path / "folder/site.yml"
    file.chmod(0o640)
    owner = os.geteuid() or 4711  # only root can give a file away
    os.chown(file, owner, -1)
    link.symlink_to(file)
    pin(tmp_path / "folder").write()
    assert link.is_symlink()
    assert PINNED in file.read_text()
    assert (file.stat().st_mode & 0o777, file.stat().st_uid) == (0o640, owner)
    assert os.listdir(file.parent) == ["site.yml"]


def test_the_diff_is_the_changed_line(tmp_path):
    write(tmp_path, site=f"# serving_image: {PINNED}\n{SITE}")
    diff = pin(tmp_path).diff()
    assert diff["before"] == f"    serving_image: {IMAGE}   # why\n"
    assert diff["after"] == f"    serving_image: {PINNED}   # why\n"
    assert diff["after_header"] == f"{tmp_path}/site.yml, line 5"


@pytest.mark.parametrize(
    "text",
    [f"serving_image: {PINNED}\n", "serving_image: '{{ elsewhere }}'\n", "x: y\n"],
    ids=["text", "template", "nowhere"],
)
def test_an_image_with_a_digest_is_left_and_no_registry_is_asked(tmp_path, asked, text):
    write(tmp_path, site=text)
    found = pin(tmp_path, PINNED)
    assert (found.text, asked) == (None, [])
    assert "pinned already" in found.message


REFUSED = {
    "no image": ("x: y\n", [], "missing", "under all: vars:"),
    "an empty value": ("serving_image:\n", [], "empty", "NAME:TAG"),
    "an upper-case name": ("serving_image: Vllm:v1\n", ["Vllm:v1"], "Vllm:v1", "NAME:TAG"),
    "a short digest": ("serving_image: a@sha256:1\n", ["a@sha256:1"], "a@sha256:1", "64 lower-case hex digits"),
    "a template": ("serving_image: '{{ x }}'\n", [IMAGE], "{{ x }}", "write the digest by hand where the value comes"),
    "a template without a value": ("serving_image: '{% if x %}a{% endif %}'\n", [], "{% if x %}", "a template"),
    "an encrypted value": ("serving_image: !vault |\n  $ANSIBLE_VAULT;1\n", [IMAGE], "!vault ...", "ansible-vault"),
    "a number": ("serving_image: 0.29\n", ["0.29"], "0.29", "a number"),
    "a list": ("serving_image: [a, b]\n", ["['a', 'b']"], "[a, b]", "a list"),
    "two in one file": ("a: {serving_image: a:1}\nb: {serving_image: a:1}\n", ["a:1"], "line 2", "keep the one"),
    "another value by -e": (f"serving_image: {IMAGE}\n", ["a:1"], IMAGE, "that is a:1"),
    "another value on some hosts": (f"serving_image: {IMAGE}\n", [IMAGE, "a:1"], IMAGE, f"{IMAGE} and a:1"),
    "a file that Ansible does not read": (f"serving_image: {IMAGE}\n", [], IMAGE, "that is nothing"),
    "no place": ("x: y\n", [IMAGE], IMAGE, "declared in a YAML file of the site's folder"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_is_refused_before_a_registry_is_asked(tmp_path, asked, name):
    text, values, value, words = REFUSED[name]
    write(tmp_path, site=text)
    with pytest.raises(Refused) as refused:
        pins.pin([str(tmp_path)], values, [])
    row = refused.value.row
    assert value in row["value"]
    assert words in f"{row['limit']}; {row['remedy']}"
    assert asked == []


def test_a_second_file_that_declares_it_is_named(tmp_path):
    write(tmp_path, site=SITE, host_vars__a=f"serving_image: {IMAGE}\n")
    value = refusal(tmp_path)["value"]
    assert f"{tmp_path}/host_vars/a.yml, line 1" in value
    assert f"{tmp_path}/site.yml, line 4" in value


def test_copies_and_data_of_the_site_declare_nothing(tmp_path):
    write(tmp_path, site=SITE, simulated=SITE, catalogue__x=SITE, state__x=SITE)
    for name in ("site.yml.bak", ".site.yml", "hosts.ini"):
        (tmp_path / name).write_text(SITE)
    assert pin(tmp_path).place.file == tmp_path / "site.yml"


def test_an_image_in_an_encrypted_file_is_refused_with_its_name(tmp_path):
    write(tmp_path, site="x: y\n", vault="$ANSIBLE_VAULT;1.1;AES256\n6162\n")
    row = refusal(tmp_path)
    assert "ansible-vault" in row["limit"]
    assert f"{tmp_path}/vault.yml" in row["remedy"]


@pytest.mark.parametrize(
    "text",
    [
        f"x: &image {IMAGE}\nserving_image: *image\n",
        f"serving_image: &image {IMAGE}\nx: *image\n",
        'serving_image: "quay.io/vllm/vllm-openai\\x3av0.29.0"\n',
    ],
    ids=["alias", "anchor", "escape"],
)
def test_a_value_that_cannot_be_lengthened_alone_is_refused_with_the_line_to_write(tmp_path, text):
    write(tmp_path, site=text)
    assert refusal(tmp_path)["remedy"] == f"write serving_image: {PINNED}"


@pytest.mark.parametrize("part", ["site.yml", ""])
def test_a_file_that_cannot_be_written_is_refused_before_a_registry_is_asked(tmp_path, monkeypatch, asked, part):
    write(tmp_path, site=SITE)
    forbidden = tmp_path / part
    monkeypatch.setattr(pins.os, "access", lambda path, _mode: path != forbidden)
    assert refusal(tmp_path)["limit"] == f"{forbidden} can be written"
    assert asked == []


def test_a_disk_that_fails_leaves_the_file_and_nothing_beside_it(tmp_path, monkeypatch):
    write(tmp_path, site=SITE)
    found = pin(tmp_path)
    monkeypatch.setattr(pins.shutil, "copymode", lambda *_paths: os.stat("/nowhere"))
    with pytest.raises(Refused) as refused:
        found.write()
    assert refused.value.row["remedy"] == f"write serving_image: {PINNED}"
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("site.yml", SITE)]
