"""Each limit of the tree, passed once in a small tree of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import measure

# Written in two parts so that this file does not count.
NOQA = "# no" + "qa"

COPIED = """---
- name: Install {role}
  ansible.builtin.package: {{name: "{{{{ {role}_package }}}}"}}
- name: Start the service of {words}
  ansible.builtin.service: {{name: x, state: started}}
"""


def deep(depth: int) -> str:
    """Return a task inside so many blocks."""
    lines = []
    for level in range(depth):
        lines.append(f"{'    ' * level}- name: Level {level}")
        lines.append(f"{'    ' * level}  block:")
    return "\n".join([*lines, f"{'    ' * depth}- ansible.builtin.ping:"])


def task(text: str, others: int = 0) -> dict[str, str]:
    """Return a tree with one role of one task file: the given task and as many harmless, different ones."""
    harmless = [f"- ansible.builtin.debug: {{msg: {number}}}" for number in range(others)]
    return {f"roles/a/tasks/{n}.yml": "\n".join(harmless[n : n + 10]) for n in range(0, others, 10)} | {
        "roles/a/tasks/main.yml": f"---\n{text}\n"
    }


OVER = {
    "roles": {f"roles/r{number}/README.md": "" for number in range(15)},
    "public variables of a role": {"roles/a/defaults/main.yml": "".join(f"a_{n}: 1\n" for n in range(26))},
    "lines of a Python file": {"a.py": "x = 1\n" * 401},
    "lines of a function": {"a.py": "def f():\n" + "    x = 1\n" * 40},
    "complexity of a function": {"a.py": "def f(x):\n" + "    if x:\n        x += 1\n" * 10},
    "noqa": {"a.py": f"import os  {NOQA}: F401 (a reason)\n" * 6},
    "noqa without a reason": {"a.py": f"import os  {NOQA}: F401\n"},
    "lines of a task file": task("#\n" * 60),
    "tasks of a task file": task("\n".join(f"- ansible.builtin.debug: {{msg: {n}}}" for n in range(13))),
    "depth of blocks": task(deep(3)),
    "shell or raw": task("- ansible.builtin.shell: echo"),
    "command, % of tasks": task("# why\n- ansible.builtin.command: echo\n  changed_when: false", others=20),
    "command without changed_when or reason": task("- ansible.builtin.command: echo", others=40),
    "ignore_errors": task("- ansible.builtin.ping:\n  ignore_errors: true"),
    "failed_when: false": task("- ansible.builtin.ping:\n  failed_when: false"),
    "set_fact": task("- ansible.builtin.set_fact: {a: 1}"),
    "when naming a platform": task("- ansible.builtin.ping:\n  when: ansible_facts.os_family == 'Debian'"),
    "task groups written twice": {
        "roles/node_base/tasks/main.yml": COPIED.format(role="node_base", words="node base"),
        "roles/replica/tasks/install.yml": COPIED.format(role="replica", words="replica"),
    },
}


def tree(root: Path, files: dict[str, str]) -> dict[str, measure.Measure]:
    """Write the files below root and return its measures by name."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return {found.name: found for found in measure.measure(root)}


@pytest.mark.parametrize("name", OVER)
def test_a_limit_that_is_passed_is_reported_and_no_other(tmp_path: Path, name: str) -> None:
    measures = tree(tmp_path, OVER[name])
    assert [found.name for found in measures.values() if found.is_over] == [name]
    assert measures[name].places


def test_every_limit_has_a_tree_that_passes_it(tmp_path: Path) -> None:
    assert set(tree(tmp_path, {})) == set(OVER)


WITHIN = {
    "a function of 40 lines": {"a.py": "def f():\n" + "    x = 1\n" * 39},
    "the same tasks with other names of things": {
        "roles/a/tasks/main.yml": "- ansible.builtin.package: {name: one}\n- ansible.builtin.service: {name: one}",
        "roles/b/tasks/main.yml": "- ansible.builtin.package: {name: two}\n- ansible.builtin.service: {name: two}",
    },
    "set_fact in molecule": {"molecule/a/verify.yml": "- ansible.builtin.set_fact: {a: 1}"},
    "a command with a reason among forty tasks": task(
        "- ansible.builtin.command: echo # no module does this\n  changed_when: false", others=40
    ),
    "a private variable": {"roles/a/defaults/main.yml": "".join(f"__a_{n}: 1\n" for n in range(26))},
    "a hidden folder": {".venv/a.py": "x = 1\n" * 401},
}


@pytest.mark.parametrize("name", WITHIN)
def test_what_the_limits_allow_is_not_reported(tmp_path: Path, name: str) -> None:
    assert not [found for found in tree(tmp_path, WITHIN[name]).values() if found.is_over]


def test_a_limit_that_is_passed_fails_the_command_and_names_the_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree(tmp_path, OVER["ignore_errors"])
    assert measure.main([str(tmp_path)]) == 1
    assert "roles/a/tasks/main.yml:2" in capsys.readouterr().out


PLAY = """---
- name: A play
  hosts: all
  tasks:
    - name: A block
      block:
        - name: Inside
          ansible.builtin.set_fact: {a: 1}
"""


def test_tasks_inside_plays_and_blocks_are_measured(tmp_path: Path) -> None:
    assert tree(tmp_path, {"playbooks/a.yml": PLAY})["set_fact"].places == ("playbooks/a.yml:7",)
