"""A site without a route out, from an empty drive to a model that answers.

While the drive is filled, a host outside the site plays the hub and the registry. Then it is gone, the site's hosts
lose their default route and their package sources, and all that they get comes from the drive in the service host.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from rehearsal import containers
from rehearsal.places import CHECKOUT, Site

from .conftest import Rehearsed, tool
from .test_deploy import ANSWER

pytestmark = pytest.mark.rehearsal

INVENTORY = "inventories/airgap"
HOSTS = ("node-01", "node-02", "service-01")
OUTSIDE = "internet-01"
# Inside the host's own network and files: the machine's are out of reach.
CUT = "ip route del default; rm -rf /srv/debs /etc/apt/sources.list.d/*"


class Airgapped(Rehearsed):
    """The site; `filled` and `filled_again` are the runs of bundle.yml before it lost its route out."""

    def fill(self):
        return self.play("bundle", bundle_path=str(self.site.drive), bundle_mount_required=False)

    def cut(self) -> None:
        for host in HOSTS:
            self.ssh(host, CUT)
        containers.detect()("kill", self.site.container(OUTSIDE))


@pytest.fixture(scope="module")
def airgapped(tmp_path_factory) -> Iterator[Airgapped]:
    one = Airgapped(Site.of(str(CHECKOUT / INVENTORY)), tmp_path_factory.mktemp("runner"))
    tool("up", "--fresh", f"--inventory={INVENTORY}")
    one.filled, one.filled_again = one.fill(), one.fill()
    one.cut()
    yield one
    tool("down", f"--inventory={INVENTORY}")


def test_a_drive_is_filled_and_a_second_run_changes_nothing(airgapped):
    assert airgapped.filled.code == 0, airgapped.filled.said
    assert (airgapped.filled_again.code, airgapped.filled_again.changed) == (0, [])
    index = json.loads((airgapped.site.drive / "index.json").read_bytes())
    assert index["checkpoint"]["licence"] == "LICENSE"
    assert [image["reference"] for image in index["images"]] == [airgapped.variable("simulated_image")]
    for row in index["files"]:
        assert (airgapped.site.drive / row["path"]).stat().st_size == row["bytes"]


def test_no_host_of_the_site_reaches_anything_outside(airgapped):
    for host in HOSTS:
        assert "default" not in airgapped.ssh(host, "ip route")
        outside = airgapped.variable("simulated_hub")
        assert airgapped.ssh(host, f"curl -sm 3 {outside}/healthz || echo unreachable").strip() == "unreachable"
        assert "podman" not in airgapped.ssh(host, "apt-get -q update; apt-cache search --names-only ^podman$")


def test_a_check_of_the_mirror_on_a_fresh_host_fails_nowhere_and_changes_nothing(airgapped):
    run = airgapped.play("mirror", "--check", "--diff")
    assert run.code == 0, run.said
    assert "active" not in airgapped.ssh("service-01", "systemctl is-active nginx", check=False).split()


def test_the_service_host_serves_the_drive_and_a_second_run_changes_nothing(airgapped):
    run = airgapped.play("mirror")
    assert run.code == 0, run.said
    run = airgapped.play("mirror")
    assert (run.code, run.changed) == (0, [])
    used = airgapped.ssh("service-01", "du -sm /srv /var/lib/docker-registry | sort -n").split()
    assert int(used[0]) < 5  # files are served from the drive, only images were copied


def test_a_check_of_fresh_nodes_fails_nowhere(airgapped):
    run = airgapped.play("prepare", "--check", "--diff")
    assert run.code == 0, run.said


def test_the_site_is_deployed_and_answers_and_preparing_it_again_changes_nothing(airgapped):
    run = airgapped.play("deploy")
    assert run.code == 0, run.said
    assert airgapped.chat() == ANSWER
    run = airgapped.play("prepare")
    assert (run.code, run.changed) == (0, [])


def test_packages_checkpoint_and_image_came_to_the_nodes_from_the_mirror(airgapped):
    log = airgapped.ssh("service-01", "cat /var/log/nginx/kimi-k3-mirror.log")
    for node in ("node-01", "node-02"):
        lines = [line for line in log.splitlines() if line.startswith(airgapped.address(node))]
        for word in ("/pool/main/", "/resolve/", "/blobs/sha256:"):
            assert any(word in line for line in lines), f"{node} got no {word}"


def test_a_controller_made_from_the_drive_alone_plans_the_site(airgapped):
    folder = "/root/controller"
    airgapped.ssh(
        "service-01",
        "export APT_CONFIG=/etc/kimi-k3/apt/apt.conf; "
        "apt-get -q install -y --no-install-recommends python3-venv openssh-client && "
        f"python3 -m venv {folder} && {folder}/bin/pip install -q --no-index --find-links /mnt/drive/python/wheels "
        "--require-hashes -r /mnt/drive/python/requirements.txt && "
        f"{folder}/bin/ansible-galaxy collection install --offline -p {folder}/c /mnt/drive/collection/*.tar.gz",
    )
    for file in ("hosts.yml", "site.yml", "simulated.yml"):
        text = (airgapped.site.inventory / file).read_text()
        airgapped.write("service-01", f"/root/site/{file}", text)
    printed = airgapped.ssh(
        "service-01",
        f"cd /root && ANSIBLE_COLLECTIONS_PATH={folder}/c "
        f"{folder}/bin/ansible-playbook sovereign.kimi_k3.plan -i /root/site",
    )
    assert f"{airgapped.address('service-01')}:5000/vllm/vllm-openai-cpu@sha256:" in printed
