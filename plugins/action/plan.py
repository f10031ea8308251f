# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Computes the plan on the controller, from the variables of every host of the inventory."""

from __future__ import annotations

import json
import os
from pathlib import Path

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.inventory.manager import IGNORED
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.plugins.action import ActionBase
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner import catalogue, inventory, text
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.plan import plan
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.values import Unresolved, plain


class ActionModule(ActionBase):
    """See plugins/modules/plan.py for the arguments and the result."""

    BYPASS_HOST_LOOP = True
    _requires_connection = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp=None, task_vars=None):
        _validation, arguments = self.validate_argument_spec(
            {
                "show": {"choices": ["full", "summary", "nothing"], "default": "full"},
                "format": {"choices": ["text", "json"], "default": "text"},
                "output": {"type": "path"},
                "for_deploy": {"type": "bool", "default": False},
                "for_serve": {"type": "bool", "default": False},
                "explain": {"type": "str"},
            }
        )
        result = {**super().run(tmp, task_vars), "changed": False}
        content = self._plan(task_vars)
        late = [key for key in ("deploy", "serve") if arguments[f"for_{key}"]]
        refusals = content["refusals"] + [fault for key in late for fault in content[f"{key}_refusals"]]
        if arguments["explain"] and not content["refusals"]:
            self._print(text.explain(content, arguments["explain"]), arguments["output"])
        elif arguments["format"] == "json":
            self._print(json.dumps(content, indent=2, ensure_ascii=False), arguments["output"])
        elif arguments["show"] != "nothing" and not refusals:
            self._print(text.render(content, full=arguments["show"] == "full"), arguments["output"])
        if refusals:
            return {**result, "failed": True, "msg": text.refusals(refusals, content["warnings"])}
        # Ansible takes a result's `warnings` for its own; the text and the JSON have the plan's.
        return {**result, **{key: value for key, value in content.items() if key != "warnings"}}

    def _print(self, lines: str, file: str | None) -> None:
        if not file:
            self._display.display(lines)
            return
        try:
            Path(file).write_text(f"{lines}\n", encoding="utf-8")
        except OSError as error:
            raise AnsibleActionFail(f"plan_output {file}: {error.strerror}; name a file that can be written") from None

    def _plan(self, task_vars: dict) -> dict:
        roles = inventory.role_options(Path(__file__).parents[2] / "roles")
        hosts = self._host_variables(task_vars, {name for options in roles.values() for name in options})
        site, nodes, faults = inventory.split(hosts)
        faults += inventory.option_faults(roles, hosts, validate)
        given = task_vars.get("inventory_dir")  # with -i name, there is none
        directory = Path(given) if given and Path(given).is_dir() else None
        faults += inventory.repeated_faults(texts(directory)) if directory else []
        return plan(
            site,
            nodes,
            plain(task_vars["groups"]),
            catalogue.load(directory),
            roles,
            faults,
        )

    def _host_variables(self, task_vars: dict, roles: set[str]) -> dict[str, dict]:
        """Every host's variables by name; values only of those that the planner or a role reads."""
        wanted = roles | inventory.SITE_VARIABLES | inventory.NODE_VARIABLES | inventory.CONNECTION_VARIABLES
        hosts = {}
        for host in task_vars["groups"]["all"]:
            variables = task_vars["hostvars"][host]
            hosts[host] = {name: resolve(variables, name) if name in wanted else None for name in variables}
        return hosts


def validate(name: str, option: dict, value: object) -> tuple[object, list[str]]:
    """The value as Ansible converts it to what a role's spec says, and what is wrong with it."""
    spec = {key: option[key] for key in ("type", "elements", "choices", "options") if key in option}
    result = ArgumentSpecValidator({name: spec}).validate({name: value})
    return result.validated_parameters[name], result.error_messages


def texts(directory: Path) -> dict[str, str]:
    """{name: text} of the files that Ansible reads as the inventory; the rehearsal's own may repeat the site's."""
    folders = [directory / name for name in ("group_vars", "host_vars")]
    files = [*directory.iterdir(), *(path for folder in folders for path in folder.rglob("*"))]
    return {
        str(path.relative_to(directory)): path.read_text(encoding="utf-8", errors="replace")
        for path in files
        if path.is_file() and path.name != "simulated.yml" and not IGNORED.search(os.fsencode(path.name))
    }


def resolve(variables, name: str):
    """The value of a variable, or why its template has none."""
    try:
        return plain(variables[name])
    except AnsibleError as error:
        return Unresolved(str(error))
