# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wait until an engine's replica generates."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: engine_ready
short_description: Wait until a token comes back through the head of a replica
version_added: 0.1.0
description:
  - Ready means that a bounded generation succeeded through the head. C(/health) alone is never proof.
  - An engine of the replica that ends while it loads, with whatever exit code and on whatever node, ends the wait
    within seconds with its name, the reason and the last lines of its log.
author: The sovereign.kimi_k3 authors (!UNKNOWN)
options:
  name:
    description: Name of the engine.
    type: str
    required: true
  unit:
    description: Its systemd unit.
    type: str
    required: true
  endpoint:
    description: URL of the head's API, without a path.
    type: str
    required: true
  model:
    description: The model's served name.
    type: str
    required: true
  ready_seconds:
    description: How long the replica may take to load.
    type: int
    required: true
  peers:
    description: The other engines of the replica.
    type: list
    elements: dict
    default: []
    suboptions:
      engine:
        description: Name of the engine.
        type: str
        required: true
      node:
        description: Node it runs on.
        type: str
        required: true
      keeper:
        description: URL of that node's keeper.
        type: str
        required: true
attributes:
  check_mode:
    description: Waits for nothing.
    support: full
"""

EXAMPLES = r"""
- name: Wait for the replica
  sovereign.kimi_k3.engine_ready:
    name: unified-0-rank-0
    unit: kimi-k3-engine@unified-0-rank-0.service
    endpoint: http://10.20.0.11:8000
    model: kimi-k3
    ready_seconds: 3600
"""

RETURN = r"""
seconds:
  description: Time from the call to the first generation.
  type: float
  returned: success
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sovereign.kimi_k3.plugins.module_utils import readiness


def main():
    """Entry point of the module."""
    text = {"type": "str", "required": True}
    module = AnsibleModule(
        argument_spec={
            "name": text,
            "unit": text,
            "endpoint": text,
            "model": text,
            "ready_seconds": {"type": "int", "required": True},
            "peers": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {"engine": text, "node": text, "keeper": text},
            },
        },
        supports_check_mode=True,
    )
    if module.check_mode:
        module.exit_json(changed=False, seconds=0.0)
    try:
        seconds = readiness.Waiter(module.params).wait()
    except readiness.NotReady as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, seconds=seconds)


if __name__ == "__main__":
    main()
