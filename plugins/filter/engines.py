# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters over the plan; the work is in plugin_utils/engines.py."""

from __future__ import annotations

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils import engines


class FilterModule:
    """Each filter is described in the YAML file of its name."""

    def filters(self):
        """Name and function of each."""
        return {
            "agent_digest": engines.agent_digest,
            "engines_of": engines.engines_of,
            "ports_of": engines.ports_of,
            "restarting": engines.restarting,
            "systemd_words": engines.systemd_words,
        }
