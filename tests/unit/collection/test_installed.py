"""The installed collection works from any folder, and holds what its users need and no more."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.unit.collection.conftest import Run

LIMA = ROOT / "inventories/lima"
HEADER = (
    "# Copyright (c) 2026 the sovereign.kimi_k3 authors",
    "# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)",
    "# SPDX-License-Identifier: GPL-3.0-or-later",
)


def names(folder: str, pattern: str) -> list[str]:
    return sorted(path.stem for path in (ROOT / folder).glob(pattern) if path.stem != "__init__")


def test_plan_by_full_name_works_from_an_empty_folder(run: Run, collections: Path) -> None:
    done = run("ansible-playbook", "sovereign.kimi_k3.plan", "-i", LIMA, ANSIBLE_COLLECTIONS_PATH=collections)
    assert "lima" in done.stdout


@pytest.mark.parametrize("playbook", names("playbooks", "*.yml"))
def test_playbook_is_found_by_its_full_name_and_well_formed(run: Run, collections: Path, playbook: str) -> None:
    name = f"sovereign.kimi_k3.{playbook}"
    run("ansible-playbook", "--syntax-check", name, "-i", LIMA, ANSIBLE_COLLECTIONS_PATH=collections)


@pytest.mark.parametrize("kind", ["callback", "filter", "lookup", "module"])
def test_every_plugin_has_documentation_that_ansible_doc_reads(run: Run, collections: Path, kind: str) -> None:
    doc = ("ansible-doc", "--json", "--type", kind)
    plugins = json.loads(run(*doc, "--list", "sovereign.kimi_k3", ANSIBLE_COLLECTIONS_PATH=collections).stdout)
    assert "UNDOCUMENTED" not in plugins.values()
    if plugins:
        run(*doc, *plugins, ANSIBLE_COLLECTIONS_PATH=collections)


def test_every_action_has_a_module_that_documents_it() -> None:
    assert set(names("plugins/action", "*.py")) <= set(names("plugins/modules", "*.py"))


@pytest.mark.parametrize("path", sorted((ROOT / "plugins").rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_plugin_file_begins_with_the_licence(path: Path) -> None:
    if text := path.read_text():
        assert tuple(text.removeprefix("#!/usr/bin/python\n").splitlines()[:3]) == HEADER


@pytest.mark.parametrize("role", names("roles", "*"))
@pytest.mark.parametrize("file", ["README.md", "meta/argument_specs.yml"])
def test_every_role_describes_itself(role: str, file: str) -> None:
    assert (ROOT / "roles" / role / file).exists()


WANTED = {"LICENSE", "README.md", "requirements.txt", "meta/runtime.yml", "inventories/lima/hosts.yml"}
UNWANTED = ("tests/", "molecule/", "rehearsal/", "tools/", "inventories/airgap/", "inventories/rehearsal/", ".")


def test_tarball_holds_what_deploys_a_site_and_nothing_else(tarball: Path) -> None:
    with tarfile.open(tarball) as archive:
        held = set(archive.getnames())
    assert held >= WANTED
    assert not [name for name in held if name.startswith(UNWANTED) or "__pycache__" in name]
