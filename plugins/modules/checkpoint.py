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
    compared by stamps. Waits, showing progress, until the agent says that all files are there and proved.
  - The agents of a site hand each other what they have. One that is done goes on serving the others for a while, so
    what counts is what it says, never whether its unit still runs.
  - The unit goes on when the connection or the controller is lost; the next run finds it and waits for it. A node that
    cannot be reached while the run waits is asked again.
  - Files that are right already, from whatever source, are adopted after hashing them, and files of an older revision
    with the same content are linked. A damaged file is replaced alone. Files that the manifest does not name are
    reported and never deleted.
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
    description:
      - Where the bytes come from, tried in order, each as C({kind, ...}). C(hub) and C(http) have a C(url), or C(http)
        a C(urls_file) with the URL of each path; C(drive) has the C(path) of a folder, on the nodes that have it.
    type: list
    elements: dict
    required: true
  user:
    description: System user that the agent runs as; it owns the checkpoint.
    type: str
    default: kimi-k3
  node:
    description: Name of this node among O(nodes).
    type: str
    default: this node
  nodes:
    description: The address and port of every node that takes part, by its name. Without them the node is alone.
    type: dict
    default: {}
  wan_nodes:
    description: Nodes that may use the origins; without any, all may.
    type: list
    elements: str
    default: []
  reads_only:
    description: Whether another node writes the files, to a filesystem that both see, and this one only proves them.
    type: bool
    default: false
  token_file:
    description: File on the node that holds the hub's token.
    type: path
  ca_file:
    description: File on the node with the certificates of the authorities that origins are trusted by.
    type: path
  proxy:
    description: Proxy for the origins.
    type: str
  streams:
    description: How many files are fetched at a time.
    type: int
    default: 3
  stall_seconds:
    description: A connection that gives no byte for so long is given up and made again.
    type: int
    default: 30
  patience_seconds:
    description: For how long no byte of a file may come before it is named as failed.
    type: int
    default: 900
  linger_seconds:
    description:
      - For how long a node that is done serves others that it does not see, and for how long a run waits for a node
        that it cannot reach.
    type: int
    default: 3600
  read_back:
    description: Whether every file is read back from the disk and hashed once more when all are there.
    type: bool
    default: false
  prove_again:
    description: Whether that is done although it was done before.
    type: bool
    default: false
  wanted_elsewhere:
    description: Whether other nodes lack files, so that the agent must run to give what this node has.
    type: bool
    default: false
  again:
    description: Whether an agent at work must start anew, because what it reads has changed.
    type: bool
    default: false
  start:
    description: Whether the agent is started where it is needed. Otherwise the run only waits for it.
    type: bool
    default: true
  wait:
    description: Whether the run waits until the agent is done.
    type: bool
    default: true
  fetched_before:
    description:
      - What RV(bytes_fetched) was when the run started the agent or found it. More than that is a change that the run
        made. Otherwise it counts from its first look on.
    type: int
  poll_seconds:
    description: How often progress is shown.
    type: int
    default: 10
  timeout_seconds:
    description: How long to wait. The agent goes on afterwards.
    type: int
    default: 86400
  site:
    description: What the line that tells how far all nodes together are begins with.
    type: str
    default: site
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
    node: node-01
    nodes: {node-01: "10.30.0.11:7654", node-02: "10.30.0.12:7654"}
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
  description: Bytes that were to be fetched at the start; parts and equal files of older revisions are taken off.
  type: int
  returned: always
adopted_files:
  description: Paths of the files that were linked from an older revision.
  type: list
  elements: str
  returned: always
bytes_fetched:
  description: Bytes that the agent received in its last run; after a start, those of this run so far.
  type: int
  returned: always
files_fetched:
  description: Files that the agent received in its last run.
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
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.checkpoint import Checkpoint, on_node
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.fetch_unit import FetchUnit
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.keeper.systemd import SystemdError
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.proof.faults import ConfigError

