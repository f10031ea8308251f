"""Where a checkpoint comes from: every kind of origin, and what a site says of the way to it."""

from __future__ import annotations

import pytest

from tests.unit.planner.samples import ABSENT, cusco

HUB = {"kind": "hub", "url": "https://huggingface.co"}
HTTP = {"kind": "http", "url": "https://mirror.lan/models/kimi-k3"}
SIGNED = {"kind": "http", "urls_file": "/home/ana/lima/urls.json"}
DRIVE = {"kind": "drive", "path": "/mnt/kimi-k3"}
MANIFEST = {"checkpoint_manifest_file": "/home/ana/lima/kimi-k3.json"}


def planned(*origins, **site):
    return cusco().with_site(checkpoint_origins=list(origins), **{**MANIFEST, **site}).plan()


@pytest.mark.parametrize("origin", [HUB, HTTP, {**HTTP, "url": "http://[fd00::2]:8081/a~b%20c/"}, SIGNED, DRIVE])
def test_an_origin_of_each_kind_is_taken_as_the_agent_wants_it(origin):
    result = planned(origin)
    assert result["refusals"] == []
    assert result["checkpoint"]["origins"] == [origin]


def test_origins_keep_their_order_and_a_drive_says_apart_where_it_is_mounted():
    found = planned({**DRIVE, "nodes": ["gpu-03", "gpu-01"]}, HTTP, HUB)["checkpoint"]
    assert found["origins"] == [DRIVE, HTTP, HUB]
    assert found["drives"] == [{"path": "/mnt/kimi-k3", "nodes": ["gpu-01", "gpu-03"]}]


def test_a_bundle_is_filled_from_the_same_origins():
    sources = planned({**DRIVE, "nodes": ["gpu-03"]}, HUB, mirror="service-01")["sources"]
    assert sources["origins"] == [DRIVE, HUB]


