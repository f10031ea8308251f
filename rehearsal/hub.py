#!/usr/bin/env python3
# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for the Hugging Face hub: enough of its protocol for the real huggingface_hub client.

It serves the models below a root folder, read-only, and holds no file in memory:

    ROOT/<organisation>/<name>/<commit of 40 hex>/...   the files of one revision
    ROOT/<organisation>/<name>/refs/<branch>            optional: the commit that a branch means

Large files (10 MiB and more, and all *.safetensors) are LFS files: the tree answer gives their
SHA-256. The others have only a git blob hash, as on the real hub.

Every request leaves one JSON line in the log: time of its end, seconds it took, client, method, path,
range, status, the seconds to wait that it named, and the bytes that were really handed to the network,
also when the connection broke or the server was stopped with SIGTERM.

Faults are a JSON list, read again whenever the file changes; one that stood there before, word for word,
goes on counting its `times`. All faults that match are applied:

    path              regular expression, searched in the path (default: /resolve/, the downloads)
    method            default GET
    times             how often it applies, then never again (default: always)
    status            answer this status; with error_code (GatedRepo, RepoNotFound...) and retry_after
    redirect          true: answer 302 to another path of this server, as the real hub does
    link_seconds      a redirect is good for so long, then 403; one in use already is not cut
    shorten           announce and send this many bytes less than the file has
    cut_after         close the connection after this many bytes
    stall_after       send this many bytes, then nothing for stall_seconds (default 3600)
    bytes_per_second  pace of this response
    flip              offset in the file of a byte that is sent wrong
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import signal
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit

LFS_BYTES = 10 << 20
BLOCK_BYTES = 1 << 16
# A small buffer keeps "bytes sent" close to what the other side received.
SEND_BUFFER_BYTES = 1 << 18
COMMIT = re.compile(r"[0-9a-f]{40}")
RANGE = re.compile(r"bytes=(\d+)-(\d*)")
INFO = re.compile(r"/api/models/([^/]+/[^/]+)(?:/revision/([^/]+))?")
TREE = re.compile(r"/api/models/([^/]+/[^/]+)/tree/([^/]+)")
FILE = re.compile(r"(?:/moved)?/([^/]+/[^/]+)/resolve/([^/]+)/(.+)")


class NotFound(Exception):
    """A thing that the hub does not have: the hub's own error code and a message."""


