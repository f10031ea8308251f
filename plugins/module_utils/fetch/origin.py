# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A source of bytes: a hub, asked over plain HTTP/1.1 with Range."""

from __future__ import annotations

import contextlib
import http.client
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from .faults import SourceFault, WrongBytes
from .manifest import Entry

_BLOCK_BYTES = 1 << 18
_BUSY = {408, 425, 429, 500, 502, 503, 504}
_LONGEST_WAIT_SECONDS = 300
# http and https only: a redirect must not lead to file: or ftp:
_HANDLERS = (
    urllib.request.ProxyHandler,
    urllib.request.HTTPHandler,
    urllib.request.HTTPSHandler,
    urllib.request.HTTPRedirectHandler,
    urllib.request.HTTPDefaultErrorHandler,
    urllib.request.HTTPErrorProcessor,
    urllib.request.UnknownHandler,
)


class Origin:
    """A hub at a base URL, for one repository at one commit."""

    def __init__(self, url: str, repo: str, commit: str, token_file: str | None = None, stall_seconds: float = 30):
        self.url = url.rstrip("/")
        self._base, self._stall_seconds = f"{self.url}/{repo}/resolve/{commit}/", stall_seconds
        self._token = Path(token_file).read_text(encoding="utf-8").strip() if token_file else None
        self._opener = urllib.request.OpenerDirector()
        for handler in _HANDLERS:
            self._opener.add_handler(handler())

    @contextlib.contextmanager
    def open(self, entry: Entry, offset: int = 0) -> Iterator[Stream]:
        """Ask for a file from an offset on; raise SourceFault or WrongBytes.

        Every call asks the origin anew, so that an expired redirect is replaced. The socket's timeout is the stall
        watchdog: it counts from the last byte that came.
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
        self._url, self._response = url, response
        self.offset = offset if response.status == 206 else 0
        place = response.headers.get("Content-Range", "")
        if response.status == 206 and not place.startswith(f"bytes {offset}-"):
            raise SourceFault(f"{url} answered {place!r} when asked for what follows byte {offset}")
        if response.length not in (None, entry.size - self.offset):
            raise WrongBytes(f"{response.length} bytes announced after the first {self.offset}, by {url}")

    def read(self) -> bytes:
        """Return the next bytes as soon as there are some; none at the end or when the source went away."""
        with _network_faults(self._url):
            return self._response.read1(_BLOCK_BYTES)


@contextlib.contextmanager
def _network_faults(url: str, asked: str = "") -> Iterator[None]:
    """Translate what the network and HTTP do into SourceFault. `asked`: the whole URL of the request."""
    try:
        yield
    except urllib.error.HTTPError as error:
        error.close()
        reason = error.headers.get("X-Error-Message") or error.reason
        # A storage host behind a redirect says 403 when its signed link has run out: ask for a new one.
        link_expired = error.code == 403 and error.geturl() != asked
        wait = error.headers.get("Retry-After", "")
        seconds = min(int(wait), _LONGEST_WAIT_SECONDS) if wait.isdigit() else 0
        final = error.code not in _BUSY and not link_expired
        raise SourceFault(f"{url} answered {error.code} {reason}", final, seconds) from error
    except urllib.error.URLError as error:
        raise SourceFault(f"{url} cannot be reached: {_reason(error.reason)}") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise SourceFault(f"{url} stopped answering: {_reason(error)}") from error


def _reason(error: object) -> str:
    if isinstance(error, TimeoutError):
        return "no byte for too long"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
