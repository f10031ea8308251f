# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a node can take a checkpoint, and whether it holds one."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: checkpoint_facts
short_description: Read whether a node can take a checkpoint, or holds it whole
version_added: 0.1.0
description:
  - Looks at the path, the filesystem and the space, and at what is there of a revision. Fails on nothing it finds;
    what forbids the checkpoint is in C(faults), all of it at once.
  - With O(verify), compares every file with the manifest, as every engine does before it starts.
author: The sovereign.kimi_k3 authors (!UNKNOWN)
options:
  path:
    description: Folder of all checkpoints; it need not exist yet.
    type: str
    required: true
  model:
    description: Name of the model. Needed with O(manifest).
    type: str
  manifest:
    description: The manifest, as M(sovereign.kimi_k3.manifest) returns it. Without it nothing is counted as missing.
    type: dict
  mount_required:
    description: Whether O(path) must lie on a mounted filesystem, not on the one of C(/).
    type: bool
    default: true
  filesystems_refused:
    description: Kinds of filesystem that must not hold a checkpoint.
    type: list
    elements: str
    default: [tmpfs, ramfs, overlay, squashfs]
  reads_only:
    description: Whether another node writes the files, to a filesystem that both see, so that none come to this one.
    type: bool
    default: false
  read_back:
    description: Whether files that were never read back from the disk count as work to be done.
    type: bool
    default: false
  headers:
    description:
      - With O(verify), whether files that are right are opened too. O(user) reads the first and the last byte of each,
        and the headers of safetensors files must agree with themselves and with their index.
    type: bool
    default: false
  measure:
    description:
      - Whether a network filesystem is read for up to five seconds, to warn of how long engines would load from it.
        Without a large file there, one is written for it and removed, but not in check mode.
    type: bool
    default: false
  user:
    description: System user that must be able to read every file.
    type: str
    default: kimi-k3
  verify:
    description: Look for missing and damaged files, by stamps (C(quick)) or by reading everything (C(full)).
    type: str
    choices: [quick, full]
attributes:
  check_mode:
    description: Reads only. With O(verify), a file that was proved anew gets its stamp.
    support: full
"""

EXAMPLES = r"""
- name: Read whether the checkpoint would fit
  sovereign.kimi_k3.checkpoint_facts:
    path: /srv/models
    model: kimi-k3
    manifest: "{{ manifest.manifest }}"
  register: preflight_checkpoint
"""

RETURN = r"""
faults:
  description: What forbids the checkpoint, each with where, value, limit and remedy.
  type: list
  elements: dict
  returned: always
missing_files:
  description: Paths of the files that are not there, or not proved.
  type: list
  elements: str
  returned: always
wanted:
  description: Whether the fetch agent has work to do on this node.
  type: bool
  returned: always
manifest_digest:
  description: Identity of the manifest that the agent of this node works by; empty where it has none of this revision.
  type: str
  returned: always
missing_bytes:
  description: Bytes still to be fetched; what is there, in parts and in older revisions too, is taken off.
  type: int
  returned: always
bytes_free:
  description: Bytes that a service may still write there.
  type: int
  returned: always
mount_point:
  description: Where the filesystem that holds O(path) is mounted.
  type: str
  returned: always
filesystem:
  description: Its kind.
  type: str
  returned: always
source:
  description: What is mounted there, a device or C(server:/export).
  type: str
  returned: always
is_network:
  description: Whether other machines may have the same filesystem.
  type: bool
  returned: always
read_bytes_per_second:
  description: How fast a network filesystem was read, with O(measure).
  type: int
  returned: always
load_seconds:
  description: How long the files of the manifest take at that rate.
  type: int
  returned: always
old_revisions:
  description: Commits of other revisions of the model that are there.
  type: list
  elements: str
  returned: always
old_revisions_bytes:
  description: Bytes that become free when they are removed.
  type: int
  returned: always
on_root_device:
  description: Whether it is on the same device as C(/).
  type: bool
  returned: always
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sovereign.kimi_k3.plugins.module_utils import filesystem, read_rate, revisions, safetensors
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.checkpoint import Checkpoint
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.proof.faults import ConfigError
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.proof.store import verify
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.service_user import as_user, unreadable


def place(options, found):
    """Where the checkpoint would lie, and what forbids that."""
    path = options["path"]
    faults = list(filesystem.path_faults(path))
    about = filesystem.look(path if path.startswith("/") else "/")
    if not faults:
        faults += filesystem.place_faults(path, about, options["mount_required"], options["filesystems_refused"])
        faults += filesystem.space_faults(path, about, found["missing_bytes"], found["old_revisions_bytes"])
    return {
        "faults": faults + found["faults"],
        "bytes_free": about.bytes_free,
        "mount_point": about.mount_point,
        "filesystem": about.kind,
        "source": about.source,
        "is_network": about.is_network,
        "on_root_device": about.on_root_device,
    }


