"""From the plan to command lines, releases and restarts."""

import json

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.module_utils import commands
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils import engines, faults, report


def engine(node, rank, **changes):
    return {
        "name": f"unified-0-rank-{rank}",
        "replica": "unified-0",
        "node": node,
        "rank": rank,
        "order": min(rank, 1),
        "address": f"10.0.0.1{rank}",
        "argv": ["/srv/models/m/c", "--node-rank", str(rank)],
        "env": {"B": "2", "A": "x y"},
        "container": {"arguments": ["--shm-size=1g"]},
        "endpoint": "http://10.0.0.10:8000",
        "ready_seconds": 60,
        **changes,
    }


def plan(**changes):
    return {
        "site": "s",
        "profile": "multi_node_tp",
        "digest": "sha256:p",
        "model": {"served_name": "m"},
        "image": {"reference": "r:5000/v@sha256:" + "a" * 64},
        "checkpoint": {"root": "/srv/models"},
        "replicas": [{"name": "unified-0", "nodes": ["n1", "n2"]}],
        "nodes": {"n1": {"engines": [engine("n1", 0, **changes)]}, "n2": {"engines": [engine("n2", 1)]}},
    }


def command(**changes):
    return engines.engines_of(plan(**changes), "n1", "sha256:m")[0]["service"]["command"]


def test_the_engine_arguments_stand_unchanged_behind_the_image():
    words = command(argv=["/m", "--kv-transfer-config", '{"a": "b c"}'])
    assert words[words.index("r:5000/v@sha256:" + "a" * 64) + 1 :] == ["/m", "--kv-transfer-config", '{"a": "b c"}']


def test_environment_and_container_arguments_stand_before_the_image():
    words = command()
    assert [word for word in words if word.startswith("--env=")] == ["--env=A=x y", "--env=B=2"]
    assert words.index("--shm-size=1g") < words.index("r:5000/v@sha256:" + "a" * 64)


def test_the_checkpoint_is_mounted_read_only_at_its_own_path():
    assert "--volume=/srv/models:/srv/models:ro" in command()


def test_what_an_engine_compiles_outlives_its_container():
    assert "--volume=/var/cache/kimi-k3:/root/.cache" in command()


@pytest.mark.parametrize(
    "other",
    [
        lambda: engines.release_of(plan(argv=["/m"]), "unified-0", "sha256:m"),
        lambda: engines.release_of(plan(env={}), "unified-0", "sha256:m"),
        lambda: engines.release_of(plan(), "unified-0", "sha256:other"),
        lambda: engines.release_of({**plan(), "image": {"reference": "x"}}, "unified-0", "sha256:m"),
    ],
    ids=["arguments", "environment", "manifest", "image"],
)
def test_another_release_has_another_name(other):
    assert other() != engines.release_of(plan(), "unified-0", "sha256:m")


def test_the_plan_s_digest_alone_makes_no_new_release():
    assert engines.release_of({**plan(), "digest": "x"}, "unified-0", "d") == engines.release_of(
        plan(), "unified-0", "d"
    )


def test_a_worker_watches_its_head_and_a_head_nobody():
    head, worker = (engines.engines_of(plan(), node, "d")[0]["watched"]["head"] for node in ("n1", "n2"))
    assert head is None
    assert worker == {"engine": "unified-0-rank-0", "node": "n1", "keeper": "http://10.0.0.10:7655"}


def test_an_ipv6_keeper_stands_in_brackets():
    worker = engines.engines_of(plan(address="fd00::10"), "n2", "d")[0]
    assert worker["watched"]["head"]["keeper"] == "http://[fd00::10]:7655"


def test_a_node_without_engines_has_none():
    assert engines.engines_of(plan(), "n9", "d") == []


@pytest.mark.parametrize(
    "word, written",
    [
        ("", '""'),
        ("a b", '"a b"'),
        ("50%", '"50%%"'),
        ("$HOME", '"$$HOME"'),
        ('{"a": "b"}', '"{\\"a\\": \\"b\\"}"'),
        ("back\\slash", '"back\\\\slash"'),
        ("it's", '"it\'s"'),
        ("two\nlines", '"two\\nlines"'),
        (";", '";"'),
    ],
)
def test_a_word_is_quoted_as_systemd_reads_it(word, written):
    assert engines.systemd_words(["x", word]) == f"x \\\n  {written}"


def test_a_flag_and_its_value_share_a_line_and_long_ones_do_not():
    words = ["run", "--rm", "--max-num-seqs", "4", "--enforce-eager", "--port", "8000"]
    assert engines.systemd_words(words).split(" \\\n  ") == [
        "run",
        "--rm",
        "--max-num-seqs 4",
        "--enforce-eager",
        "--port 8000",
    ]


