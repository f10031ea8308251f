# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checkpoint's parts of the playbooks' data, for Jinja. Each filter is described in the YAML file of its name."""

from __future__ import annotations

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils import checkpoint


class FilterModule:
    """The filters by name."""

    def filters(self):
        """Name to function."""
        return {"controller_files": checkpoint.controller_files}
