# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refuse unless every node holds the same whole checkpoint."""

from __future__ import annotations

from ansible.plugins.action import ActionBase
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils import checkpoint, faults


class ActionModule(ActionBase):
    """Reads registered results of all hosts; connects to nothing. Options: modules/checkpoint_gate.py."""

    TRANSFERS_FILES = False
    _VALID_ARGS = frozenset(("digest", "nodes", "hosts", "result"))
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        """What the nodes hold, as a failure where one does not hold what it must."""
        args, hostvars = self._task.args, task_vars["hostvars"]
        nodes = [node for node in args["nodes"] if node in args["hosts"]]
        results = {node: hostvars[node].get(args["result"]) or {} for node in nodes}
        rows = checkpoint.gate_faults(args["digest"], results)
        if rows:
            return {"failed": True, "changed": False, "faults": rows, "msg": faults.message(rows)}
        said = checkpoint.judged(args["digest"], args["nodes"], args["hosts"])
        if len(nodes) < len(args["nodes"]):
            self._display.display(said)
        return {"changed": False, "faults": [], "msg": said}
