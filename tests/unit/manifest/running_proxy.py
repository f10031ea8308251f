"""A proxy in a thread of the test: it forwards plain HTTP and keeps what it was asked."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class RunningProxy:
    """Listens on a free port of 127.0.0.1; `asked` holds (URL, Proxy-Authorization, Authorization)."""

    def __init__(self):
        self.asked = []
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                asked.append((self.path, self.headers.get("Proxy-Authorization"), self.headers.get("Authorization")))
                kept = {name: self.headers[name] for name in ("Range", "Authorization") if name in self.headers}
                opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
                try:
                    with opener.open(urllib.request.Request(self.path, headers=kept), timeout=10) as answer:
                        self._answer(answer.status, answer.headers, answer.read())
                except urllib.error.HTTPError as error:
                    self._answer(error.code, error.headers, error.read())

            def _answer(self, status, headers, body):
                self.send_response(status)
                for name, value in headers.items():
                    if name.lower() not in ("date", "server", "connection"):
                        self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_words):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.place = f"127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def stop(self):
        self._server.shutdown()
        self._server.server_close()
