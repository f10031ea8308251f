# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Put the code of one of the collection's agents on a node."""

from __future__ import annotations

from pathlib import Path

from ansible.plugins.action import ActionBase

PACKAGES = Path(__file__).parent.parent / "module_utils"


class ActionModule(ActionBase):
    """Reads the agent's package here and hands it to the module. Options are described in modules/agent.py."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        """Run the module with the package's files."""
        options = {"name": {"type": "str", "required": True, "choices": ["fetch", "keeper", "proof"]}}
        arguments = self.validate_argument_spec(argument_spec=options)[1]
        package = PACKAGES / arguments["name"]
        files = {path.name: path.read_text(encoding="utf-8") for path in sorted(package.glob("*.py"))}
        return self._execute_module(module_args={**arguments, "files": files}, task_vars=task_vars)
