"""The catalogue: whole, readable, and a site's to lay its own over."""

from __future__ import annotations

import json

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner import catalogue

from tests.unit.planner.samples import ROOT, cell, cusco, engines

MANUAL = ROOT / "docs/en/catalogue.md"
DATED = "source: our bench\ndate: 2026-12-01\n"


def overlay(directory, kind: str, name: str, content: str) -> catalogue.Catalogue:
    file = directory / "catalogue" / kind / f"{name}.yml"
    file.parent.mkdir(parents=True)
    file.write_text(content, encoding="utf-8")
    return catalogue.load(directory)


def test_the_collections_own_catalogue_has_no_fault():
    assert catalogue.load().faults == ()


@pytest.mark.parametrize("kind", catalogue.KINDS)
def test_every_file_of_the_catalogue_is_an_entry(kind):
    files = (catalogue.builtin_directory() / kind).glob("*.yml")
    assert sorted(path.stem for path in files) == catalogue.load().names(kind) != []


@pytest.mark.parametrize("kind", catalogue.KINDS)
def test_every_key_of_a_kind_stands_in_the_manual(kind):
    rows = [line.split("|")[1:3] for line in MANUAL.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    told = {
        word for folders, keys in rows if f"`{kind}`" in folders or "all" in folders for word in keys.split("`")[1::2]
    }
    schema = json.loads((catalogue.builtin_directory() / f"schema/{kind}.json").read_text(encoding="utf-8"))
    assert schema["properties"].keys() <= told


def test_a_new_file_of_a_site_adds_an_entry(tmp_path):
    content = f"name: ours\n{DATED}summary: ours\nsettings: [{{env: {{NCCL_DEBUG: WARN}}, when: {{fabric: [ours]}}}}]\n"
    known = overlay(tmp_path, "fabrics", "ours", content)
    engine = engines(cusco().with_site(fabric_kind="ours").plan(known))["unified-0-rank-0"]
    assert engine["env"]["NCCL_DEBUG"] == "WARN"
    told = engine["provenance"]["env:NCCL_DEBUG"]
    assert (told["layer"], told["source"]) == (
        "fabric",
        "site catalogue/fabrics/ours.yml (our bench, 2026-12-01): ours",
    )


def test_a_file_of_a_site_replaces_the_keys_that_it_states(tmp_path):
    known = overlay(tmp_path, "hardware", "b300", f"{DATED}gpu_memory_gib: 200\n")
    entry = known.find("hardware", "b300")
    assert (entry["gpu_memory_gib"], entry["gpus_per_node"]) == (200, 8)


@pytest.mark.parametrize(
    ("kind", "content", "words"),
    [
        ("hardware", "settings: [{flags: {--port: 9999}}]", "the plan computes it"),
        ("features", "summary: x\nsettings: [{flags: {--api-key: sk-1}}]", "holds no secret"),
        ("hardware", "layouts: {multi_node_tpe: {unified: {nodes: 2}}}", "did you mean multi_node_tp?"),
        ("hardware", "layouts: {multi_node_tp: {prefill: {nodes: 2}}}", "multi_node_tp has no such pool"),
        ("features", "summary: x\nexcludes: [dspakr]\nsettings: []", "did you mean dspark?"),
    ],
)
def test_a_file_of_a_site_sets_nothing_that_is_the_plans_and_refers_to_nothing_that_is_not_there(
    tmp_path, kind, content, words
):
    name = "b300" if kind == "hardware" else "ours"
    named = "" if kind == "hardware" else "name: ours\n"
    known = overlay(tmp_path, kind, name, f"{named}source: ours\ndate: 2026-12-01\n{content}\n")
    assert any(words in f"{fault.limit} {fault.remedy}" for fault in known.faults), known.faults


def test_a_fabric_of_ones_own_is_under_the_gates_of_all_that_are_not_nvlink(tmp_path):
    known = overlay(tmp_path, "fabrics", "ours", "name: ours\nsource: x\ndate: 2026-12-01\nsummary: x\nsettings: []\n")
    held = cell("b300", "multi_node_tp", fabric="ours").plan(known)["gates"]
    assert "vllm-51986" in [gate["id"] for gate in held]


def test_a_file_of_a_site_changes_one_key_inside_another(tmp_path):
    stated = "source: ours\ndate: 2026-12-01\npools: {decode: {ports: {http: 9002}}}\n"
    known = overlay(tmp_path, "profiles", "pd_cluster", stated)
    pools = known.find("profiles", "pd_cluster")["pools"]
    assert (pools["decode"]["ports"]["http"], pools["decode"]["ports"]["side_channel"]) == (9002, 5558)
    assert pools["prefill"]["ports"]["http"] == 8001


@pytest.mark.parametrize(
    ("kind", "name", "content", "words"),
    [
        ("hardware", "b300", "gpus_per_node: 8\n", "every entry says its source"),
        ("hardware", "b300", f"{DATED}gpus_per_node: eight\n", "'eight' is not of type 'integer'"),
        ("hardware", "b300", f"{DATED}gpus: 8\n", "Additional properties are not allowed"),
        ("hardware", "b300", "name: [\n", "must be YAML"),
        ("hardware", "b300", "- 1\n", "must be a mapping"),
        ("engines", "vllm", f"{DATED}minimum_version: x\n", "does not match"),
        ("fabrics", "roce", f"{DATED}name: rocky\n", "must be the file's name, roce"),
        ("fabrics", "roce", f"{DATED}settings: [{{env: {{A: $colour}}}}]\n", "settings may refer to"),
        ("fabrics", "roce", f"{DATED}settings: [{{env: {{A: 5 $ a day}}}}]\n", "or $$ for a plain $"),
        ("fabrics", "roce", f"{DATED}settings: [{{when: {{weather: dry}}}}]\n", "'weather' is not one of"),
        (
            "fabrics",
            "roce",
            f"{DATED}settings: [{{when: {{role: boss}}}}]\n",
            "'boss' is not one of ['head', 'worker']",
        ),
        ("fabrics", "roce", f"{DATED}settings: [{{when: {{role: [head, boss]}}}}]\n", "'boss' is not one of"),
        ("fabrics", "roce", f"{DATED}settings: [{{when: {{spans_nodes: 'yes'}}}}]\n", "not of type 'boolean'"),
        ("fabrics", "roce", f"{DATED}settings: [{{when: {{accelerator: gpu}}}}]\n", "'gpu' is not one of"),
        ("fabrics", "roce", f"{DATED}settings: [{{when: {{pool: all}}}}]\n", "'all' is not one of"),
        ("fabrics", "roce", f"{DATED}settings: [{{when: {{pool: []}}}}]\n", "[] should be non-empty"),
        ("fabrics", "roce", f"{DATED}settings: [{{when: {{hardware: b30}}}}]\n", "did you mean b300?"),
        ("fabrics", "roce", f"{DATED}settings: [{{when: {{fabric: [roce, ethernt]}}}}]\n", "did you mean ethernet?"),
        ("fabrics", "roce", f"{DATED}settings: [{{when: {{profile: multi_node}}}}]\n", "did you mean multi_node_tp?"),
        ("fabrics", "roce", f"{DATED}settings: [{{when: {{model: k3}}}}]\n", "write one of: kimi-k3, kimi-k3-"),
        ("fabrics", "roce", f"{DATED}settings: [{{when: {{generation: ampere}}}}]\n", "write one of: blackwell, cdna4"),
    ],
)
def test_a_bad_file_of_a_site_is_refused_by_name(tmp_path, kind, name, content, words):
    refusals = cusco().plan(overlay(tmp_path, kind, name, content))["refusals"]
    told = [f"{fault['where']} {fault['limit']} {fault['remedy']}" for fault in refusals]
    assert any(f"site catalogue/{kind}/{name}.yml" in line and words in line for line in told), told


@pytest.mark.parametrize(
    ("ports", "words"),
    [("{http: 40000}", "outside 32768-60999"), ("{http: 7655}", "keeper listens there already")],
)
def test_ports_that_cannot_be_kept_are_refused(tmp_path, ports, words):
    parallel = "parallel: {tensor: replica, rest: none, experts: false, serves: head}"
    shape = f"group: gpu_nodes, nodes_per_replica: {{minimum: 1, maximum: 1}}, {parallel}, ports: {ports}"
    pools = f"pools: {{unified: {{{shape}}}}}\n"
    refusals = cusco().plan(overlay(tmp_path, "profiles", "single_node_tp", DATED + pools))["refusals"]
    assert len(refusals) == 8
    assert words in refusals[0]["limit"]


def test_a_port_that_a_setting_needs_must_be_declared(tmp_path):
    settings = "settings: [{flags: {--master-port: $master_port}}]\n"
    refusals = cusco().plan(overlay(tmp_path, "profiles", "single_node_tp", DATED + settings))["refusals"]
    assert [fault["where"] for fault in refusals] == ["master_port"]


def test_names_inside_an_object_are_filled_in(tmp_path):
    settings = "settings: [{flags: {--x: {address: $fabric_address, ranks: [$rank, 1]}}}]\n"
    known = overlay(tmp_path, "fabrics", "roce", DATED + settings)
    argv = engines(cusco().plan(known))["unified-0-rank-0"]["argv"]
    assert json.loads(argv[argv.index("--x") + 1]) == {"address": "10.30.0.11", "ranks": ["0", 1]}


@pytest.mark.parametrize(
    ("path", "where"),
    [
        ("catalogue/hardwares/b300.yml", "site catalogue/hardwares"),
        ("catalogue/hardware/b300.yaml", "site catalogue/hardware/b300.yaml"),
        ("catalogue/hardware/B300.yml", "site catalogue/hardware/B300.yml"),
        ("catalogue/hardware/ours/b300.yml", "site catalogue/hardware/ours"),
        ("catalogue/b300.yml", "site catalogue/b300.yml"),
        ("catalogue/hardware", "site catalogue/hardware"),
        ("catalogue", "site catalogue"),
    ],
)
def test_what_is_no_entry_of_a_known_kind_is_refused_with_the_kinds(tmp_path, path, where):
    write(tmp_path / path)
    told = [fault for fault in cusco().plan(catalogue.load(tmp_path))["refusals"] if fault["where"] == where]
    assert told[0]["limit"].endswith("kinds: engines, hardware, models, profiles, fabrics, features, faults")


@pytest.mark.parametrize("name", ["catalog", "catalogs", "catalogues", "Catalogue", "cataloge"])
def test_a_folder_with_nearly_the_name_of_the_catalogue_is_refused(tmp_path, name):
    write(tmp_path / name / "hardware/b300.yml")
    assert [(f["where"], f["remedy"]) for f in cusco().plan(catalogue.load(tmp_path))["refusals"]] == [
        (f"{name}/", "rename it catalogue")
    ]


@pytest.mark.parametrize(
    "path", ["state/run.yml", "group_vars/all.yml", "catalogue/.gitkeep", "catalogue/hardware/.b300.yml"]
)
def test_other_folders_and_hidden_files_are_not_judged(tmp_path, path):
    write(tmp_path / path)
    assert catalogue.load(tmp_path).faults == ()


def write(file):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("x: 1\n", encoding="utf-8")
