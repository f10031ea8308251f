"""How podman and docker are called."""

from pathlib import Path

import pytest

from rehearsal import containers
from rehearsal.commands import RehearsalError
from rehearsal.containers import Engine, Host
from rehearsal.places import Site

SITE = Site(Path("/c/inventories/rehearsal"), "rehearsal", Path("/c"))
NODE = Host("node-01", "host", "10.213.7.11")
SERVICE = Host("service-01", "service", "10.213.7.13")
ENGINES = ("podman", "docker")


def arguments(engine="podman", host=NODE, mounts=None):
    return containers.run_arguments(engine, SITE, host, "image:1", mounts or {})


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("argument", ["--privileged", "--cgroupns=private", "--tmpfs=/run", f"--label={SITE.label}"])
def test_every_host_is_a_machine_of_its_own_with_the_label_of_its_site(engine, argument):
    joined = " ".join(arguments(engine)).replace("--label ", "--label=").split()

    assert argument in joined


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("host", [NODE, SERVICE], ids=["node", "service"])
def test_what_breaks_a_machine_is_never_asked_for(engine, host):
    joined = " ".join(arguments(engine, host))

    assert "/sys/fs/cgroup" not in joined
    assert "--systemd=always" not in joined


@pytest.mark.parametrize(("engine", "count"), [("podman", 1), ("docker", 0)])
def test_only_podman_is_told_to_leave_systemd_alone(engine, count):
    assert arguments(engine).count("--systemd=false") == count


def test_the_checkpoint_path_of_a_node_is_a_volume():
    assert "--volume=/srv/models" in arguments(host=NODE)
    assert "--volume=/srv/models" not in arguments(host=SERVICE)


def test_a_disk_takes_the_place_of_the_volume():
    joined = arguments(mounts={Path("/disks/node-01"): "/srv/models"})

    assert "--volume=/disks/node-01:/srv/models" in joined
    assert "--volume=/srv/models" not in joined


def test_a_mount_keeps_its_mode():
    assert "--volume=/keys:/etc/ssh/site:ro" in arguments(mounts={Path("/keys"): "/etc/ssh/site:ro"})


def test_the_image_comes_last():
    assert arguments()[-1] == "image:1"


@pytest.mark.parametrize(
    ("bounding", "expected"),
    [("000001ffffffffff", True), ("000001fffeffffff", False), ("00000000a80425fb", False)],
    ids=["everything", "all but CAP_SYS_RESOURCE", "a container's usual set"],
)
def test_limits_may_be_raised_only_with_the_capability(bounding, expected):
    assert containers.may_raise_limits(f"Name:\tx\nCapBnd:\t{bounding}\n") is expected


def test_an_unknown_engine_is_refused_by_name(monkeypatch):
    monkeypatch.setenv("KIMI_K3_CONTAINER_ENGINE", "lxc")

    with pytest.raises(RehearsalError, match="lxc"):
        containers.detect()


@pytest.mark.parametrize(
    ("name", "expected"),
    [("podman", ["rm", "-f", "-v", "-t", "0", "a", "b"]), ("docker", ["rm", "-f", "-v", "a", "b"])],
)
def test_hosts_are_removed_by_id_with_their_volumes(monkeypatch, name, expected):
    calls = []
    monkeypatch.setattr(Engine, "__call__", lambda _self, *args: calls.append(list(args)))

    Engine(name, (name,)).remove_containers(["a", "b"])

    assert calls == [expected]


def test_nothing_is_called_when_there_is_nothing_to_remove(monkeypatch):
    calls = []
    monkeypatch.setattr(Engine, "__call__", lambda _self, *args: calls.append(args))

    Engine("podman", ("podman",)).remove_containers([])

    assert not calls
