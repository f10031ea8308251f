"""How long the planner takes for a large site, beside the limit: python -m benchmarks.plan_time

Processor seconds of this process alone, the best of three, from variables already read; Ansible's own reading of the
inventory is not in it. Ends with 1 where a limit is passed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / ".collections"))

from tests.unit.planner.samples import Sample, builtin, cell

LIMITS = {64: 3.0, 1024: 15.0}  # seconds by number of nodes
RUNS = 3
SITES: dict[str, tuple[str, str]] = {
    "single_node_tp on B300": ("b300", "single_node_tp"),
    "multi_node_tp_pp on B200": ("b200", "multi_node_tp_pp"),
    "multi_node_dep on GB300": ("gb300", "multi_node_dep"),
    "pd_cluster on B300": ("b300", "pd_cluster"),
    "single_node_tp on B200, refused": ("b200", "single_node_tp"),  # looks for layouts that would fit
}


def site(hardware: str, profile: str, count: int) -> Sample:
    """So many nodes; of two pools the first has a quarter. NVLink domains of 18 nodes where the hardware has some."""
    shapes = builtin().find("profiles", profile)["pools"]
    nodes = {"unified": count} if len(shapes) == 1 else {"prefill": count // 4, "decode": count - count // 4}
    sample = cell(hardware, profile, nodes)
    addresses = {
        name: {"fabric_address": f"10.1.{n // 250}.{n % 250 + 1}", "nvlink_domain": f"rack-{n // 18}"}
        for n, name in enumerate(sample.groups["gpu_nodes"])
    }
    return sample.with_hosts(addresses)


def seconds(work: Callable[[], dict]) -> tuple[float, dict]:
    """Processor seconds of the fastest run, and what it gave."""
    best, result = float("inf"), {}
    for _ in range(RUNS):
        start = time.process_time()
        result = work()
        best = min(best, time.process_time() - start)
    return best, result


def main() -> int:
    slow = 0
    print(f"{'site':<33}{'nodes':>6}{'seconds':>9}{'limit':>7}{'of it':>7}")
    for name, (hardware, profile) in SITES.items():
        for count, limit in LIMITS.items():
            spent, result = seconds(site(hardware, profile, count).plan)
            planned = len(result["nodes"]) + len(result.get("spare", [])) or len(result["refusals"])
            slow += spent > limit or not planned
            print(f"{name:<33}{count:>6}{spent:>9.2f}{limit:>7.0f}{spent / limit:>7.0%}")
    return int(slow > 0)


if __name__ == "__main__":
    sys.exit(main())
