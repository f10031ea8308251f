# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A source of bytes: a hub, asked over plain HTTP/1.1 with Range."""

from __future__ import annotations

import contextlib
import http.client
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from .faults import SourceFault, WrongBytes
from .manifest import Entry

BLOCK_BYTES = 1 << 18
_BUSY = {408, 425, 429, 500, 502, 503, 504}
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
_LONGEST_WAIT_SECONDS = 300


class Origin:
    """A hub at a base URL, for one repository at one commit."""

    def __init__(self, url: str, repo: str, commit: str, token_file: str | None = None, stall_seconds: float = 30):
        self.url = url.rstrip("/")
        self._base = f"{self.url}/{repo}/resolve/{commit}/"
        self._token = Path(token_file).read_text(encoding="utf-8").strip() if token_file else None
        self._stall_seconds = stall_seconds
        self._opener = urllib.request.OpenerDirector()
        for handler in (
            urllib.request.HTTPHandler,
            urllib.request.HTTPSHandler,
            urllib.request.HTTPRedirectHandler,
            urllib.request.HTTPDefaultErrorHandler,
            urllib.request.HTTPErrorProcessor,
            urllib.request.UnknownHandler,
        ):
            self._opener.add_handler(handler())

    @contextlib.contextmanager
    def open(self, entry: Entry, offset: int = 0) -> Iterator[Stream]:
        """Ask for a file from an offset on; raise SourceFault or WrongBytes.

        Every call asks the origin anew, so that an expired redirect is replaced. The socket's
        timeout is the stall watchdog: it counts from the last byte that came.
        """
        request = urllib.request.Request(self._base + quote(entry.path))
        if offset:
            request.add_header("Range", f"bytes={offset}-")
        if self._token:
            # Unredirected: the token must not follow a redirect to somebody else's storage.
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        with _network_faults(self.url, request.full_url):
            response = self._opener.open(request, timeout=self._stall_seconds)
        with response:
            yield Stream(self.url, response, entry, offset)


class Stream:
    """An answer that is coming in. `offset` is where in the file its first byte belongs."""

    def __init__(self, url: str, response: http.client.HTTPResponse, entry: Entry, offset: int):
        self._url = url
        self._response = response
        self.offset = offset if response.status == 206 else 0
        total = _total_bytes(response, self.offset)
        if total != entry.size:
            raise WrongBytes(f"{self._url} announced {total} bytes")

    def read(self) -> bytes:
        """Return the next bytes as soon as there are some; b"" at the end or when the source went away."""
        with _network_faults(self._url):
            return self._response.read1(BLOCK_BYTES)


def _total_bytes(response: http.client.HTTPResponse, offset: int) -> int | None:
    """Return the size of the whole file that an answer announces."""
    length = response.length
    if response.status == 206:
        found = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if not found or int(found[1]) != offset:
            raise SourceFault(f"answered another range than asked for: {response.headers.get('Content-Range')}")
    return None if length is None else offset + length


@contextlib.contextmanager
def _network_faults(url: str, asked: str = "") -> Iterator[None]:
    """Translate what the network and HTTP do into SourceFault. `asked`: the whole URL of the request."""
    try:
        yield
    except urllib.error.HTTPError as error:
        error.close()
        raise _status_fault(url, error, asked) from error
    except urllib.error.URLError as error:
        raise SourceFault(f"{url} cannot be reached: {_reason(error.reason)}") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise SourceFault(f"{url} stopped answering: {_reason(error)}") from error


def _status_fault(url: str, error: urllib.error.HTTPError, asked: str) -> SourceFault:
    reason = f"{url} answered {error.code} {error.headers.get('X-Error-Message') or error.reason}"
    # A storage host behind a redirect says 403 when its signed link has run out: ask for a new one.
    link_expired = error.code == 403 and error.geturl() != asked
    final = error.code not in _BUSY and not link_expired
    wait = error.headers.get("Retry-After", "")
    return SourceFault(reason, final, min(int(wait), _LONGEST_WAIT_SECONDS) if wait.isdigit() else 0)


def _reason(error: object) -> str:
    if isinstance(error, TimeoutError):
        return "no byte for too long"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
