"""The real playbooks on a simulated site: from nothing to a model that answers, and again."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from rehearsal.places import CHECKOUT

from .conftest import HEAD_UNIT, WORKER_UNIT

pytestmark = pytest.mark.rehearsal

ANSWER = "Lima is the capital of Peru."
START_AGENT = "Start the agent where this node or another one lacks files"


def wait_for(condition, seconds):
    """Whether `condition` holds within `seconds`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(1)
    return False


def test_a_check_of_a_fresh_site_fails_nowhere_and_shows_what_would_come(rehearsed):
    assert rehearsed.fresh_check.code == 0, rehearsed.fresh_check.said
    assert "+ExecStart=/usr/bin/podman" in rehearsed.fresh_check.output


def test_it_ends_with_the_answer_and_a_table_of_engines_and_stages(rehearsed):
    for text in (ANSWER, "unified-0-rank-0", "unified-0-rank-1", "checkpoint", "serve", "accept"):
        assert text in rehearsed.printed
    report = json.loads((rehearsed.site.deploy_state / "acceptance.json").read_text())
    assert report["answer"] == ANSWER
    assert len({engine["release"] for engine in report["engines"]}) == 1


def test_answers_repeat(rehearsed):
    for prompt in ("Where do you run?", "What is the capital of Peru?", "zxcv 17"):
        assert rehearsed.chat(prompt) == rehearsed.chat(prompt) != ""


def test_a_second_deploy_changes_nothing_and_restarts_no_engine(rehearsed):
    before = rehearsed.starts()
    run = rehearsed.play()
    assert (run.code, run.changed) == (0, [])
    assert rehearsed.starts() == before


