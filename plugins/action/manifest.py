# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a checkpoint's manifest from its origins, on the controller."""

from __future__ import annotations

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils import faults, frozen, manifest
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.reach import Access


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
                "manifest_file": {"type": "path"},
                "token_file": {"type": "path"},
                "ca_file": {"type": "path"},
                "proxy": {"type": "str"},
                "proxy_file": {"type": "path"},
                "expected_bytes": {"type": "int"},
                "needed": {"type": "list", "elements": "str", "default": []},
                "state": {"type": "path"},
                "code_change_allowed": {"type": "bool", "default": False},
                "collect_faults": {"type": "bool", "default": False},
            }
        )[1]
        collect = options.pop("collect_faults")
        access = Access(**{name: options.pop(name) for name in ("token_file", "ca_file", "proxy", "proxy_file")})
        answer = manifest.check(**options, access=access)
        rows = [fault.as_dict() for fault in answer.faults]
        instead = "another origin is used" if answer.reached else "what this site froze is used"
        warnings = [f"{row.where}: {row.value}; {instead}" for row in answer.warnings]
        if answer.code_diff and not answer.kept:
            self._display.display("\n".join(["The checkpoint's Python files change:", *answer.code_diff]))
        result = {"changed": False, "faults": rows, "warnings": warnings, "of_site": True}
        if rows and not collect:
            result |= {"failed": True, "msg": faults.message(rows)}
        found = answer.manifest
        if found and options["state"] and not rows and not answer.kept:
            result |= self._freeze(answer, options["state"])
        about = {"manifest": None, "digest": None, "bytes": None}
        if found:
            about = {"manifest": found.as_dict(), "digest": found.digest, "bytes": found.bytes}
        return result | about

    def _freeze(self, answer: manifest.Answer, state: str) -> dict:
        """Keep a manifest that the site sees for the first time; in check mode only say so."""
        folder = frozen.Folder(state)
        if not self._task.check_mode:
            try:
                folder.freeze(answer.manifest, answer.code)
            except OSError as error:
                raise AnsibleActionFail(f"{state}: {error.strerror}; the site's folder must be writable") from None
        file = f"{state}/{answer.manifest.commit}.json"
        about = f"{answer.manifest.digest}, {len(answer.manifest.files)} files\n"
        return {"changed": True, "diff": {"before": "", "after": about, "after_header": file}}
