"""A registry in a thread of the test: manifests, tags and the token challenge, as Docker Hub asks for it."""

from __future__ import annotations

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": []}).encode()
DIGEST = f"sha256:{hashlib.sha256(MANIFEST).hexdigest()}"
NAME = "vllm/vllm-openai"


class RunningRegistry:
    """Holds the repository NAME with some tags; what it answers for a manifest can be changed."""

    def __init__(self, tags: tuple[str, ...] = ("v0.29.0",)):
        self.tags, self.lists_tags = tags, True
        self.status, self.body, self.headers = 200, MANIFEST, {"Docker-Content-Digest": DIGEST, "Content-Type": INDEX}
        self.token, self.token_status = "", 200  # a token makes it challenge whoever comes without
        self.asked: list[tuple[str, str]] = []  # path, Accept
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def image(self, tag: str = ":v0.29.0") -> str:
        return f"{self.address}/{NAME}{tag}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.append((self.path, self.headers.get("Accept", "")))
                status, headers, body = registry.answer(self.path, self.headers.get("Authorization"))
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_words: object) -> None:
                pass

        return Handler

    def answer(self, path: str, authorization: str | None) -> tuple[int, dict, bytes]:
        """(status, headers, body) for one request."""
        if path == f"/token?service=registry&scope=repository%3A{NAME.replace('/', '%2F')}%3Apull":
            return self.token_status, {}, json.dumps({"token": self.token}).encode()
        if self.token and authorization != f"Bearer {self.token}":
            scope = f'service="registry",scope="repository:{NAME}:pull"'
            return 401, {"WWW-Authenticate": f'Bearer realm="http://{self.address}/token",{scope}'}, b""
        if path == f"/v2/{NAME}/tags/list" and self.lists_tags:
            return 200, {}, json.dumps({"name": NAME, "tags": self.tags}).encode()
        if path in [f"/v2/{NAME}/manifests/{tag}" for tag in self.tags]:
            return self.status, self.headers, self.body
        return 404, {}, b""
