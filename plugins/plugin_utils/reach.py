# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the controller asks a checkpoint's origins: with the site's token, CA and proxy, and with little patience."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

import httpx2
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.proof.manifest import Entry, Manifest

CONNECT_SECONDS = 10
TOTAL_SECONDS = 60


@dataclass(frozen=True)
class Fault:
    """Why there is no manifest, or not this one: where it comes from, value, limit, remedy."""

    where: str
    value: object
    limit: str
    remedy: str

    def as_dict(self) -> dict:
        """Return it as plain data."""
        return asdict(self)


class OriginFailed(Exception):
    """An origin gave nothing; holds the Fault."""

    def __init__(self, where: str, value: object, limit: str, remedy: str):
        super().__init__(value)
        self.fault = Fault(where, value, limit, remedy)


class NoAnswer(Exception):
    """The network, or a server that is ill or busy; says which host and what it did."""


@dataclass(frozen=True)
class Access:
    """The site's way to its origins. Files lie on the controller; the proxy's file holds a URL with its password."""

    token_file: str | None = None
    ca_file: str | None = None
    proxy: str | None = None
    proxy_file: str | None = None

    def faults(self) -> Iterator[Fault]:
        """Yield which of the files cannot be used; what is in them is not shown."""
        for name in ("token_file", "proxy_file", "ca_file"):
            path, where = getattr(self, name), f"checkpoint_{name}"
            try:
                text = Path(path).read_text(encoding="utf-8").strip() if path else None
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or "no text"
                yield Fault(where, f"{path}: {reason}", "a file that can be read", "correct the path, or its mode")
                continue
            if text == "":
                yield Fault(
                    where, f"{path}: empty", "a file with something in it", "write it, or leave the variable out"
                )
        try:
            self._client_options()
        except (ssl.SSLError, ValueError) as error:
            where = "checkpoint_ca_file" if isinstance(error, ssl.SSLError) else "checkpoint_proxy_file"
            limit = "certificates as PEM" if isinstance(error, ssl.SSLError) else "http://[USER:PASSWORD@]HOST:PORT"
            yield Fault(where, getattr(self, where.removeprefix("checkpoint_")), limit, "correct what is in the file")
        except OSError:
            return  # said above

    @property
    def token(self) -> str | None:
        """What a hub wants to see."""
        return Path(self.token_file).read_text(encoding="utf-8").strip() if self.token_file else None

    def proxy_url(self) -> str | None:
        """The proxy, with its password if it has one."""
        return Path(self.proxy_file).read_text(encoding="utf-8").strip() if self.proxy_file else self.proxy

    def _client_options(self) -> dict:
        """What the HTTP client takes; ValueError and SSLError for what it cannot."""
        options: dict = {}
        if self.ca_file:
            options["verify"] = ssl.create_default_context()
            options["verify"].load_verify_locations(cafile=self.ca_file)
        if proxy := self.proxy_url():
            parts = urlsplit(proxy)
            if parts.scheme != "http" or not parts.hostname or parts.port is None:
                raise ValueError("no proxy")
            options["proxy"] = proxy
        return options

    def client(self, deadline: float) -> Client:
        """Return a client that gives up at the deadline, a value of time.monotonic()."""
        return Client(deadline, **self._client_options())


class Client(httpx2.Client):
    """The hub client's HTTP client, kept from waiting and from trying again: an answer is wanted soon.

    Without it the hub library sets no timeout at all on these requests and tries six times.
    """

    def __init__(self, deadline: float, **options: object):
        super().__init__(follow_redirects=True, **options)
        self._deadline = deadline

    def send(self, request: httpx2.Request, **options: object) -> httpx2.Response:
        """Send one request within what is left of the time; raise NoAnswer."""
        left = min(CONNECT_SECONDS, self._deadline - time.monotonic())
        request.extensions["timeout"] = dict.fromkeys(("connect", "read", "write", "pool"), max(left, 0.1))
        try:
            response = super().send(request, **options)
        except httpx2.RequestError as error:
            reason = str(error) or f"no answer within {left:.0f} s"
            raise NoAnswer(f"{request.url.host} port {_port(request.url)}: {reason}") from error
        if response.status_code in (408, 429) or response.status_code >= 500:
            raise NoAnswer(f"{request.url.host} answered {response.status_code} {response.reason_phrase}")
        return response

    def download(self, url: str, most: int, headers: Mapping[str, str]) -> bytes:
        """Return a small file, or its beginning where it is larger than it should be; raise NoAnswer."""
        data = bytearray()
        with self.stream("GET", url, headers={"Accept-Encoding": "identity", **headers}) as response:
            if response.status_code != 200:
                raise NoAnswer(f"{response.url.host} answered {response.status_code} {response.reason_phrase}")
            try:
                for block in response.iter_bytes():
                    data += block
                    if len(data) > most or time.monotonic() > self._deadline:
                        break
            except httpx2.TransportError as error:
                raise NoAnswer(f"{response.url.host} stopped answering: {error}") from error
        return bytes(data)


