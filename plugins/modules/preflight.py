# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: preflight
short_description: Refuse with every fault that was read, in one answer
version_added: 0.1.0
description:
  - Gathers registered results of other tasks from all hosts and fails where any of them holds a fault, or where a
    host was unreachable. Runs on the controller and connects to nothing.
author: The sovereign.kimi_k3 authors (!UNKNOWN)
options:
  hosts:
    description: Hosts whose results are gathered.
    type: list
    elements: str
    required: true
  results:
    description: Names of the registered results, each with a list C(faults).
    type: list
    elements: str
    required: true
  plan:
    description: The plan. With it, a run that touches only a part of a replica's nodes is refused.
    type: dict
attributes:
  check_mode:
    description: Reads only.
    support: full
"""

EXAMPLES = r"""
- name: Refuse, with every fault at once
  sovereign.kimi_k3.preflight:
    hosts: "{{ ansible_play_hosts_all }}"
    results: [preflight_node, preflight_image]
  run_once: true
"""

RETURN = r"""
faults:
  description: All faults, each with where, value, limit and remedy.
  type: list
  elements: dict
  returned: always
"""
