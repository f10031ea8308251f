"""The subnet of a simulated site."""

from ipaddress import ip_network

import pytest

from rehearsal import network

IP_ROUTES = """[
 {"dst": "default", "gateway": "192.0.2.1", "dev": "eth0"},
 {"dst": "10.213.7.0/24", "dev": "podman1"},
 {"type": "local", "dst": "192.0.2.2", "dev": "eth0"},
 {"type": "unreachable", "dst": "fd00::/64"}
]"""


def first(used, site="00000007"):
    return str(next(network.free(site, [ip_network(net) for net in used])))


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        ([], "10.213.7.0/24"),
        (["10.213.7.0/24"], "10.213.8.0/24"),
        (["10.213.7.128/25", "10.213.8.0/22"], "10.213.12.0/24"),
        (["10.213.0.0/16"], "172.29.7.0/24"),
        (["10.0.0.0/8", "172.16.0.0/12"], "192.168.7.0/24"),
        (["0.0.0.0/0"], "10.213.7.0/24"),
    ],
    ids=["its own place", "taken", "partly taken", "pool taken", "two pools taken", "default route is no obstacle"],
)
def test_the_first_subnet_that_overlaps_nothing_is_chosen(used, expected):
    assert first(used) == expected


def test_a_subnet_below_the_starting_point_is_found_too():
    used = ["10.213.255.0/24", "10.213.254.0/24"]

    assert first(used, site="000000fe") == "10.213.0.0/24"


def test_no_subnet_when_everything_is_routed():
    assert not list(network.free("00000007", [ip_network("0.0.0.0/1"), ip_network("128.0.0.0/1")]))


def test_two_sites_start_at_different_subnets():
    assert first([], site="00000001") != first([], site="00000002")


def test_routes_of_the_machine_are_networks_without_the_default_and_ipv6():
    assert [str(net) for net in network.routes(IP_ROUTES)] == ["10.213.7.0/24", "192.0.2.2/32"]


@pytest.mark.parametrize(
    "inspected",
    [
        [{"name": "podman", "subnets": [{"subnet": "10.88.0.0/16"}, {"subnet": "fd00::/64"}]}],
        [
            {"Name": "bridge", "IPAM": {"Config": [{"Subnet": "10.88.0.0/16"}]}},
            {"Name": "host", "IPAM": {"Config": None}},
        ],
    ],
    ids=["podman", "docker"],
)
def test_subnets_are_read_from_either_engine(inspected):
    assert [str(net) for net in network.subnets(inspected)] == ["10.88.0.0/16"]


def test_hosts_are_numbered_from_eleven():
    assert [network.address("10.213.7.0/24", index) for index in (0, 1)] == ["10.213.7.11", "10.213.7.12"]
