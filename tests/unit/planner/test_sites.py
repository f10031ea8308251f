"""Whole inventories: sound ones that become a plan, and broken ones with what the plan must say of them."""

from __future__ import annotations

import subprocess

import pytest
import yaml
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner import catalogue

from tests.unit.planner.samples import LIMA, ROOT, SITES, engines, lima, read, site

BROKEN = SITES / "broken"
EXPECTED = yaml.safe_load((BROKEN / "expected.yml").read_text(encoding="utf-8"))
SOUND = sorted(path.parent for path in SITES.glob("*/site.yml"))


@pytest.mark.parametrize("folder", [LIMA, *SOUND], ids=lambda path: path.name)
def test_a_sound_site_has_a_plan(folder):
    result = read(folder).plan(catalogue.load(folder))
    assert result["refusals"] == []
    assert result["digest"]


@pytest.mark.parametrize("name", EXPECTED)
def test_a_broken_site_is_refused_at_its_place_with_a_remedy(name):
    result = read(BROKEN / name).plan(catalogue.load(BROKEN / name))
    told = [f"{f['limit']} {f['remedy']}" for f in result["refusals"] if f["where"] == EXPECTED[name]["where"]]
    assert any(EXPECTED[name]["words"] in line for line in told), result["refusals"]
    assert result["digest"] is None


def test_every_broken_site_says_what_is_expected_of_it():
    assert {path.name for path in BROKEN.iterdir() if path.is_dir()} == set(EXPECTED)


def sizes(result: dict) -> list[tuple[str, int]]:
    return [(replica["parallel"], len(replica["nodes"])) for replica in result["replicas"]]


def test_lima_reads_prompts_on_two_replicas_of_one_node_and_writes_on_three_of_two():
    result = lima().plan()
    assert sizes(result) == [("TEP8", 1)] * 2 + [("DEP16", 2)] * 3
    assert [replica["pool"] for replica in result["replicas"]] == ["prefill"] * 2 + ["decode"] * 3
    assert [gate["action"] for gate in result["gates"] if gate["id"] == "vllm-52627"] == ["prove"]


def test_bogotas_rack_is_three_replicas_of_two_trays_and_three_of_four():
    result = site("bogota").plan()
    assert sizes(result) == [("TEP8", 2)] * 3 + [("DEP16", 4)] * 3
    assert result["spare"] == []


def test_one_variable_makes_bogota_four_replicas_of_one_pool_with_two_trays_spare():
    result = site("bogota").with_site(serving_profile="multi_node_dep").plan()
    assert sizes(result) == [("DEP16", 4)] * 4
    assert result["spare"] == ["tray-17", "tray-18"]
    assert "tray-17, tray-18" in [fault["value"] for fault in result["warnings"]]


def test_ipv6_addresses_are_bare_in_flags_and_in_brackets_in_urls():
    result = site("arequipa").plan()
    head = engines(result)["unified-0-rank-0"]
    assert head["endpoint"] == "http://[fd00:30::11]:8000"
    assert head["argv"][head["argv"].index("--master-addr") + 1] == "fd00:30::11"
    assert "http://[fd00:30::13]:8000" in result["router"]["argv"]


@pytest.mark.parametrize(("name", "folder"), [("lima", "inventories/lima"), ("bogota", "tests/sites/bogota")])
def test_make_finds_a_site_by_its_name(name, folder):
    done = subprocess.run(["make", "-n", "plan", f"SITE={name}"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert f"-i '{folder}'" in done.stdout