@pytest.mark.parametrize(
    "running, wanted, said",
    [
        (["run", "--n", "4", "--x"], ["run", "--n", "3", "--x"], "--n 4 becomes --n 3"),
        (["--env=A=1", "--env=B=1"], ["--env=A=2", "--env=B=1"], "--env=A=1 becomes --env=A=2"),
        (["--x"], ["--y", "1"], "--x goes, --y 1 comes"),
        (["a", "--x"], ["a", "--x"], ""),
        (["--label=sovereign.kimi_k3.release=a"], ["--label=sovereign.kimi_k3.release=b"], "another release"),
    ],
)
def test_what_changed_is_told_by_flag(running, wanted, said):
    found = commands.difference(running, wanted)
    assert found.startswith(said) and bool(found) == bool(said)


def seen(**reasons):
    return {
        node: {
            "seen": {
                "differing": [{"name": f"kimi-k3-engine@{name}.service", "reason": "it does not run"} for name in names]
            }
        }
        for node, names in reasons.items()
    }


def test_one_engine_that_differs_restarts_its_whole_replica():
    for node in ("n1", "n2"):
        rows = engines.restarting(engines.engines_of(plan(), node, "d"), seen(n1=[], n2=["unified-0-rank-1"]), "seen")
        assert [row["reason"] for row in rows] == ["unified-0-rank-1: it does not run"]


def test_another_replica_is_no_reason():
    records = engines.engines_of(plan(), "n1", "d")
    assert engines.restarting(records, seen(n1=["unified-01-rank-0"], n2=["unified-1-rank-0"]), "seen") == []


def test_a_limit_that_cuts_a_replica_is_refused_and_names_the_nodes():
    (row,) = faults.split_replicas(plan(), ["n1"])
    assert "n2" in row["value"] and "n1,n2" in row["remedy"]


@pytest.mark.parametrize("hosts", [["n1", "n2"], ["other"]])
def test_a_limit_to_whole_replicas_is_not(hosts):
    assert faults.split_replicas(plan(), hosts) == []


def test_all_faults_of_all_hosts_come_in_one_message_and_shared_ones_once():
    row = {"where": "path", "value": "/", "limit": "a mount", "remedy": "mount it"}
    site = {"of_site": True, "faults": [{**row, "where": "origin"}]}
    rows = faults.of_host("n1", [site, {"faults": [row]}]) + faults.of_host("n2", [site, {"faults": [row]}])
    text = faults.message(rows)
    assert text.startswith("3 faults, nothing was changed")
    assert "n1: path: /; needed: a mount; remedy: mount it" in text and text.count("origin") == 1


def test_an_unreachable_host_is_one_fault_with_its_name():
    (row,) = faults.of_host("n2", [{"unreachable": True, "msg": "no route"}, {"faults": [{}]}])
    assert row["where"] == "n2" and "no route" in row["remedy"]


def test_a_host_that_could_not_be_read_is_one_fault_with_its_name():
    (row,) = faults.of_host("n2", [{"failed": True, "msg": "no python"}, {"faults": [{}]}])
    assert row["where"] == "n2" and "no python" in row["remedy"]


def test_the_report_has_engines_with_release_and_seconds_and_the_answer():
    ready = {"n1": {"results": [{"item": {"name": "unified-0-rank-0"}, "seconds": 12.34}]}, "n2": {}}
    asked = [{"results": [{"endpoint": "http://e", "models": ["m"], "answer": "Lima", "seconds": 1.0}]}]
    head = engines.engines_of(plan(), "n1", "sha256:m")[0]["service"]
    content = report.report(plan(), {"n1": {"running": {head["name"]: head["command"]}}, "n2": {}}, ready, asked)
    assert content["answer"] == "Lima"
    assert [(row["node"], row["load_seconds"]) for row in content["engines"]] == [("n1", 12.34), ("n2", None)]
    lines = report.lines(content)
    assert lines[1].split() == [
        "n1",
        "unified-0-rank-0",
        "0",
        engines.release_of(plan(), "unified-0", "sha256:m"),
        "12.3",
    ]
    assert lines[-1] == "http://e answers in 1.0 s: Lima"
    assert [row["manifest"] for row in content["engines"]] == ["sha256:m", ""]
    json.dumps(content)


def test_the_code_of_an_agent_has_one_digest():
    assert engines.agent_digest("keeper") == engines.agent_digest("keeper") != engines.agent_digest("fetch")


def test_the_ports_of_a_node_are_those_of_its_engines():
    one = plan(ports={"http": 8000, "side_channel": [5558, 5559]})
    one["nodes"]["n2"]["engines"][0]["ports"] = {}
    assert [engines.ports_of(one, node) for node in ("n1", "n2", "n9")] == [[5558, 5559, 8000], [], []]
