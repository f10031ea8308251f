"""The checkpoint over all nodes of a site."""

from __future__ import annotations

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.checkpoint import (
    controller_files,
    gate_faults,
    judged,
    place_faults,
)

DIGEST = "sha256:wanted"
WHOLE = {"manifest_digest": DIGEST, "missing_files": [], "faults": []}
UNMOUNTED = {"where": "checkpoint_path", "value": "not mounted", "limit": "a mount", "remedy": "mount it"}


def test_gate_is_open_where_every_node_holds_the_same():
    assert gate_faults(DIGEST, {"node-01": WHOLE, "node-02": WHOLE}) == []


@pytest.mark.parametrize(
    ("changes", "value"),
    [
        ({"manifest_digest": "sha256:other"}, "manifest sha256:other"),
        ({"manifest_digest": ""}, "manifest none"),
        ({"missing_files": ["a"]}, "1 files missing or damaged: a"),
        ({"missing_files": list("abcde")}, "5 files missing or damaged: a, b, c and 2 more"),
    ],
)
def test_gate_names_the_node_what_was_found_and_the_remedy(changes, value):
    (row,) = gate_faults(DIGEST, {"node-01": WHOLE, "node-02": {**WHOLE, **changes}})
    assert (row["where"], row["value"], row["remedy"]) == ("node-02", value, "run playbooks/checkpoint.yml")
    assert DIGEST in row["limit"]


def test_gate_passes_on_what_else_is_wrong_with_the_place():
    (row,) = gate_faults(DIGEST, {"node-01": {**WHOLE, "faults": [UNMOUNTED]}})
    assert row == {**UNMOUNTED, "where": "node-01: checkpoint_path"}


def test_gate_is_closed_where_a_node_could_not_be_read():
    (row,) = gate_faults(DIGEST, {"node-01": {"unreachable": True, "msg": "no route"}})
    assert (row["where"], row["value"]) == ("node-01", "unreachable")


def test_says_which_nodes_a_limited_run_did_not_judge():
    assert judged(DIGEST, ["a", "b"], ["a", "b", "service-01"]) == f"all 2 nodes hold {DIGEST}"
    said = judged(DIGEST, ["a", "b", "c"], ["b"])
    assert said == f"1 of 3 nodes were judged, they hold {DIGEST}; --limit leaves out a, c"


def test_files_of_the_controller_get_the_names_that_the_module_gives_them():
    origins = [{"kind": "hub", "url": "x"}, {"kind": "http", "urls_file": "/home/ops/urls.json"}]
    assert controller_files(origins, "/home/ops/token", "") == [
        {"source": "/home/ops/token", "name": "token"},
        {"source": "/home/ops/urls.json", "name": "urls-1.json"},
    ]


NFS = {"is_network": True, "filesystem": "nfs4", "source": "10.0.0.9:/models"}
LOCAL = {"is_network": False, "filesystem": "xfs", "source": "/dev/nvme0n1"}


def test_filesystem_that_several_nodes_would_write_is_a_fault():
    (row,) = place_faults({"node-01": NFS, "node-02": NFS, "node-03": LOCAL, "service-01": {}}, shared=False)
    assert row["value"] == "node-01, node-02 have the same nfs4 there, 10.0.0.9:/models"
    assert "checkpoint_shared: true" in row["remedy"]


@pytest.mark.parametrize(
    ("results", "shared"),
    [
        ({"node-01": NFS, "node-02": NFS}, True),
        ({"node-01": NFS, "node-02": {**NFS, "source": "10.0.0.9:/models-02"}}, False),
        ({"node-01": LOCAL, "node-02": LOCAL}, False),
        ({"node-01": NFS}, False),
    ],
)
def test_filesystem_that_one_node_writes_is_none(results, shared):
    assert list(place_faults(results, shared)) == []
