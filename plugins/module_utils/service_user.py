# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a system user may do, tried as that user."""

from __future__ import annotations

import grp
import json
import os
import pwd
from collections.abc import Callable, Iterable
from pathlib import Path

from .proof.manifest import Entry


def as_user(user: str, function: Callable, *arguments: object) -> object:
    """Return what a function returns (plain data) when a system user calls it, in a process of its own.

    Only root can become another user: anybody else calls it as he is. An OSError comes back as one.
    """
    account = pwd.getpwnam(user)
    if os.geteuid() != 0 or account.pw_uid == 0:
        return function(*arguments)
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        _answer(writer, account, function, arguments)
    os.close(writer)
    with open(reader, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    answer = json.loads(data) if data else {"error": f"the process that tries this as {user} died"}
    if "error" in answer:
        raise OSError(answer["error"])
    return answer["value"]


def _answer(writer: int, account: pwd.struct_passwd, function: Callable, arguments: tuple) -> None:
    """Become the user, write the answer to the pipe and end: the child never returns."""
    try:
        os.setgroups([entry.gr_gid for entry in grp.getgrall() if account.pw_name in entry.gr_mem])
        os.setgid(account.pw_gid)
        os.setuid(account.pw_uid)
        answer = {"value": function(*arguments)}
    except BaseException as error:  # whatever it is, it must not run on as a second copy of the caller
        answer = {"error": f"as {account.pw_name}: {error}"}
    with open(writer, "wb") as pipe:
        pipe.write(json.dumps(answer).encode())
    os._exit(0)


def unreadable(folder: Path, files: Iterable[Entry]) -> dict[str, str]:
    """{path: why} of the files whose first and last byte this process cannot read."""
    return {entry.path: reason for entry in files if (reason := _fault(folder / entry.path, entry.size))}


def _fault(path: Path, size: int) -> str | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            ends = [os.pread(descriptor, 1, place) for place in ((0, size - 1) if size else ())]
        finally:
            os.close(descriptor)
    except OSError as error:
        return error.strerror
    return None if all(ends) else "it ends too early"
