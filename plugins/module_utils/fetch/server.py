# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the other nodes ask this one: what it has, and files of the manifest, by their place in it.

    GET /<manifest digest>/have?since=VERSION    waits for news, a few seconds at most
    GET /<manifest digest>/<place>               Range: bytes=N-; If-Range: the copy that was read before

No path comes from outside. Only the site's nodes are let in, each with a bounded number of connections. Nothing is read
of them but a request's head, which the standard library bounds. Integrity does not depend on any of this.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import socket
import socketserver
import struct
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from ..proof.part import Part
from .config import place

if TYPE_CHECKING:
    from .agent import Agent

_POLL_SECONDS, _SENDFILE_BYTES = 5, 8 << 20
# A part that does not grow for so long is no source: the other side takes another one.
_IDLE_SECONDS = 60
_CONNECTIONS, _CONNECTIONS_OF_ONE_NODE = 2048, 160
_PATH = re.compile(r"/([0-9a-f]{64})/(?:(have)\?since=([0-9a-f.]*)|([0-9]{1,9}))", re.ASCII)
_RANGE = re.compile(r"bytes=([0-9]{1,18})-", re.ASCII)
_FREEBIND = {socket.AF_INET: (socket.IPPROTO_IP, 15), socket.AF_INET6: (socket.IPPROTO_IPV6, 78)}


class Server(ThreadingHTTPServer):
    """Listens on one address of this node for the nodes of the site."""

    daemon_threads, request_queue_size = True, 128

    def __init__(self, node: str, nodes: dict[str, str], agent: Agent):
        address = place(nodes[node])
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.agent, self._hosts = agent, {_plain(place(other)[0]) for other in nodes.values()}
        self._open: Counter[str] = Counter()
        self._lock = threading.Lock()
        super().__init__(address, Handler)

    def server_bind(self) -> None:
        """Bind also before the interface is up, as after a reboot; the parent's way would ask the name service."""
        self.socket.setsockopt(*_FREEBIND[self.address_family], 1)
        socketserver.TCPServer.server_bind(self)

    def verify_request(self, request: socket.socket, client_address: tuple) -> bool:
        """Let in the site's nodes, each a bounded number of times."""
        host = _plain(client_address[0])
        with self._lock:
            room = self._open[host] < _CONNECTIONS_OF_ONE_NODE and sum(self._open.values()) < _CONNECTIONS
            if host not in self._hosts or not room:
                return False
            self._open[host] += 1
        return True

    def process_request_thread(self, request: socket.socket, client_address: tuple) -> None:
        """Serve one connection until it ends."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._open[_plain(client_address[0])] -= 1

    def handle_error(self, request: object, client_address: object) -> None:
        """A connection that broke is the other side's to report."""


def _plain(host: str) -> str:
    """One spelling for each address."""
    return str(ipaddress.ip_address(host.partition("%")[0]))


class Handler(BaseHTTPRequestHandler):
    """One connection of another node."""

    protocol_version, disable_nagle_algorithm, timeout = "HTTP/1.1", True, 60
    server: Server

    def log_message(self, *_: object) -> None:
        """The journal holds faults, not requests."""

    def do_GET(self) -> None:
        """Answer what the path asks for, if it asks about the same manifest."""
        found, agent = _PATH.fullmatch(self.path), self.server.agent
        if not found or found[1] != agent.digest:
            self.send_error(404, "another manifest, or no such thing")
        elif found[2]:
            body = json.dumps(agent.news(found[3], _POLL_SECONDS, self.client_address[0])).encode()
            self._head(200, {"Content-Type": "application/json", "Content-Length": len(body)})
            self.wfile.write(body)
        elif copy := agent.copy(int(found[4])):
            agent.sending(1)
            try:
                self._send(*copy)
            finally:
                agent.sending(-1)
                os.close(copy[0])
        else:
            self.send_error(404, "not here")

    def _send(self, descriptor: int, name: str, last: int, part: Part | None) -> None:
        asked, known = _RANGE.fullmatch(self.headers.get("Range", "")), self.headers.get("If-Range", "").strip('"')
        # A copy that an earlier process of this agent sent is taken to be right: a wrong one costs one more transfer.
        offset = int(asked[1]) if asked and known not in self.server.agent.abandoned else 0
        if offset and offset >= last:
            self.send_error(416)
            return
        place = {"Content-Range": f"bytes {offset}-{last - 1}/{last}"} if offset else {}
        self._head(206 if offset else 200, {"Content-Length": last - offset, "ETag": f'"{name}"', **place})
        # The kernel's own time limit: a socket with one of Python's would not block, which sendfile needs.
        self.connection.settimeout(None)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", self.timeout, 0))
        while offset < last:
            until = part.wait_beyond(offset, name, last, _IDLE_SECONDS) if part else last
            sent = os.sendfile(self.connection.fileno(), descriptor, offset, min(until - offset, _SENDFILE_BYTES))
            offset += sent
            if not sent:
                break
        self.close_connection = True

    def _head(self, status: int, headers: dict) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, str(value))
        self.end_headers()
