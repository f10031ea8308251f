"""The rehearsal's engine image: vLLM's CPU build as an OCI layout in the user's cache folder."""
# SPDX-License-Identifier: GPL-3.0-or-later

from rehearsal.commands import RehearsalError as BuildError

from .builder import build
from .layout import Layout

__all__ = ["BuildError", "Layout", "build"]
