"""Write what the documents show of the catalogue and of plans, between two marker comments each.

    python -m tools.docs          # write
    python -m tools.docs --check  # print what would change, and fail if anything would

A part of a document begins with `<!-- written by tools/docs.py: NAME ARGUMENTS -->` and ends with `<!-- end -->`;
PARTS has the names. Pages of profiles show plans of one replica for each pool, with addresses made up; `run` shows
what `playbooks/plan.yml` says of a site in inventories/.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / ".collections"))

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner import catalogue, drawing, text
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.catalogue import Entry
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.plan import plan

from tools import example

ROOT = Path(__file__).resolve().parent.parent
BEGIN = re.compile(r"<!-- written by tools/docs\.py: (?P<words>[^>]+) -->\n")
END = "<!-- end -->"
REFUSAL = re.compile(r"The plan is refused.*?(?=\nOrigin:)", re.DOTALL)
MEMORY = "gpu_memory_gib"
IMAGE = "registry.example/vllm@sha256:..."
# Keys of a `when` by which a gate belongs to some layouts and not to others.
SHAPE = {"profile", "pool", "spans_nodes", "tensor_spans_nodes", "experts", "data_parallel"}
ACTIONS = {"refuse": "refuses", "prove": "waits for a proof", "warn": "warns", "work_around": "avoids it"}


@cache
def known() -> catalogue.Catalogue:
    return catalogue.load()


@cache
def sample(profile: str, hardware: str, fabric: str | None = None) -> dict:
    """The plan of one replica for each pool, on as many nodes as the hardware's row says; no gate refuses it."""
    return plan(*example.declared(known(), profile, hardware, fabric), known())


def engines(profile: str, hardware: str) -> dict[str, list[dict]]:
    """{replica: its engines in order of rank}; a plan that is refused cannot be shown, so it stops here."""
    found = sample(profile, hardware)
    if found["refusals"]:
        raise ValueError(f"{profile} on {hardware} is refused: {found['refusals']}")
    by_name = {engine["name"]: engine for node in found["nodes"].values() for engine in node["engines"]}
    return {replica["name"]: [by_name[name] for name in replica["engines"]] for replica in found["replicas"]}


def machines(profile: str) -> list[str]:
    """Hardware with a layout of this profile and memory to count."""
    return [row.name for row in known().entries["hardware"].values() if profile in row["layouts"] and row.get(MEMORY)]


def picture(profile: str, hardware: str) -> Iterator[str]:
    """A box for each pool's replica: which ranks each node holds, and what it listens on."""
    yield "```"
    members = engines(profile, hardware)
    for replica in sample(profile, hardware)["replicas"]:
        rows = [("node", "rank", "GPUs are ranks", "listens on")]
        for engine in members[replica["name"]]:
            ports = ", ".join(f"{name} {_span(port)}" for name, port in engine["ports"].items())
            rows.append((engine["node"], str(engine["rank"]), _share(engine), ports or "-"))
        lines = _columns(rows)
        title = f" {replica['name']}: {replica['parallel']} on {_nodes(replica)} of {hardware} "
        foot = f" {drawing.endpoints(replica['endpoints'])} "
        width = max(map(len, [*lines, title, foot])) + 2
        yield f"┌{title:─<{width}}┐"
        yield from (f"│ {line:<{width - 2}} │" for line in lines)
        yield f"└{foot:─>{width}}┘"
    yield "```"


def _pool(replica: Mapping) -> str:
    return "" if replica["pool"] == "unified" else f" {replica['pool']}"


def _nodes(replica: Mapping) -> str:
    count = len(replica["nodes"])
    return f"{count} node{'s' * (count > 1)}"


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _span(numbers: int | Sequence[int]) -> str:
    """5, or 5-8 for a list that runs from one to the other."""
    first, last = (numbers, numbers) if isinstance(numbers, int) else (numbers[0], numbers[-1])
    return f"{first}" if first == last else f"{first}-{last}"


