"""Mirrors, package lists and the command that makes a tree."""

import pytest

from rehearsal import debian


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        ("Debian Debian http://mirror.example/debian/\n", "http://mirror.example/debian"),
        ("Ubuntu Ubuntu http://archive.ubuntu.com/ubuntu/\n", None),
        ("other packages https://example.org/\nDebian Debian http://a/debian/\n", "http://a/debian"),
        ("Debian Debian-Security http://a/debian-security/\n", None),
        ("", None),
    ],
    ids=["Debian", "Ubuntu", "after a foreign source", "security only", "no lists"],
)
def test_the_mirror_of_the_machine_is_used_where_it_is_a_debian(targets, expected):
    assert debian.machine_mirror(targets) == expected


def test_a_mirror_that_is_asked_for_wins(monkeypatch):
    monkeypatch.setenv("KIMI_K3_DEBIAN_MIRROR", "http://chosen/debian")

    assert debian.mirror() == "http://chosen/debian"


def test_a_package_list_has_names_and_comments(tmp_path):
    (tmp_path / "list").write_text("# why\npodman  # the engine\n\ncrun\n")

    assert debian.packages(tmp_path / "list") == ["podman", "crun"]


def test_a_tree_that_fails_half_way_leaves_nothing(tmp_path):
    with pytest.raises(Exception, match="exit code 1"):
        debian.make_tree(["sh", "-c", "echo half; exit 1"], tmp_path / "tree.tar", tmp_path / "log")

    assert not list(tmp_path.glob("tree*"))


def test_a_tree_that_succeeds_is_the_output(tmp_path):
    debian.make_tree(["echo", "whole"], tmp_path / "tree.tar", tmp_path / "log")

    assert (tmp_path / "tree.tar").read_text() == "whole\n"


@pytest.mark.parametrize(
    ("address", "end"),
    [("http://a/debian", ["-", "deb http://a/debian trixie main"]), (None, ["trixie", "-"])],
    ids=["known", "left to mmdebstrap"],
)
def test_a_tree_comes_from_the_mirror_where_one_is_known(monkeypatch, address, end):
    monkeypatch.setattr(debian, "mirror", lambda: address)

    assert debian.tree_command("trixie", ["sudo"])[-2:] == end
