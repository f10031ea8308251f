"""The inventory of a simulated site: which hosts it wants, and the file that says where they are."""

import json
from pathlib import Path
from typing import Any

import yaml

from rehearsal import network
from rehearsal.commands import RehearsalError, run, tool
from rehearsal.containers import Host
from rehearsal.images import ROLES
from rehearsal.places import Site

REGISTRY_PORT = 5000
HUB_PORT = 8080
HEADER = "# Written by the rehearsal while the site is up, and removed with it.\n"


def host_variables(inventory: Path) -> dict[str, dict[str, Any]]:
    """Variables of every host, as Ansible itself reads them."""
    listing = json.loads(run([tool("ansible-inventory"), "-i", str(inventory), "--list"]).stdout)
    return listing["_meta"]["hostvars"]


def wanted(variables: dict[str, dict[str, Any]]) -> list[tuple[str, str]]:
    """(host, image role) of every host that names a `simulated_image_role`, in the order of the inventory."""
    roles = {name: values.get("simulated_image_role") for name, values in variables.items()}
    hosts = [(name, role) for name, role in roles.items() if role]
    unknown = [f"{name}: {role}" for name, role in hosts if role not in ROLES]
    if unknown:
        raise RehearsalError(f"simulated_image_role must be one of {', '.join(ROLES)}; found {'; '.join(unknown)}")
    if not hosts:
        raise RehearsalError("no host of this inventory has simulated_image_role: there is nothing to simulate")
    return hosts


def stock(variables: dict[str, dict[str, Any]]) -> set[str]:
    """What the service hosts shall hold: of `engine` (image in the registry) and `model` (files on the hub)."""
    return {item for values in variables.values() for item in values.get("simulated_stock", [])}


def with_drive(variables: dict[str, dict[str, Any]]) -> set[str]:
    """The hosts that a drive is plugged into."""
    return {name for name, values in variables.items() if values.get("simulated_drive")}


def disks(variables: dict[str, dict[str, Any]]) -> dict[str, int]:
    """MiB of the disk of every host that has one of a size of its own at /srv/models."""
    return {name: size for name, values in variables.items() if (size := values.get("simulated_disk_mib"))}


def place(hosts: list[tuple[str, str]], subnet: str) -> list[Host]:
    return [Host(name, role, network.address(subnet, index)) for index, (name, role) in enumerate(hosts)]


def render(site: Site, hosts: list[Host], image: str | None) -> dict[str, Any]:
    """The generated inventory: how to reach each host, and where registry and hub are."""
    service = next((host for host in hosts if host.role == "service"), None)
    shared: dict[str, Any] = {
        "ansible_user": "ops",
        "ansible_ssh_private_key_file": str(site.keys / "id_ed25519"),
        "ansible_ssh_common_args": f"-o UserKnownHostsFile={site.keys / 'known_hosts'} -o StrictHostKeyChecking=yes",
        "ansible_control_path_dir": str(site.sockets),
        "simulated_drive_folder": str(site.drive),
    }
    if service:
        registry = f"{service.address}:{REGISTRY_PORT}"
        shared["simulated_registry"] = registry
        shared["simulated_hub"] = f"http://{service.address}:{HUB_PORT}"
        shared["container_engine_insecure_registries"] = [registry]
    if image:
        shared["simulated_image"] = image
    rows = {host.name: {"ansible_host": host.address, "fabric_address": host.address, **shared} for host in hosts}
    return {"all": {"hosts": rows}}


class _Plain(yaml.SafeDumper):
    """Writes a value that occurs twice out twice: people read this file."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def write(site: Site, hosts: list[Host], image: str | None) -> None:
    new = site.home / "simulated.yml.new"
    new.write_text(HEADER + yaml.dump(render(site, hosts, image), Dumper=_Plain, sort_keys=False, width=200))
    new.replace(site.simulated)
