"""Models of which the catalogue does not know all: what a site hears, and what it declares."""

from __future__ import annotations

import pytest
import yaml
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner import catalogue, unknown

from tests.unit.planner.samples import builtin, cell

DATED = {"source": "our own hub, 2026-12-01", "date": "2026-12-01"}
DECLARED = {
    "repo": "moonshotai/Kimi-K3.1-Pro",
    "licence": {"name": "the licence that came with it", "text": "Read it."},
    "commits": [{"commit": "1" * 40, "note": "as it came"}],
    "files": 120,
    "bytes": 1600000000000,
    "minimum_engine_version": "0.33.0",
}
SHAPES = {
    "layers": 93,
    "attention_heads": 96,
    "experts": 896,
    "expert_width": 3072,
    "kv_layers": 24,
    "kv_width": 576,
    "max_model_len": 1048576,
    "state_bytes": 459527946,
}
PARTS = [{"part": "experts", "bytes": 1500000000000, "split": "experts"}]


def declaring(directory, model: str, **facts) -> catalogue.Catalogue:
    """The catalogue with a site's own file of a model laid over it."""
    file = directory / f"catalogue/models/{model}.yml"
    file.parent.mkdir(parents=True)
    file.write_text(yaml.safe_dump({**DATED, **facts}), encoding="utf-8")
    return catalogue.load(directory)


def served(model: str, hardware: str = "b300", profile: str = "single_node_tp", version: str = "0.33.0"):
    return cell(hardware, profile, version=version, serving_model=model, serving_model_revision="1" * 40)


def test_a_model_of_which_nothing_is_published_is_refused_fact_by_fact():
    faults = served("kimi-k3.1-pro").plan()["refusals"]
    assert {fault["where"] for fault in faults} == {"serving_model"}
    told = [f"{fault['limit']} {fault['remedy']}" for fault in faults]
    for key in builtin().find("models", "kimi-k3.1-pro")["unknown"]:
        assert [line for line in told if f"a plan needs {key} of the model" in line and f"write {key}: " in line]
    assert all("catalogue/models/kimi-k3.1-pro.yml" in line for line in told)


def test_facts_that_a_site_declares_are_not_asked_for_again(tmp_path):
    known = declaring(tmp_path, "kimi-k3.1-pro", **DECLARED)
    assert unknown.missing(known.find("models", "kimi-k3.1-pro")) == ["shapes", "composition"]


def test_facts_in_a_file_that_is_wrong_are_not_asked_for_beside_what_is_wrong(tmp_path):
    known = declaring(tmp_path, "kimi-k3.1-pro", **DECLARED, shapes={"layers": 93}, composition=PARTS)
    assert {fault["where"] for fault in served("kimi-k3.1-pro").plan(known)["refusals"]} == {
        "site catalogue/models/kimi-k3.1-pro.yml: $.shapes"
    }


def test_a_model_of_which_a_site_declares_all_is_planned_and_counted(tmp_path):
    known = declaring(tmp_path, "kimi-k3.1-pro", **DECLARED, shapes=SHAPES, composition=PARTS)
    result = served("kimi-k3.1-pro").plan(known)
    assert result["refusals"] == []
    assert result["model"]["repo"] == "moonshotai/Kimi-K3.1-Pro"
    assert result["replicas"][0]["memory"]["weights_gib"] == pytest.approx(174.62)


def test_a_declared_oldest_version_of_the_engine_is_kept_to(tmp_path):
    known = declaring(tmp_path, "kimi-k3.1-pro", **DECLARED, shapes=SHAPES, composition=PARTS)
    [fault] = served("kimi-k3.1-pro", version="0.32.0").plan(known)["refusals"]
    assert fault["limit"] == "kimi-k3.1-pro needs version 0.33.0 or newer"


def test_parts_without_what_memory_is_counted_by_are_refused(tmp_path):
    shapes = {"layers": 93, "attention_heads": 96}
    known = declaring(tmp_path, "kimi-k3.1-pro", **DECLARED, shapes=shapes, composition=PARTS)
    told = [fault.limit for fault in known.faults]
    assert "'state_bytes' is a required property" in told


def test_a_null_that_nothing_asks_for_is_refused(tmp_path):
    known = declaring(tmp_path, "kimi-k3", licence=None)
    assert [fault.limit for fault in known.faults] == ["'unknown' is a required property"]


def test_memory_that_is_not_counted_is_one_warning_for_all_replicas(tmp_path):
    known = declaring(tmp_path, "kimi-k3-nvfp4", bytes=1645900000000)
    result = served("kimi-k3-nvfp4", "gb300", "pd_cluster").plan(known)
    [fault] = [fault for fault in result["warnings"] if "was not counted" in fault["limit"]]
    assert fault["limit"].startswith("memory of gb300 was not counted")
    assert "does not know composition of kimi-k3-nvfp4" in fault["limit"]
    assert "catalogue/models/kimi-k3-nvfp4.yml" in fault["remedy"]
