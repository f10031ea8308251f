"""Inventories of simulated sites: what is read, and what is written."""

import shutil

import pytest
import yaml

from rehearsal import inventory, life
from rehearsal.commands import RehearsalError
from rehearsal.containers import Host
from rehearsal.places import CHECKOUT, Site

HOSTS = [Host("node-01", "host", "10.213.7.11"), Host("service-01", "service", "10.213.7.13")]


@pytest.fixture
def site(tmp_path):
    found = Site(tmp_path / "inventory", "trial", tmp_path)
    found.inventory.mkdir()
    found.home.mkdir(parents=True)
    return found


def test_hosts_are_those_that_name_an_image():
    variables = {"node-01": {"simulated_image_role": "host"}, "elsewhere": {}, "s": {"simulated_image_role": "service"}}

    assert inventory.wanted(variables) == [("node-01", "host"), ("s", "service")]


@pytest.mark.parametrize(
    ("variables", "message"),
    [({"node-01": {"simulated_image_role": "gpu"}}, "node-01: gpu"), ({"node-01": {}}, "no host")],
    ids=["unknown role", "nothing to simulate"],
)
def test_an_inventory_that_cannot_be_simulated_is_refused(variables, message):
    with pytest.raises(RehearsalError, match=message):
        inventory.wanted(variables)


def test_hosts_get_addresses_in_the_order_of_the_inventory():
    assert inventory.place([("b", "host"), ("a", "service")], "10.213.7.0/24") == [
        Host("b", "host", "10.213.7.11"),
        Host("a", "service", "10.213.7.12"),
    ]


def test_every_host_learns_where_registry_hub_and_image_are(site):
    rows = inventory.render(site, HOSTS, "10.213.7.13:5000/x@sha256:1")["all"]["hosts"]

    assert {(row["simulated_hub"], row["simulated_image"]) for row in rows.values()} == {
        ("http://10.213.7.13:8080", "10.213.7.13:5000/x@sha256:1")
    }


def test_without_a_service_host_there_is_neither_registry_nor_hub(site):
    row = inventory.render(site, HOSTS[:1], None)["all"]["hosts"]["node-01"]

    assert not {"simulated_registry", "simulated_hub", "simulated_image"} & row.keys()


def test_the_written_file_is_plain_yaml_without_references(site):
    inventory.write(site, HOSTS, None)

    text = site.simulated.read_text()
    assert yaml.safe_load(text) == inventory.render(site, HOSTS, None)
    assert "&id" not in text


def test_the_generated_addresses_win_over_the_committed_ones(site):
    for name in ("hosts.yml", "site.yml"):
        shutil.copy(CHECKOUT / "inventories" / "rehearsal" / name, site.inventory)

    inventory.write(site, HOSTS, None)

    assert inventory.host_variables(site.inventory)["node-01"]["fabric_address"] == "10.213.7.11"


def test_a_disk_has_the_size_that_its_host_says():
    assert inventory.disks({"node-01": {"simulated_disk_mib": 300}, "service-01": {}}) == {"node-01": 300}


def test_a_drive_is_plugged_into_the_hosts_that_say_so_and_can_only_be_read(site):
    variables = {"service-01": {"simulated_drive": True}, "node-01": {}}
    drives = inventory.with_drive(variables)

    seen = {name: life.mounts(site, Host(name, "host", "10.213.7.11"), name in drives) for name in variables}

    assert seen["service-01"][site.drive] == "/mnt/drive:ro"
    assert site.drive not in seen["node-01"]
