"""Write what follows from a role's argument specs: its defaults and the table of variables in its README.

    python -m tools.argument_specs          # write
    python -m tools.argument_specs --check  # print what would change, and fail if anything would

roles/<role>/meta/argument_specs.yml is the one description of a role's inputs. An option with a default appears in
defaults/main.yml; every option appears in the README, between two marker comments. A README that is missing is begun.
"""

from __future__ import annotations

import difflib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
BEGIN = "<!-- variables: written by tools/argument_specs.py -->"
END = "<!-- end of variables -->"
MARKUP = re.compile(r"\b[BCIOV]\(([^()]*)\)")
HEADER = "---\n# Written by tools/argument_specs.py from meta/argument_specs.yml: change it there.\n"


class _Dumper(yaml.SafeDumper):
    """Writes YAML that yamllint accepts: lists are indented below their key."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def prose(description: str | list[str]) -> str:
    """Return a description, a text or a list of paragraphs, as one line; Ansible's C(x) becomes `x`."""
    paragraphs = [description] if isinstance(description, str) else description
    return MARKUP.sub(r"`\1`", " ".join(" ".join(paragraphs).split()))


def options_of(specs: dict) -> dict[str, dict]:
    """Return the options of all entry points of a role; one that stands in several is taken from the first."""
    options: dict[str, dict] = {}
    for entry in specs["argument_specs"].values():
        options = entry.get("options", {}) | options
    return options


def defaults(options: dict[str, dict]) -> str:
    """Return defaults/main.yml: every option that has a default, its description above it. Empty when none has one."""
    parts = []
    for name, option in options.items():
        if "default" in option:
            value = yaml.dump({name: option["default"]}, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
            parts.append(f"\n# {first_sentence(prose(option['description']))}\n{value}")
    return "".join([HEADER, *parts]) if parts else ""


def first_sentence(text: str) -> str:
    """Return the text up to the first full stop that ends a sentence."""
    return text.partition(". ")[0].rstrip(".")


def table(options: dict[str, dict]) -> str:
    """Return the README's table: a line for each option and for each key inside one."""
    lines = ["| variable | type | default | meaning |", "|---|---|---|---|"]
    for name, option in _named(options, ""):
        cells = (f"`{name}`", _kind(option), _default(option), _meaning(option))
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def _named(options: dict[str, dict], prefix: str) -> Iterator[tuple[str, dict]]:
    for name, option in options.items():
        yield prefix + name, option
        inner = f"{prefix}{name}[]." if option.get("type") == "list" else f"{prefix}{name}."
        yield from _named(option.get("options", {}), inner)


def _kind(option: dict) -> str:
    kind = option.get("type", "str")
    return f"{kind} of {option['elements']}" if "elements" in option else kind


def _default(option: dict) -> str:
    if option.get("required"):
        return "required"
    return f"`{json.dumps(option['default'], ensure_ascii=False)}`" if "default" in option else ""


def _meaning(option: dict) -> str:
    meaning = prose(option["description"])
    if "choices" in option:
        meaning += " One of " + ", ".join(f"`{choice}`" for choice in option["choices"]) + "."
    return meaning


def readme(current: str, role: str, specs: dict) -> str:
    """Return a role's README with its table of variables up to date."""
    if not current:
        main = specs["argument_specs"]["main"]
        current = f"# {role}\n\n{prose(main['short_description'])}\n\n## Variables\n\n{BEGIN}\n{END}\n"
    before, begin, rest = current.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"roles/{role}/README.md lacks the two lines that the table stands between: {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{table(options_of(specs))}\n{END}{after}"


def wanted(root: Path) -> dict[Path, str]:
    """Return every generated file below root with the text it should hold."""
    files: dict[Path, str] = {}
    for path in sorted(root.glob("roles/*/meta/argument_specs.yml")):
        role = path.parent.parent
        specs = yaml.safe_load(path.read_text())
        files[role / "defaults/main.yml"] = defaults(options_of(specs))
        files[role / "README.md"] = readme(_text(role / "README.md"), role.name, specs)
    return files


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def difference(root: Path) -> str:
    """Return what writing would change, as a unified diff."""
    parts = []
    for path, text in wanted(root).items():
        name = str(path.relative_to(root))
        old, new = _text(path).splitlines(keepends=True), text.splitlines(keepends=True)
        parts += difflib.unified_diff(old, new, name, f"{name} (from the argument specs)")
    return "".join(parts)


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Write the files, or with --check only compare them; return 1 if they differ."""
    if "--check" in arguments:
        found = difference(root)
        print(found, end="")
        return int(bool(found))
    for path, text in wanted(root).items():
        if text:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        else:
            path.unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
