# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The code of one of the collection's agents, on a node."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: agent
short_description: Put the code of one of the collection's agents on a node
version_added: 0.1.0
description:
  - Makes C(/usr/lib/kimi-k3/<name>) hold exactly the Python files of the agent, for root to write and all to read.
    C(python3 -I /usr/lib/kimi-k3/<name>) runs it. Starts and restarts nothing.
author: the sovereign.kimi_k3 authors
options:
  name:
    description: The agent.
    type: str
    choices: [fetch, keeper]
    required: true
  files:
    description: Content by file name. The action of the same name sets it; it is not for playbooks.
    type: dict
    default: {}
attributes:
  check_mode:
    description: Says which files would change.
    support: full
  diff_mode:
    description: Shows the code that changes.
    support: full
"""

EXAMPLES = r"""
- name: Put the agent's code on the node
  sovereign.kimi_k3.agent:
    name: fetch
"""

RETURN = r"""
path:
  description: The folder, as an argument for python3.
  type: str
  returned: always
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.fetch.store import write_atomically

FOLDER = Path("/usr/lib/kimi-k3")


def difference(folder, files):
    """Diffs of all files that are not as wanted: those that differ, are missing, or are not the agent's."""
    present = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.py")}
    return [
        {
            "before_header": f"{folder}/{name}",
            "after_header": f"{folder}/{name}",
            "before": present.get(name, ""),
            "after": files.get(name, ""),
        }
        for name in sorted({*present, *files})
        if present.get(name) != files.get(name)
    ]


def write(folder, files):
    """Make the folder hold these files and no other Python file."""
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    for path in folder.glob("*.py"):
        if path.name not in files:
            path.unlink()
    for name, text in files.items():
        write_atomically(folder / name, text.encode())


def main():
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True, "choices": ["fetch", "keeper"]},
            "files": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    folder = FOLDER / module.params["name"]
    diff = difference(folder, module.params["files"])
    if diff and not module.check_mode:
        write(folder, module.params["files"])
    module.exit_json(changed=bool(diff), diff=diff, path=str(folder))


if __name__ == "__main__":
    main()
