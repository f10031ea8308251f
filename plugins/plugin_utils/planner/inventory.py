# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sorts what an inventory says into the site's variables and the nodes', and finds misspelt names."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import yaml
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner import nodes, site
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.faults import (
    Fault,
    edit_distance,
    known,
    natural,
    several,
)
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.values import WORDS, Unresolved, quoting

SITE_VARIABLES = frozenset(site.VARIABLES)
NODE_VARIABLES = frozenset(nodes.VARIABLES)
# How Ansible reaches a host; two hosts at one place are one host.
CONNECTION_VARIABLES = frozenset({"ansible_host", "ansible_port"})
PREFIXES = frozenset({"site_", "serving_", "fabric_", "checkpoint_", "licence_", "gpu_"})
# A key of YAML or JSON, on its own line or in braces; what is commented out is none.
KEY = re.compile(r"""(?:^|[{,])[ \t]*["']?(\w+)["']?[ \t]*:(?=\s|$)""", re.MULTILINE)
# Types of an argument spec, and what a value looks like.
OPTION_TYPES = {"str": str, "int": int, "bool": bool, "list": list, "dict": dict}
OPTION_EXAMPLES = {"str": '"text"', "int": "1", "bool": "true", "list": "[...]", "dict": "{...}"}
OPTIONAL_GROUPS = ("spare_nodes",)
MISSPELT = 2  # edits that still count as a slip of the same name


def split(hosts: Mapping[str, Mapping]) -> tuple[dict, dict[str, dict], list[Fault]]:
    """From the variables of every host: the site's, each host's others, and the faults of the split.

    A site has one value for each of its variables, on whichever hosts it stands.
    """
    shared: dict = {}
    faults = []
    for name in sorted(SITE_VARIABLES & set().union(*hosts.values())):
        values = {host: hosts[host][name] for host in sorted(hosts, key=natural) if name in hosts[host]}
        shared[name] = _most_common(values.values())
        faults += _odd_ones(name, values, shared[name], hosts)
    own = {
        host: {name: value for name, value in values.items() if name not in SITE_VARIABLES}
        for host, values in hosts.items()
    }
    return shared, own, faults


def _most_common(values: Iterable) -> object:
    """The value that most hosts have, the first of them where several do."""
    values = list(values)
    return max(values, key=values.count)


def _odd_ones(name: str, values: Mapping, shared: object, hosts: Mapping[str, Mapping]) -> Iterator[Fault]:
    """The hosts that do not say what the others say of the site: few that say it, or few that do not."""
    remedy = "declare it once, under all in site.yml"
    for host, value in values.items():
        if value != shared:
            yield Fault(name, value, f"one site, one value; other hosts say {shared!r}", remedy, node=host)
    silent = [host for host in sorted(hosts, key=natural) if host not in values]
    if len(silent) >= len(values):
        for host in (host for host, value in values.items() if value == shared):
            yield Fault(name, shared, f"one site, one value; there is none on {several(silent)}", remedy, node=host)
    else:
        for host in silent:
            yield Fault(name, None, f"one site, one value; other hosts say {shared!r}", remedy, node=host)


def repeated_faults(texts: Mapping[str, str]) -> Iterator[Fault]:
    """Site variables that more than one file of the inventory's folder has as a key; `texts` is {file: its text}."""
    found: dict[str, list[str]] = {}
    for file, text in sorted(texts.items()):
        for name in sorted(SITE_VARIABLES.intersection(KEY.findall(text))):
            found.setdefault(name, []).append(file)
    for name, files in found.items():
        if len(files) > 1:
            limit = "Ansible reads every file of this folder, and the last one wins"
            remedy = "keep it in site.yml, and move a copy away or let its name end in .bak"
            yield Fault(name, f"in {known(files)}", limit, remedy)


def role_options(directory: Path) -> dict[str, dict[str, dict]]:
    """{role: {public variable: its spec}}, from the argument specs under `directory`."""
    found = {}
    for path in sorted(directory.glob("*/meta/argument_specs.yml")):
        specs = (yaml.safe_load(path.read_text(encoding="utf-8")) or {}).get("argument_specs", {})
        found[path.parts[-3]] = {name: o for spec in specs.values() for name, o in (spec.get("options") or {}).items()}
    return found


def option_faults(
    roles: Mapping[str, Mapping[str, Mapping]],
    hosts: Mapping[str, Mapping],
    validate: Callable[[str, Mapping, object], tuple[object, list[str]]],
) -> Iterator[Fault]:
    """Variables of the roles whose values their specs do not allow as they stand.

    `validate` gives (the value as the spec converts it, what is wrong with it). Text for a number or for true and
    false will do, as `-e name=value` gives it; any other conversion is a fault, because a role reads the variable
    itself and not what the spec made of it.
    """
    options = {name: option for specs in roles.values() for name, option in specs.items() if name not in SITE_VARIABLES}
    for host in sorted(hosts, key=natural):
        for name in sorted(options.keys() & hosts[host].keys()):
            value, option = hosts[host][name], options[name]
            if isinstance(value, Unresolved):  # it may need what only a host can tell
                continue
            converted, errors = validate(name, option, value)
            as_text = isinstance(value, str) and _type(option) in (bool, int)
            sound = type(value) is _type(option) and repr(converted) == repr(value)
            if errors or not (sound or as_text):
                yield Fault(
                    name,
                    "" if value is None else value,
                    _allowed(option, value),
                    f"write {name}: {_example(option)}",
                    node=host,
                )


