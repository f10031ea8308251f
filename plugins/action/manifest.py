# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a checkpoint's manifest from its origins, on the controller."""

from __future__ import annotations

from ansible.plugins.action import ActionBase
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils import faults, manifest


class ActionModule(ActionBase):
    """Reads only; connects to the origins and to no host. Options are described in modules/manifest.py."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        """Return the manifest, or fail with the reason of each origin."""
        options = self.validate_argument_spec(
            argument_spec={
                "origins": {"type": "list", "elements": "dict", "required": True},
                "repo": {"type": "str", "required": True},
                "commit": {"type": "str", "required": True},
                "token_file": {"type": "path"},
                "expected_bytes": {"type": "int"},
                "frozen": {"type": "path"},
                "collect_faults": {"type": "bool", "default": False},
            }
        )[1]
        collect = options.pop("collect_faults")
        answer = manifest.check(**options)
        rows = [fault.as_dict() for fault in answer.faults]
        warnings = [f"{row.where}: {row.value}; another origin was used" for row in answer.warnings]
        result = {"changed": False, "faults": rows, "warnings": warnings, "of_site": True}
        if rows and not collect:
            result |= {"failed": True, "msg": faults.message(rows)}
        found = answer.manifest
        about = {"manifest": None, "digest": None, "bytes": None}
        if found:
            about = {"manifest": found.as_dict(), "digest": found.digest, "bytes": found.bytes}
        return result | about
