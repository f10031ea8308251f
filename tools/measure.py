"""Measure the tree against the limits that the project holds itself to, and fail when one is passed.

    python -m tools.measure [ROOT]

Prints a table of what was measured beside its limit, then the places that pass a limit.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from tools import tasks
from tools.tasks import Item

ROOT = Path(__file__).resolve().parent.parent
PLATFORM = re.compile(r"os_family|distribution|ansible_system\b|ansible_lsb|pkg_mgr")
NOQA = re.compile(r"#\s*(?:ruff:\s*)?noqa\b:?\s*(?P<codes>[A-Za-z0-9\[\]-]+(?:[,\s]\s*[A-Z]+[0-9]+)*)?(?P<reason>.*)")
# As many tasks in a row, the same in two places, are one group written twice.
GROUP_SIZE = 3


@dataclass(frozen=True)
class Measure:
    """One number of the tree, its limit, and the places that speak against it when it is above."""

    name: str
    measured: float
    limit: float
    places: tuple[str, ...]

    @property
    def is_over(self) -> bool:
        return self.measured > self.limit


def largest(name: str, limit: int, sizes: dict[str, int]) -> Measure:
    """Measure the largest of some named sizes."""
    over = tuple(f"{place}: {size}" for place, size in sizes.items() if size > limit)
    return Measure(name, max(sizes.values(), default=0), limit, over)


def count(name: str, limit: int, places: list[str]) -> Measure:
    """Measure how many places there are."""
    return Measure(name, len(places), limit, tuple(places))


class Tree:
    """The files below a root that the limits are about; hidden folders are left out."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.python = list(self._files(".py"))
        self.roles = sorted(path for path in (root / "roles").glob("*") if path.is_dir())
        self.task_files = [p for role in self.roles for part in ("tasks", "handlers") for p in self._below(role / part)]
        self.playbooks = self._below(root / "playbooks")
        self.groups = {path: tasks.groups(path, root) for path in (*self.task_files, *self.playbooks)}
        self.items = [item for groups in self.groups.values() for group in groups for item in group]
        self.tasks = [item for item in self.items if item.is_task]

    def name(self, path: Path) -> str:
        return str(path.relative_to(self.root))

    def _below(self, folder: Path) -> list[Path]:
        return sorted(folder.rglob("*.yml"))

    def _files(self, *endings: str) -> Iterator[Path]:
        for folder, folders, names in os.walk(self.root):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            yield from (Path(folder, name) for name in sorted(names) if name.endswith(endings))

    def commented(self) -> Iterator[Path]:
        """The files in which a check can be switched off by a comment."""
        return self._files(".py", ".yml", ".yaml")


def python_measures(tree: Tree) -> Iterator[Measure]:
    """Sizes of Python files and functions, and what ruff finds too complex."""
    yield largest("lines of a Python file", 400, {tree.name(p): len(p.read_text().splitlines()) for p in tree.python})
    functions = {}
    for path in tree.python:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                functions[f"{tree.name(path)}:{node.lineno} {node.name}"] = node.end_lineno - node.lineno + 1
    yield largest("lines of a function", 40, functions)
    yield largest("complexity of a function", 10, complexities(tree))


def complexities(tree: Tree) -> dict[str, int]:
    """Ask ruff for the complexity of every function, comments that would silence it ignored."""
    options = ["--isolated", "--no-cache", "--ignore-noqa", "--exit-zero", "--output-format=json"]
    options += ["--select=C901", "--config=lint.mccabe.max-complexity=0"]
    if not tree.python:
        return {}
    command = [sys.executable, "-m", "ruff", "check", *options, *tree.python]
    ruff = subprocess.run(command, capture_output=True, text=True, check=True)
    found = {}
    for fault in json.loads(ruff.stdout):
        place = f"{tree.name(Path(fault['filename']))}:{fault['location']['row']}"
        if complexity := re.search(r"\((\d+) >", fault["message"]):
            found[place] = int(complexity[1])
    return found


def noqa_measures(tree: Tree) -> Iterator[Measure]:
    """Comments that switch a check off, and those among them that give no reason after the codes."""
    found, bare = [], []
    for path in tree.commented():
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if match := NOQA.search(line):
                place = f"{tree.name(path)}:{number}"
                found.append(place)
                if not match["reason"].strip(" -:()"):
                    bare.append(place)
    yield count("noqa", 5, found)
    yield count("noqa without a reason", 0, bare)


