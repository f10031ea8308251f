"""What the documents show of the catalogue and of plans."""

from __future__ import annotations

import json
import re
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner import catalogue
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.catalogue import PLACEHOLDERS, Entry

from tools import docs

PROFILES = docs.known().names("profiles")
MANUAL = docs.ROOT / "docs/en/catalogue.md"
# Blocks of YAML that begin with the file's path in a site's folder.
RECIPES = re.findall(r"```yaml\n *# (catalogue/\w+/\w+(?:-\w+)*\.yml)\n(.*?)```", MANUAL.read_text("utf-8"), re.DOTALL)
PAGE = "Before.\n<!-- written by tools/docs.py: {} -->\nold\n<!-- end -->\nAfter.\n"


def gate(**data: object) -> Entry:
    told = {"action": "warn", "summary": "it | stops", "thread": "https://t/7", "remedy": "wait", "date": "2026-12-01"}
    return Entry("faults", "our-7", "faults/our-7.yml", {"variable": "serving_profile", **told, **data})


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch):
    """Give the catalogue other entries of a kind, in place of its own."""

    def put(kind: str, *entries: Entry) -> None:
        known = docs.known()
        found = replace(known, entries={**known.entries, kind: {entry.name: entry for entry in entries}})
        docs.sample.cache_clear()
        monkeypatch.setattr(docs, "known", lambda: found)

    yield put
    docs.sample.cache_clear()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with one document that has an outdated part."""
    (tmp_path / "docs/en").mkdir(parents=True)
    (tmp_path / "docs/en/page.md").write_text(PAGE.format("features"), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("profile", PROFILES)
def test_every_profile_has_a_page_with_its_picture_hardware_commands_and_gates(profile: str) -> None:
    page = (docs.ROOT / f"docs/en/profiles/{profile}.md").read_text(encoding="utf-8")
    found = {tuple(begin["words"].split()[:2]) for begin in docs.BEGIN.finditer(page)}
    assert {(part, profile) for part in ("picture", "hardware", "commands", "gates")} <= found


def test_what_stands_between_the_marks_is_replaced_and_the_rest_stays(tree: Path) -> None:
    assert docs.main([], tree) == 0
    page = (tree / "docs/en/page.md").read_text(encoding="utf-8")
    assert page.startswith("Before.\n<!-- written")
    assert page.endswith("\n\n<!-- end -->\nAfter.\n")
    assert "old" not in page
    assert "| `reasoning` |" in page


def test_a_check_shows_what_differs_and_fails_until_it_is_written(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert docs.main(["--check"], tree) == 1
    assert "-old\n" in capsys.readouterr().out
    docs.main([], tree)
    assert docs.main(["--check"], tree) == 0


@pytest.mark.parametrize("page", [PAGE.format("weather"), PAGE.format("features").replace("<!-- end -->", "")])
def test_a_part_that_is_unknown_or_has_no_end_is_refused_with_the_documents_name(page: str) -> None:
    with pytest.raises(ValueError, match=r"docs/a\.md: .* needs <!-- end --> after it and one of run, check"):
        docs.document(page, "docs/a.md")


@pytest.mark.parametrize(
    ("profile", "hardware", "rows"),
    [
        ("multi_node_tp_pp", "gb200", ["gpu-04  3     stage 3 of 4, on 4 GPUs  -"]),
        ("multi_node_tp", "gb300", ["gpu-02  1     tensor 4-7 of 8  -"]),
        (
            "pd_cluster",
            "gb300",
            [
                "prefill-0: TEP8 on 2 nodes of gb300",
                "gpu-03  0     data 0-3 of 16, each on 1 GPU    http 8002, data_rpc 29550, side_channel 5558-5561",
                "http://10.0.0.3:8002 +3",
            ],
        ),
        ("pd_cluster", "b200", ["gpu-04  1     data 1 of 2, each on 8 GPUs  http 8002, side_channel 5559"]),
    ],
)
def test_a_picture_shows_which_ranks_a_node_holds_and_where_it_listens(profile, hardware, rows) -> None:
    picture = "\n".join(docs.picture(profile, hardware))
    assert [row for row in rows if row not in picture] == []


def test_a_workers_command_is_told_by_what_differs_from_its_heads() -> None:
    told = "\n".join(docs.commands("multi_node_tep", "h200"))
    assert told.count("vllm serve") == 1
    assert "\n--headless\nwithout --host\n--node-rank 1\nwithout --port\nVLLM_HOST_IP=10.0.0.2\n" in told


def test_kv_is_at_most_so_much_where_nobody_measured_the_workspace() -> None:
    rows = {row.split(" | ")[0].removeprefix("| "): row for row in docs.hardware_table("single_node_tp")}
    assert "at most" in rows["mi355x"]
    assert "at most" not in rows["b300"]


def test_a_layout_that_a_gate_refuses_is_shown_with_the_gate(put) -> None:
    put("faults", gate(action="refuse", when={"hardware": "b300", "profile": "single_node_tp"}))
    rows = list(docs.hardware_table("single_node_tp"))
    assert [row.split(" | ")[0] for row in rows[2:]] == ["| b300 (refused: our-7)", "| mi350x", "| mi355x"]


def test_a_layout_that_the_plan_refuses_cannot_be_shown(put) -> None:
    row = docs.known().find("hardware", "h200")
    put("hardware", replace(row, data={**row.data, "layouts": {"single_node_tp": {"unified": {"nodes": 1}}}}))
    with pytest.raises(ValueError, match="single_node_tp on h200 is refused: .*191.9 GiB of weights"):
        list(docs.hardware_table("single_node_tp"))


def test_a_gate_stands_on_the_pages_of_the_layouts_that_it_asks_for_and_holds_for(put) -> None:
    places = {
        "one-profile": ({"profile": "multi_node_tp"}, ["multi_node_tp"]),
        "pools": ({"pool": ["prefill", "decode"], "feature": "tool_calling"}, ["pd_cluster"]),
        "one-node": ({"spans_nodes": False}, ["pd_cluster", "single_node_tp"]),
        "other-fabric": ({"experts": True, "data_parallel": True, "fabric": "efa"}, ["multi_node_dep", "pd_cluster"]),
        "one-hardware": ({"spans_nodes": True, "hardware": "h100"}, ["multi_node_tep", "multi_node_tp_pp"]),
        "wide-tensors": ({"tensor_spans_nodes": True, "hardware": "h100"}, ["multi_node_tep"]),
        "older-version": ({"spans_nodes": True, "version": {"before": "0.30"}}, []),
        "any-layout": ({"hardware": "h100"}, []),
    }
    put("faults", *(replace(gate(action="refuse", when=when), name=name) for name, (when, _) in places.items()))
    pages = {profile: "\n".join(docs.gate_table(profile)) for profile in PROFILES}
    found = {name: [profile for profile, page in pages.items() if f"[{name}]" in page] for name in places}
    assert found == {name: profiles for name, (_, profiles) in places.items()}


def test_a_profile_that_no_gate_asks_for_says_so(put) -> None:
    put("faults")
    assert list(docs.gate_table("single_node_tp")) == ["None."]


def test_the_list_of_gates_has_a_table_for_each_action_refusals_first(put) -> None:
    put("faults", gate(when={"hardware": "h100"}), replace(gate(action="refuse", given={"--x": 1}), name="our-8"))
    assert [line for line in docs.all_gates() if line.startswith(("## ", "| ["))] == [
        "## The plan refuses",
        "| [our-8](https://t/7) | it \\| stops | `--x` 1 | wait | 2026-12-01 |",
        "## The plan warns",
        "| [our-7](https://t/7) | it \\| stops | hardware h100 | wait | 2026-12-01 |",
    ]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"when": {"accelerator": "rocm", "fabric": ["roce", "efa"]}}, "accelerator rocm; fabric roce or efa"),
        ({"when": {"fabric": {"not": "efa"}}}, "fabric not efa"),
        ({"when": {"spans_nodes": True, "experts": False}}, "replicas over several nodes; without expert parallelism"),
        ({"when": {"version": {"from": "0.27.1", "before": "0.30"}}}, "vLLM from 0.27.1 before 0.30"),
        ({"given": {"--a": True, "--b": None, "C": [1, None]}}, "with `--a` and without `--b` and `C` 1 or unset"),
        ({"given": [{"--a": True}, {"--b": {"contains": "x"}}]}, "with `--a`, or `--b` with x in it"),
        ({"given": {"--max-num-seqs": {"above": 1024}}}, "`--max-num-seqs` above 1,024"),
    ],
)
def test_where_a_gate_holds_is_told_in_words(data: dict, words: str) -> None:
    assert docs.where(gate(**data)) == words


def test_the_manual_names_every_condition_and_every_name_that_a_value_may_refer_to() -> None:
    common = json.loads((docs.ROOT / "catalogue/schema/common.json").read_text(encoding="utf-8"))
    keys = {f"`{key}`" for key in common["$defs"]["when"]["properties"]}
    manual = MANUAL.read_text(encoding="utf-8")
    assert sorted(word for word in keys | {f"`${name}`" for name in PLACEHOLDERS} if word not in manual) == []


@pytest.mark.parametrize("recipe", RECIPES, ids=[recipe[0] for recipe in RECIPES])
def test_a_file_of_the_manuals_recipes_is_read_without_a_fault(tmp_path: Path, recipe: tuple[str, str]) -> None:
    path = recipe[0]
    for file, content in [*(row for row in RECIPES if "/profiles/" in row[0]), recipe]:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(textwrap.dedent(content), encoding="utf-8")
    known = catalogue.load(tmp_path)
    assert known.faults == ()
    assert known.find(Path(path).parent.name, Path(path).stem).file == f"site {path}"


def test_a_bar_is_drawn_for_each_pool_on_each_hardware() -> None:
    lines = list(docs.memory())
    assert sum("▕" in line for line in lines) == sum(
        len(pools)
        for row in docs.known().entries["hardware"].values()
        if row.get("gpu_memory_gib")
        for pools in row["layouts"].values()
    )


@pytest.mark.parametrize(
    ("variables", "begin"),
    [
        (["plan_explain=--kv-cache-dtype"], "--kv-cache-dtype fp8, on "),
        (["serving_nodes_per_replica=99"], "The plan is refused: "),
    ],
)
def test_a_run_shows_the_command_and_what_it_printed(variables: list[str], begin: str) -> None:
    fence, command, blank, told, end = docs.run("lima", *variables)
    assert (fence, blank, end) == ("```", "", "```")
    assert command.startswith("ansible-playbook playbooks/plan.yml -i inventories/lima -e '{")
    assert told.startswith(begin)
    assert "Origin:" not in told


def test_the_checkpoints_way_is_drawn_for_the_variables_of_a_site() -> None:
    lines = list(docs.checkpoint('checkpoint_wan_nodes=["gpu-02"]'))
    assert lines[1:3] == ["checkpoint_wan_nodes: [gpu-02]", ""]
    assert "    ─► gpu-01, gpu-03, gpu-04, on port 7654" in lines
    with pytest.raises(ValueError, match="checkpoint_port=1 is refused"):
        list(docs.checkpoint("checkpoint_port=1"))