# what is wrong: (the origin, where the refusal points, what it must say)
WRONG = {
    "no mapping": ("https://huggingface.co", "", "must be a mapping with a kind"),
    "no kind": ({"url": HTTP["url"]}, ".kind", "must be one of the kinds of origin write one of: drive, http, hub"),
    "a kind that is none": ({**HTTP, "kind": "htp"}, ".kind", "did you mean http?"),
    "a kind without what it needs": ({"kind": "http"}, "", "http has kind and url, or kind and urls_file"),
    "a drive without a path": ({"kind": "drive"}, "", "drive has kind, path and perhaps nodes, nothing else write {"),
    "two ways to say where": ({**HTTP, **SIGNED}, "", "nothing else write {kind: http, url: "),
    "a key that is misspelt": ({"kind": "http", "url_file": "/x"}, "", "kind and urls_file"),
    "a hub with a path": ({**HUB, "url": f"{HUB['url']}/api"}, ".url", "is the hub's address alone"),
    "a signature": ({**HTTP, "url": f"{HTTP['url']}?sig=word"}, ".url", "in a file: {kind: http, urls_file: "),
    "a password": ({**HTTP, "url": "https://me:word@mirror.lan/k3"}, ".url", "a plan holds no secret"),
    "another protocol": ({**HTTP, "url": "s3://bucket/k3"}, ".url", "must be http(s)://HOST[:PORT]/FOLDER"),
    "a blank": ({**HTTP, "url": "https://mirror.lan/kimi k3"}, ".url", "without blanks"),
    "letters that a URL has not": ({**HTTP, "url": "https://mirror.lan/señal"}, ".url", "percent signs"),
    "a file of URLs that is relative": ({**SIGNED, "urls_file": "urls.json"}, ".urls_file", "{{ inventory_dir }}/"),
    "a file of URLs that is none": ({**SIGNED, "urls_file": 5}, ".urls_file", "must be an absolute path"),
    "a relative path": ({**DRIVE, "path": "mnt/k3"}, ".path", "must be an absolute path"),
    "a path that goes up": ({**DRIVE, "path": "/mnt/../k3"}, ".path", "single slashes"),
    "the root": ({**DRIVE, "path": "/"}, ".path", "must not be the root of the filesystem"),
    "a drive in the checkpoint's own place": ({**DRIVE, "path": "/srv/models/kimi-k3"}, ".path", "/srv/models"),
    "no node for a drive": ({**DRIVE, "nodes": []}, ".nodes", "leave nodes out where all have it"),
    "a node for a drive that is no list": ({**DRIVE, "nodes": "gpu-01"}, ".nodes", "must be a list of hosts"),
    "a drive on a node that is none": ({**DRIVE, "nodes": ["gpu-1"]}, ".nodes", "did you mean gpu-"),
    "a drive on a node twice": ({**DRIVE, "nodes": ["gpu-01", "gpu-01"]}, ".nodes", "each once"),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_origin_is_refused_with_its_place_and_its_remedy(case):
    origin, place, words = WRONG[case]
    [fault] = planned(HTTP if origin != HTTP else HUB, origin)["refusals"]
    assert fault["where"] == f"checkpoint_origins[1]{place}"
    assert words in f"{fault['limit']} {fault['remedy']}"
    assert "word" not in str(fault["value"])


def test_an_origin_that_stands_twice_is_refused():
    [fault] = planned(HUB, HTTP, HUB)["refusals"]
    assert (fault["where"], fault["limit"]) == ("checkpoint_origins[2]", "checkpoint_origins[0] is the same origin")


@pytest.mark.parametrize("origin", [HTTP, SIGNED, DRIVE])
def test_without_a_hub_the_manifest_must_come_from_a_file(origin):
    [fault] = planned(origin, checkpoint_manifest_file=ABSENT)["refusals"]
    assert (fault["where"], fault["value"]) == ("checkpoint_manifest_file", None)
    assert "only a hub can say which files there are" in fault["limit"]


def test_an_origin_of_an_unknown_kind_is_not_asked_for_a_manifest():
    result = planned({"kind": "hubb", "url": HUB["url"]}, checkpoint_manifest_file=ABSENT)
    assert [fault["where"] for fault in result["refusals"]] == ["checkpoint_origins[0].kind"]


def test_a_mirror_is_a_hub_so_no_file_is_needed():
    assert planned(DRIVE, checkpoint_manifest_file=ABSENT, mirror="service-01")["refusals"] == []


# what is wrong: (variables, where the refusal points, what it must say)
ACCESS = {
    "a password": ({"checkpoint_proxy": "http://me:word@p.lan:3128"}, "checkpoint_proxy", "into a file on the"),
    "a user": ({"checkpoint_proxy": "http://me@p.lan:3128"}, "checkpoint_proxy", "name it as checkpoint_proxy_file"),
    "no port": ({"checkpoint_proxy": "http://p.lan"}, "checkpoint_proxy", "must be http://HOST:PORT"),
    "no protocol": ({"checkpoint_proxy": "p.lan:3128"}, "checkpoint_proxy", "must be http://HOST:PORT"),
    "another protocol": ({"checkpoint_proxy": "socks5://p.lan:1080"}, "checkpoint_proxy", "write http://proxy.lan"),
    "a path": ({"checkpoint_proxy": "http://p.lan:3128/x"}, "checkpoint_proxy", "must be http://HOST:PORT"),
    "two proxies": (
        {"checkpoint_proxy": "http://p.lan:3128", "checkpoint_proxy_file": "/home/ana/proxy"},
        "checkpoint_proxy_file",
        "checkpoint_proxy says it too leave one of them out",
    ),
    "a token and not its file": (
        {"checkpoint_token_file": "hf_word"},
        "checkpoint_token_file",
        'write "{{ inventory_dir }}/',
    ),
    "a relative CA": ({"checkpoint_ca_file": "ca.pem"}, "checkpoint_ca_file", "an absolute path on the controller"),
    "a relative manifest": ({"checkpoint_manifest_file": "k3.json"}, "checkpoint_manifest_file", "an absolute path"),
    "a port of root": ({"checkpoint_port": 443}, "checkpoint_port", "must be 1024 or more"),
    "a port of the kernel": ({"checkpoint_port": 40000}, "checkpoint_port", "outside 32768-60999"),
    "a port too high": ({"checkpoint_port": 70000}, "checkpoint_port", "65535 or less"),
    "a port of ours": ({"checkpoint_port": 7655}, "checkpoint_port", "keeper listens there already"),
}


@pytest.mark.parametrize("case", ACCESS)
def test_the_way_to_the_origins_is_refused(case):
    variables, where, words = ACCESS[case]
    [fault] = planned(HUB, **variables)["refusals"]
    assert fault["where"] == where
    assert words in f"{fault['limit']} {fault['remedy']}"
    assert "word" not in str(fault["value"])


def test_the_way_to_the_origins_stands_in_the_plan():
    files = {name: f"/home/ana/{name}" for name in ("token_file", "ca_file", "proxy_file")}
    found = planned(HUB, **{f"checkpoint_{name}": path for name, path in files.items()})
    assert found["checkpoint"]["access"] == {**files, "proxy": None}
    assert found["sources"]["access"] == found["checkpoint"]["access"]


def test_a_mirror_on_the_site_is_reached_without_token_or_proxy():
    found = planned(HUB, mirror="service-01", checkpoint_proxy="http://p.lan:3128")
    assert set(found["checkpoint"]["access"].values()) == {None}
    assert found["sources"]["access"]["proxy"] == "http://p.lan:3128"


def test_a_port_that_an_engine_listens_on_is_refused():
    faults = planned(HUB, checkpoint_port=8000)["refusals"]
    assert {fault["where"] for fault in faults} == {f"gpu-0{n}.unified-{n - 1}-rank-0.ports.http" for n in range(1, 9)}
    assert {fault["limit"] for fault in faults} == {"fetch listens there already"}
    assert all("or checkpoint_port" in fault["remedy"] for fault in faults)


@pytest.mark.parametrize("hosts", [["gpu-01"], [f"gpu-0{n}" for n in range(1, 8)]])
def test_a_password_that_stands_on_some_hosts_alone_is_not_repeated(hosts):
    said = {
        "checkpoint_proxy": "http://me:s3cret@p.lan:1",
        "checkpoint_origins": [{**HUB, "url": "http://me:s3cret@h"}],
    }
    refusals = cusco().with_hosts(dict.fromkeys(hosts, said)).plan()["refusals"]
    assert {"checkpoint_proxy", "checkpoint_origins"} <= {fault["where"].rpartition(".")[2] for fault in refusals}
    assert "s3cret" not in str(refusals)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("checkpoint_wan_node", "checkpoint_wan_nodes"),
        ("checkpoint_share", "checkpoint_shared"),
        ("checkpoint_tokenfile", "checkpoint_token_file"),
        ("checkpoint_old_revision_removal_allowed", "checkpoint_old_revisions_removal_allowed"),
    ],
)
def test_a_name_that_is_nearly_right_is_refused_with_the_right_one(name, meant):
    assert [fault["remedy"] for fault in planned(HUB, **{name: 1})["refusals"]] == [f"write {meant}"]
