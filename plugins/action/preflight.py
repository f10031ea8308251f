# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gather what the preflight read on every host and refuse with every fault at once."""

from __future__ import annotations

from ansible.plugins.action import ActionBase
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils import faults


class ActionModule(ActionBase):
    """Reads registered results of all hosts; connects to nothing. Options are described in modules/preflight.py."""

    TRANSFERS_FILES = False
    _VALID_ARGS = frozenset(("hosts", "results", "plan"))
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        """The faults of all hosts, as a failure where there are any."""
        hostvars = task_vars["hostvars"]
        rows = faults.split_replicas(self._task.args.get("plan", {}), self._task.args["hosts"])
        for host in self._task.args["hosts"]:
            results = [hostvars[host].get(name) or {} for name in self._task.args["results"]]
            rows += faults.of_host(host, results)
        if rows:
            return {"failed": True, "changed": False, "faults": rows, "msg": faults.message(rows)}
        return {"changed": False, "faults": [], "msg": "every host can take the plan"}
