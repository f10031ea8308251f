# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A piece of a bundle, copied to this host."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: bundle_copy
short_description: Copy files of a bundle to a folder of the host
version_added: 0.1.0
description:
  - Copies files that the folder does not have whole and compares the SHA-256 of each with the bundle's index on the
    way. A file gets its name when it is whole; a run that was ended goes on in the middle of a file.
author: The sovereign.kimi_k3 authors (!UNKNOWN)
options:
  path:
    description: Folder of the bundle.
    type: path
    required: true
  target:
    description: Folder of the copy.
    type: path
    required: true
  files:
    description: Paths of the files in the bundle.
    type: list
    elements: str
    required: true
attributes:
  check_mode:
    description: Says whether anything would be copied.
    support: full
"""

EXAMPLES = r"""
- name: Copy the packages
  sovereign.kimi_k3.bundle_copy:
    path: /mnt/drive
    target: /srv/mirror
    files: [packages/debian-13/dists/trixie/InRelease]
"""

RETURN = r"""
copied:
  description: Paths of the files that were copied.
  type: list
  elements: str
  returned: always
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.bundle import Bundle


def main():
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "target": {"type": "path", "required": True},
            "files": {"type": "list", "elements": "str", "required": True},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    try:
        bundle = Bundle(wanted["path"])
        copied = bundle.copy(wanted["files"], wanted["target"], dry=module.check_mode)
    except LookupError as error:
        module.fail_json(msg="{value}; needed: {limit}; remedy: {remedy}".format(**error.args[0]))
    except (OSError, ValueError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=bool(copied), copied=copied)


if __name__ == "__main__":
    main()
