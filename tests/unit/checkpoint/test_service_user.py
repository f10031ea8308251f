"""What a system user may read."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.proof.manifest import Entry
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.service_user import as_user, unreadable

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")


def identities() -> list[int]:
    return [os.getuid(), os.geteuid(), os.getgid(), *os.getgroups()]


def failing() -> None:
    raise PermissionError("not for you")


@as_root
def test_function_runs_as_the_user_and_with_none_of_roots_groups():
    nobody = pwd.getpwnam("nobody")
    assert as_user("nobody", identities) == [nobody.pw_uid, nobody.pw_uid, nobody.pw_gid]
    assert os.geteuid() == 0


@as_root
def test_failure_comes_back_with_the_users_name():
    with pytest.raises(OSError, match="as nobody: not for you"):
        as_user("nobody", failing)


@as_root
def test_death_of_the_process_is_no_answer():
    with pytest.raises(OSError, match="tries this as nobody died"):
        as_user("nobody", os._exit, 0)


@as_root
def test_file_that_only_root_may_read_is_named(tmp_path):
    (tmp_path / "secret").write_bytes(b"x")
    (tmp_path / "secret").chmod(0o600)
    assert as_user("nobody", unreadable, tmp_path, [Entry("secret", 1, "")]) == {"secret": "Permission denied"}


def test_names_files_of_which_an_end_cannot_be_read(tmp_path: Path):
    for name, size in {"whole": 3, "empty": 0, "short": 2}.items():
        (tmp_path / name).write_bytes(bytes(size))
    (tmp_path / "link").symlink_to("whole")
    wanted = {"whole": 3, "empty": 0, "short": 3, "link": 3, "none": 3}
    found = unreadable(tmp_path, [Entry(name, size, "") for name, size in wanted.items()])
    assert set(found) == {"short", "link", "none"}
    assert found["short"] == "it ends too early"