def role_measures(tree: Tree) -> Iterator[Measure]:
    """Number of roles and of what each takes from its user."""
    yield count("roles", 14, [role.name for role in tree.roles])
    yield largest("public variables of a role", 25, {role.name: len(public_variables(role)) for role in tree.roles})


def public_variables(role: Path) -> set[str]:
    """Return the names in a role's argument specs and defaults that do not begin with two underscores."""
    names: set[str] = set()
    specs = role / "meta/argument_specs.yml"
    if specs.exists():
        for entry in yaml.safe_load(specs.read_text())["argument_specs"].values():
            names |= set(entry.get("options", {}))
    for defaults in (role / "defaults").rglob("*.yml"):
        names |= set(yaml.safe_load(defaults.read_text()) or {})
    return {name for name in names if not name.startswith("__")}


def task_measures(tree: Tree) -> Iterator[Measure]:
    """Sizes of task files, and the ways round a module."""
    sizes = {tree.name(path): len(path.read_text().splitlines()) for path in tree.task_files}
    yield largest("lines of a task file", 60, sizes)
    numbers = {tree.name(p): sum(i.is_task for g in tree.groups[p] for i in g) for p in tree.task_files}
    yield largest("tasks of a task file", 12, numbers)
    yield largest("depth of blocks", 2, {item.place: item.depth for item in tree.items})
    yield count("shell or raw", 0, [task.place for task in tree.tasks if task.uses("shell", "raw")])
    commands = [task for task in tree.tasks if task.uses("command")]
    share = 100 * len(commands) / max(len(tree.tasks), 1)
    yield Measure("command, % of tasks", round(share, 1), 3, tuple(task.place for task in commands))
    unexplained = [t.place for t in commands if "changed_when" not in t.body or not has_comment(tree, t)]
    yield count("command without changed_when or reason", 0, unexplained)


def has_comment(tree: Tree, task: Item) -> bool:
    """Whether a comment stands in the task or on the line above it."""
    lines = (tree.root / task.path).read_text().splitlines()
    return any(re.search(r"(^|\s)# \S", line) for line in lines[max(task.first - 2, 0) : task.last])


def habit_measures(tree: Tree) -> Iterator[Measure]:
    """Habits that hide a fault, reassign an input or put platform names into tasks."""
    yield count("ignore_errors", 0, [item.place for item in tree.items if item.body.get("ignore_errors")])
    yield count("failed_when: false", 0, [i.place for i in tree.items if i.body.get("failed_when") in (False, [False])])
    yield count("set_fact", 0, [task.place for task in tree.tasks if task.uses("set_fact")])
    platform = [item.place for item in tree.items if PLATFORM.search(str(item.body.get("when", "")))]
    yield count("when naming a platform", 0, platform)
    yield count("task groups written twice", 0, repeated_groups(tree))


def repeated_groups(tree: Tree) -> list[str]:
    """Return the places of runs of tasks that are equal once a role's own name is taken out of them."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in tree.task_files:
        role = path.relative_to(tree.root / "roles").parts[0]
        for group in tree.groups[path]:
            size = min(GROUP_SIZE, max(len(group), 2))
            for start in range(len(group) - size + 1):
                places[without_role(group[start : start + size], role)].append(group[start].place)
    return [" = ".join(same) for same in places.values() if len(same) > 1]


def without_role(group: list[Item], role: str) -> str:
    """Return a group as text in which the role's name, written with _, - or a space, is a placeholder."""
    text = json.dumps([_plain(item.body) for item in group], sort_keys=True, default=str)
    return re.sub(role.replace("_", "[ _-]"), "ROLE", text, flags=re.IGNORECASE)


def _plain(value: object) -> object:
    """Drop the line numbers from a loaded mapping, so that equal tasks compare equal."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items() if key != tasks.LINES}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


def measure(root: Path) -> list[Measure]:
    """Return all measures of the tree at root."""
    tree = Tree(root)
    parts = (role_measures, python_measures, noqa_measures, task_measures, habit_measures)
    return [found for part in parts for found in part(tree)]


def main(arguments: list[str]) -> int:
    """Print the table; return 1 if a limit is passed."""
    measures = measure(Path(arguments[0]).resolve() if arguments else ROOT)
    for m in measures:
        print(f"{m.name:40}{m.measured:8g}  of {m.limit:4g}{'  OVER' if m.is_over else ''}")
    for m in measures:
        if m.is_over:
            print(f"\n{m.name}: {m.measured:g}, the limit is {m.limit:g}:", *m.places, sep="\n  ")
    return int(any(m.is_over for m in measures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
