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
author: The sovereign.kimi_k3 authors (!UNKNOWN)
options:
  name:
    description: The agent; C(proof) is what the fetch agent and the collection's modules share.
    type: str
    choices: [fetch, keeper, proof]
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
    description: Shows which files change, by their hashes.
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

import hashlib
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.filesystem import make_folder
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.proof.store import write_atomically

FOLDER = Path("/usr/lib/kimi-k3")


def listing(files):
    """One line a file, its content by hash: enough to see what differs."""
    return "".join(
        f"{name} sha256:{hashlib.sha256(text.encode()).hexdigest()}\n" for name, text in sorted(files.items())
    )


def write(folder, files):
    """Make the folder hold these files and no other Python file."""
    make_folder(folder)
    for path in folder.glob("*.py"):
        if path.name not in files:
            path.unlink()
    for name, text in files.items():
        write_atomically(folder / name, text.encode())


def main():
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True, "choices": ["fetch", "keeper", "proof"]},
            "files": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    folder, wanted = FOLDER / module.params["name"], module.params["files"]
    present = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.py")}
    if present != wanted and not module.check_mode:
        write(folder, wanted)
    headers = {"before_header": str(folder), "after_header": str(folder)}
    diff = {"before": listing(present), "after": listing(wanted), **headers}
    module.exit_json(changed=present != wanted, diff=diff, path=str(folder))


if __name__ == "__main__":
    main()
