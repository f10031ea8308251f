# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can go wrong, in words that a person can act on."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One file that is not as the manifest wants it."""

    file: str
    expected: str
    found: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.file}: expected {self.expected}; found {self.found}; remedy: {self.remedy}"


class ConfigError(ValueError):
    """The configuration or the manifest cannot be used; says why."""


class SourceFault(Exception):
    """A source gave no bytes, or stopped giving them.

    `final`: asking it again for this file is useless. `retry_after`: seconds that it wants us to wait.
    """

    def __init__(self, reason: str, final: bool = False, retry_after: float = 0):
        super().__init__(reason)
        self.final, self.retry_after = final, retry_after


class WrongBytes(Exception):
    """A file came with bytes that are not those of the manifest; says what was found, and who had a part in it."""

    def __init__(self, reason: str, suspects: Collection[str] = ()):
        super().__init__(reason)
        self.suspects = set(suspects)


class Stopped(Exception):
    """The agent was asked to stop."""


class AlreadyRunning(Exception):
    """Another run holds the lock; says which."""
