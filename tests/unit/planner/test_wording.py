"""How a refusal words a wrong value, and what it advises."""

from __future__ import annotations

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner import text

from tests.unit.planner.samples import ABSENT, cusco

HEX = "f" * 64
HUB = "https://huggingface.co"


def test_a_remedy_leaves_no_pool_without_a_node():
    result = cusco().with_site(serving_profile="multi_node_tp", serving_nodes_per_replica=12).plan()
    remedies = ["add 4 node(s) to the group, or choose another layout"]
    assert [fault["remedy"] for fault in result["refusals"]] == remedies


@pytest.mark.parametrize("value", [0.29, True])
def test_a_version_that_is_no_text_is_one_fault(value):
    result = cusco().with_site(serving_image=f"a.b/c@sha256:{HEX}", serving_engine_version=value).plan()
    [fault] = result["refusals"]
    assert (fault["value"], fault["limit"]) == (value, "must be text, so put it in quotes")


@pytest.mark.parametrize(
    ("value", "printed"),
    [(None, "gpu_count: empty; must have a value"), (ABSENT, "gpu_count: missing; must be declared")],
)
def test_an_empty_key_is_not_called_missing(value, printed):
    refusals = cusco().with_hosts({"gpu-03": {"gpu_count": value}}).plan()["refusals"]
    assert f"- gpu-03.{printed}. Write gpu_count: 8" in text.refusals(refusals)


@pytest.mark.parametrize(
    ("url", "limit", "remedy"),
    [
        (f"{HUB}/moonshotai/Kimi-K3", "is the hub's address alone, without a path", f"write {HUB}"),
        (f"{HUB}/api", "without a path", f"write {HUB}"),
        ("http://hub.lan:8080/moonshotai/Kimi-K3/", "serving_model says which", "write http://hub.lan:8080"),
        ("http://hub.lan/hf/moonshotai/Kimi-K3", "serving_model says which", "write http://hub.lan/hf"),
        (f"{HUB}?token=word", "no user, password or query", f"write {HUB}"),
        (f"{HUB}/?", "no user, password or query", f"write {HUB}"),
        ("http://me:word@hub.lan", "no user, password or query", "write http://hub.lan"),
        (f" {HUB}", "without blanks", "write {kind: hub, url: https://huggingface.co}"),
        ("https://hugging face.co", "without blanks", "write {kind: hub, url"),
        (f"{HUB} ", "without blanks", "write {kind: hub, url"),
        ("http://me:word@hub lan", "without blanks", "write {kind: hub, url"),
        ("", "HOST", "write {kind: hub, url"),
        (None, "HOST", "write {kind: hub, url"),
        ("huggingface.co", "HOST", "write {kind: hub, url"),
        ("http://hub.lan:99999", "HOST", "write {kind: hub, url"),
    ],
)
def test_a_url_that_is_not_the_hubs_address_is_refused(url, limit, remedy):
    [fault] = cusco().with_site(checkpoint_origins=[{"kind": "hub", "url": url}]).plan()["refusals"]
    assert limit in fault["limit"]
    assert fault["remedy"].startswith(remedy)
    assert "word" not in str(fault["value"])


@pytest.mark.parametrize(
    "url", [HUB, f"{HUB}/", "http://10.0.0.2:8080", "http://[fd00::2]:8080", "https://a.lan/api/hf/"]
)
def test_a_hubs_address_is_taken(url):
    assert cusco().with_site(checkpoint_origins=[{"kind": "hub", "url": url}]).plan()["refusals"] == []


def test_files_that_share_a_fault_are_named_each():
    faults = [{"where": f"site catalogue/hardware/{n}.yml", "value": None, "limit": "x", "remedy": "y"} for n in "ab"]
    assert text.refusals(faults).splitlines()[1:] == [
        "- site catalogue/hardware/a.yml: missing; x. Y",
        "- site catalogue/hardware/b.yml: missing; x. Y",
    ]
