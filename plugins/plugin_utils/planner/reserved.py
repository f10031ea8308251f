# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names that nobody but the plan may set, and names of secrets, which a plan never holds."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.faults import Fault

SECRET = re.compile(r"(^|.*[-_])(token|secret|password|passwd|api[-_]key|access[-_]key)", re.IGNORECASE)
# Sizes, ranks and meeting points of a layout, and where HTTP is served.
LAYOUT = re.compile(
    r"--(no-)?(tensor-parallel|pipeline-parallel|data-parallel|enable-expert-parallel)(-.*)?"
    r"|--(nnodes|node-rank|master-addr|master-port|headless|host|port|uds|config|root-path|ssl-.*)"
    r"|(CUDA|HIP|ROCR)_VISIBLE_DEVICES|VLLM_PORT|VLLM_HOST_IP|VLLM_DP_.*"
)


def layout_faults(where: str, name: str) -> Iterator[Fault]:
    if LAYOUT.fullmatch(name):
        yield computed_fault(where, name)


def computed_fault(where: str, name: str) -> Fault:
    remedy = "leave it out; the inventory and serving_profile decide it"
    return Fault(where, name, "the plan computes it, and other parts rely on it", remedy)


def secret_faults(where: str, name: str) -> Iterator[Fault]:
    if SECRET.fullmatch(name):
        yield Fault(where, name, "a plan is printed and kept, so it holds no secret", "leave it out")
