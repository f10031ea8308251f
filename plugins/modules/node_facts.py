# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare a node with what the site declares of it."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: node_facts
short_description: Compare a node with what the site declares of it
version_added: 0.1.0
description:
  - Reads operating system, init, fabric address, listening ports and devices, and returns what does not fit. Changes
    nothing and does not fail on a fault, so that the faults of all nodes come in one answer.
author: The sovereign.kimi_k3 authors (!UNKNOWN)
options:
  fabric_address:
    description: Declared fabric address. Not compared where empty.
    type: str
    default: ""
  fabric_interface:
    description: Declared fabric interface.
    type: str
    default: ""
  ports:
    description: TCP ports that must be free, or held by this collection's own services.
    type: list
    elements: int
    default: []
  container_arguments:
    description: Arguments of the engines' containers; the devices they name must be there.
    type: list
    elements: str
    default: []
  platforms:
    description: Supported systems, as ID and major VERSION_ID of C(/etc/os-release).
    type: list
    elements: str
    required: true
attributes:
  check_mode:
    description: Reads only.
    support: full
"""

EXAMPLES = r"""
- name: Read the node
  sovereign.kimi_k3.node_facts:
    fabric_address: 10.20.0.11
    fabric_interface: ens1f0
    ports: [8000, 29501]
    platforms: [debian 13]
"""

RETURN = r"""
faults:
  description: What does not fit.
  type: list
  elements: dict
  returned: always
  sample: [{where: fabric_address, value: 10.0.0.1 on eth0, limit: an address of that interface, remedy: declare it}]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sovereign.kimi_k3.plugins.module_utils import node


def main():
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "fabric_address": {"type": "str", "default": ""},
            "fabric_interface": {"type": "str", "default": ""},
            "ports": {"type": "list", "elements": "int", "default": []},
            "container_arguments": {"type": "list", "elements": "str", "default": []},
            "platforms": {"type": "list", "elements": "str", "required": True},
        },
        supports_check_mode=True,
    )
    given = module.params
    faults = node.platform_faults(given["platforms"]) + node.init_faults() + node.port_faults(given["ports"])
    faults += node.device_faults(given["container_arguments"])
    if given["fabric_address"]:
        faults += node.fabric_faults(given["fabric_address"], given["fabric_interface"])
    module.exit_json(changed=False, faults=faults)


if __name__ == "__main__":
    main()
