# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the digest of the site's image beside its tag, on the controller."""

from __future__ import annotations

from collections.abc import Iterator

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils import faults, pin

INSECURE = "container_engine_insecure_registries"


class ActionModule(ActionBase):
    """Connects to the image's registry and to no host. The result is described in modules/pin.py."""

    BYPASS_HOST_LOOP = True
    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp=None, task_vars=None):
        """What was written, or why nothing was."""
        self.validate_argument_spec({})
        result = super().run(tmp, task_vars)
        images = [str(value) for value in values(task_vars, pin.VARIABLE) if value is not None]
        lists = [value for value in values(task_vars, INSECURE) if isinstance(value, list)]
        insecure = {registry for value in lists for registry in value}
        try:
            found = pin.pin(task_vars["ansible_inventory_sources"], images, insecure)
            if found.text and not self._task.check_mode:
                found.write()
        except pin.Refused as refused:
            return {**result, "failed": True, "changed": False, "msg": faults.message([refused.row])}
        self._display.display(found.message)
        file = str(found.place.file) if found.place else None
        result |= {"changed": bool(found.text), "msg": found.message, "image": found.pinned, "file": file}
        return {**result, "diff": found.diff()} if found.text else result


def values(task_vars: dict, name: str) -> Iterator[object]:
    """The variable on every host that has it; not where its template fails."""
    for host in task_vars["groups"]["all"]:
        variables = task_vars["hostvars"][host]
        try:
            if name in variables:
                yield variables[name]
        except AnsibleError:
            continue
