# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who gives bytes: a hub, an HTTP mirror, a drive, another node. Each has a `name`, and opens a file at an offset."""

from __future__ import annotations

import contextlib
import email.utils
import http.client
import io
import json
import os
import random
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request as web
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

from ..proof.faults import SourceFault, WrongBytes
from ..proof.manifest import Entry, Manifest
from .config import Config, place
from .scheduler import Have

_BUSY, _LONGEST_WAIT_SECONDS = {408, 425, 429, 500, 502, 503, 504}, 300
# A thread that waits for a socket wakes for so many bytes, or for the last ones.
_WAKE_BYTES = 1 << 17
_ANSWER_BYTES, _POLL_TIMEOUT_SECONDS, _REST_SECONDS = 1 << 20, 15, 0.1  # a rest: news is taken in bundles


class Stream:
    """Bytes that are coming in. `offset` is where in the file the first belongs; `tag` names the sender's copy.

    `plain`: a socket whose bytes are the file's, not of TLS, `left` of them; it is read by the block, not the packet.
    """

    def __init__(self, readinto: Callable, source: str, offset: int, tag: str = "", plain=None, left: int = 0):
        self._readinto, self.offset, self.source, self.tag = readinto, offset, source, tag
        self._plain, self._left = plain, left

    def readinto(self, view: memoryview) -> int:
        """Take the next bytes; 0 at the end or when the source went away. The socket's timeout is the watchdog."""
        with _faults_of(self.source):
            count = self._readinto(view)
            if self._plain and count < self._left:
                # From here on nothing is in a buffer of Python's: the rest comes through the socket.
                self._left -= count
                self._plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, min(self._left, _WAKE_BYTES))
            return count


@contextlib.contextmanager
def _answer(response: http.client.HTTPResponse, entry: Entry, offset: int, source: str) -> Iterator[Stream]:
    """Judge the head of an answer."""
    range_, start = response.headers.get("Content-Range", ""), offset if response.status == 206 else 0
    if response.status == 206 and not range_.startswith(f"bytes {offset}-"):
        raise SourceFault(f"{source} answered {range_!r} when asked for what follows byte {offset}")
    if response.length not in (None, entry.size - start):
        raise WrongBytes(f"{response.length} bytes announced after the first {start}, by {source}")
    about = (source, start, response.headers.get("ETag", ""))
    if response.chunked or response.fp is None or getattr(response, "url", "").startswith("https:"):
        yield Stream(response.readinto1, *about)
        return
    with socket.socket(fileno=os.dup(response.fileno())) as plain:
        yield Stream(response.fp.readinto1, *about, plain, entry.size - start)


class Web:
    """A hub or an HTTP mirror: `url` gives a file's whole URL. Only here: token, proxy and the site's own CAs."""

    def __init__(self, name: str, url: Callable[[Entry], str], config: Config, token: str | None):
        self.name, self._url, self._config, self._token = name, url, config, token
        proxy, context = config.proxy, ssl.create_default_context() if config.ca_file else None
        if context:
            context.load_verify_locations(config.ca_file)
        # http and https only: a redirect must not lead to file: or ftp: . The environment's proxies are not used.
        plain = (web.HTTPHandler, web.HTTPRedirectHandler, web.HTTPDefaultErrorHandler, web.HTTPErrorProcessor)
        proxies = web.ProxyHandler({"http": proxy, "https": proxy} if proxy else {})
        self._opener = web.OpenerDirector()
        for handler in (proxies, web.HTTPSHandler(context=context), web.UnknownHandler(), *(make() for make in plain)):
            self._opener.add_handler(handler)

    @contextlib.contextmanager
    def open(self, entry: Entry, offset: int = 0, _tag: str = "") -> Iterator[Stream]:
        """Ask for a file; raise SourceFault or WrongBytes. Each call asks anew: an expired redirect is replaced."""
        request = web.Request(self._url(entry), headers={"Range": f"bytes={offset}-"} if offset else {})
        if self._token:
            # Unredirected: the token must not follow a redirect to somebody else's storage.
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        with _faults_of(self.name, request.full_url):
            response = self._opener.open(request, timeout=self._config.stall_seconds)
        with response, _answer(response, entry, offset, self.name) as stream:
            yield stream


