# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fills one part of a bundle for a site without a route out, on the controller."""

from __future__ import annotations

import contextlib

from ansible.plugins.action import ActionBase
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.proof.faults import ConfigError
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils import faults
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.bundle import checkpoint, index
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.bundle.parts import Bundle, Wanted
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.bundle.work import Failed, amount

PARTS = ["preflight", "checkpoint", "images", "collection", "python", "packages", "index"]


class ActionModule(ActionBase):
    """Connects to the bundle's sources and to no host. Options are described in modules/bundle.py."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp=None, task_vars=None):
        """What was brought, or why nothing was."""
        text, texts = {"type": "str"}, {"type": "list", "elements": "str", "default": []}
        options = self.validate_argument_spec(
            argument_spec={
                "part": {"type": "str", "required": True, "choices": PARTS},
                "path": {"type": "path", "required": True},
                "mount_required": {"type": "bool", "default": True},
                "model": {"type": "str", "required": True},
                "manifest": {"type": "dict", "required": True},
                "origins": {"type": "list", "elements": "dict", "required": True},
                "access": {"type": "dict", "default": {}},
                "images": texts,
                "insecure_registries": texts,
                "architectures": texts,
                "platforms": {"type": "list", "elements": "str"},
                "package_sources": {"type": "dict", "default": {}},
                "requirements": {"type": "path"},
                "python_version": text,
                "python_machine": text,
            }
        )[1]
        part = options.pop("part")
        try:
            return super().run(tmp, task_vars) | self._run(part, Bundle(Wanted(**options)))
        except (Failed, ConfigError, OSError) as error:
            return {"failed": True, "changed": False, "msg": str(error)}

    def _run(self, part, bundle):
        if part == "preflight":
            return self._preflight(bundle)
        with contextlib.nullcontext() if self._task.check_mode else bundle.drive.alone():
            if part == "index":
                return self._index(bundle)
            waiting = [one for one in bundle.parts[part] if not one.is_whole()]
            changed = [one.name for one in waiting if self._task.check_mode or one.make(self._display.display)]
        return {"changed": bool(changed), "brought": changed}

    def _preflight(self, bundle):
        rows = bundle.faults()
        if rows:
            return {"failed": True, "changed": False, "faults": rows, "msg": faults.message(rows)}
        missing = {name: size for name, size in bundle.missing().items() if size}
        lines = [f"to come: {name}, {amount(size)}" for name, size in missing.items()]
        self._display.display("\n".join(lines) or f"{bundle.drive.root} has all that is large already")
        return {"changed": False, "faults": [], "missing": missing}

    def _index(self, bundle):
        if self._task.check_mode:
            return {"changed": not bundle.drive.index.exists(), "digest": None}
        data = bundle.index()
        changed = checkpoint.write(bundle.drive.index, data)
        for path in index.strays(bundle.drive, bundle.roots):
            self._display.warning(f"{path} belongs to no part of this bundle; remove it if nothing else needs it")
        return {"changed": changed, "digest": index.digest(data)}
