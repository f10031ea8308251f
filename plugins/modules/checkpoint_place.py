# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: checkpoint_place
short_description: Find a filesystem that several nodes would write at the same time
version_added: 0.1.0
description:
  - Compares what M(sovereign.kimi_k3.checkpoint_facts) found at the checkpoint's path on every node. Refuses nothing
    itself; M(sovereign.kimi_k3.preflight) does. Runs on the controller and connects to nothing.
author: The sovereign.kimi_k3 authors (!UNKNOWN)
options:
  hosts:
    description: Hosts whose results are compared.
    type: list
    elements: str
    required: true
  result:
    description: Name of the registered result of M(sovereign.kimi_k3.checkpoint_facts).
    type: str
    required: true
  shared:
    description: Whether the site says that the filesystem is shared, so that one node writes it.
    type: bool
    required: true
attributes:
  check_mode:
    description: Reads only.
    support: full
"""

EXAMPLES = r"""
- name: Look for a filesystem that several nodes would write
  sovereign.kimi_k3.checkpoint_place:
    hosts: "{{ ansible_play_hosts_all }}"
    result: preflight_checkpoint
    shared: false
  run_once: true
  register: preflight_place
"""

RETURN = r"""
faults:
  description: All faults, each with where, value, limit and remedy.
  type: list
  elements: dict
  returned: always
"""
