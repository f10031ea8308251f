"""The rehearsal's hub in a thread of the test, with its faults and its request log."""

from __future__ import annotations

import json
import threading
from pathlib import Path

from rehearsal import hub


class RunningHub:
    """Serves the models below a folder on a free port of 127.0.0.1."""

    def __init__(self, folder: Path):
        self._log, self._faults = folder / "requests.log", folder / "faults.json"
        self._server = hub.serve(folder, "127.0.0.1", 0, self._log, self._faults)
        self._idle, self._busy = threading.Condition(), 0
        self._count_requests()
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.origin = {"kind": "hub", "url": self.url}
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def _count_requests(self) -> None:
        handler = self._server.RequestHandlerClass
        answer = handler.do_GET

        def counted(request: hub.Handler) -> None:
            self._add(1)
            try:
                answer(request)
            finally:
                self._add(-1)

        handler.do_GET = counted

    def _add(self, number: int) -> None:
        with self._idle:
            self._busy += number
            self._idle.notify_all()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def inject(self, *faults: dict) -> None:
        self._faults.write_text(json.dumps(faults))

    def requests(self, part: str = "/resolve/") -> list[dict]:
        """Return the log's lines of all requests with this in their path, none of which is still being answered."""
        with self._idle:
            self._idle.wait_for(lambda: not self._busy, timeout=10)
        lines = map(json.loads, self._log.read_text().splitlines())
        return [line for line in lines if part in line["path"]]

    def sent(self, part: str = "/resolve/") -> int:
        return sum(line["sent"] for line in self.requests(part))
