# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fetch agent: puts one checkpoint revision on a node and proves it, byte for byte.

Standard library only, Python 3.9 and newer. It knows a manifest (`manifest`), the files on the
node (`store`), where bytes come from (`origin`) and how one file becomes whole (`transfer`);
`agent` runs the files in parallel and `status` tells Ansible about it.
"""