class Models:
    """The files below the root, with their hashes (kept until a file changes)."""

    def __init__(self, root: Path):
        self.root = root.resolve()
        self._hashes: dict[tuple, dict] = {}
        self._lock = threading.Lock()

    def commit(self, repo: str, revision: str) -> str:
        """Return the commit that a revision means."""
        folder = self.root / repo
        if ".." in repo or not folder.is_dir():
            raise NotFound("RepoNotFound", "Repository not found")
        if COMMIT.fullmatch(revision) and (folder / revision).is_dir():
            return revision
        branch = folder / "refs" / revision
        if ".." in revision or not branch.is_file():
            raise NotFound("RevisionNotFound", f"Invalid rev id: {revision}")
        return branch.read_text().strip()

    def files(self, repo: str, commit: str) -> list[str]:
        """Return the relative paths of all files of a revision, sorted."""
        base = self.root / repo / commit
        return sorted(str(path.relative_to(base)) for path in base.rglob("*") if path.is_file())

    def file(self, repo: str, commit: str, name: str) -> Path:
        """Return one file of a revision; never one outside of it."""
        base = self.root / repo / commit
        path = (base / name).resolve()
        if base not in path.parents or not path.is_file():
            raise NotFound("EntryNotFound", "Entry not found")
        return path

    def entry(self, path: Path) -> dict:
        """Return what the hub's tree says about a file: size, git hash and, when large, SHA-256."""
        stat = path.stat()
        key = (path, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
        with self._lock:
            if key not in self._hashes:
                large = stat.st_size >= LFS_BYTES or path.suffix == ".safetensors"
                self._hashes[key] = _lfs_entry(path, stat.st_size) if large else _git_entry(path)
            return self._hashes[key]

    def warm(self) -> None:
        """Hash everything once, so that no first request has to wait for it."""
        for path in self.root.glob("*/*/*/**/*"):
            if path.is_file():
                self.entry(path)


def _git_entry(path: Path) -> dict:
    data = path.read_bytes()
    return {"oid": _git_hash(data), "size": len(data)}


def _lfs_entry(path: Path, size: int) -> dict:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    oid = digest.hexdigest()
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {size}\n".encode()
    lfs = {"oid": oid, "size": size, "pointerSize": len(pointer)}
    return {"oid": _git_hash(pointer), "size": size, "lfs": lfs}


def _git_hash(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


class Faults:
    """The faults to inject, read again whenever their file changes."""

    def __init__(self, path: Path | None):
        self._path = path
        self._read: tuple | None = None
        self._faults: list[dict] = []
        self._lock = threading.Lock()

    def take(self, method: str, path: str) -> dict:
        """Return the merged faults of one request and count them as used."""
        with self._lock:
            self._reload()
            merged: dict = {}
            for fault in self._faults:
                wanted = fault.get("method", "GET") == method and re.search(fault.get("path", "/resolve/"), path)
                if wanted and fault.get("times", 1) > 0:
                    merged.update(fault)
                    if "times" in fault:
                        fault["times"] -= 1
            return merged

    def _reload(self) -> None:
        try:
            stat = self._path.stat()
            version = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if version != self._read:
                known = {fault["as read"]: fault for fault in self._faults}
                read = [{**fault, "as read": json.dumps(fault)} for fault in json.loads(self._path.read_text())]
                self._faults, self._read = [known.get(fault["as read"], fault) for fault in read], version
        except (OSError, AttributeError):
            self._faults, self._read = [], None
        except ValueError:
            pass  # half written: keep the last faults, look again at the next request


class Handler(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    server_version = "hub-stand-in"
    models: Models
    faults: Faults
    log: Log

    def setup(self) -> None:
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        super().setup()

    def log_message(self, *_) -> None:
        """Keep stderr quiet: the request log says it all."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.sent, self.status, self.retry_after, self.began = 0, 0, None, time.time()
        self.log.open(self, path)
        fault = self.faults.take(self.command, path)
        try:
            self._route(path, fault)
        except NotFound as error:
            self._refuse(404, *error.args)
        except OSError:
            self.close_connection = True
        finally:
            self.log.close(self)

    def _route(self, path: str, fault: dict) -> None:
        if status := fault.get("status"):
            self._refuse(status, fault.get("error_code"), f"injected {status}", fault.get("retry_after"))
        elif path == "/healthz":
            self._answer({"ok": True})
        elif found := TREE.fullmatch(path):
            self._tree(found[1], self.models.commit(found[1], found[2]))
        elif found := INFO.fullmatch(path):
            self._info(found[1], self.models.commit(found[1], found[2] or "main"))
        elif found := FILE.fullmatch(path):
            if fault.get("redirect") and not path.startswith("/moved/"):
                link = f"/moved{quote(path)}?issued={time.time():.3f}"
                self._head(302, {"Location": link, "Content-Length": "0"})
            elif self._link_age() > fault.get("link_seconds", float("inf")):
                self._refuse(403, None, "the link has expired")
            else:
                self._file(found[1], self.models.commit(found[1], found[2]), found[3], fault)
        else:
            raise NotFound("NotFound", "no such route")

    def _link_age(self) -> float:
        issued = parse_qs(urlsplit(self.path).query).get("issued")
        return time.time() - float(issued[0]) if issued else 0

    def _info(self, repo: str, commit: str) -> None:
        names = [{"rfilename": name} for name in self.models.files(repo, commit)]
        about = {"_id": "0", "id": repo, "modelId": repo, "sha": commit, "private": False, "gated": False}
        self._answer({**about, "disabled": False, "downloads": 0, "likes": 0, "tags": [], "siblings": names})

    def _tree(self, repo: str, commit: str) -> None:
        names = self.models.files(repo, commit)
        entries = ((name, self.models.entry(self.models.file(repo, commit, name))) for name in names)
        self._answer([{"type": "file", "path": name, **entry} for name, entry in entries])

    def _file(self, repo: str, commit: str, name: str, fault: dict) -> None:
        path = self.models.file(repo, commit, name)
        entry = self.models.entry(path)
        first, end = 0, entry["size"] - fault.get("shorten", 0)
        etag = entry.get("lfs", entry)["oid"]
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
        if "lfs" in entry:
            headers |= {"X-Linked-ETag": f'"{etag}"', "X-Linked-Size": str(entry["size"])}
        if asked := RANGE.fullmatch(self.headers.get("Range") or ""):
            first, end = int(asked[1]), min(end, int(asked[2] or end) + 1)
            if first >= end:
                return self._head(416, {"Content-Range": f"bytes */{entry['size']}", "Content-Length": "0"})
            headers["Content-Range"] = f"bytes {first}-{end - 1}/{entry['size']}"
        self._head(206 if asked else 200, {**headers, "Content-Length": str(end - first)})
        if self.command == "GET":
            self._send_file(path, first, end, fault)
        return None

    def _send_file(self, path: Path, first: int, end: int, fault: dict) -> None:
        stop = min(end, first + fault.get("cut_after", end))
        stall = first + fault["stall_after"] if "stall_after" in fault else None
        pace = fault.get("bytes_per_second")
        with path.open("rb") as file:
            file.seek(first)
            while (at := file.tell()) < stop:
                if stall is not None and at >= stall:
                    time.sleep(fault.get("stall_seconds", 3600))
                    stall = None
                edge = stop if stall is None else min(stop, stall)
                self._send(_flipped(file.read(min(BLOCK_BYTES, edge - at)), at, fault.get("flip")))
                if pace:
                    time.sleep((file.tell() - at) / pace)
        self.close_connection = self.close_connection or stop < end

    def _send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            count = self.connection.send(view)
            self.sent += count
            view = view[count:]

    def _head(self, status: int, headers: dict) -> None:
        self.status = status
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _answer(self, value: object, status: int = 200, headers: dict | None = None) -> None:
        body = json.dumps(value).encode()
        about = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        self._head(status, {**about, **(headers or {})})
        if self.command != "HEAD":
            self._send(body)

    def _refuse(self, status: int, code: str | None, message: str, retry_after: int | None = None) -> None:
        self.retry_after = retry_after
        headers = {"X-Error-Code": code, "X-Error-Message": message, "Retry-After": retry_after}
        self._answer({"error": message}, status, {name: str(value) for name, value in headers.items() if value})


def _flipped(data: bytes, at: int, offset: int | None) -> bytes:
    if offset is None or not at <= offset < at + len(data):
        return data
    changed = bytearray(data)
    changed[offset - at] ^= 1
    return bytes(changed)


class Log:
    """The request log: one JSON line per request, written when it ends."""

    def __init__(self, path: Path):
        self._file = path.open("a", buffering=1)
        self._lock, self._open = threading.Lock(), {}

    def open(self, request: Handler, path: str) -> None:
        """A request begins."""
        with self._lock:
            self._open[request] = path

    def close(self, *requests: Handler) -> None:
        """These requests end, or all that are open."""
        with self._lock:
            for request in requests or list(self._open):
                if path := self._open.pop(request, None):
                    self._write(request, path)

    def _write(self, request: Handler, path: str) -> None:
        now = time.time()
        line = {
            "time": round(now, 3),
            "seconds": round(now - request.began, 3),
            "client": request.client_address[0],
            "agent": request.headers.get("User-Agent", ""),
            "authorised": "Authorization" in request.headers,
            "method": request.command,
            "path": path,
            "range": request.headers.get("Range"),
            "status": request.status,
            "retry_after": request.retry_after,
            "sent": request.sent,
        }
        self._file.write(json.dumps(line) + "\n")


class Server(ThreadingHTTPServer):
    """The server: a thread per connection, none of which keeps the process alive."""

    daemon_threads = True
    request_queue_size = 128


def serve(root: Path, address: str, port: int, log: Path, faults: Path | None = None) -> Server:
    """Return a server that is bound and ready; the caller runs serve_forever() and shutdown().

    Port 0 takes a free one: see server_address.
    """
    models = Models(root)
    models.warm()
    handler = type("BoundHandler", (Handler,), {"models": models, "faults": Faults(faults), "log": Log(log)})
    return Server((address, port), handler)


def main(arguments: list[str] | None = None) -> int:
    """Serve until interrupted or asked to end."""
    parser = argparse.ArgumentParser(description="A stand-in for the Hugging Face hub.")
    parser.add_argument("--root", type=Path, required=True, help="folder with <organisation>/<name>/<commit>/")
    parser.add_argument("--listen", required=True, metavar="ADDRESS:PORT")
    parser.add_argument("--log", type=Path, required=True, help="request log, JSON lines")
    parser.add_argument("--faults", type=Path, help="faults to inject, read again when it changes")
    options = parser.parse_args(arguments)
    address, _, port = options.listen.rpartition(":")
    server = serve(options.root, address, int(port), options.log, options.faults)
    print("listening on {}:{}".format(*server.server_address), flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.RequestHandlerClass.log.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