def measured(options, may_write):
    """How fast a network filesystem is read, how long the checkpoint takes to load at that, and both in words."""
    about = filesystem.look(options["path"])
    file = read_rate.largest_file(Path(options["path"]))
    rate = read_rate.read_rate(Path(about.folder), file, may_write)
    size = sum(file["size"] for file in (options["manifest"] or {"files": []})["files"])
    seconds = round(size / rate) if rate else None
    spent = f"{seconds} s" if rate and seconds < 120 else f"{round((seconds or 0) / 60)} min"
    words = f"checkpoint_path {options['path']} is on {about.kind} ({about.source})"
    if rate is None:
        words += ", whose rate could not be measured; an engine reads all of it at each start"
    else:
        words += f", read at {rate / 1e6:.0f} MB/s here: to load {size / 1e9:.1f} GB takes {spent} at each start"
    return {"read_bytes_per_second": rate, "load_seconds": seconds}, words


def bad_files(checkpoint, options):
    """Faults of all files that are not as the manifest says; of right ones that an engine could not use."""
    faults = verify(checkpoint.store(), full=options["verify"] == "full")
    if faults or not options["headers"]:
        return [row(fault.file, fault.found, fault.expected, fault.remedy) for fault in faults]
    return list(useless_files(checkpoint, options["user"]))


def useless_files(checkpoint, user):
    """Faults of files that have the right bytes and are of no use all the same."""
    folder, files = checkpoint.config.published, checkpoint.manifest.files
    for path, reason in as_user(user, unreadable, folder, files).items():
        remedy = f"let {user} read it, and pass through the folders that lead to it"
        yield row(path, f"{user} cannot read {folder / path}: {reason}", f"a file that {user} can read", remedy)
    remedy = "run checkpoint.yml -e checkpoint_verification=full; if that finds nothing, the revision itself is broken"
    for path, expected, found in safetensors.faults(folder, {entry.path: entry.size for entry in files}):
        yield row(path, found, expected, remedy)


def row(where, value, limit, remedy):
    """A fault as plain data."""
    return {"where": where, "value": value, "limit": limit, "remedy": remedy}


NOTHING = {
    "missing_bytes": 0,
    "wanted": False,
    "manifest_digest": "",
    "old_revisions_bytes": 0,
    "read_bytes_per_second": None,
    "load_seconds": None,
}


def contents(options):
    """What is there of the revision: faults of files, those that are missing, and whether the agent is wanted."""
    names = ("path", "model", "manifest", "reads_only", "read_back")
    checkpoint = Checkpoint(**{name: options[name] for name in names})
    faults = bad_files(checkpoint, options) if options["verify"] else []
    missing, missing_bytes = checkpoint.missing()
    old = list(revisions.others(checkpoint.config))
    return {
        "faults": faults,
        "missing_files": [entry.path for entry in missing],
        "missing_bytes": 0 if options["reads_only"] else missing_bytes,
        "wanted": not checkpoint.is_whole(),
        "manifest_digest": checkpoint.digest_on_node(),
        "old_revisions": [folder.name for folder in old],
        "old_revisions_bytes": revisions.freed_bytes(old),
    }


def main():
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "str", "required": True},
            "model": {"type": "str"},
            "manifest": {"type": "dict"},
            "mount_required": {"type": "bool", "default": True},
            "filesystems_refused": {
                "type": "list",
                "elements": "str",
                "default": ["tmpfs", "ramfs", "overlay", "squashfs"],
            },
            "reads_only": {"type": "bool", "default": False},
            "read_back": {"type": "bool", "default": False},
            "user": {"type": "str", "default": "kimi-k3"},
            "headers": {"type": "bool", "default": False},
            "measure": {"type": "bool", "default": False},
            "verify": {"type": "str", "choices": ["quick", "full"]},
        },
        required_by={"manifest": ["model"], "verify": ["manifest"]},
        supports_check_mode=True,
    )
    options = module.params
    found = {**NOTHING, "faults": [], "old_revisions": [], "missing_files": []}
    try:
        if options["manifest"]:
            found.update(contents(options))
        found.update(place(options, found))
        if options["measure"] and found["is_network"] and not found["faults"]:
            rates, words = measured(options, not module.check_mode)
            module.warn(words)
            found.update(rates)
    except (ConfigError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
