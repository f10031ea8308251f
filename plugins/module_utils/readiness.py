# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wait until engines answer, and say at once when one of them will not.

Ready means that a bounded generation succeeded through the head. `/health` is no proof: an idle head answers 200
over a dead worker. Most engine deaths end with exit code 0, so any end of a process while we wait is a failure.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request

from .keeper import systemd

PROBE_SECONDS = 30
PEER_SECONDS = 3


class NotReady(Exception):
    """An engine that will not become ready: the text names engine, reason, last log lines and remedy."""


def open_url(url, body=None, timeout=PROBE_SECONDS):
    """Answer of a GET, or of a POST where `body` is given. No proxy: engines live on the site's own fabric."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers={"Content-Type": "application/json"})
    return urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=timeout)


def fetch_json(url, body=None, timeout=PROBE_SECONDS):
    """The same, read as JSON."""
    with open_url(url, body, timeout) as answer:
        return json.load(answer)


def generates(endpoint, model, fetch=fetch_json):
    """Whether one token comes back from the head at `endpoint`; the second value says why not."""
    body = {"model": model, "prompt": "ready", "max_tokens": 1, "temperature": 0}
    try:
        answer = fetch(endpoint + "/v1/completions", body)
        return bool(answer["choices"]), ""
    except urllib.error.HTTPError as error:
        return False, f"HTTP {error.code} from {endpoint}/v1/completions"
    except (OSError, ValueError, KeyError, TypeError) as error:
        return False, "{}: {}".format(endpoint, getattr(error, "reason", error))


class Waiter:
    """Watches one engine of this node until the replica answers.

    engine: {name, unit, endpoint, model, ready_seconds, peers: [{engine, node, keeper}]}
    """

    def __init__(self, engine, show=systemd.show, lines=systemd.last_lines, fetch=fetch_json, clock=time):
        self.engine, self.show, self.lines, self.fetch, self.clock = engine, show, lines, fetch, clock
        self.invocation = None
        self.peer_invocations = {}

    def wait(self):
        """Seconds until the first generation; NotReady as soon as it cannot come, or when the budget is spent."""
        began = self.clock.monotonic()
        while True:
            waited = int(self.clock.monotonic() - began)
            self._own(waited)
            self._peers(waited)
            ready, reason = generates(self.engine["endpoint"], self.engine["model"], self.fetch)
            if ready:
                return round(self.clock.monotonic() - began, 1)
            if waited > self.engine["ready_seconds"]:
                self._fail(f"gave no token within {self.engine['ready_seconds']} s; last try: {reason}")
            self.clock.sleep(1)

    def _own(self, waited):
        state = self.show(self.engine["unit"])
        phase = systemd.phase(state)
        if phase == "down":
            self._fail(f"ended while loading, after {waited} s: {systemd.ending(state)}")
        if phase == "up":
            self.invocation = self.invocation or state["InvocationID"]
        if self.invocation not in (None, state["InvocationID"]):
            self._fail(f"ended while loading, after {waited} s, and systemd started it again")

    def _fail(self, what):
        """The answer an operator needs: who, why, what it said last, what to do."""
        unit = self.engine["unit"]
        lines = "\n".join("  " + line for line in self.lines(unit)) or "  (none)"
        raise NotReady(
            f"engine {self.engine['name']} {what}\nlast lines of its log:\n{lines}\n"
            f"remedy: correct what the log names, then deploy again; the whole log: journalctl -u {unit}"
        )

    def _peers(self, waited):
        """A rank that ended elsewhere ends the wait here: alone, this engine would wait for it for ever."""
        for peer in self.engine.get("peers", ()):
            try:
                seen = self.fetch(peer["keeper"] + "/engines", timeout=PEER_SECONDS)[peer["engine"]]
            except (OSError, ValueError, KeyError, TypeError):
                continue  # an unreachable node is that node's own failure to report
            first = self.peer_invocations.setdefault(peer["engine"], seen["invocation"])
            if seen["phase"] == "down" or seen["invocation"] != first:
                raise NotReady(
                    f"engine {self.engine['name']} waits for engine {peer['engine']} on {peer['node']}, which ended "
                    f"after {waited} s ({seen['ending']})\nremedy: read the failure of {peer['node']}"
                )
