# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: pin
short_description: Write the digest of the site's image beside its tag
version_added: 0.1.0
description:
  - Asks the image's registry, without a login, which manifest or index the tag of C(serving_image) names, checks the
    answer by its SHA-256, and appends the digest to the value in the file of the site that declares it. Nothing else
    in that file changes.
  - Runs on the controller and connects to no host. Registries that are among C(container_engine_insecure_registries)
    are asked over plain HTTP.
  - An image that has a digest stays as it is, and no registry is asked.
author: The sovereign.kimi_k3 authors (!UNKNOWN)
options: {}
attributes:
  check_mode:
    description: Asks the registry, writes nothing.
    support: full
  diff_mode:
    description: Shows the changed line.
    support: full
"""

EXAMPLES = r"""
- name: Pin the image
  sovereign.kimi_k3.pin:
  run_once: true
"""

RETURN = r"""
image:
  description: The image with its digest.
  type: str
  returned: success
file:
  description: The file that declares it; none where Ansible has it from elsewhere, with a digest.
  type: str
  returned: success
"""