def _share(engine: Mapping) -> str:
    """Which part of its replica an engine's GPUs are."""
    size, gpus, rank = _sizes(engine), engine["hardware"]["gpus"], engine["rank"]
    if size["data"] > 1:
        first, each = rank * size["local"], size["tensor"]
        ranks = _span(range(first, first + size["local"]))
        return f"data {ranks} of {size['data']}, each on {each} GPU{'s' * (each > 1)}"
    if size["pipeline"] > 1:
        stage = rank * gpus // size["tensor"]
        return f"stage {stage} of {size['pipeline']}, on {size['tensor']} GPUs"
    return f"tensor {_span(range(rank * gpus, rank * gpus + gpus))} of {size['tensor']}"


def _sizes(engine: Mapping) -> dict[str, int]:
    argv = engine["argv"]
    flags = {"local": "--data-parallel-size-local"}
    flags |= {name: f"--{name}-parallel-size" for name in ("tensor", "pipeline", "data")}
    return {name: int(argv[argv.index(flag) + 1]) if flag in argv else 1 for name, flag in flags.items()}


def hardware_table(profile: str) -> Iterator[str]:
    """What one replica is on each hardware that is known to serve so."""
    yield "| hardware | nodes | sizes | weights per GPU | left for KV | tokens of KV | longest request |"
    yield "|---|---|---|---|---|---|---|"
    for name in machines(profile):
        engines(profile, name)
        refused = [gate["id"] for gate in sample(profile, name)["gates"] if gate["action"] == "refuse"]
        for replica in sample(profile, name)["replicas"]:
            memory = replica["memory"]
            most = "at most " if memory["kv_at_most"] else ""
            cells = (
                f"{name}{_pool(replica)}{f' (refused: {_any(refused)})' if refused else ''}",
                str(len(replica["nodes"])),
                replica["parallel"],
                f"{memory['weights_gib']:.1f} of {memory['usable_gib']:g} GiB",
                f"{most}{memory['kv_gib']:.1f} GiB",
                f"{most}{memory['kv_tokens']:,}",
                f"{memory['max_model_len']:,}",
            )
            yield _row(cells)


def commands(profile: str, hardware: str) -> Iterator[str]:
    """The head's command line of each pool, and what the last worker has otherwise."""
    for members in engines(profile, hardware).values():
        head, *workers = members
        yield from ("```", text.command(head, IMAGE), "```", "")
        if workers:
            yield f"`{workers[-1]['node']}`, the last of its workers, has the same except:"
            yield from ("", "```", *_differences(head, workers[-1]), "```", "")


def _differences(head: Mapping, worker: Mapping) -> list[str]:
    """One line for each flag or variable that differs."""
    here, there = _words(head), _words(worker)
    names = sorted(name for name in here.keys() | there.keys() if here.get(name) != there.get(name))
    return [there.get(name, f"without {name}") for name in names]


def _words(engine: Mapping) -> dict[str, str]:
    """{flag or variable: as it is written}."""
    flags: dict[str, str] = {}
    for word in engine["argv"][1:]:
        if word.startswith("--"):
            flags[word] = name = word
        else:
            flags[name] = f"{name} {word}"
    return flags | {name: f"{name}={value}" for name, value in engine["env"].items()}


def memory() -> Iterator[str]:
    """A bar for each hardware, profile and pool."""
    signs = ", ".join(f"{sign} {name}" for sign, name in drawing.PARTS)
    yield from (f"One GPU, from empty to full: {signs}. Figures are GiB; ≤ where nobody measured the workspace.", "")
    yield "```"
    for machine in known().entries["hardware"].values():
        rows = []
        for profile in (name for name in known().names("profiles") if machine.name in machines(name)):
            engines(profile, machine.name)
            rows += [_bar(profile, replica) for replica in sample(profile, machine.name)["replicas"]]
        if rows:
            yield f"{machine.name}: {machine['gpus_per_node']} GPUs a node, {machine[MEMORY]:g} GiB each"
            yield from (f"  {line}" for line in _columns(rows))
    yield "```"


