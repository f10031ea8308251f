"""Run the project's checks and tests, quick ones first, all of them even when one fails; then say what failed.

`python -m tools.checks` runs every step, as `make test` does; names after it, like `ruff units`, pick steps.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAST_LINES = 15

STEPS = {
    "ruff": "ruff check --output-format=concise",
    "yamllint": "yamllint --strict .",
    "measure": "python -m tools.measure",
    "argument specs": "python -m tools.argument_specs --check",
    "documents": "python -m tools.docs --check",
    "changelog": "antsibull-changelog lint",
    "ansible-lint": "ansible-lint --nocolor --format=pep8 -q",
    "units": "pytest tests/unit",
    "engine_contract": "pytest -q tests/engine_contract",
    # Named outright: without a .git folder molecule would not find it, and succeed with no hosts.
    "molecule": "molecule --base-config .config/molecule/config.yml test --all --no-command-borders",
    # The site without a route out takes as long again: `make airgap` runs it by itself.
    "rehearsal": "pytest -v tests/rehearsal --ignore=tests/rehearsal/test_airgap.py",
    # Three of them, others each day; `make drills` runs all.
    "drills": "python -m tests.drills --three",
}


@dataclass(frozen=True)
class Result:
    """How one step ended: its name, its command line, exit code, wall time in seconds and last lines of output."""

    name: str
    command: str
    code: int
    seconds: float
    tail: tuple[str, ...]


def run(name: str, command: str) -> Result:
    """Run one step from the root of the repository, passing its output on."""
    print(f"\n=== {name}: {command}", flush=True)
    tail: deque[str] = deque(maxlen=LAST_LINES)
    start = time.monotonic()
    with subprocess.Popen(
        command.split(),
        cwd=ROOT,
        env=os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            tail.append(line.rstrip())
    return Result(name, command, process.returncode, time.monotonic() - start, tuple(tail))


def summary(results: list[Result]) -> str:
    """Return a table of the steps, then what each failed step said last and how to run it alone."""
    lines = ["", "=== summary"]
    lines += [f"{'ok' if r.code == 0 else 'FAILED':8}{r.name:16}{r.seconds:6.0f} s" for r in results]
    for result in (r for r in results if r.code != 0):
        lines += ["", f"FAILED {result.name}: exit code {result.code} from: {result.command}"]
        lines += [f"    {line}" for line in result.tail]
    return "\n".join(lines)


def main(names: list[str]) -> int:
    """Run the named steps, or all; return 1 if one failed."""
    unknown = [name for name in names if name not in STEPS]
    if unknown:
        print(f"unknown steps: {', '.join(unknown)}; there are: {', '.join(STEPS)}", file=sys.stderr)
        return 2
    results = [run(name, command) for name, command in STEPS.items() if not names or name in names]
    print(summary(results), flush=True)
    return int(any(result.code for result in results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
