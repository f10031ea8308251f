"""Several agents on one machine, each on an address of its own: what a site of nodes does."""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import socket
import time

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.fetch import agent, config
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.fetch.scheduler import Have

from .conftest import MIB, SHARD, Node

PATIENT = {"patience_seconds": 20, "silence_seconds": 2, "stall_seconds": 2}


class Site:
    """Nodes that know each other."""

    def __init__(self, root, origin, names, **settings):
        with contextlib.ExitStack() as stack:
            free = [stack.enter_context(socket.socket()) for _ in names]
            for number, one in enumerate(free):
                one.bind((f"127.0.0.{number + 2}", 0))
            nodes = {name: "{}:{}".format(*one.getsockname()) for name, one in zip(names, free, strict=True)}
        self.addresses, self.running = nodes, {}
        self.nodes = {name: Node(root / name, origin.files, origin.url) for name in names}
        for name, node in self.nodes.items():
            node.configure(node=name, nodes=nodes, **{**PATIENT, **settings})

    def start(self, *names):
        for name in names or self.nodes:
            self.running[name] = self.nodes[name].start("fetch")

    def ends(self, name, seconds=30):
        """(exit code, output) of a node's agent."""
        process = self.running.pop(name)
        output = process.communicate(timeout=seconds)[0]
        return process.returncode, output

    def all_end(self):
        return {name: self.ends(name)[0] for name in list(self.running)}

    def kill(self, name, number=signal.SIGKILL):
        process = self.running.pop(name)
        process.send_signal(number)
        process.communicate(timeout=20)

    def wait(self, condition, seconds=40):
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, {name: node.status() for name, node in self.nodes.items()}
            time.sleep(0.02)


@pytest.fixture
def site(tmp_path, origin):
    sites = []

    def build(count=3, **settings):
        sites.append(Site(tmp_path, origin, [f"node-{n}" for n in range(1, count + 1)], **settings))
        return sites[0]

    yield build
    for process in sites[0].running.values() if sites else ():
        process.kill()
        process.communicate()


def ask(address, path, source="127.0.0.2", **headers):
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=10, source_address=(source, 0))
    connection.request("GET", path, headers=headers)
    return connection.getresponse()


def test_every_node_gets_every_file_and_the_link_carries_each_once(site, origin):
    three = site()
    three.start()
    assert set(three.all_end().values()) == {0}
    assert all(node.is_whole() for node in three.nodes.values())
    assert origin.sent() == three.nodes["node-1"].manifest.bytes


def test_a_file_is_handed_on_while_it_grows(site, origin):
    three = site()
    origin.inject({"bytes_per_second": 2 * MIB})
    three.start()
    three.wait(lambda: all(node.status().get("bytes_done", 0) > 6 * MIB for node in three.nodes.values()))
    assert all(node.status()["files_done"] < 6 for node in three.nodes.values())
    assert set(three.all_end().values()) == {0}


def test_only_wan_nodes_ask_the_origin(site, origin):
    three = site(wan_nodes=["node-2"])
    three.start()
    assert set(three.all_end().values()) == {0}
    assert origin.sent() == three.nodes["node-1"].manifest.bytes
    assert set(three.nodes["node-3"].status()["sources"]) <= {"node-1", "node-2"}


def test_a_lost_owner_is_replaced(site, origin):
    three = site()
    origin.inject({"bytes_per_second": 2 * MIB})
    three.start()
    three.wait(lambda: three.nodes["node-2"].fetched() > 3 * MIB)
    three.kill("node-2")
    origin.inject()
    three.wait(lambda: all(three.nodes[name].status()["state"] == "complete" for name in three.running))
    assert three.nodes["node-1"].is_whole() and three.nodes["node-3"].is_whole()
    assert origin.sent() < 1.5 * three.nodes["node-1"].manifest.bytes
    assert three.nodes["node-1"].status()["site"]["unseen"] == ["node-2"]


def test_a_node_that_comes_late_gets_all_from_the_others(site, origin):
    three = site()
    three.start("node-1", "node-2")
    three.wait(lambda: all(three.nodes[name].status().get("state") == "complete" for name in three.running))
    sent = origin.sent()
    three.start("node-3")
    assert set(three.all_end().values()) == {0}
    assert three.nodes["node-3"].is_whole()
    assert origin.sent() == sent


def test_a_node_that_gives_wrong_bytes_is_not_asked_for_them_again(site, origin):
    three = site()
    three.start("node-1", "node-2")
    three.wait(lambda: all(three.nodes[name].status().get("state") == "complete" for name in three.running))
    for name in ("node-1", "node-2"):
        three.kill(name)
    three.nodes["node-1"].flip(SHARD)
    three.nodes["node-1"].forge_stamp(SHARD)
    three.start()
    assert three.all_end() == {"node-1": 0, "node-2": 0, "node-3": 0}
    assert three.nodes["node-2"].is_whole() and three.nodes["node-3"].is_whole()


