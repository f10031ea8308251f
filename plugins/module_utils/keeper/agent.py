# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The keeper itself, run as `python3 -I /usr/lib/kimi-k3/keeper --config FILE`.

The configuration is JSON: {"address", "port", "engines": [{"name", "unit", "head": {"engine", "keeper"} or null}]}.
It answers GET /engines on the fabric address with {engine: {"phase", "invocation", "ending"}} and nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from . import systemd
from .pairing import Pairing

PERIOD_SECONDS = 2
TIMEOUT_SECONDS = 3
STATE = "/run/kimi-k3-keeper/pairs.json"


def look(unit):
    """{"phase", "invocation", "ending"} of a unit of this node."""
    state = systemd.show(unit)
    return {
        "phase": systemd.phase(state),
        "invocation": state.get("InvocationID", ""),
        "ending": systemd.ending(state),
    }


def running(row):
    """Invocation id of an engine that is up; empty otherwise."""
    return row["invocation"] if row and row["phase"] == "up" else ""


def ask(keeper):
    """The engines of another node; empty where its keeper does not answer, which is no news of its engines."""
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(keeper + "/engines", timeout=TIMEOUT_SECONDS) as answer:
            return json.load(answer)
    except (OSError, ValueError):
        return {}


class Handler(BaseHTTPRequestHandler):
    """GET /engines, no bodies, one short answer a connection."""

    timeout = TIMEOUT_SECONDS
    config: dict = {}

    def do_GET(self):
        """The only request there is."""
        if self.path != "/engines":
            return self.send_error(404)
        body = json.dumps({engine["name"]: look(engine["unit"]) for engine in self.config["engines"]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        return self.wfile.write(body)

    def log_message(self, *_):
        """Silent: peers ask every two seconds."""


class Server(ThreadingHTTPServer):
    """Threads end with the keeper; an address family by the address."""

    daemon_threads = True

    def __init__(self, address, port, handler):
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        super().__init__((address, port), handler)


def load_pairs():
    """Pairs of an earlier run of the keeper since boot."""
    try:
        with open(STATE, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return {}


def save_pairs(pairs):
    """Kept over a restart of the keeper; whole or not at all."""
    with open(STATE + ".new", "w", encoding="utf-8") as file:
        json.dump(pairs, file)
    os.replace(STATE + ".new", STATE)


def watch(engine, pairing):
    """One look at one worker: starts it again where its head has been started since."""
    own = running(look(engine["unit"]))
    head = running(ask(engine["head"]["keeper"]).get(engine["head"]["engine"]))
    if pairing.must_restart(own, head):
        print("the head of {} was started again: starting {} again".format(engine["name"], engine["unit"]), flush=True)
        systemd.run(["systemctl", "restart", "--", engine["unit"]], check=False)
    elif own:
        pairing.forget_all_but(own)


def main():
    """Serves and watches until it is ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", required=True)
    parser.add_argument("--digest", default="", help="digest of the code and configuration; only names the run")
    with open(parser.parse_args().config, encoding="utf-8") as file:
        config = json.load(file)
    Handler.config = config
    server = Server(config["address"], config["port"], Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    workers = [engine for engine in config["engines"] if engine["head"]]
    saved = load_pairs()
    pairings = {engine["name"]: Pairing(saved.get(engine["name"])) for engine in workers}
    while True:
        for engine in workers:
            watch(engine, pairings[engine["name"]])
        if workers:
            save_pairs({name: pairing.pairs for name, pairing in pairings.items()})
        time.sleep(PERIOD_SECONDS)


if __name__ == "__main__":
    main()
