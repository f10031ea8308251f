# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make one checkpoint revision whole on a node, and show how far it and the site are."""

from __future__ import annotations

import time

from ansible.errors import AnsibleAuthenticationFailure, AnsibleConnectionFailure
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.progress import Progress, duration

# A host that shuts down kills the module before it cuts the connection: so often in a row that is no fault of ours.
_DEATHS = 3


class ActionModule(ActionBase):
    """Runs the module again and again until the agent is done. Options are described in modules/checkpoint.py.

    What ends while it waits, the connection or the node, does not end the agent, or the agent comes back with the node:
    so it is asked again.
    """

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        """Return the module's last result, with what the first one found missing."""
        args = self._task.args
        if self._task.check_mode or not boolean(args.get("wait", True)):
            return self._execute_module(task_vars=task_vars)
        host = task_vars["inventory_hostname"]
        timeout, linger = float(args.get("timeout_seconds", 86400)), float(args.get("linger_seconds", 3600))
        progress, deadline = Progress(host, args.get("site", "site")), time.monotonic() + timeout
        first = result = None
        while result is None or self._is_running(result):
            last, result = result, self._ask(host, first, task_vars, min(deadline, time.monotonic() + linger))
            if "lost" in result:
                return {**(last or {}), "failed": True, "msg": result["lost"]}
            first = first or result
            if self._is_running(result):
                if time.monotonic() >= deadline:
                    msg = f"{host}: not whole after {timeout:g} s; it goes on: run again to wait for it"
                    return {**result, "failed": True, "msg": msg}
                for line in progress.lines(result["status"], time.monotonic()):
                    self._display.display(line)
        return result if result.get("failed") else _together(first, result, args.get("fetched_before"))

    def _is_running(self, result):
        return not result.get("failed") and result.get("state") == "running"

    def _ask(self, host, first, task_vars, deadline):
        """One answer of the node, however often it must be asked; `lost` with the reason when that takes too long."""
        args = {**self._task.args, "start": False} if first else self._task.args
        since, deaths = time.monotonic(), 0
        while True:
            try:
                result = self._execute_module(module_args=dict(args), task_vars=task_vars)
            except AnsibleAuthenticationFailure:
                raise
            except AnsibleConnectionFailure as error:
                reason = " ".join(str(error).split()).rpartition("ssh: ")[2]
            else:
                deaths += 1
                if result.get("_ansible_parsed", True) or deaths >= _DEATHS:
                    return result
                reason = "the module was killed"
            lost = time.monotonic() - since
            if time.monotonic() >= deadline:
                remedy = "see to the node and run again: its agent goes on from where it was"
                return {"lost": f"{host}: could not be reached for {duration(lost)} ({reason}); remedy: {remedy}"}
            self._display.display(f"{host}  cannot be reached for {duration(lost)}, asked again: {reason}")
            self._pause(lost, deadline)

    def _pause(self, lost, deadline):
        time.sleep(max(0, min(2 + lost / 10, 15, deadline - time.monotonic())))
        self._connection._shell.tmpdir = None  # a reboot may have emptied it


def _together(first, last, before):
    before = first["status"].get("bytes_fetched", 0) if before is None else int(before)
    changed = first["changed"] or before != last["status"].get("bytes_fetched", 0)
    found = {name: first[name] for name in ("missing_files", "missing_bytes", "adopted_files", "diff")}
    return {**last, **found, "changed": changed}