# What is about this run, not about the checkpoint.
OF_THE_RUN = {
    "prove_again": {"type": "bool", "default": False},
    "wanted_elsewhere": {"type": "bool", "default": False},
    "again": {"type": "bool", "default": False},
    "start": {"type": "bool", "default": True},
    "wait": {"type": "bool", "default": True},
    "fetched_before": {"type": "int"},
    "poll_seconds": {"type": "int", "default": 10},
    "timeout_seconds": {"type": "int", "default": 86400},
    "site": {"type": "str", "default": "site"},
}
OF_THE_CHECKPOINT = {
    "path": {"type": "path", "required": True},
    "model": {"type": "str", "required": True},
    "manifest": {"type": "dict", "required": True},
    "origins": {"type": "list", "elements": "dict", "required": True},
    "user": {"type": "str", "default": "kimi-k3"},
    "node": {"type": "str", "default": "this node"},
    "nodes": {"type": "dict", "default": {}},
    "wan_nodes": {"type": "list", "elements": "str", "default": []},
    "reads_only": {"type": "bool", "default": False},
    "token_file": {"type": "path", "no_log": False},
    "ca_file": {"type": "path"},
    "proxy": {"type": "str", "no_log": True},  # it may hold a password
    "streams": {"type": "int", "default": 3},
    "stall_seconds": {"type": "int", "default": 30},
    "patience_seconds": {"type": "int", "default": 900},
    "linger_seconds": {"type": "int", "default": 3600},
    "read_back": {"type": "bool", "default": False},
}


def look(checkpoint):
    """What is there and what is not, before anything is done."""
    missing, missing_bytes = checkpoint.missing()
    return {
        "state": "complete" if checkpoint.is_whole() else "missing",
        "folder": str(checkpoint.config.published),
        "manifest_digest": checkpoint.manifest.digest,
        "missing_files": [entry.path for entry in missing],
        "missing_bytes": missing_bytes,
        "adopted_files": [],
        "bytes_fetched": 0,
        "files_fetched": 0,
        "unknown_files": checkpoint.store().unknown_files(),
        "status": checkpoint.status(),
        "diff": checkpoint.diff(),
    }


def begin(checkpoint, unit, choices):
    """Write what the agent reads, and start it where this node or another one needs it; return what it is at."""
    again = bool(checkpoint.changes()) or choices["again"]
    adopted = checkpoint.prepare()
    if choices["prove_again"]:
        again = checkpoint.prove_again() or again
    state, before = "complete", checkpoint.status().get("bytes_fetched", 0)
    if choices["wanted_elsewhere"] or not checkpoint.is_whole():
        state = "running"
        if unit.start(again):
            before = 0
    return {"adopted_files": adopted, "state": state, "bytes_fetched": before}


def wait(checkpoint, unit, seconds):
    """Wait a while and say how far the agent is."""
    state, status = unit.wait(seconds), checkpoint.status()
    return {"state": state, "status": status, **{key: status.get(key, 0) for key in ("bytes_fetched", "files_fetched")}}


def run(module, checkpoint):
    """Do what is asked; return the result."""
    choices, unit = module.params, FetchUnit(checkpoint)
    result, changed = look(checkpoint), False
    if module.check_mode:
        return {**result, "changed": result["state"] == "missing" or bool(checkpoint.changes())}
    if choices["start"]:
        changed = bool(checkpoint.changes() or result["missing_files"])
        result.update(begin(checkpoint, unit, choices))
    if not choices["start"] or choices["wait"] and result["state"] == "running":
        result.update(wait(checkpoint, unit, choices["poll_seconds"]))
    if result["state"] == "failed":
        # The message says it all; a line a file, of a hundred files on each node, would bury it.
        about = {name: value for name, value in result["status"].items() if name not in ("files", "faults")}
        module.fail_json(msg=unit.failure(), **{**result, "changed": changed, "status": about, "missing_files": []})
    return {**result, "changed": changed}


def main():
    """Entry point of the module."""
    module = AnsibleModule(argument_spec={**OF_THE_CHECKPOINT, **OF_THE_RUN}, supports_check_mode=True)
    options = {name: module.params[name] for name in OF_THE_CHECKPOINT}
    try:
        checkpoint = Checkpoint(**{**options, "origins": on_node(options["origins"])})
        result = run(module, checkpoint)
    except (ConfigError, OSError, SystemdError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
