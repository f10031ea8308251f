# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: bundle
short_description: Fill a drive with all that a site without a route out needs
version_added: 0.1.0
description:
  - Brings one part of a bundle to a folder of the controller, which has a route out. What is there and whole stays; a
    run that was ended goes on where it was. Nothing else on the drive is changed or removed.
  - Runs on the controller and connects to no host.
author: The sovereign.kimi_k3 authors (!UNKNOWN)
options:
  part:
    description:
      - C(preflight) reads the drive, this machine and the registries, and refuses with all faults before a byte is
        written. C(index) writes what is on the drive, with size and SHA-256 of every file. The others bring what
        their names say.
    type: str
    choices: [preflight, checkpoint, images, collection, python, packages, index]
    required: true
  path:
    description: Folder of the bundle, on the drive.
    type: path
    required: true
  mount_required:
    description: Whether the folder must lie on a mounted drive, not on the filesystem of C(/).
    type: bool
    default: true
  model:
    description: Name of the model. Its files go to C(checkpoint/<repository>/<commit>).
    type: str
    required: true
  manifest:
    description: The manifest, as M(sovereign.kimi_k3.manifest) returns it.
    type: dict
    required: true
  origins:
    description: Where the checkpoint comes from, tried in order.
    type: list
    elements: dict
    required: true
  access:
    description:
      - How the origins are reached, with the options of M(sovereign.kimi_k3.manifest) named C(token_file), C(ca_file),
        C(proxy) and C(proxy_file).
    type: dict
    default: {}
  images:
    description: Images as C(registry/name@sha256:...). An index is copied with the images of all processors in it.
    type: list
    elements: str
    default: []
  insecure_registries:
    description: Registries that are reached over plain HTTP.
    type: list
    elements: str
    default: []
  architectures:
    description: Processors of the site's hosts, as the kernel names them.
    type: list
    elements: str
    default: []
  platforms:
    description: Distributions of the site's hosts, such as C(debian-13). Empty where hosts have sources of their own.
    type: list
    elements: str
  package_sources:
    description: Lines of apt's C(sources.list) by platform, in place of the distribution's own addresses.
    type: dict
    default: {}
  requirements:
    description: The controller's Python packages. The collection's own C(requirements.txt) where none is given.
    type: path
  python_version:
    description: Python that the site's controller has, such as C(3.13). The one that runs this where none is given.
    type: str
  python_machine:
    description: Processor of the site's controller. The one that runs this where none is given.
    type: str
attributes:
  check_mode:
    description: Asks the sources and says what would be brought.
    support: full
"""

EXAMPLES = r"""
- name: Bring the images
  sovereign.kimi_k3.bundle:
    part: images
    path: /mnt/drive
    model: kimi-k3
    manifest: "{{ manifest.manifest }}"
    origins: [{kind: hub, url: https://huggingface.co}]
    images: [docker.io/vllm/vllm-openai@sha256:c2914767605584b6d8f45686b82de173ecc99e781897aa3d0a66dacd72c51ae1]
"""

RETURN = r"""
brought:
  description: Names of what was brought, or would be in check mode.
  type: list
  elements: str
  returned: for parts that bring something
faults:
  description: Why the drive cannot be filled, each with where, value, limit and remedy.
  type: list
  elements: dict
  returned: for C(preflight)
missing:
  description: Bytes that are still to come, by part.
  type: dict
  returned: for C(preflight)
digest:
  description: SHA-256 of the index, which names every byte of the bundle.
  type: str
  returned: for C(index)
"""
