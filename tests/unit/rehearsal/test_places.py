"""Names and places of a site."""

from pathlib import Path

from rehearsal.places import Site


def site(checkout="/home/a/one", name="rehearsal"):
    return Site(Path(checkout) / "inventories" / name, name, Path(checkout))


def test_the_same_site_of_two_checkouts_has_two_identities():
    assert site("/home/a/one").network != site("/home/a/two").network


def test_two_sites_of_one_checkout_have_two_identities():
    assert site(name="rehearsal").label != site(name="molecule").label


def test_an_identity_does_not_change_from_run_to_run():
    assert site().id == "f6289238"


def test_a_container_is_named_after_its_site_and_host():
    assert site().container("node-01") == "kimi-k3-f6289238-node-01"


def test_the_lock_outlives_the_directory_of_the_site():
    assert not site().lock_file.is_relative_to(site().home)


def test_the_name_of_a_site_is_that_of_its_directory(tmp_path):
    assert Site.of(str(tmp_path / "quito")).name == "quito"
