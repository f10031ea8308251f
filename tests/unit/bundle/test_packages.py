"""Packages of the distribution: which, for whom, and from where."""

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.bundle import packages
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.bundle.drive import Drive


@pytest.mark.parametrize("platform", packages.RELEASES)
def test_they_are_those_that_the_roles_name_for_the_platform(platform):
    found = packages.names(platform)
    assert {"podman", "nginx", "docker-registry", "skopeo", "python3-venv"} <= set(found)


def test_a_name_of_apts_is_the_one_in_the_repository_without_its_epoch():
    assert packages._in_pool("nginx_1%3a1.26.3-3_amd64.deb") == "nginx_1.26.3-3_amd64.deb"
    assert packages._in_pool("podman_5.4.2+ds1-1_amd64.deb") == "podman_5.4.2+ds1-1_amd64.deb"


def test_apt_is_asked_for_the_nodes_processor_with_the_distributions_key(drive, tmp_path):
    repository = packages.Repository(Drive(drive), "debian-13", ["aarch64"])
    settings = repository._configure(tmp_path, "arm64").read_text()
    assert 'APT::Architecture "arm64";' in settings
    lines = (tmp_path / "sources.list").read_text().splitlines()
    assert all(line.startswith(f"deb [arch=arm64 signed-by={packages.DEBIAN}] http://") for line in lines)


def test_a_site_may_name_other_sources(drive, tmp_path):
    repository = packages.Repository(Drive(drive), "debian-13", ["x86_64"], ["http://mirror.lan/debian trixie main"])
    repository._configure(tmp_path, "amd64")
    (line,) = (tmp_path / "sources.list").read_text().splitlines()
    assert line.endswith("] http://mirror.lan/debian trixie main")
