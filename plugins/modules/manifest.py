# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: manifest
short_description: Read a checkpoint's manifest from its origins or from a file
version_added: 0.1.0
description:
  - Asks a hub for path, size and SHA-256 of every file of a repository at a pinned commit. Small files that have only
    a git hash are downloaded, checked by it, and their SHA-256 is recorded.
  - Or reads the manifest from a file. A hub that is among the origins must then say the same.
  - Asks an HTTP mirror for one byte of the smallest file, to say early that it cannot be reached; a drive is not
    looked for. Origins that fail are a warning where another one is there.
  - Runs on the controller and connects to no host. Nothing is read from a cache.
author: The sovereign.kimi_k3 authors (!UNKNOWN)
options:
  origins:
    description:
      - Where the checkpoint comes from, tried in order. C({kind, url}) with the C(kind) C(hub) or C(http), the URL of
        C(http) being the folder of the manifest's files; C({kind, urls_file}) with the kind C(http), a JSON file of
        C({path, URL}) on the controller; or C({kind, path}) with the kind C(drive).
    type: list
    elements: dict
    required: true
  repo:
    description: The repository, as C(organisation/name).
    type: str
    required: true
  commit:
    description: The commit, as 40 hexadecimal digits. Branches and tags are refused.
    type: str
    required: true
  manifest_file:
    description: File on the controller that holds the manifest as JSON. Needed where no origin is a hub.
    type: path
  token_file:
    description: File on the controller that holds an access token. It is shown to hubs only.
    type: path
  ca_file:
    description: File on the controller with certificates, as PEM, that are trusted besides the system's own.
    type: path
  proxy:
    description: Proxy for all requests, as C(http://HOST:PORT).
    type: str
  proxy_file:
    description: File on the controller that holds the proxy's URL, where it has a password.
    type: path
  expected_bytes:
    description: Size of all files together, as the catalogue knows it.
    type: int
  needed:
    description: Files that must be in it, C(*) for any text.
    type: list
    elements: str
    default: []
  state:
    description:
      - Folder on the controller where the site keeps the manifests that it has seen, one file a commit.
      - The manifest of a commit that is kept must stay the same; that of a new commit is kept when it has no fault.
      - Where no origin answers, a kept manifest is used.
    type: path
  code_change_allowed:
    description: Accept a new commit whose Python files differ from those of the commit that was kept last.
    type: bool
    default: false
  collect_faults:
    description: Return faults instead of failing with them.
    type: bool
    default: false
attributes:
  check_mode:
    description: Nothing is kept.
    support: full
  diff_mode:
    description: Shows which manifest is kept. Changed Python files are shown in any mode.
    support: full
"""

EXAMPLES = r"""
- name: Read the manifest
  sovereign.kimi_k3.manifest:
    origins:
      - {kind: hub, url: https://huggingface.co}
    repo: moonshotai/Kimi-K3
    commit: 9f62e4e9fffbd0a83ddd60e1c209d828994b3569
  register: manifest
"""

RETURN = r"""
manifest:
  description: C(repo), C(commit) and C(files), each with C(path), C(size) and C(sha256). None where no origin has it.
  type: dict
  returned: always
digest:
  description: The identity of the manifest, C(sha256:<hex>) over its canonical JSON.
  type: str
  returned: always
bytes:
  description: Size of all files together.
  type: int
  returned: always
faults:
  description: What is wrong, each with where, value, limit and remedy.
  type: list
  elements: dict
  returned: always
of_site:
  description: That faults concern the site and not the host that the task runs for.
  type: bool
  returned: always
"""
