# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The other nodes: what each has, asked all the time, and its files as a source. Never through a proxy."""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import threading
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from .faults import SourceFault
from .manifest import Entry, Manifest
from .origin import Stream, answer, network_faults
from .scheduler import Have

_ANSWER_BYTES = 1 << 20
_POLL_TIMEOUT_SECONDS = 15
# News is taken in bundles.
_REST_SECONDS = 0.1


def place(address: str) -> tuple[str, int]:
    """(host, port) of `host:port` or `[host]:port`."""
    parts = urlsplit(f"//{address}")
    return str(parts.hostname), int(parts.port or 0)


class Peer:
    """Another node that holds, or will hold, the same files."""

    def __init__(self, name: str, address: str, manifest: Manifest, stall_seconds: float):
        self.name, self._address, self._stall_seconds = name, place(address), stall_seconds
        self._base = f"/{manifest.digest.partition(':')[2]}"
        self._places = {entry: number for number, entry in enumerate(manifest.files)}

    @contextlib.contextmanager
    def open(self, entry: Entry, offset: int = 0, tag: str | None = None) -> Iterator[Stream]:
        """Ask for a file, with the rest of the copy `tag` if there is one; raise SourceFault or WrongBytes."""
        headers = {"Range": f"bytes={offset}-", **({"If-Range": tag} if tag else {})} if offset else {}
        connection = http.client.HTTPConnection(*self._address, timeout=self._stall_seconds)
        with contextlib.closing(connection):
            with network_faults(self.name):
                connection.request("GET", f"{self._base}/{self._places[entry]}", headers=headers)
                response = connection.getresponse()
            if response.status not in (200, 206):
                raise SourceFault(f"{self.name} answered {response.status} {response.reason}")
            yield answer(response, entry, offset, self.name)

    def watch(self, saw: Callable[[str, Have], None], stop: threading.Event) -> None:
        """Tell `saw` what the node has, whenever that changes and every few seconds."""
        connection = http.client.HTTPConnection(*self._address, timeout=_POLL_TIMEOUT_SECONDS)
        version, rest = "", _REST_SECONDS
        while not stop.wait(rest):
            try:
                connection.request("GET", f"{self._base}/have?since={version}")
                response = connection.getresponse()
                data = json.loads(response.read(_ANSWER_BYTES) if response.status == 200 else b"")
                have, version, rest = read(data, len(self._places)), str(data["version"]), _REST_SECONDS
            except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, AttributeError):
                connection.close()
                version, rest = "", random.uniform(0.5, 1.5)
            else:
                saw(self.name, have)


def read(data: dict, files: int) -> Have:
    """Read what a node says of itself; raise ValueError where it names a file that the manifest has not."""
    growing = {int(number): str(source) for number, source in data["growing"].items()}
    have = Have(
        frozenset(map(int, data["whole"])),
        growing,
        frozenset(map(int, data["given_up"])),
        str(data["settled"]),
        int(data["sending"]),
        int(data["bytes"]),
    )
    if not all(0 <= number < files for number in {*have.whole, *growing, *have.given_up}):
        raise ValueError(data)
    return have
