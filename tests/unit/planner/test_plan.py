"""The plan as a whole: its shape, its text, and the playbook that prints it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.action.plan import validate
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner import inventory, text
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.faults import edit_distance, natural
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.network import endpoint
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.values import Unresolved

from tests.unit.planner.samples import LIMA, REHEARSAL, ROOT, cusco, cusco_in_pairs, engines, read


def test_cusco_is_eight_replicas_of_one_node():
    result = cusco().plan()
    assert [replica["nodes"] for replica in result["replicas"]] == [[f"gpu-0{n}"] for n in range(1, 9)]
    assert result["router"]["backends"][7] == "http://10.30.0.18:8000"
    assert result["checkpoint"]["bytes"] == 1560998984390


def test_the_rehearsal_is_one_replica_over_two_nodes():
    result = read(REHEARSAL).plan()
    assert result["pools"] == {"unified": ["node-01", "node-02"]}
    assert result["replicas"] == [
        {
            "name": "unified-0",
            "pool": "unified",
            "nodes": ["node-01", "node-02"],
            "engines": ["unified-0-rank-0", "unified-0-rank-1"],
            "parallel": "TP2",
            "endpoint": "http://10.0.0.11:8000",
            "endpoints": ["http://10.0.0.11:8000"],
            "memory": {},
        }
    ]
    head, worker = engines(result).values()
    assert (head["role"], head["ports"]) == ("head", {"http": 8000, "master": 29501})
    assert (worker["role"], worker["ports"]) == ("worker", {})


def test_the_digest_changes_with_the_plan():
    assert cusco().plan()["digest"] != cusco().with_site(serving_max_model_len=4096).plan()["digest"]


def test_an_image_is_pulled_by_its_digest_whatever_tag_stands_beside_it():
    digest = f"sha256:{'a' * 64}"
    sample = cusco().with_site(serving_image=f"reg.lan:5000/vllm:now@{digest}", serving_engine_version="0.30.0")
    assert sample.plan()["image"] == {
        "reference": f"reg.lan:5000/vllm@{digest}",
        "engine": "vllm",
        "version": "0.30.0",
    }


def test_heads_are_taken_in_natural_order_of_names():
    assert sorted(["gpu-10", "gpu-9", "gpu-1", "a2b", "7"], key=natural) == ["7", "a2b", "gpu-1", "gpu-9", "gpu-10"]


@pytest.mark.parametrize(
    ("address", "url"), [("10.0.0.1", "http://10.0.0.1:8000"), ("fd00::1", "http://[fd00::1]:8000")]
)
def test_an_ipv6_address_stands_in_brackets(address, url):
    assert endpoint(address, 8000) == url


@pytest.mark.parametrize(
    ("one", "other", "distance"), [("abc", "abc", 0), ("abc", "acb", 2), ("abc", "abcd", 1), ("abc", "xyzw", 3)]
)
def test_edit_distance_counts_up_to_its_limit(one, other, distance):
    assert edit_distance(one, other, 2) == distance


def test_role_variables_come_from_argument_specs(tmp_path):
    spec = tmp_path / "replica/meta/argument_specs.yml"
    spec.parent.mkdir(parents=True)
    spec.write_text("argument_specs: {main: {options: {replica_image: {type: str}}}}", encoding="utf-8")
    assert inventory.role_options(tmp_path) == {"replica": {"replica_image": {"type": "str"}}}


@pytest.mark.parametrize(
    "text",
    [
        "all:\n  vars:\n    site_name: cusco\n",
        "all: {vars: {x: 1, site_name: cusco}}\n",
        '{"all": {"vars": {"site_name": "cusco"}}}',
        "all: {vars: {'site_name' : cusco}}\n",
        "all:\n  vars:\n    site_name:\n",
    ],
)
def test_a_site_variable_in_two_files_of_the_folder_is_refused(text):
    faults = list(inventory.repeated_faults({"site.yml": "all:\n  vars:\n    site_name: lima\n", "site_old.yml": text}))
    assert [(fault.variable, fault.value) for fault in faults] == [("site_name", "in site.yml, site_old.yml")]


@pytest.mark.parametrize(
    "text", ["# site_name: cusco\n", "my_site_name: x\n", "x: the site_name: y\n", "gpu_model: cpu\n"]
)
def test_a_text_that_only_mentions_a_site_variable_repeats_nothing(text):
    assert not list(inventory.repeated_faults({"site.yml": "site_name: lima\ngpu_model: b300\n", "notes.yml": text}))


@pytest.mark.parametrize(
    ("name", "value", "limit", "remedy"),
    [
        ("checkpoint_streams", "many", "must be a whole number", "write checkpoint_streams: 3"),
        ("checkpoint_streams", True, "must be a whole number", "write checkpoint_streams: 3"),
        ("checkpoint_streams", None, "must be a whole number", "write checkpoint_streams: 3"),
        ("replica_restart_allowed", "nope", "must be true or false", "write replica_restart_allowed: true"),
        ("checkpoint_verification", "half", "one of quick, full", 'write checkpoint_verification: "quick"'),
        ("container_engine_insecure_registries", "a:5000", "must be a list", "insecure_registries: [...]"),
        ("container_engine_insecure_registries", [5000], "must be a list whose items are each text", "[...]"),
        ("container_engine_minimum_version", 4.3, "must be text", 'minimum_version: "4.3"'),
    ],
)
def test_a_value_that_a_role_does_not_take_is_refused(name, value, limit, remedy):
    roles = inventory.role_options(ROOT / "roles")
    [fault] = inventory.option_faults(roles, {"gpu-01": {name: value}}, validate)
    assert (fault.where, fault.value) == (f"gpu-01.{name}", "" if value is None else value)
    assert limit in fault.limit
    assert remedy in fault.remedy


def test_values_that_a_role_takes_are_no_fault():
    good = {
        "checkpoint_streams": "5",
        "replica_restart_allowed": "no",
        "checkpoint_verification": "full",
        "container_engine_insecure_registries": ["a:5000"],
        "acceptance_prompt": Unresolved("'ansible_facts' is undefined"),
        "checkpoint_path": 5,  # the site's own to judge
    }
    assert not list(inventory.option_faults(inventory.role_options(ROOT / "roles"), {"gpu-01": good}, validate))


def test_the_playbook_refuses_a_value_that_a_role_does_not_take():
    told = playbook(LIMA, "-e", "replica_restart_allowed=nope").stdout
    assert "refused: 1 fault." in told
    assert 'replica_restart_allowed on gpu-01, gpu-02, gpu-03 and 6 more up to service-01: "nope"; must be' in told


def test_the_text_draws_a_box_for_every_replica_with_its_ranks():
    drawn = text.render(cusco_in_pairs().plan(), full=False)
    assert "┌ unified-3 TP16 ──────────┐" in drawn
    assert "│ gpu-08  rank 1  8 x b300 │" in drawn
    assert "└── http://10.30.0.17:8000 ┘" in drawn
    assert max(map(len, drawn.splitlines())) < 180


def test_the_text_can_be_pasted_into_a_shell():
    result = cusco().plan()
    engine = engines(result)["unified-0-rank-0"]
    typed = text.command(engine, result["image"]["reference"]).split("\n\n", 1)[1]
    script = typed.replace("vllm serve", "printf '%s\\n'").strip()
    printed = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
    assert printed.splitlines() == engine["argv"]


def test_nodes_that_share_a_fault_share_a_line():
    told = text.refusals(cusco().with_hosts({f"gpu-0{n}": {"gpu_count": 4} for n in range(1, 7)}).plan()["refusals"])
    assert told.splitlines()[0].startswith("The plan is refused: 1 fault.")
    assert told.splitlines()[1].startswith("- gpu_count on gpu-01, gpu-02, gpu-03 and 3 more up to gpu-06: 4; ")


def playbook(site: Path | str, *arguments: str) -> subprocess.CompletedProcess:
    command = [Path(sys.executable).with_name("ansible-playbook"), "playbooks/plan.yml", "-i", site, *arguments]
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_the_playbook_prints_lima_and_changes_nothing():
    done = playbook(LIMA, "--check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Pool prefill: 2 replicas on 2 nodes, 16 GPUs" in done.stdout
    assert "Pool decode: 3 replicas on 6 nodes, 48 GPUs" in done.stdout
    assert "--data-parallel-start-rank 8" in done.stdout
    assert "changed=0" in done.stdout


def test_one_variable_turns_lima_into_eight_replicas_of_one_pool():
    done = playbook(LIMA, "-e", "serving_profile=single_node_tp", "-e", "plan_summary_only=true")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Pool unified: 8 replicas on 8 nodes, 64 GPUs" in done.stdout


def test_the_playbook_writes_the_same_plan_whatever_hosts_it_is_limited_to(tmp_path):
    plans = []
    for name, limit in (("all", []), ("one", ["--limit", "gpu-05"])):
        done = playbook(LIMA, "-e", "plan_format=json", "-e", f"plan_output={tmp_path / name}", *limit)
        assert done.returncode == 0, done.stdout + done.stderr
        plans.append(json.loads((tmp_path / name).read_text(encoding="utf-8")))
    assert plans[0] == plans[1] == {**read(LIMA).plan()}


def test_the_playbook_refuses_an_empty_inventory(tmp_path):
    (tmp_path / "hosts.yml").write_text("all: {}\n", encoding="utf-8")
    done = playbook(tmp_path)
    assert done.returncode != 0
    assert "refused: 1 fault." in done.stdout
    assert "- hosts: missing; no host was found. Give the site's folder" in done.stdout


@pytest.mark.parametrize("source", [LIMA / "hosts.yml", LIMA / "site.yml", "gpu-01,"])
def test_the_playbook_given_no_folder_asks_for_it(source):
    told = playbook(source).stdout
    assert "refused: 1 fault." in told
    assert "the site's folder" in told


def test_the_playbook_names_a_site_file_without_its_vars(tmp_path):
    shutil.copy(LIMA / "hosts.yml", tmp_path)
    (tmp_path / "site.yml").write_text("site_name: lima\nserving_profile: single_node_tp\n", encoding="utf-8")
    told = playbook(tmp_path).stdout
    assert "refused: 1 fault." in told
    assert "its site.yml has them under `all: vars:`" in told


def test_the_playbook_names_an_undefined_variable_of_a_template(tmp_path):
    done = playbook(
        LIMA, "-e", '{"serving_image": "{{ nowhere }}"}', "-e", "plan_format=json", "-e", f"plan_output={tmp_path}/p"
    )
    assert done.returncode != 0
    refusals = json.loads((tmp_path / "p").read_text(encoding="utf-8"))["refusals"]
    assert [(fault["where"], "nowhere" in fault["value"]) for fault in refusals] == [("serving_image", True)]


def test_a_deployment_refuses_a_licence_that_nobody_accepted():
    done = playbook(LIMA, "-e", "plan_for_deploy=true")
    assert done.returncode != 0
    assert "licence_accepted_by: empty" in done.stdout + done.stderr


def test_the_playbook_refuses_a_copy_of_the_site_beside_it(tmp_path):
    for file in LIMA.iterdir():
        shutil.copy(file, tmp_path)
    for name in ("site.yml.bak", "simulated.yml", ".site.yml", "site_old.yml"):
        (tmp_path / name).write_text("all: {vars: {site_name: cusco}}\n", encoding="utf-8")
    told = playbook(tmp_path).stdout
    assert '- site_name: "in site.yml, site_old.yml"; Ansible reads every file' in told
