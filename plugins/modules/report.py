# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: report
short_description: Write what a deploy ended with
version_added: 0.1.0
description:
  - Writes engines, releases and answers as JSON on the controller and returns them as a table. Connects to nothing.
author: The sovereign.kimi_k3 authors (!UNKNOWN)
options:
  plan:
    description: The plan.
    type: dict
    required: true
  running:
    description: Name under which nodes registered M(sovereign.kimi_k3.unit_facts).
    type: str
    required: true
  ready:
    description: Name under which nodes registered M(sovereign.kimi_k3.engine_ready).
    type: str
    required: true
  seen:
    description: Name under which hosts of the play registered M(sovereign.kimi_k3.acceptance).
    type: str
    required: true
  path:
    description: File on the controller that is written.
    type: path
    required: true
attributes:
  check_mode:
    description: Writes nothing.
    support: full
"""

EXAMPLES = r"""
- name: Report
  sovereign.kimi_k3.report:
    plan: "{{ plan }}"
    running: accept_running
    ready: __replica_ready
    seen: acceptance_seen
    path: "{{ inventory_dir }}/state/acceptance.json"
"""

RETURN = r"""
report:
  description: Engines with their releases, endpoints with their answers.
  type: dict
  returned: always
lines:
  description: The same as a table, a line each.
  type: list
  elements: str
  returned: always
"""
