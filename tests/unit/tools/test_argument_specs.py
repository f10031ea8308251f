"""What is generated from a role's argument specs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import argument_specs

SPECS = """---
argument_specs:
  main:
    short_description: Prepare a node
    options:
      node_base_state:
        description: What the role makes true. It is proved.
        default: present
        choices: [present, absent]
      node_base_users:
        description: [People, who may log in.]
        type: list
        elements: dict
        default: [{name: ana, uid: 7}]
        options:
          name:
            description: The name | of a person.
            required: true
      node_base_address:
        description: Where the node is, such as V(10.0.0.1).
        required: true
"""

DEFAULTS = """---
# Written by tools/argument_specs.py from meta/argument_specs.yml: change it there.

# What the role makes true
node_base_state: present

# People who may log in
node_base_users:
  - name: ana
    uid: 7
"""

TABLE = """| variable | type | default | meaning |
|---|---|---|---|
| `node_base_state` | str | `"present"` | What the role makes true. It is proved. One of `present`, `absent`. |
| `node_base_users` | list of dict | `[{"name": "ana", "uid": 7}]` | People who may log in. |
| `node_base_users[].name` | str | required | The name \\| of a person. |
| `node_base_address` | str | required | Where the node is, such as `10.0.0.1`. |
"""


@pytest.fixture
def role(tmp_path: Path) -> Path:
    """A tree with one role that has nothing but argument specs."""
    meta = tmp_path / "roles/node_base/meta"
    meta.mkdir(parents=True)
    (meta / "argument_specs.yml").write_text(SPECS)
    return meta.parent


def write(role: Path) -> int:
    return argument_specs.main([], role.parent.parent)


def check(role: Path) -> int:
    return argument_specs.main(["--check"], role.parent.parent)


def test_defaults_hold_what_has_a_default_under_its_description(role: Path) -> None:
    write(role)
    assert (role / "defaults/main.yml").read_text() == DEFAULTS


def test_readme_that_is_missing_is_begun_with_the_table(role: Path) -> None:
    write(role)
    text = (role / "README.md").read_text()
    assert text.startswith("# node_base\n\nPrepare a node\n")
    assert TABLE in text


def test_readme_keeps_what_stands_round_the_table(role: Path) -> None:
    around = f"# Mine\n\n{argument_specs.BEGIN}\nold\n{argument_specs.END}\n\nMore.\n"
    (role / "README.md").write_text(around)
    write(role)
    assert (role / "README.md").read_text() == around.replace("old\n", TABLE)


def test_readme_without_the_two_lines_is_refused(role: Path) -> None:
    (role / "README.md").write_text("# Mine\n")
    with pytest.raises(ValueError, match="roles/node_base/README.md lacks the two lines"):
        write(role)


def test_role_without_any_default_has_no_defaults_file(role: Path) -> None:
    write(role)
    (role / "meta/argument_specs.yml").write_text("argument_specs: {main: {short_description: Nothing}}")
    write(role)
    assert not (role / "defaults/main.yml").exists()


def test_check_accepts_what_was_written(role: Path) -> None:
    write(role)
    assert check(role) == 0


@pytest.mark.parametrize("name", ["defaults/main.yml", "README.md"])
def test_check_fails_with_the_difference_when_a_file_was_edited(
    role: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(role)
    file = role / name
    file.write_text(file.read_text().replace("present", "absent", 1))
    assert check(role) == 1
    assert f"--- roles/node_base/{name}" in capsys.readouterr().out


def test_check_writes_nothing(role: Path) -> None:
    check(role)
    assert not (role / "README.md").exists()