def _type(option: Mapping) -> type:
    return OPTION_TYPES[option.get("type", "str")]


def _allowed(option: Mapping, value: object) -> str:
    choices = f", one of {', '.join(option['choices'])}" if "choices" in option else ""
    elements = f" whose items are each {WORDS[OPTION_TYPES[option['elements']]]}" if "elements" in option else ""
    slip = quoting(_type(option), value)
    return f"must be {WORDS[_type(option)]}{elements}{choices}{slip}"


def _example(option: Mapping) -> str:
    """Its default where that shows something, else one of its type."""
    kind = option.get("type", "str")
    return json.dumps(option["default"]) if option.get("default") else OPTION_EXAMPLES[kind]


class Spelling:
    """Judges variable names against those that the site, the nodes and the roles know."""

    def __init__(self, roles: Mapping[str, Iterable[str]]) -> None:
        self.known = SITE_VARIABLES | NODE_VARIABLES | {name for names in roles.values() for name in names}
        self.prefixes = tuple(PREFIXES | {f"{role}_" for role in roles})

    def meant(self, name: str) -> str | None:
        """The known name that `name` is a slip of, if there is one."""
        near = ((edit_distance(name, other, MISSPELT), other) for other in sorted(self.known))
        distance, other = min(near)
        return other if 0 < distance <= MISSPELT else None

    def judge(self, hosts: Mapping[str, Mapping]) -> tuple[list[Fault], list[Fault]]:
        """(refusals, warnings) for the names in use, each name once."""
        refusals, warnings = [], []
        for name, carriers in sorted(self._strangers(hosts).items()):
            node = carriers[0] if len(carriers) == 1 else ""
            value = f"on {several(carriers)}"
            other = self.meant(name)
            if other:
                refusals.append(Fault(name, value, "no such variable", f"write {other}", node=node))
            elif name.startswith(self.prefixes):
                remedy = "remove it, or correct its name"
                warnings.append(Fault(name, value, "nothing reads this variable", remedy, node=node))
        return refusals, warnings

    def _strangers(self, hosts: Mapping[str, Mapping]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for host in sorted(hosts, key=natural):
            for name in hosts[host]:
                if not is_ansibles(name) and name not in self.known:
                    found.setdefault(name, []).append(host)
        return found


MAGIC = frozenset({
    "environment", "group_names", "groups", "hostvars", "omit", "play_hosts", "playbook_dir",
    "role_name", "role_names", "role_path", "vars",
})  # fmt: skip


def is_ansibles(name: str) -> bool:
    """Magic, connection and private variables are not the site's to spell."""
    return name in MAGIC or name.startswith(("ansible_", "inventory_", "molecule_", "_"))


def unread_fault(site: Mapping, hosts: Mapping[str, Mapping]) -> Fault | None:
    """Why nothing else is worth saying: Ansible read no host, or nothing of the site."""
    if not hosts:
        remedy = "give the site's folder, with hosts.yml in it: -i inventories/<site>"
        return Fault("hosts", None, "no host was found", remedy)
    if not site:
        remedy = "give the site's folder with -i, not a file of it; its site.yml has them under `all: vars:`"
        return Fault("site variables", None, "no host has one", remedy)
    return None


def group_faults(groups: Mapping[str, list], required: Mapping[str, str]) -> Iterator[Fault]:
    """`required` is {group: what it is for}; spare_nodes may be missing, but not be misspelt."""
    for group in (*required, *OPTIONAL_GROUPS):
        near = [] if group in groups else _near_misses(group, groups, required)
        for other in near:
            yield Fault(other, f"group of {several(groups[other])}", "no such group", f"write {group}")
        if group in groups and group in required and not groups[group]:
            purpose = required[group]
            yield Fault(group, [], f"the group needs a host: {purpose}", f"put a host into {group} in hosts.yml")
        elif group not in groups and group in required and not near:
            purpose = required[group]
            yield Fault(group, None, f"the inventory needs this group: {purpose}", f"add {group} to hosts.yml")


def _near_misses(group: str, groups: Mapping[str, list], required: Mapping[str, str]) -> list[str]:
    strangers = sorted(groups.keys() - required.keys() - {"all", "ungrouped", *OPTIONAL_GROUPS})
    return [name for name in strangers if edit_distance(name.lower(), group, MISSPELT) <= MISSPELT]
