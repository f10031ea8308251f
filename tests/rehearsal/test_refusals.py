"""Bad input: one answer with every fault, exit code not 0, and nothing changed on any host."""

import pytest
import yaml

pytestmark = pytest.mark.rehearsal

DEAD = [{"kind": "hub", "url": "http://127.0.0.1:9"}]


@pytest.mark.parametrize(
    "variables, words",
    [
        ({"serving_profile": "multi_node_pt"}, ["multi_node_pt", "multi_node_tp"]),
        ({"checkpoint_path": "/"}, ["checkpoint_path", "/"]),
        ({"checkpoint_path": "/opt/models"}, ["/opt/models", "mount", "node-01", "node-02"]),
        (
            {"checkpoint_origins": DEAD, "serving_model_revision": "1" * 40},
            ["127.0.0.1:9", "refused"],
        ),
        ({"serving_model_revision": "0" * 40}, ["0" * 40]),
        ({"licence_accepted_by": ""}, ["licence_accepted_by"]),
    ],
    ids=["profile", "root", "not a mount", "dead origin", "no such commit", "licence"],
)
def test_bad_input_is_named_with_its_remedy(rehearsed, variables, words):
    before = rehearsed.starts()
    run = rehearsed.play("deploy", **variables)
    assert run.code != 0 and run.changed == []
    for word in words:
        assert word in run.said
    assert rehearsed.starts() == before


def test_faults_of_nodes_origin_and_registry_come_in_one_answer(rehearsed):
    image = rehearsed.variable("simulated_image").split("@")[0] + "@sha256:" + "0" * 64
    run = rehearsed.play(
        "deploy",
        serving_image=image,
        checkpoint_path="/opt/models",
        checkpoint_origins=DEAD,
        serving_model_revision="1" * 40,
    )
    assert run.code != 0 and run.changed == []
    (said,) = set(run.failures.values())
    for words in ("sha256:" + "0" * 64, "/opt/models", "127.0.0.1:9"):
        assert words in said


def test_an_unreachable_node_is_named_and_nothing_starts_on_the_others(rehearsed, tmp_path):
    away = tmp_path / "zz.yml"
    away.write_text(yaml.safe_dump({"all": {"hosts": {"node-02": {"ansible_host": "127.0.0.1", "ansible_port": 9}}}}))
    before = rehearsed.starts()
    run = rehearsed.play("deploy", inventory=away, serving_overrides={"flags": {"--max-num-seqs": 2}})
    assert run.code != 0 and run.changed == []
    assert "node-02: unreachable" in run.said and "node-01: unreachable" not in run.said
    assert rehearsed.starts() == before


def test_a_limit_that_cuts_a_replica_is_refused(rehearsed):
    run = rehearsed.play("deploy", "--limit=node-01,service-01")
    assert run.code != 0 and run.changed == []
    assert "leaves out node-02" in run.said


def test_a_flag_can_be_changed_while_the_origin_is_gone(rehearsed):
    overrides = {"flags": {"--max-num-seqs": 3}}
    run = rehearsed.play("deploy", "--check", checkpoint_origins=DEAD, serving_overrides=overrides)
    assert run.code == 0, run.said
    assert run.changed != []
