# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sources of bytes: a hub, an HTTP mirror, a drive, another node. All are asked for a file from an offset on."""

from __future__ import annotations

import contextlib
import email.utils
import http.client
import io
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

from .faults import SourceFault, WrongBytes
from .manifest import Entry, Manifest

_BUSY = {408, 425, 429, 500, 502, 503, 504}
_LONGEST_WAIT_SECONDS = 300
# http and https only: a redirect must not lead to file: or ftp:
_HANDLERS = (
    urllib.request.HTTPHandler,
    urllib.request.HTTPRedirectHandler,
    urllib.request.HTTPDefaultErrorHandler,
    urllib.request.HTTPErrorProcessor,
    urllib.request.UnknownHandler,
)


@dataclass(frozen=True)
class Access:
    """How origins are reached: a token and a proxy for them alone, a CA file instead of the system's."""

    token_file: str | None = None
    ca_file: str | None = None
    proxy: str | None = None
    stall_seconds: float = 30

    def opener(self) -> urllib.request.OpenerDirector:
        """Return what opens URLs: the environment's proxies are not used."""
        opener = urllib.request.OpenerDirector()
        context = ssl.create_default_context(cafile=self.ca_file)
        proxies = dict.fromkeys(("http", "https"), self.proxy) if self.proxy else {}
        opener.add_handler(urllib.request.ProxyHandler(proxies))
        opener.add_handler(urllib.request.HTTPSHandler(context=context))
        for handler in _HANDLERS:
            opener.add_handler(handler())
        return opener


class Stream:
    """Bytes that are coming in. `offset` is where in the file the first belongs; `tag` names the sender's copy."""

    def __init__(self, readinto: Callable[[memoryview], int], offset: int, source: str = "", tag: str | None = None):
        self._readinto, self.offset, self.source, self.tag = readinto, offset, source, tag

    def readinto(self, view: memoryview) -> int:
        """Take the next bytes as soon as there are some; 0 at the end or when the source went away."""
        with network_faults(self.source):
            return self._readinto(view)


class Web:
    """A hub or an HTTP mirror: `url` gives a file's whole URL."""

    def __init__(self, name: str, url: Callable[[Entry], str], access: Access, token_file: str | None = None):
        self.name, self._url, self._access, self._opener = name, url, access, access.opener()
        self._token = Path(token_file).read_text(encoding="utf-8").strip() if token_file else None

    @contextlib.contextmanager
    def open(self, entry: Entry, offset: int = 0, _tag: str | None = None) -> Iterator[Stream]:
        """Ask for a file; raise SourceFault or WrongBytes. Each call asks anew: an expired redirect is replaced.

        The socket's timeout is the stall watchdog: it counts from the last byte that came.
        """
        request = urllib.request.Request(self._url(entry), headers={"Range": f"bytes={offset}-"} if offset else {})
        if self._token:
            # Unredirected: the token must not follow a redirect to somebody else's storage.
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        with network_faults(self.name, request.full_url):
            response = self._opener.open(request, timeout=self._access.stall_seconds)
        with response:
            yield answer(response, entry, offset, self.name)


def answer(response: http.client.HTTPResponse, entry: Entry, offset: int, source: str) -> Stream:
    """Judge the head of an answer; raise SourceFault or WrongBytes."""
    place, start = response.headers.get("Content-Range", ""), offset if response.status == 206 else 0
    if response.status == 206 and not place.startswith(f"bytes {offset}-"):
        raise SourceFault(f"{source} answered {place!r} when asked for what follows byte {offset}")
    if response.length not in (None, entry.size - start):
        raise WrongBytes(f"{response.length} bytes announced after the first {start}, by {source}")
    # Straight from the socket's buffer, as bytes come: HTTPResponse.readinto waits until the view is full.
    body = response if response.chunked or response.fp is None else response.fp
    return Stream(getattr(body, "readinto1", body.readinto), start, source, response.headers.get("ETag"))


class Drive:
    """A folder that holds the files of the manifest."""

    def __init__(self, path: str):
        self.name, self._path = f"drive:{path}", Path(path)

    @contextlib.contextmanager
    def open(self, entry: Entry, offset: int = 0, _tag: str | None = None) -> Iterator[Stream]:
        """Read a file; raise SourceFault or WrongBytes."""
        with network_faults(self.name):
            file = io.FileIO(self._path / entry.path)
        with file:
            if (size := file.seek(0, io.SEEK_END)) != entry.size:
                raise WrongBytes(f"{size} bytes on {self.name}")
            file.seek(offset)
            yield Stream(file.readinto, offset, self.name)


def origin(about: dict, manifest: Manifest, access: Access) -> Web | Drive | None:
    """Return one of the configuration's origins; none where its drive is not on this node."""
    if about["kind"] == "drive":
        return Drive(about["path"]) if Path(about["path"]).is_dir() else None
    if "urls_file" in about:
        urls = json.loads(Path(about["urls_file"]).read_bytes())
        name = "{0.scheme}://{0.netloc}".format(urlsplit(next(iter(urls.values()))))
        return Web(name, lambda entry: urls.get(entry.path, name), access)
    parts = urlsplit(about["url"])
    hub = about["kind"] == "hub"
    folder = f"/{manifest.repo}/resolve/{manifest.commit}" if hub else ""
    name = urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))
    query = f"?{parts.query}" if parts.query else ""
    return Web(
        name, lambda entry: f"{name}{folder}/{quote(entry.path)}{query}", access, access.token_file if hub else None
    )


@contextlib.contextmanager
def network_faults(source: str, asked: str = "") -> Iterator[None]:
    """Translate what disk, network and HTTP do into SourceFault. `asked`: the whole URL of the request."""
    try:
        yield
    except urllib.error.HTTPError as error:
        error.close()
        reason = error.headers.get("X-Error-Message") or error.reason
        # A storage host behind a redirect says 403 when its signed link has run out: ask for a new one.
        link_expired = error.code == 403 and error.geturl() != asked
        final = error.code not in _BUSY and not link_expired
        wait = _seconds(error.headers.get("Retry-After", ""))
        raise SourceFault(f"{source} answered {error.code} {reason}", final, wait) from error
    except urllib.error.URLError as error:
        raise SourceFault(f"{source} cannot be reached: {_reason(error.reason)}") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise SourceFault(f"{source} stopped answering: {_reason(error)}") from error


def _seconds(retry_after: str) -> float:
    """What Retry-After asks for: seconds, or a date."""
    wait = float(retry_after) if retry_after.isdecimal() else 0
    with contextlib.suppress(TypeError, ValueError):
        wait = wait or email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time()
    return min(max(wait, 0), _LONGEST_WAIT_SECONDS)


def _reason(error: object) -> str:
    if isinstance(error, TimeoutError):
        return "no byte for too long"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