def _bar(profile: str, replica: Mapping) -> tuple[str, ...]:
    counted = replica["memory"]
    kv = f"KV {'≤' * counted['kv_at_most']}{counted['kv_gib']:.0f}"
    return f"{profile}{_pool(replica)}", _nodes(replica), replica["parallel"], f"▕{drawing.bar(counted)}▏", kv


def gate_table(profile: str) -> Iterator[str]:
    """Gates that ask for a layout, and hold for one of this profile's on some hardware and fabric."""
    plans = [sample(profile, name, fabric) for name in machines(profile) for fabric in known().names("fabrics")]
    held = {gate["id"] for found in plans for gate in found["gates"]}
    gates = [gate for gate in _gates() if gate.name in held and not SHAPE.isdisjoint(gate.get("when") or {})]
    if gates:
        yield from ("| gate | what happens | where it holds | the plan |", "|---|---|---|---|")
        yield from (_row((*_told(gate), f"{ACTIONS[gate['action']]}: {_remedy(gate)}")) for gate in gates)
    else:
        yield "None."


def all_gates() -> Iterator[str]:
    """Every gate, a table for each action."""
    for action, gates in groupby(_gates(), key=lambda gate: gate["action"]):
        yield from (f"## The plan {ACTIONS[action]}", "")
        yield from ("| gate | what happens | where it holds | what to do | read on |", "|---|---|---|---|---|")
        for gate in gates:
            proof = f" (proof: `{gate['proof']}`)" if gate.get("proof") else ""
            yield _row((*_told(gate), f"{_remedy(gate)}{proof}", gate["date"]))
        yield ""


def _gates() -> list[Entry]:
    return sorted(known().entries["faults"].values(), key=lambda gate: (list(ACTIONS).index(gate["action"]), gate.name))


def _remedy(gate: Entry) -> str:
    return gate["remedy"].removeprefix("nothing to do; ")


def _told(gate: Entry) -> tuple[str, str, str]:
    return f"[{gate.name}]({gate['thread']})", gate["summary"], where(gate)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


PHRASES = {
    "spans_nodes": ("replicas on one node", "replicas over several nodes"),
    "serves": ("engines without an HTTP port", "engines with an HTTP port"),
    "experts": ("without expert parallelism", "with expert parallelism"),
    "data_parallel": ("without data parallelism", "with data parallelism"),
    "tensor_spans_nodes": ("tensor parallelism inside a node", "tensor parallelism over several nodes"),
}


def where(gate: Entry) -> str:
    """A gate's `when` and `given` in words."""
    given = gate.get("given") or []
    ways = [
        " and ".join(_given(name, wanted) for name, wanted in one.items())
        for one in (given if isinstance(given, list) else [given])
    ]
    return "; ".join([*_conditions(gate.get("when") or {}), *([", or ".join(ways)] if ways else [])])


def _conditions(when: Mapping) -> Iterator[str]:
    for key, wanted in when.items():
        if key in PHRASES:
            yield PHRASES[key][wanted]
        elif key == "version":
            yield "vLLM " + " ".join(f"{bound} {version}" for bound, version in wanted.items())
        elif isinstance(wanted, dict):
            yield f"{key} not {_any(wanted['not'])}"
        else:
            yield f"{key} {_any(wanted)}"


def _given(name: str, wanted: object) -> str:
    if wanted is None:
        return f"without `{name}`"
    if isinstance(wanted, dict):
        word, what = next(iter(wanted.items()))
        return f"`{name}` above {what:,}" if word == "above" else f"`{name}` with {_any(what)} in it"
    return f"with `{name}`" if wanted is True else f"`{name}` {_any(wanted)}"


def _any(wanted: object) -> str:
    """Null in a list means that a flag may also be left out."""
    every = wanted if isinstance(wanted, list) else [wanted]
    return " or ".join("unset" if one is None else str(one) for one in every)


def features() -> Iterator[str]:
    yield "| feature | what it gives | only for | not with |"
    yield "|---|---|---|---|"
    for feature in known().entries["features"].values():
        only = "; ".join(_conditions(feature.get("only") or {}))
        yield _row((f"`{feature.name}`", feature["summary"], only, ", ".join(feature.get("excludes") or ())))


