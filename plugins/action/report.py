# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write what acceptance saw into the site's state and say it as a table."""

from __future__ import annotations

import json
from pathlib import Path

from ansible.plugins.action import ActionBase
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils import report


class ActionModule(ActionBase):
    """Runs on the controller and connects to nothing. Options are described in modules/report.py."""

    TRANSFERS_FILES = False
    _VALID_ARGS = frozenset(("plan", "running", "ready", "seen", "path"))
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        """The report as data and as lines of text."""
        args = self._task.args
        hostvars = task_vars["hostvars"]
        running, ready = (
            {host: hostvars[host].get(args[name]) or {} for host in args["plan"]["nodes"]}
            for name in ("running", "ready")
        )
        seen = [hostvars[host].get(args["seen"]) or {} for host in task_vars["ansible_play_hosts_all"]]
        content = report.report(args["plan"], running, ready, seen)
        if not task_vars["ansible_check_mode"]:
            path = Path(args["path"])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        return {"changed": False, "report": content, "lines": report.lines(content)}
