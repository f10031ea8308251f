# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: plan
short_description: Compute what must run on every node of a site
version_added: 0.1.0
description:
  - Joins the variables of every host of the inventory with the catalogue into one plan, on the controller.
    Connects to nothing; C(--limit) of a playbook changes nothing in it.
  - Refuses with all faults in one answer, each with the variable it comes from, value, limit and remedy.
  - Files in C(catalogue/) beside the inventory add to the collection's catalogue or overlay it.
author: The sovereign.kimi_k3 authors (!UNKNOWN)
options:
  show:
    description: How much of a sound plan is printed; V(full) has the command line of every engine.
    type: str
    choices: [full, summary, nothing]
    default: full
  format:
    description: V(json) writes the whole plan, refusals included, whatever O(show) says.
    type: str
    choices: [text, json]
    default: text
  output:
    description: File on the controller that is written instead of the screen.
    type: path
  explain:
    description:
      - A flag or an environment variable. Instead of the plan, prints its value on each engine, the layer that set it,
        from which source and why, and what it replaced.
    type: str
  for_deploy:
    description: Also refuse what a plan may lack and a deployment may not, such as an accepted licence.
    type: bool
    default: false
  for_serve:
    description: Also refuse engines that known faults hold back until a proof has passed.
    type: bool
    default: false
attributes:
  check_mode:
    description: Works the same.
    support: full
"""

EXAMPLES = r"""
- name: Compute the plan
  sovereign.kimi_k3.plan:
    show: summary
    for_deploy: true
  run_once: true
  register: plan
"""

RETURN = r"""
digest:
  description: SHA-256 over everything else in the plan.
  type: str
  returned: success
site:
  description: The site's name.
  type: str
  returned: success
profile:
  description: The parallel layout.
  type: str
  returned: success
fabric:
  description: The network between nodes.
  type: str
  returned: success
model:
  description: Name, repository, commit, served name, path on a node and licence.
  type: dict
  returned: success
image:
  description: Reference, engine and version.
  type: dict
  returned: success
pools:
  description: The nodes of each pool.
  type: dict
  returned: success
replicas:
  description:
    - Name, pool, nodes, engines, parallel sizes, endpoints and memory of each replica.
    - C(memory) is of one GPU, the fullest; C(kv_at_most) is true where nobody measured the workspace.
  type: list
  elements: dict
  returned: success
nodes:
  description:
    - The engines of each node, with arguments, environment, ports, rank, role, start order, seconds until ready,
      container arguments and memory.
    - C(provenance) says for every flag and variable which layer set it, from which source, and what it replaced.
  type: dict
  returned: success
spare:
  description: Nodes of the pools' groups that no replica takes.
  type: list
  elements: str
  returned: success
gates:
  description:
    - Known faults that hold for this site, with id, action, summary, thread, remedy, proof, engines, and in
      C(overridden) the reason why the site does not mind.
  type: list
  elements: dict
  returned: success
router:
  description: The endpoints that requests may go to, of prefill and decode apart, and the arguments of vllm-router.
  type: dict
  returned: success
checkpoint:
  description:
    - Repository, commit, place on a node, number of files and bytes as far as known.
    - C(origins) in their order, C(drives) with the hosts that have each, C(access) with the files and the proxy that
      lead there, C(manifest_file).
    - C(nodes) are the hosts that take part, each with the address and C(port) at which it hands files on; C(wan_nodes)
      those of them that may use the origins; C(owners) how many bytes each of these brings. C(shared) is the one that
      writes a shared filesystem, then alone in C(nodes), or none.
    - C(load) estimates how long a node reads it.
  type: dict
  returned: success
refusals:
  description: Empty; the JSON that O(output) names has them when there are any.
  type: list
  elements: dict
  returned: success
deploy_refusals:
  description: What O(for_deploy) would refuse, as where, value, limit and remedy.
  type: list
  elements: dict
  returned: success
serve_refusals:
  description: What O(for_serve) would refuse.
  type: list
  elements: dict
  returned: success
"""