def checkpoint(*variables: str) -> Iterator[str]:
    """Lines of a site.yml, NAME=VALUE without blanks, and the plan's picture of who brings the checkpoint."""
    site, nodes, groups = example.declared(known(), "multi_node_dep", "b200")
    values = dict(word.split("=", 1) for word in variables)
    nodes["service-01"] = {"fabric_address": "10.0.0.200"}
    site |= {"checkpoint_manifest_file": "/example"} | {name: yaml.safe_load(text) for name, text in values.items()}
    found = plan(site, nodes, groups, known())
    if found["refusals"]:
        raise ValueError(f"{' '.join(variables)} is refused: {found['refusals']}")
    yield "```"
    yield from (f"{name}: {_flow(site[name])}" for name in values)
    yield from ("", *drawing.checkpoint_lines(found["checkpoint"]), "```")


def _flow(value: object) -> str:
    """YAML on one line."""
    return yaml.safe_dump(value, default_flow_style=True, width=1000, sort_keys=False).removesuffix("...\n").strip()


def run(site: str, *variables: str) -> Iterator[str]:
    """A command line and what it prints: the plan, or why it is refused. `variables` are NAME=VALUE, the value YAML."""
    values = {name: yaml.safe_load(value) for name, _, value in (word.partition("=") for word in variables)}
    extra = ["-e", json.dumps(values)] if values else []
    command = ["ansible-playbook", "playbooks/plan.yml", "-i", f"inventories/{site}", *extra]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "ANSIBLE_HOME": str(ROOT / ".cache/ansible"), "NO_COLOR": "1"}
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "plan.txt"
        words = [*command, "-e", f"plan_output={output}"]
        done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        refused = REFUSAL.search(done.stdout + done.stderr)
        if not (refused or output.exists()):
            raise ValueError(f"{shlex.join(command)} has neither a plan nor a refusal: {done.stderr[-500:]}")
        told = refused[0] if refused else output.read_text(encoding="utf-8")
    yield from ("```", shlex.join(command), "", told.strip("\n"), "```")


PARTS = {
    "run": run,
    "checkpoint": checkpoint,
    "picture": picture,
    "hardware": hardware_table,
    "commands": commands,
    "gates": gate_table,
    "all_gates": all_gates,
    "memory": memory,
    "features": features,
}


def document(current: str, name: str) -> str:
    """A document with each of its parts up to date."""
    parts, place = [], 0
    for begin in BEGIN.finditer(current):
        part, *arguments = begin["words"].split()
        end = current.find(END, begin.end())
        if end < 0 or part not in PARTS:
            raise ValueError(f"{name}: {begin[0].strip()} needs {END} after it and one of {', '.join(PARTS)} in it")
        lines = "\n".join(PARTS[part](*arguments)).strip("\n")
        parts.append(f"{current[place : begin.end()]}\n{lines}\n\n")
        place = end
    return "".join([*parts, current[place:]])


def wanted(root: Path) -> dict[Path, str]:
    """Every document below root that has parts, with the text that it should hold."""
    pages = [root / "README.md", *sorted(root.glob("docs/**/*.md"))]
    texts = {page: page.read_text(encoding="utf-8") for page in pages if page.exists()}
    return {page: document(old, str(page.relative_to(root))) for page, old in texts.items() if BEGIN.search(old)}


def difference(root: Path) -> str:
    """What writing would change, as a unified diff."""
    parts = []
    for page, new in wanted(root).items():
        name, texts = str(page.relative_to(root)), (page.read_text(encoding="utf-8"), new)
        lines = [each.splitlines(keepends=True) for each in texts]
        parts += difflib.unified_diff(*lines, name, f"{name} (from the catalogue)")
    return "".join(parts)


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Write the documents, or with --check only compare them; return 1 if they differ or cannot be written."""
    try:
        if "--check" in arguments:
            found = difference(root)
            print(found, end="")
            return int(bool(found))
        for page, new in wanted(root).items():
            page.write_text(new, encoding="utf-8")
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
