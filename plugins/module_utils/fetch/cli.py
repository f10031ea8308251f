# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fetch agent: puts one checkpoint revision on a node, proves it byte for byte, and hands it on to other nodes.

`proof` knows the manifest and the files on the node. Here: `sources` of bytes, how a file becomes whole (`transfer`),
what is next and from whom (`scheduler`), what others ask (`server`), what Ansible reads (`status`), and the `agent`.

    fetch  --config FILE            make the checkpoint whole (what kimi-k3-fetch.service runs)
    verify --config FILE --quick    compare with the manifest by stamps: one stat per file
    verify --config FILE --full     read and hash every file

Exit codes: 0 complete or whole; 1 verify found bad files (one line each); 2 unusable configuration, manifest or port;
3 another run is at work; 4 files could not be fetched; 5 no space left; 6 another fault of the local disk;
7 stopped by a signal. Whatever the code, a later run goes on where this one ended.
"""

from __future__ import annotations

import argparse
import sys

from ..proof.faults import AlreadyRunning, ConfigError
from ..proof.store import Store, verify
from . import config


def main() -> int:
    """Run one command and return its exit code."""
    parser = argparse.ArgumentParser(prog="fetch", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("command", choices=["fetch", "verify"])
    parser.add_argument("--config", required=True, help="the agent's configuration file")
    depth = parser.add_mutually_exclusive_group()
    depth.add_argument("--quick", action="store_true", help="by stamps (default)")
    depth.add_argument("--full", action="store_true", help="by hashing everything")
    options = parser.parse_args()
    try:
        settings, manifest = config.load(options.config)
        if options.command == "fetch":
            from .agent import fetch  # not for an engine that waits for its verification: it knows the network

            return fetch(settings, manifest)
        faults = verify(Store(settings, manifest), options.full)
    except (ConfigError, AlreadyRunning, OSError) as error:
        print(error, file=sys.stderr)
        return {ConfigError: config.UNUSABLE, AlreadyRunning: config.LOCKED}.get(type(error), config.DISK)
    print(*faults, sep="\n", end="\n" if faults else "")
    return config.BAD_FILES if faults else config.COMPLETE


if __name__ == "__main__":
    sys.exit(main())
