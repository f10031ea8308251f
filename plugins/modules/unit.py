# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One systemd service whose running command is compared with the wanted one."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: unit
short_description: Run a systemd service with exactly the wanted command
version_added: 0.1.0
description:
  - Starts or stops a systemd service. A service that runs with another command than O(command) is restarted.
  - The comparison is between the wanted arguments and those of the running process, so a run that failed
    half-way is put right by the next one, and nothing restarts without cause.
author: The sovereign.kimi_k3 authors (!UNKNOWN)
options:
  name:
    description: Name of the unit, with its suffix.
    type: str
    required: true
  state:
    description: What the service is to do. C(absent) also removes its unit file from C(/etc/systemd/system).
    type: str
    choices: [started, stopped, absent]
    required: true
  graceful:
    description: Whether a service is asked to end before it is killed. One that only loads has nothing to finish.
    type: bool
    default: true
  command:
    description: Arguments that the main process must have. Without them any running process is right.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    description: Says what it would do and does nothing.
    support: full
  diff_mode:
    description: Shows the arguments that differ.
    support: full
"""

EXAMPLES = r"""
- name: Run the keeper
  sovereign.kimi_k3.unit:
    name: kimi-k3-keeper.service
    state: started
    command: [/usr/bin/python3, -I, /usr/lib/kimi-k3/keeper]
"""

RETURN = r"""
invocation:
  description: systemd's identifier of the run that is up now; empty where none is.
  type: str
  returned: always
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sovereign.kimi_k3.plugins.module_utils import commands
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.keeper import systemd


def stop(module, state):
    """Whether the service had to be stopped."""
    name = module.params["name"]
    if state.get("ActiveState") in ("inactive", None) or state.get("LoadState") == "not-found":
        return False
    if not module.check_mode:
        if not module.params["graceful"]:
            systemd.run(["systemctl", "stop", "--no-block", "--", name])  # first, or it would be started again
            systemd.run(["systemctl", "kill", "--signal=KILL", "--", name], check=False)
        systemd.run(["systemctl", "stop", "--", name])
        systemd.run(["systemctl", "reset-failed", "--", name], check=False)
    return True


def remove(module, state):
    """Whether there was anything left of the service."""
    path = os.path.join("/etc/systemd/system", module.params["name"])
    present = os.path.exists(path)
    stopped = stop(module, state)
    if present and not module.check_mode:
        systemd.run(["systemctl", "disable", "--quiet", "--", module.params["name"]], check=False)
        os.remove(path)
        systemd.run(["systemctl", "daemon-reload"])
    return stopped or present


def start(module, state):
    """Whether the service had to be started, started again, or enabled."""
    name = module.params["name"]
    wanted = module.params["command"]
    right = systemd.phase(state) == "up" and wanted in ([], systemd.command_of(state))
    enabled = state.get("UnitFileState") == "enabled"
    if module.check_mode:
        return not (right and enabled)
    if not right or state.get("NeedDaemonReload") == "yes":
        systemd.run(["systemctl", "daemon-reload"])
    if right and enabled:
        return False
    systemd.run(["systemctl", "enable", "--quiet", "--", name])
    if not right:
        # an earlier series of failures must not make systemd refuse a start that an operator asked for
        systemd.run(["systemctl", "reset-failed", "--", name], check=False)
        systemd.run(["systemctl", "restart", "--", name])
    return True


def lines(words):
    """Arguments as lines of a diff."""
    return "".join(" ".join(group) + "\n" for group in commands.folded(words))


def main():
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["started", "stopped", "absent"], "required": True},
            "graceful": {"type": "bool", "default": True},
            "command": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    name = module.params["name"]
    state = systemd.show(name)
    act = {"started": start, "stopped": stop, "absent": remove}[module.params["state"]]
    try:
        changed = act(module, state)
    except systemd.SystemdError as error:
        ended = systemd.show(name)
        log = "\n".join("  " + line for line in systemd.last_lines(name))
        module.fail_json(
            msg="{} did not obey ({}): {}\nlast lines of its log:\n{}\nremedy: correct what the log names, run again; "
            "the whole log: journalctl -u {}".format(name, systemd.ending(ended), error, log or "  (none)", name)
        )
    before, after = systemd.command_of(state), module.params["command"]
    diff = {"before": lines(before), "after": lines(after)} if changed and after else None
    module.exit_json(
        changed=changed, invocation=systemd.show(name).get("InvocationID", ""), **({"diff": diff} if diff else {})
    )


if __name__ == "__main__":
    main()
