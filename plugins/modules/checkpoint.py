# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One checkpoint revision, whole on a node."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: checkpoint
short_description: Make one checkpoint revision whole on a node
version_added: 0.1.0
description:
  - Writes the fetch agent's configuration and the manifest, and starts the agent's unit when files are missing,
    compared by stamps. Waits, showing progress, until all files are there and proved.
  - The unit goes on when the connection or the controller is lost; the next run finds it and waits for it.
  - Files that are right already, from whatever source, are adopted after hashing them. A damaged file is replaced
    alone. Files that the manifest does not name are reported and never deleted.
author: The sovereign.kimi_k3 authors (!UNKNOWN)
options:
  path:
    description: Folder of all checkpoints. The files go to C(<path>/<model>/<commit>).
    type: path
    required: true
  model:
    description: Name of the model.
    type: str
    required: true
  manifest:
    description: The manifest, as M(sovereign.kimi_k3.manifest) returns it.
    type: dict
    required: true
  origins:
    description: Where the bytes come from, tried in order, each as C({kind, url}); C(kind) is C(hub).
    type: list
    elements: dict
    required: true
  user:
    description: System user that the agent runs as; it owns the checkpoint.
    type: str
    default: kimi-k3
  streams:
    description: How many files are fetched at a time.
    type: int
    default: 3
  stall_seconds:
    description: A connection that gives no byte for so long is given up and made again.
    type: int
    default: 30
  tries:
    description: How often in a row a file is asked for without getting a byte of it.
    type: int
    default: 8
  poll_seconds:
    description: How often progress is shown.
    type: int
    default: 10
  timeout_seconds:
    description: How long to wait. The agent goes on afterwards.
    type: int
    default: 86400
attributes:
  check_mode:
    description: Says what is missing and which files would be written.
    support: full
  diff_mode:
    description: Shows the configuration and the names of the files that are missing.
    support: full
"""

EXAMPLES = r"""
- name: Fetch the checkpoint
  sovereign.kimi_k3.checkpoint:
    path: /srv/models
    model: kimi-k3
    manifest: "{{ manifest.manifest }}"
    origins:
      - {kind: hub, url: https://huggingface.co}
"""

RETURN = r"""
state:
  description: C(complete), C(running), C(failed), or C(missing) in check mode.
  type: str
  returned: always
folder:
  description: Folder of the published files.
  type: str
  returned: always
manifest_digest:
  description: Identity of the manifest that the files equal.
  type: str
  returned: always
missing_files:
  description: Paths of the files that were not there, or not proved, at the start.
  type: list
  elements: str
  returned: always
missing_bytes:
  description: Bytes that were to be fetched at the start; parts of an earlier run are taken off.
  type: int
  returned: always
bytes_fetched:
  description: Bytes that the agent received.
  type: int
  returned: always
files_fetched:
  description: Files that the agent received.
  type: int
  returned: always
unknown_files:
  description: Files in the published folder that the manifest does not name.
  type: list
  elements: str
  returned: always
status:
  description: What the agent said last.
  type: dict
  returned: always
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.checkpoint import Checkpoint, wait
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.keeper.systemd import SystemdError
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.proof.faults import ConfigError


def look(checkpoint):
    """What is there and what is not, before anything is done."""
    store = checkpoint.store()
    missing = store.missing()
    return {
        "state": "complete",
        "folder": str(checkpoint.config.published),
        "manifest_digest": checkpoint.manifest.digest,
        "missing_files": [entry.path for entry in missing],
        "missing_bytes": sum(map(store.bytes_to_fetch, missing)),
        "bytes_fetched": 0,
        "files_fetched": 0,
        "unknown_files": store.unknown_files(),
        "status": checkpoint.status(),
        "diff": checkpoint.diff(),
    }


def fetch(checkpoint, again, seconds):
    """Start the agent or find it at work, wait a while and say how far it is."""
    checkpoint.start(again)
    ended = wait(seconds)
    status = checkpoint.status()
    fetched = {name: status.get(name, 0) for name in ("bytes_fetched", "files_fetched")}
    state = "running" if not ended else "failed" if checkpoint.store().missing() else "complete"
    return {"status": status, "state": state, **fetched}


def arguments():
    """The module's argument spec."""
    return {
        "path": {"type": "path", "required": True},
        "model": {"type": "str", "required": True},
        "manifest": {"type": "dict", "required": True},
        "origins": {"type": "list", "elements": "dict", "required": True},
        "user": {"type": "str", "default": "kimi-k3"},
        "streams": {"type": "int", "default": 3},
        "stall_seconds": {"type": "int", "default": 30},
        "tries": {"type": "int", "default": 8},
        "poll_seconds": {"type": "int", "default": 10},
        "timeout_seconds": {"type": "int", "default": 86400},
    }


def main():
    """Entry point of the module."""
    module = AnsibleModule(argument_spec=arguments(), supports_check_mode=True)
    options = {name: value for name, value in module.params.items() if name not in ("poll_seconds", "timeout_seconds")}
    try:
        checkpoint = Checkpoint(**options)
        changed = bool(checkpoint.changes())
        result = look(checkpoint)
        if module.check_mode:
            missing = bool(result["missing_files"])
            result["state"] = "missing" if missing else "complete"
            module.exit_json(changed=changed or missing, **result)
        checkpoint.prepare()
        if result["missing_files"]:
            result.update(fetch(checkpoint, changed, module.params["poll_seconds"]))
    except (ConfigError, OSError, SystemdError) as error:
        module.fail_json(msg=str(error))
    changed = changed or result["bytes_fetched"] > 0
    if result["state"] == "failed":
        module.fail_json(msg=checkpoint.failure(), changed=changed, **result)
    module.exit_json(changed=changed, **result)


if __name__ == "__main__":
    main()