def test_a_node_whose_bytes_others_found_wrong_looks_at_its_disk_and_is_mended(site, origin):
    two = site(2)
    two.start("node-1")
    two.wait(lambda: two.nodes["node-1"].status().get("state") == "complete")
    two.kill("node-1")
    two.nodes["node-1"].flip(SHARD)
    two.nodes["node-1"].forge_stamp(SHARD)
    two.start()
    assert two.all_end() == {"node-1": 0, "node-2": 0}
    assert two.nodes["node-1"].is_whole()
    assert SHARD in two.nodes["node-1"].status()["last_error"]["message"]


def test_a_lone_holder_of_wrong_bytes_does_not_count(site, origin):
    two = site(2)
    two.start("node-1")
    two.wait(lambda: two.nodes["node-1"].status().get("state") == "complete")
    two.kill("node-1")
    two.nodes["node-1"].flip(SHARD)
    two.nodes["node-1"].forge_stamp(SHARD)
    two.start()
    assert two.all_end() == {"node-1": 0, "node-2": 0}
    assert two.nodes["node-2"].is_whole()
    assert origin.sent(SHARD) == 2 * (6 * MIB + 2)


def test_a_wrong_byte_of_the_origin_costs_one_more_copy_and_blames_no_node(site, origin):
    three = site()
    origin.inject({"path": SHARD, "flip": 5, "times": 1})
    three.start()
    assert set(three.all_end().values()) == {0}
    assert all(node.is_whole() for node in three.nodes.values())
    assert origin.sent(SHARD) == 2 * (6 * MIB + 2)


def test_a_node_without_space_ends_alone(site, origin):
    three = site()
    (three.nodes["node-2"].parts).parent.mkdir(parents=True)
    three.start("node-1", "node-3")
    from .test_fetch import _limit_file_size

    three.running["node-2"] = three.nodes["node-2"].start("fetch", preexec_fn=lambda: _limit_file_size(3 * MIB))
    assert three.ends("node-2")[0] == 5
    three.wait(lambda: all(three.nodes[name].status()["state"] == "complete" for name in three.running))
    assert "free space" in three.nodes["node-2"].status()["faults"][0]["remedy"]


def test_a_file_that_no_origin_has_fails_on_every_node_by_name_and_the_rest_arrives(site, origin):
    two = site(2)
    origin.inject({"path": SHARD, "status": 404})
    two.start()
    assert two.all_end() == {"node-1": 4, "node-2": 4}
    for node in two.nodes.values():
        assert node.status()["faults"][0]["file"] == SHARD
        assert node.status()["files_done"] == 5


def test_serves_manifest_files_only_and_by_number(site, origin):
    one = site(2)
    one.start("node-1")
    one.wait(lambda: one.nodes["node-1"].status().get("state") == "complete")
    digest = one.nodes["node-1"].manifest.digest.partition(":")[2]
    address = one.addresses["node-1"]
    assert ask(address, f"/{digest}/0").status == 200
    for path in ("/", f"/{digest}/6", f"/{digest}/../../etc/passwd", f"/{digest}/-1", f"/{'0' * 64}/0", "/etc/passwd"):
        assert ask(address, path).status == 404
    answer = ask(address, f"/{digest}/0", Range="bytes=5-")
    assert answer.status == 206 and answer.headers["Content-Range"] == "bytes 5-24/25"
    assert ask(address, f"/{digest}/0", Range="bytes=25-").status == 416


def test_lets_in_the_site_s_nodes_only(site, origin):
    one = site(2)
    one.start("node-1")
    one.wait(lambda: one.nodes["node-1"].status().get("state") == "complete")
    with pytest.raises((http.client.HTTPException, OSError)):
        ask(one.addresses["node-1"], "/", source="127.0.0.9")


def test_status_shows_the_site(site, origin):
    two = site(2)
    two.start()
    two.all_end()
    about = two.nodes["node-1"].status()["site"]
    assert (about["nodes"], about["complete"], about["leads"]) == (2, 2, False)
    assert about["bytes_done"] == about["bytes_total"] == 2 * two.nodes["node-1"].manifest.bytes


def test_reads_back_from_the_disk_once(site, origin):
    two = site(2, read_back=True)
    two.start()
    assert set(two.all_end().values()) == {0}
    node = two.nodes["node-1"]
    assert node.status()["bytes_verified"] == node.manifest.bytes
    assert json.loads((node.state / "proved.json").read_text())["manifest_digest"] == node.manifest.digest
    two.start()
    two.all_end()
    assert node.status()["bytes_verified"] == 0


def test_what_reading_back_finds_is_fetched_again_from_a_node(site, origin):
    two = site(2)
    two.start()
    two.all_end()
    node, sent = two.nodes["node-1"], origin.sent()
    node.flip(SHARD)
    node.forge_stamp(SHARD)
    node.configure(read_back=True)
    two.start()
    assert set(two.all_end().values()) == {0}
    assert node.is_whole()
    assert origin.sent() == sent


def test_a_node_that_begins_to_ask_is_waited_for_also_when_it_had_failed_or_was_away(site, origin):
    two = site(2)
    one = agent.Agent(*config.load(str(two.nodes["node-1"].config)))
    one._scheduler.seen["node-2"] -= 3600
    one._scheduler.peers["node-2"] = Have(settled="failed")
    one.news("", 0.1, "127.0.0.3")
    assert list(one._scheduler.unsettled(time.monotonic(), 10)) == ["node-2"]