class Drive:
    """A folder that holds the files of the manifest."""

    def __init__(self, path: str):
        self.name, self._path = f"drive:{path}", Path(path)

    @contextlib.contextmanager
    def open(self, entry: Entry, offset: int = 0, _tag: str = "") -> Iterator[Stream]:
        """Read a file; raise SourceFault or WrongBytes."""
        with _faults_of(self.name):
            file = io.FileIO(self._path / entry.path)
        with file:
            if (size := file.seek(0, io.SEEK_END)) != entry.size:
                raise WrongBytes(f"{size} bytes on {self.name}")
            file.seek(offset)
            yield Stream(file.readinto, self.name, offset)


class Peer:
    """Another node that holds, or will hold, the same files. Never asked through a proxy."""

    def __init__(self, name: str, config: Config, manifest: Manifest):
        self.name, self._base = name, f"/{manifest.digest.partition(':')[2]}"
        self._places = {entry: number for number, entry in enumerate(manifest.files)}
        # From the address that the others know this node by: they let in nobody else.
        own = (place(config.nodes[config.node])[0], 0)
        self._connection = lambda patience: http.client.HTTPConnection(*place(config.nodes[name]), patience, own)
        self._stall_seconds = config.stall_seconds

    @contextlib.contextmanager
    def open(self, entry: Entry, offset: int = 0, tag: str = "") -> Iterator[Stream]:
        """Ask for a file, with the rest of the copy `tag` if there is one; raise SourceFault or WrongBytes."""
        headers = {"Range": f"bytes={offset}-", **({"If-Range": tag} if tag else {})} if offset else {}
        with contextlib.closing(self._connection(self._stall_seconds)) as connection:
            with _faults_of(self.name):
                connection.request("GET", f"{self._base}/{self._places[entry]}", headers=headers)
                response = connection.getresponse()
            if response.status not in (200, 206):
                raise SourceFault(f"{self.name} answered {response.status} {response.reason}")
            with _answer(response, entry, offset, self.name) as stream:
                yield stream

    def watch(self, saw: Callable[[str, Have], None], stop: threading.Event) -> None:
        """Tell `saw` what the node has, whenever that changes and every few seconds."""
        connection, version, rest = self._connection(_POLL_TIMEOUT_SECONDS), "", _REST_SECONDS
        while not stop.wait(rest):
            try:
                connection.request("GET", f"{self._base}/have?since={version}")
                response = connection.getresponse()
                data = json.loads(response.read(_ANSWER_BYTES) if response.status == 200 else b"")
                have, version, rest = Have.read(data, len(self._places)), str(data["version"]), _REST_SECONDS
            except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, AttributeError):
                connection.close()
                version, rest = "", random.uniform(0.2, 0.4)
            else:
                saw(self.name, have)


def origins(config: Config, manifest: Manifest) -> Iterator[Web | Drive]:
    """Yield the configuration's origins in order, without the drives that are not on this node."""
    for about in config.origins:
        if about["kind"] == "drive":
            if Path(about["path"]).is_dir():
                yield Drive(about["path"])
        elif "urls_file" in about:
            urls = json.loads(Path(about["urls_file"]).read_bytes())
            name = "{0.scheme}://{0.netloc}".format(urlsplit(next(iter(urls.values()))))
            yield Web(name, lambda entry, urls=urls, name=name: urls.get(entry.path, name), config, None)
        else:
            parts, hub = urlsplit(about["url"]), about["kind"] == "hub"
            name, query = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}", f"?{parts.query}".rstrip("?")
            base = f"{name}/{manifest.repo}/resolve/{manifest.commit}" if hub else name
            token = Path(config.token_file).read_text(encoding="utf-8").strip() if hub and config.token_file else None
            yield Web(name, lambda entry, base=base, query=query: f"{base}/{quote(entry.path)}{query}", config, token)


@contextlib.contextmanager
def _faults_of(source: str, asked: str = "") -> Iterator[None]:
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
    except (OSError, http.client.HTTPException, ValueError) as error:
        cause = getattr(error, "reason", error)
        said = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
        what = "cannot be reached" if isinstance(error, urllib.error.URLError) else "stopped answering"
        late = isinstance(cause, TimeoutError)
        raise SourceFault(f"{source} {what}: {'no byte for too long' if late else said}") from error


def _seconds(retry_after: str) -> float:
    """What Retry-After asks for: seconds, or a date."""
    wait = float(retry_after) if retry_after.isdecimal() else 0
    with contextlib.suppress(TypeError, ValueError):
        wait = wait or email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time()
    return min(max(wait, 0), _LONGEST_WAIT_SECONDS)