def test_the_installed_collection_deploys_the_same(rehearsed, tmp_path):
    programs = Path(sys.executable).parent
    galaxy = [programs / "ansible-galaxy", "collection"]
    quiet = {"cwd": tmp_path, "capture_output": True, "stdin": subprocess.DEVNULL}
    subprocess.run([*galaxy, "build", "--output-path", str(tmp_path), str(CHECKOUT)], check=True, **quiet)
    (tarball,) = tmp_path.glob("*.tar.gz")
    subprocess.run(
        [*galaxy, "install", "--offline", "--force", "-p", str(tmp_path / "c"), str(tarball)], check=True, **quiet
    )
    environment = {"ANSIBLE_COLLECTIONS_PATH": str(tmp_path / "c"), "PATH": f"{programs}:/usr/sbin:/usr/bin:/sbin:/bin"}
    argv = [programs / "ansible-playbook", "sovereign.kimi_k3.deploy", "-i", str(rehearsed.site.inventory)]
    done = subprocess.run(
        argv,
        cwd=tmp_path,
        env={**environment, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert "changed=0" in done.stdout and "changed=1" not in done.stdout


def test_a_changed_flag_is_shown_and_restarts_just_what_it_says(rehearsed):
    before, change = rehearsed.starts(), {"serving_overrides": {"flags": {"--max-num-seqs": 3}}}
    run = rehearsed.play("deploy", "--check", "--diff", **change)
    assert run.code == 0, run.said
    assert "-  --max-num-seqs 4" in run.output and "+  --max-num-seqs 3" in run.output
    said = " ".join(run.output.split())
    assert "unified-0-rank-0 starts: unified-0-rank-0: --max-num-seqs 4 becomes --max-num-seqs 3" in said
    assert "unified-0-rank-1 starts: unified-0-rank-0: --max-num-seqs 4 becomes --max-num-seqs 3" in said
    assert rehearsed.starts() == before
    run = rehearsed.play("deploy", **change)
    assert run.code == 0, run.said
    assert "--max-num-seqs" in rehearsed.ssh("node-01", f"systemctl cat {HEAD_UNIT}")
    after = rehearsed.starts()
    assert all(after[node] != before[node] for node in before)
    assert rehearsed.chat() == ANSWER
    assert rehearsed.play("deploy", **change).changed == []


def test_a_restart_that_is_not_allowed_is_announced_and_waits(rehearsed):
    before = rehearsed.starts()
    run = rehearsed.play("deploy", replica_restart_allowed=False)
    assert run.code == 0, run.said
    assert "waits for replica_restart_allowed" in " ".join(run.output.split())
    assert rehearsed.starts() == before


def test_a_worker_follows_its_head_and_the_replica_answers_again(rehearsed):
    before = rehearsed.starts()
    rehearsed.ssh("node-01", f"systemctl kill --signal=KILL {HEAD_UNIT}")
    assert wait_for(lambda: rehearsed.starts()["node-02"] != before["node-02"], 60)
    assert wait_for(lambda: rehearsed.chat() == ANSWER, 240)
    assert rehearsed.starts()["node-01"] != before["node-01"]


def test_an_engine_that_dies_while_loading_is_named_at_once(rehearsed):
    run = rehearsed.play("deploy", serving_overrides={"flags": {"--max-model-len": 100000}})
    assert run.code != 0
    assert set(run.failures) == {"node-01", "node-02"}
    assert "ended while loading" in run.said and "exit code 1" in run.said and "max_model_len" in run.said
    for host, unit in (("node-01", HEAD_UNIT), ("node-02", WORKER_UNIT)):
        assert rehearsed.ssh(host, f"systemctl is-active {unit}", check=False).strip() == "inactive"


def test_a_flipped_byte_is_found_before_the_next_start_and_mended_by_a_deploy(rehearsed):
    folder = f"/srv/models/kimi-k3-tiny/{_revision(rehearsed)}"
    shard = rehearsed.ssh("node-02", f"ls {folder}/*.safetensors").split()[0]
    flip = (
        f"touch -r {shard} /tmp/stamp; "
        f"printf X | dd of={shard} bs=1 seek=5000 conv=notrunc status=none; touch -r /tmp/stamp {shard}"
    )
    rehearsed.ssh("node-02", flip)
    rehearsed.ssh("node-02", f"systemctl reset-failed {WORKER_UNIT}; systemctl start {WORKER_UNIT}", check=False)
    assert shard.rsplit("/", 1)[1] in rehearsed.ssh("node-02", f"journalctl --unit {WORKER_UNIT} --lines 30")
    run = rehearsed.play("deploy")
    assert run.code == 0, run.said
    assert ("node-02", START_AGENT) in run.changed
    assert ("node-01", START_AGENT) not in run.changed
    assert rehearsed.chat() == ANSWER


def test_a_killed_fetch_goes_on_where_it_was(rehearsed):
    rehearsed.ssh("node-01", "install -d -o kimi-k3 /srv/models/again")
    rehearsed.hub_faults({"bytes_per_second": 4_000_000, "path": "safetensors"})
    seen = len(rehearsed.hub_log())
    # the agent is killed as soon as it has some megabytes, while the playbook waits for it
    with subprocess.Popen(
        [
            "ssh",
            "-F",
            str(rehearsed.site.keys / "config"),
            "node-01",
            "while [ $(sudo du -sm /srv/models/again | cut -f1) -lt 12 ]; do sleep 0.2; done; "
            "sudo systemctl kill --signal=KILL kimi-k3-fetch.service",
        ],
        stdin=subprocess.DEVNULL,
    ):
        run = rehearsed.play(
            "checkpoint",
            "--limit=node-01,node-02,service_hosts",
            checkpoint_path="/srv/models/again",
            checkpoint_mount_required=True,
        )
    rehearsed.hub_faults()
    assert run.code == 0, run.said
    sent = sum(row["sent"] for row in rehearsed.hub_log()[seen:] if "safetensors" in row["path"])
    whole = int(rehearsed.ssh("node-01", "cat /srv/models/again/kimi-k3-tiny/*/*.safetensors | wc -c"))
    assert whole <= sent <= whole + 8_000_000  # from both nodes together: each hands on what it brought
    for host in ("node-01", "node-02"):
        rehearsed.ssh(host, "rm -rf /srv/models/again")


def _revision(rehearsed):
    site = yaml.safe_load((rehearsed.site.inventory / "site.yml").read_text())
    return site["all"]["vars"]["serving_model_revision"]
