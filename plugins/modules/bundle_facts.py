# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a bundle on a host holds."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: bundle_facts
short_description: What a bundle on a host holds, and whether it is all there
version_added: 0.1.0
description:
  - Reads the index of a bundle that M(sovereign.kimi_k3.bundle) filled and compares it with the files on the drive,
    by their sizes, and with what the site serves. Changes nothing and does not fail on a fault.
author: The sovereign.kimi_k3 authors (!UNKNOWN)
options:
  path:
    description: Folder of the bundle.
    type: path
    required: true
  index_sha256:
    description: SHA-256 that the index must have. Empty where it was not carried apart.
    type: str
    default: ""
  commit:
    description: Commit of the checkpoint that the site serves.
    type: str
    required: true
  images:
    description: Images that the site needs, as C(name@sha256:...).
    type: list
    elements: str
    default: []
  store:
    description: Folder that the registry keeps images in.
    type: path
    required: true
  copy:
    description:
      - Folder that the bundle shall be copied to. Where O(path) has no bundle and this folder has, that one is read.
    type: path
attributes:
  check_mode:
    description: Reads only.
    support: full
"""

EXAMPLES = r"""
- name: Read the bundle
  sovereign.kimi_k3.bundle_facts:
    path: /mnt/drive
    commit: f831ab66814297da540d832a5235f8e904f29d06
    store: /var/lib/docker-registry
"""

RETURN = r"""
root:
  description: Folder of the bundle that was read.
  type: str
  returned: always
pieces:
  description: Paths of all its files, in lists that are copied one after the other.
  type: list
  elements: list
  returned: always
checkpoint:
  description: C(model), C(repo), C(commit), C(path), C(manifest_digest) of the checkpoint.
  type: dict
  returned: always
tree:
  description: The checkpoint's files as a hub lists them.
  type: list
  elements: dict
  returned: always
images:
  description: The images, each with C(name), C(digest), C(transport), C(path) and C(manifest).
  type: list
  elements: dict
  returned: always
repositories:
  description: The package repositories, each with C(platform), C(suite), C(path), C(release) and C(key).
  type: list
  elements: dict
  returned: always
digest:
  description: SHA-256 of the index.
  type: str
  returned: always
faults:
  description: Why the bundle cannot be served.
  type: list
  elements: dict
  returned: always
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.bundle import Bundle


def root_of(path, copy):
    """The drive, or the copy of it where the drive was taken away."""
    gone = not os.path.exists(os.path.join(path, "index.json"))
    return copy if copy and gone and os.path.exists(os.path.join(copy, "index.json")) else path


def main():
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "index_sha256": {"type": "str", "default": ""},
            "commit": {"type": "str", "required": True},
            "images": {"type": "list", "elements": "str", "default": []},
            "store": {"type": "path", "required": True},
            "copy": {"type": "path"},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    root = root_of(wanted["path"], wanted["copy"])
    try:
        bundle = Bundle(root, wanted["index_sha256"])
    except LookupError as error:
        nothing = dict.fromkeys(("pieces", "tree", "images", "repositories"), [])
        module.exit_json(changed=False, root=root, checkpoint={}, digest="", faults=[error.args[0]], **nothing)
    rows = list(bundle.faults(wanted["commit"], wanted["images"]))
    if not rows:
        rows += bundle.space_faults(wanted["store"])
        rows += bundle.copy_faults(wanted["copy"]) if wanted["copy"] else []
    module.exit_json(
        changed=False,
        root=root,
        pieces=bundle.pieces(),
        checkpoint=bundle.index["checkpoint"],
        tree=[] if rows else bundle.tree(),
        images=bundle.images(),
        repositories=[] if rows else bundle.repositories(),
        digest=bundle.digest,
        faults=rows,
    )


if __name__ == "__main__":
    main()
