"""A site that declares a mirror: where its nodes take image and checkpoint from."""

import pytest

from tests.unit.planner import samples

UPSTREAM = "docker.io/vllm/vllm-openai"


def mirrored(**service):
    return samples.cusco().with_site(mirror="service-01").with_hosts({"service-01": service}).plan()


def test_nodes_take_image_and_checkpoint_from_the_mirror_by_the_same_digest_and_commit():
    plain, plan = samples.cusco().plan(), mirrored()
    digest = plain["image"]["reference"].partition("@")[2]
    assert plan["image"]["reference"] == f"10.20.0.2:5000/vllm/vllm-openai@{digest}"
    assert plan["image"]["version"] == plain["image"]["version"]
    assert plan["checkpoint"]["origins"] == [{"kind": "hub", "url": "http://10.20.0.2:8081"}]
    assert plan["checkpoint"]["commit"] == plain["checkpoint"]["commit"]
    assert plan["insecure_registries"] == ["10.20.0.2:5000"]


def test_what_a_bundle_is_filled_from_is_the_same_with_and_without_a_mirror():
    plain, plan = samples.cusco().plan(), mirrored()
    assert plan["sources"] == plain["sources"]
    assert plan["sources"]["image"].startswith(UPSTREAM)
    assert plan["sources"]["architectures"] == ["x86_64"]


def test_the_mirror_is_reached_at_its_fabric_address_and_its_own_ports():
    plan = mirrored(fabric_address="10.30.0.2", site_mirror_port=9000, site_mirror_registry_port=9001)
    assert plan["mirror"] == {
        "host": "service-01",
        "address": "10.30.0.2",
        "url": "http://10.30.0.2:9000",
        "registry": "10.30.0.2:9001",
    }


@pytest.mark.parametrize("name", ["gpu-01", "service-1"])
def test_a_mirror_that_is_no_service_host_is_refused_with_those_that_are(name):
    (fault,) = samples.cusco().with_site(mirror=name).plan()["refusals"]
    assert (fault["where"], fault["value"]) == ("mirror", name)
    assert "service-01" in fault["remedy"]
