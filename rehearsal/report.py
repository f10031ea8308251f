"""What a run ends with: the model's answer and a table, or the failures in full."""

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rehearsal.commands import tail
from rehearsal.deploy import Failure
from rehearsal.places import Site
from rehearsal.progress import minutes


def acceptance(site: Site) -> dict[str, Any]:
    """What the accept stage wrote down: answer, model, and each engine with its release."""
    try:
        return json.loads((site.deploy_state / "acceptance.json").read_text())
    except FileNotFoundError:
        return {"answer": "(the accept stage wrote none)", "model": "?", "engines": []}


def success(console: Console, site: Site, spent: dict[str, float]) -> None:
    found = acceptance(site)
    console.print(f"\n[bold]{escape(found['model'])} answers:[/] {escape(str(found['answer']))}\n")
    engines = Table("node", "engine", "rank", "release", "load s")
    for row in found["engines"]:
        cells = (row.get(key, "") for key in ("node", "engine", "rank", "release", "load_seconds"))
        engines.add_row(*(escape(str(cell)) for cell in cells))
    console.print(engines)
    stages = Table("stage", "seconds")
    stages.columns[1].justify = "right"
    for stage, seconds in spent.items():
        stages.add_row(stage, f"{seconds:.0f}")
    stages.add_section()
    stages.add_row("all", f"{sum(spent.values()):.0f} ({minutes(sum(spent.values()))})")
    console.print(stages)


def failure(console: Console, status: str, failures: list[Failure], log: Path) -> None:
    """Every failed task with all it said; the end of the log where the run failed before any task."""
    console.print(f"\n[bold red]deploy.yml: {status}[/]")
    for (stage, task, message), hosts in together(failures).items():
        console.print(f"[bold]{stage} | {escape(task)} | {escape(', '.join(hosts))}[/]", soft_wrap=True)
        console.print(escape(message), soft_wrap=True)
    if not failures:
        console.print(escape(tail(log)), soft_wrap=True)


def together(failures: list[Failure]) -> dict[tuple[str, str, str], list[str]]:
    """Hosts by (stage, task, message): a fault that many hosts share is told once."""
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for item in failures:
        grouped.setdefault((item.stage, item.task, item.message), []).append(item.host)
    return grouped


def farewell(console: Console, site: Site) -> None:
    """How to go on with a site that is up."""
    here = site.home.relative_to(site.checkout)
    inventory = site.inventory.relative_to(site.checkout)
    console.print(
        f"""
The site stays up.
  look at a host      ssh -F {here}/ssh/config node-01
  deploy again        make rehearse, or by hand: ansible-playbook playbooks/deploy.yml -i {inventory}
  start anew          make rehearse FRESH=1
  log of the run      {here}/logs/deploy.log
  end it              python -m rehearsal down (the site alone), make clean (and all that was built for it)""",
        soft_wrap=True,
        highlight=False,
    )
