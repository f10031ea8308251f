# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lets `python3 -I /usr/lib/kimi-k3/fetch` run the package, beside `proof`, on a node that has no collection."""

import os
import runpy
import sys
import types

if __name__ == "__main__":
    parent = sys.modules["kimi_k3"] = types.ModuleType("kimi_k3")
    parent.__path__ = [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
    runpy.run_module("kimi_k3.fetch.cli", run_name="__main__", alter_sys=True)
