# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Older revisions of a checkpoint on a node."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: checkpoint_revisions
short_description: Remove older revisions of a checkpoint, with consent
version_added: 0.1.0
description:
  - Finds the other revisions of a model on a node. With consent removes those that nothing names, no running process
    and no engine's unit; without it says how many bytes wait.
author: The sovereign.kimi_k3 authors (!UNKNOWN)
options:
  path:
    description: Folder of all checkpoints.
    type: path
    required: true
  model:
    description: Name of the model.
    type: str
    required: true
  commit:
    description: The revision that stays.
    type: str
    required: true
  removal_allowed:
    description: The consent.
    type: bool
    default: false
attributes:
  check_mode:
    description: Says what it would remove and does nothing.
    support: full
  diff_mode:
    description: Shows the folders that go.
    support: full
"""

EXAMPLES = r"""
- name: Remove older revisions
  sovereign.kimi_k3.checkpoint_revisions:
    path: /srv/models
    model: kimi-k3
    commit: f831ab66814297da540d832a5235f8e904f29d06
    removal_allowed: true
"""

RETURN = r"""
removed:
  description: Folders that were removed.
  type: list
  elements: str
  returned: always
waiting:
  description: Folders that wait for consent.
  type: list
  elements: str
  returned: always
bytes:
  description: Bytes that became free, or wait.
  type: int
  returned: always
used:
  description: What names each folder that stays for that reason.
  type: dict
  returned: always
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sovereign.kimi_k3.plugins.module_utils import revisions
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.fetch.config import Config
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.proof.manifest import COMMIT, path_fault


def main():
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "model": {"type": "str", "required": True},
            "commit": {"type": "str", "required": True},
            "removal_allowed": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    path, model, commit, allowed = (module.params[name] for name in ("path", "model", "commit", "removal_allowed"))
    if not COMMIT.fullmatch(commit) or path_fault(model) or "/" in model:
        module.fail_json(msg=f"model {model!r}, commit {commit!r}: expected a plain name and 40 hexadecimal digits")
    try:
        module.exit_json(**sort_out(path, model, commit, allowed, module.check_mode))
    except OSError as error:
        module.fail_json(msg=str(error))


def sort_out(path, model, commit, allowed, check_mode=False):
    """Remove what may go, unless it is only asked; return what went, what waits and what is used."""
    config = Config.from_dict({**revisions.settings(path, model, commit), "origins": []})
    used = {folder: users for folder in revisions.others(config) if (users := revisions.users_of(folder))}
    idle = [folder for folder in revisions.others(config) if folder not in used]
    names, size = [str(folder) for folder in idle], revisions.freed_bytes(idle)
    for folder in idle if allowed and not check_mode else ():
        revisions.remove(config, folder)
    return {
        "changed": bool(allowed and idle),
        "removed": names if allowed else [],
        "waiting": [] if allowed else names,
        "bytes": size,
        "used": {str(folder): users for folder, users in used.items()},
        "diff": {"before": "".join(f"{name}\n" for name in names) if allowed else "", "after": ""},
    }


if __name__ == "__main__":
    main()
