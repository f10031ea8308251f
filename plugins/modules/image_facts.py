# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a node can have an image."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: image_facts
short_description: Whether a node has an image by digest, or its registry does
version_added: 0.1.0
description:
  - Looks in the node's own store first, then asks the registry from the node. Changes nothing and does not fail on
    a fault, so that the faults of all nodes come in one answer.
author: The sovereign.kimi_k3 authors (!UNKNOWN)
options:
  reference:
    description: Image as C(name@sha256:...).
    type: str
    required: true
  insecure_registries:
    description: Registries that are asked over plain HTTP.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    description: Reads only.
    support: full
"""

EXAMPLES = r"""
- name: Ask for the image
  sovereign.kimi_k3.image_facts:
    reference: vllm/vllm-openai@sha256:c2914767605584b6d8f45686b82de173ecc99e781897aa3d0a66dacd72c51ae1
"""

RETURN = r"""
podman:
  description: Whether the node has podman.
  type: bool
  returned: always
present:
  description: Whether the node's own store has the image.
  type: bool
  returned: always
faults:
  description: Why the node cannot have it.
  type: list
  elements: dict
  returned: always
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sovereign.kimi_k3.plugins.module_utils import registry


def main():
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "reference": {"type": "str", "required": True},
            "insecure_registries": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    podman = module.get_bin_path("podman")
    reference = module.params["reference"]
    present = bool(podman) and module.run_command([podman, "image", "exists", reference])[0] == 0
    fault = None if present else registry.fault(reference, module.params["insecure_registries"])
    module.exit_json(changed=False, podman=bool(podman), present=present, faults=[fault] if fault else [])


if __name__ == "__main__":
    main()
