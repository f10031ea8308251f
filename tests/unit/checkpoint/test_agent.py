"""An agent's code on a node."""

from __future__ import annotations

import os

from ansible_collections.sovereign.kimi_k3.plugins.modules import agent


def test_folder_holds_exactly_the_agents_files(tmp_path):
    folder = tmp_path / "fetch"
    agent.write(folder, {"old.py": "", "kept.py": "before"})
    agent.write(folder, {"new.py": "text", "kept.py": "after"})
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"new.py": "text", "kept.py": "after"}


def test_code_is_readable_by_every_user(tmp_path):
    old = os.umask(0o077)
    try:
        agent.write(tmp_path / "fetch", {"a.py": ""})
    finally:
        os.umask(old)
    assert (tmp_path / "fetch").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "fetch" / "a.py").stat().st_mode & 0o777 == 0o644


def test_listing_shows_that_content_differs():
    assert agent.listing({"a.py": "1"}) != agent.listing({"a.py": "2"})
