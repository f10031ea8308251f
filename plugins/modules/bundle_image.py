# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One image of a bundle in a registry."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: bundle_image
short_description: Load an image from a bundle into a registry
version_added: 0.1.0
description:
  - Has skopeo copy an image from a folder into a registry of this host, byte for byte, so that it keeps its digest. An
    image that the registry has by that digest stays as it is.
author: The sovereign.kimi_k3 authors (!UNKNOWN)
options:
  path:
    description: Folder of the image.
    type: path
    required: true
  transport:
    description: Form of that folder, as skopeo names it.
    type: str
    choices: [oci, dir]
    required: true
  registry:
    description: The registry as C(host:port), reached over plain HTTP.
    type: str
    required: true
  name:
    description: Name of the image in the registry.
    type: str
    required: true
  digest:
    description: Digest that the image has and keeps.
    type: str
    required: true
attributes:
  check_mode:
    description: Says whether the image would be loaded.
    support: full
"""

EXAMPLES = r"""
- name: Load the engine
  sovereign.kimi_k3.bundle_image:
    path: /mnt/drive/images/vllm-openai-c29147676055
    transport: oci
    registry: 127.0.0.1:5000
    name: vllm/vllm-openai
    digest: sha256:c2914767605584b6d8f45686b82de173ecc99e781897aa3d0a66dacd72c51ae1
"""

RETURN = r"""
image:
  description: The image in the registry.
  type: str
  returned: always
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sovereign.kimi_k3.plugins.module_utils import registry


def main():
    """Entry point of the module."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "transport": {"type": "str", "required": True, "choices": ["oci", "dir"]},
            "registry": {"type": "str", "required": True},
            "name": {"type": "str", "required": True},
            "digest": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    wanted = module.params
    image = "{registry}/{name}@{digest}".format(**wanted)
    missing = registry.fault(image, [wanted["registry"]]) is not None
    if missing and not module.check_mode:
        source = "{transport}:{path}".format(**wanted)
        # A tag, because a registry forgets what no tag and no index names; this one cannot move.
        target = "docker://{}/{}:{}".format(wanted["registry"], wanted["name"], wanted["digest"].replace(":", "-"))
        options = ["--all", "--preserve-digests", "--dest-tls-verify=false", "--quiet"]
        code, out, err = module.run_command(["skopeo", "copy", *options, source, target])
        fault = registry.fault(image, [wanted["registry"]])
        if code or fault:
            reason = err or out or f"{fault['value']}; {fault['limit']}"
            module.fail_json(
                msg=f"{source} could not be loaded as {image}: {reason.strip()}; remedy: see journalctl -u "
                "docker-registry, and whether the drive can be read to its end"
            )
    module.exit_json(changed=missing, image=image)


if __name__ == "__main__":
    main()
