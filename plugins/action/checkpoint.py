# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make one checkpoint revision whole on a node, and show how far it is."""

from __future__ import annotations

import time

from ansible.plugins.action import ActionBase
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.progress import progress_line


class ActionModule(ActionBase):
    """Runs the module again and again until the agent is done. Options are described in modules/checkpoint.py."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        """Return the module's last result, with what the first one found missing."""
        host = task_vars["inventory_hostname"]
        timeout = float(self._task.args.get("timeout_seconds", 86400))
        deadline = time.monotonic() + timeout
        first = result = self._execute_module(task_vars=task_vars)
        while self._is_running(result) and time.monotonic() < deadline:
            self._display.display(progress_line(host, result["status"]))
            result = self._execute_module(task_vars=task_vars)
        if self._is_running(result):
            msg = f"{host}: not whole after {timeout:g} s; it goes on: run again to wait for it"
            return {**result, "failed": True, "msg": msg}
        return result if first is result or result.get("failed") else self._together(first, result)

    def _is_running(self, result):
        return not result.get("failed") and result.get("state") == "running" and not self._task.check_mode

    def _together(self, first, last):
        # The last call may have found all files there already: what the run fetched is in the agent's status.
        fetched = {name: last["status"].get(name, 0) for name in ("bytes_fetched", "files_fetched")}
        found = {name: first[name] for name in ("missing_files", "missing_bytes", "diff")}
        changed = first["changed"] or last["changed"] or fetched["bytes_fetched"] > 0
        return {**last, **found, **fetched, "changed": changed}
