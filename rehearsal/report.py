"""What a run ends with: the model's answer and a table, or the failures in full."""

import json
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rehearsal.commands import tail
from rehearsal.deploy import Failure
from rehearsal.places import Site
from rehearsal.progress import ROUGH_DEPLOY, minutes

WIDTH = 104  # of the table of engines, also on a narrow terminal: wrapped cells would be harder to read


def acceptance(site: Site) -> dict[str, Any]:
    """What the accept stage wrote down: answer, model, and each engine with its release."""
    try:
        return json.loads((site.deploy_state / "acceptance.json").read_text())
    except FileNotFoundError:
        return {"answer": "(the accept stage wrote none)", "model": "?", "engines": []}


def success(console: Console, site: Site, spent: dict[str, float], busy: dict[str, dict[str, float]]) -> None:
    """The answer, and a table of engines: what each runs, and how long its node was at work in each stage.

    `spent` holds the site's seconds by stage, `busy` those of each host.
    """
    found = acceptance(site)
    console.print(f"\n[bold]{escape(found['model'])} answers:[/] {escape(str(found['answer']))}\n")
    stages = [stage for stage in spent if stage in ROUGH_DEPLOY]
    table = Table("node", "engine", "rank", "release", *stages, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in table.columns:
        column.no_wrap = True
    for row in found["engines"]:
        cells = (str(row.get(key, "")) for key in ("node", "engine", "rank", "release"))
        seconds = (busy.get(row["node"], {}).get(stage) for stage in stages)
        table.add_row(*map(escape, cells), *("" if value is None else f"{value:.0f}" for value in seconds))
    table.add_section()
    table.add_row("the site", "", "", "", *(f"{spent[stage]:.0f}" for stage in stages))
    Console(file=console.file, width=max(console.width, WIDTH)).print(table)
    before = ", ".join(f"{stage} {seconds:.0f} s" for stage, seconds in spent.items() if stage not in stages)
    total = f"Seconds by stage; {minutes(sum(spent.values()))} in all; before the deploy: {before or 'nothing'}."
    console.print(total, highlight=False, soft_wrap=True)


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