def _port(url: httpx2.URL) -> int:
    return url.port or {"https": 443}.get(url.scheme, 80)


def probe(where: str, origin: Mapping, manifest: Manifest, access: Access) -> None:
    """Ask an HTTP mirror for the first byte of the smallest file; raise OriginFailed.

    GET and not HEAD, because a signed URL is good for one method.
    """
    entry = min((entry for entry in manifest.files if entry.size), key=lambda one: (one.size, one.path), default=None)
    if entry is None:
        return
    url = _urls(where, origin, manifest)[entry.path]
    shown = str(url).partition("?")[0]
    headers = {"Range": "bytes=0-0", "Accept-Encoding": "identity"}
    try:
        with access.client(time.monotonic() + TOTAL_SECONDS).stream("GET", url, headers=headers) as response:
            status, reason, size = response.status_code, response.reason_phrase, _size(response)
    except (NoAnswer, httpx2.InvalidURL) as error:
        remedy = "see to the route, the name and the proxy from here to it, or name another origin"
        raise OriginFailed(where, f"{shown} cannot be reached: {error}", "an origin that answers", remedy) from error
    if status not in (200, 206):
        remedy = "name the folder that holds the manifest's files" if status == 404 else "let this site read it"
        if "urls_file" in origin:
            remedy = "sign the URLs anew: they run out"
        raise OriginFailed(where, f"{shown} answered {status} {reason}", "an origin that lets us read", remedy)
    if size not in (None, entry.size):
        remedy = "name the folder of this commit"
        raise OriginFailed(where, f"{shown} has {size} bytes", f"{entry.size} bytes, says the manifest", remedy)


def _size(response: httpx2.Response) -> int | None:
    """The whole file's size, as far as the answer tells it."""
    told = response.headers.get("Content-Range", "").rpartition("/")[2]
    told = told if response.status_code == 206 else response.headers.get("Content-Length", "")
    return int(told) if told.isdecimal() else None


def _urls(where: str, origin: Mapping, manifest: Manifest) -> dict[str, str]:
    """{path: URL} of every file."""
    if "url" in origin:
        return {entry.path: f"{origin['url'].rstrip('/')}/{quote(entry.path)}" for entry in manifest.files}
    return signed_urls(f"{where}.urls_file", origin["urls_file"], manifest.files)


def signed_urls(where: str, file: str, files: tuple[Entry, ...]) -> dict[str, str]:
    """Read {path: URL} from a file on the controller; raise OriginFailed. The URLs are secrets."""
    try:
        found = json.loads(Path(file).read_bytes())
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "no JSON"
        remedy = "write {path: URL} of every file, as docs/en/checkpoint.md shows"
        raise OriginFailed(where, f"{file}: {reason}", "a JSON file that can be read", remedy) from error
    urls = found if isinstance(found, dict) else {}
    lacking = [entry.path for entry in files if not str(urls.get(entry.path, "")).startswith(("http://", "https://"))]
    if lacking:
        value = f"{file} has no http(s) URL of {', '.join(lacking[:3])}{_more(lacking[3:])}"
        raise OriginFailed(where, value, "a URL of every file of the manifest", "write the missing ones")
    return urls


def _more(rest: list[str]) -> str:
    return f" and {len(rest)} more" if rest else ""
