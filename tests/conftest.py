"""Shared by all tests: the collection under its full name, as Ansible would import it."""

from __future__ import annotations

import importlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def pytest_configure() -> None:
    """Make the link that `ansible_collections.sovereign.kimi_k3` is imported through, if set-up has not."""
    link = ROOT / ".collections/ansible_collections/sovereign/kimi_k3"
    if not link.is_symlink():
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to("../../..")
        importlib.invalidate_caches()
