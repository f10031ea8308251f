# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask an endpoint as a client would."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: acceptance
short_description: Prove that an endpoint answers as a client wants
version_added: 0.1.0
description:
  - Asks C(/v1/models), one whole and one streamed chat completion, and fails with what was expected and what came.
author: The sovereign.kimi_k3 authors (!UNKNOWN)
options:
  endpoint:
    description: URL of the API, without a path.
    type: str
    required: true
  model:
    description: Served name that must be offered.
    type: str
    required: true
  prompt:
    description: What the user says.
    type: str
    required: true
  expected:
    description: Regular expression that both answers must match.
    type: str
    default: ""
  max_tokens:
    description: Longest answer, in tokens.
    type: int
    default: 256
  timeout_seconds:
    description: Longest wait for one answer.
    type: int
    default: 120
attributes:
  check_mode:
    description: Asks nothing.
    support: full
"""

EXAMPLES = r"""
- name: Ask
  sovereign.kimi_k3.acceptance:
    endpoint: http://10.20.0.11:8000
    model: kimi-k3
    prompt: What is the capital of Peru?
    expected: Lima
"""

RETURN = r"""
answer:
  description: Text of the whole answer.
  type: str
  returned: success
models:
  description: Served names.
  type: list
  elements: str
  returned: success
seconds:
  description: Time of all requests together.
  type: float
  returned: success
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.sovereign.kimi_k3.plugins.module_utils import acceptance


def main():
    """Entry point of the module."""
    text = {"type": "str", "required": True}
    module = AnsibleModule(
        argument_spec={
            "endpoint": text,
            "model": text,
            "prompt": text,
            "expected": {"type": "str", "default": ""},
            "max_tokens": {"type": "int", "default": 256, "no_log": False},
            "timeout_seconds": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    given = module.params
    if module.check_mode:
        module.exit_json(changed=False, answer="", models=[], seconds=0.0, endpoint=given["endpoint"])
    try:
        seen = acceptance.accept(
            given["endpoint"],
            given["model"],
            given["prompt"],
            given["expected"],
            given["max_tokens"],
            given["timeout_seconds"],
        )
    except acceptance.Refused as refused:
        module.fail_json(
            msg="{} at {}: expected {}; came {}; remedy: {}".format(
                refused.args[0], given["endpoint"], refused.args[1], refused.args[2], refused.args[3]
            )
        )
    except OSError as error:
        module.fail_json(
            msg="{} does not answer: {}; remedy: run serve.yml, and check that this host reaches the fabric".format(
                given["endpoint"], error
            )
        )
    module.exit_json(changed=False, **seen)


if __name__ == "__main__":
    main()
