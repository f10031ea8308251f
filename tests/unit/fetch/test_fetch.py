"""The agent against a hub that misbehaves."""

from __future__ import annotations


def test_fetches_everything_once(node, origin):
    assert node.run("fetch") == (0, "")
    assert node.is_whole()
    assert origin.sent() == node.manifest.bytes
