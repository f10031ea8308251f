# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: checkpoint_gate
short_description: Refuse unless every node holds the same whole checkpoint
version_added: 0.1.0
description:
  - Compares what M(sovereign.kimi_k3.checkpoint_facts) found on every node with the manifest that the site serves, and
    fails with each node that holds another one, or not all of it. Runs on the controller and connects to nothing.
  - Of a run that is limited to some nodes it judges those, and says which it leaves out.
author: The sovereign.kimi_k3 authors (!UNKNOWN)
options:
  digest:
    description: Digest of the manifest that the site serves.
    type: str
    required: true
  nodes:
    description: All nodes of the site.
    type: list
    elements: str
    required: true
  hosts:
    description: Hosts that this run touches.
    type: list
    elements: str
    required: true
  result:
    description: Name of the registered result of M(sovereign.kimi_k3.checkpoint_facts), which compared the files.
    type: str
    required: true
attributes:
  check_mode:
    description: Reads only.
    support: full
"""

EXAMPLES = r"""
- name: Refuse a node that does not hold the checkpoint
  sovereign.kimi_k3.checkpoint_gate:
    digest: "{{ manifest.digest }}"
    nodes: "{{ plan.nodes.keys() | list }}"
    hosts: "{{ ansible_play_hosts_all }}"
    result: serve_checkpoint
  run_once: true
"""

RETURN = r"""
faults:
  description: All faults, each with where, value, limit and remedy.
  type: list
  elements: dict
  returned: always
"""
