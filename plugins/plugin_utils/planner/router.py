# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the router is told: where requests may go, and how vllm-router is started for that."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.layout import Replica

PORT = 30000
# vllm-router 0.1.17, observed: it waits for every backend before it opens its own port and gives up after 600 s, and
# a dead backend stays listed for three checks of 60 s.
CHECK_SECONDS = 10


def router(replicas: Sequence[Replica], ready_seconds: int, address: str) -> dict:
    """{mode, backends, prefill, decode, argv}; `backends` are what a client could ask without a router.

    argv is vllm-router's; `address` is that of the service host, where clients find it.
    """
    pools: dict[str, list[str]] = {"unified": [], "prefill": [], "decode": []}
    for replica in replicas:
        pools[replica.pool] += replica.endpoints
    split = bool(pools["decode"])
    words = ["--host", address, "--port", str(PORT), "--policy", "round_robin"]
    if split:
        words.append("--vllm-pd-disaggregation")
        for pool in ("prefill", "decode"):
            words += [word for url in pools[pool] for word in (f"--{pool}", url)]
        words += ["--kv-connector", "nixl", "--intra-node-data-parallel-size", "1"]
    else:
        words += ["--worker-urls", *pools["unified"]]
    words += ["--worker-startup-timeout-secs", str(ready_seconds), "--health-check-interval-secs", str(CHECK_SECONDS)]
    return {
        "mode": "prefill_decode" if split else "replicas",
        "address": address,
        "port": PORT,
        "backends": [url for urls in pools.values() for url in urls],
        "prefill": pools["prefill"],
        "decode": pools["decode"],
        "argv": words,
    }
