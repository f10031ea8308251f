# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find a filesystem that several nodes would write at the same time."""

from __future__ import annotations

from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils import checkpoint


class ActionModule(ActionBase):
    """Reads registered results of all hosts; connects to nothing. Options: modules/checkpoint_place.py."""

    TRANSFERS_FILES = False
    _VALID_ARGS = frozenset(("hosts", "result", "shared"))
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        """The faults, for M(sovereign.kimi_k3.preflight) to refuse with."""
        args, hostvars = self._task.args, task_vars["hostvars"]
        results = {host: hostvars[host].get(args["result"]) or {} for host in args["hosts"]}
        rows = list(checkpoint.place_faults(results, boolean(args["shared"])))
        return {"changed": False, "of_site": True, "faults": rows}
