# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs on this host, compared with what is wanted."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: unit_facts
short_description: Compare running services with the wanted ones
version_added: 0.1.0
description:
  - Reads services and compares the arguments of each running process with the wanted ones. Changes nothing.
author: The sovereign.kimi_k3 authors (!UNKNOWN)
options:
  units:
    description: The wanted services.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the unit, with its suffix.
        type: str
        required: true
      command:
        description: Arguments that its main process must have.
        type: list
        elements: str
        required: true
  pattern:
    description: Shell pattern of unit names; those that exist and are not wanted are reported as strays.
    type: str
    default: ""
attributes:
  check_mode:
    description: Reads only.
    support: full
"""

EXAMPLES = r"""
- name: Compare the engines
  sovereign.kimi_k3.unit_facts:
    units: [{name: kimi-k3-engine@unified-0-rank-0.service, command: [/usr/bin/podman, run, x]}]
    pattern: kimi-k3-engine@*.service
"""

RETURN = r"""
differing:
  description: Wanted units that do not run as wanted, each with the reason.
  type: list
  elements: dict
  returned: always
  sample: [{name: kimi-k3-engine@a.service, reason: --max-num-seqs 4 becomes --max-num-seqs 8}]
running:
  description: Arguments of the running main process of every unit that is wanted or matches the pattern.
  type: dict
  returned: always
strays:
  description: Units that match the pattern and are not wanted.
  type: list
  elements: str
  returned: always
"""

import glob
import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sovereign.kimi_k3.plugins.module_utils import commands
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.keeper import systemd

UNIT_DIRECTORY = "/etc/systemd/system"


def reason(state, command):
    """Why a unit does not run as wanted; empty where it does."""
    if systemd.phase(state) != "up":
        return "it does not run"
    return commands.difference(systemd.command_of(state), command)


def main():
    """Entry point of the module."""
    unit = {"name": {"type": "str", "required": True}, "command": {"type": "list", "elements": "str", "required": True}}
    module = AnsibleModule(
        argument_spec={
            "units": {"type": "list", "elements": "dict", "default": [], "options": unit},
            "pattern": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    wanted = {unit["name"]: unit["command"] for unit in module.params["units"]}
    pattern = module.params["pattern"]
    present = glob.glob(os.path.join(UNIT_DIRECTORY, pattern)) if pattern else []
    found = {os.path.basename(path) for path in present}
    states = {name: systemd.show(name) for name in sorted(found | wanted.keys())}
    reasons = [{"name": name, "reason": reason(states[name], command)} for name, command in wanted.items()]
    module.exit_json(
        changed=False,
        differing=[row for row in reasons if row["reason"]],
        strays=sorted(found - wanted.keys()),
        running={name: systemd.command_of(state) for name, state in states.items()},
    )


if __name__ == "__main__":
    main()
