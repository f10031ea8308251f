"""The tasks of the collection's roles and playbooks, with where each stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

BLOCK_KEYS = ("block", "rescue", "always")
PLAY_KEYS = ("pre_tasks", "tasks", "post_tasks", "handlers")
LINES = "__lines__"


class _Loader(yaml.SafeLoader):
    """Loads Ansible's YAML and notes the first and last line of every mapping."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict:
    return loader.construct_mapping(node, deep=True) | {LINES: (node.start_mark.line + 1, node.end_mark.line)}


def _tagged(loader: _Loader, suffix: str, node: yaml.Node) -> str:
    """Read !vault, !unsafe and the like as text: what they hold is not measured."""
    return f"!{suffix} {node.value}"


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)
_Loader.add_multi_constructor("!", _tagged)


@dataclass(frozen=True)
class Item:
    """A task, a block or a play.

    path is relative to the root of the tree; first and last are line numbers from 1; depth counts the blocks around it.
    """

    path: Path
    first: int
    last: int
    depth: int
    body: dict

    @property
    def is_task(self) -> bool:
        return not any(key in self.body for key in (*BLOCK_KEYS, *PLAY_KEYS, "hosts", "import_playbook"))

    @property
    def place(self) -> str:
        return f"{self.path}:{self.first}"

    def uses(self, *modules: str) -> bool:
        """Whether this task calls one of these modules of ansible.builtin, however it spells the name."""
        called = {*self.body, str(self.body.get("action", "")).split(" ")[0]}
        return self.is_task and any(
            prefix + module in called for module in modules for prefix in ("", "ansible.builtin.", "ansible.legacy.")
        )


def groups(path: Path, root: Path) -> list[list[Item]]:
    """Return every list of plays or tasks of a file: its own, then those inside plays and blocks."""
    content = _Loader(path.read_text()).get_single_data()
    return list(_groups(content, path.relative_to(root), 0))


def _groups(content: object, path: Path, depth: int) -> Iterator[list[Item]]:
    if not isinstance(content, list):
        return
    bodies = [body for body in content if isinstance(body, dict)]
    yield [Item(path, *body[LINES], depth, body) for body in bodies]
    for body in bodies:
        for key in PLAY_KEYS:
            yield from _groups(body.get(key), path, depth)
        for key in BLOCK_KEYS:
            yield from _groups(body.get(key), path, depth + 1)
