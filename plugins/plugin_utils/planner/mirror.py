# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A site without a route out: its hosts take from the site's mirror what others take from the sources it declares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.faults import Fault, suggest
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.image import Image
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.network import endpoint
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.site import Site

GROUP = "service_hosts"
# Where the role site_mirror serves files and images, unless the host says otherwise.
PORTS = {"site_mirror_port": 8081, "site_mirror_registry_port": 5000}


@dataclass(frozen=True)
class Mirror:
    """The host that serves, the address that nodes reach it at, and its ports for files and for images."""

    host: str
    address: str
    port: int
    registry_port: int

    @classmethod
    def of(cls, host: str, variables: Mapping) -> Mirror:
        address = variables.get("fabric_address") or variables.get("ansible_host") or host
        return cls(host, address, *(int(variables.get(name, usual)) for name, usual in PORTS.items()))

    @property
    def url(self) -> str:
        """Where its files are; the checkpoint's as a hub has them."""
        return endpoint(self.address, self.port)

    @property
    def registry(self) -> str:
        return endpoint(self.address, self.registry_port).removeprefix("http://")

    def image(self, image: Image) -> Image:
        """The same image in the mirror's registry: its own name without the registry that it came from."""
        return replace(image, name=f"{self.registry}/{image.name.partition('/')[2]}") if image.name else image

    def as_dict(self) -> dict:
        return {"host": self.host, "address": self.address, "url": self.url, "registry": self.registry}


def read_mirror(
    site: Site, hosts: Mapping[str, Mapping], groups: Mapping[str, list]
) -> tuple[Mirror | None, list[Fault]]:
    """The mirror that the site declares, if it does."""
    name, members = site["mirror"], groups.get(GROUP, [])
    if name is None:
        return None, []
    if name not in members:
        return None, [Fault("mirror", name, f"must be a host of {GROUP}", suggest(name, members))]
    return Mirror.of(name, hosts.get(name, {})), []


def mirrored(site: Site, mirror: Mirror | None) -> Site:
    """The site as its nodes see it: image and checkpoint come from the mirror."""
    if mirror is None:
        return site
    near = {"checkpoint_origins": [{"kind": "hub", "url": mirror.url}]}
    # How the sources outside are reached is no business of a host on the site.
    near |= dict.fromkeys(f"checkpoint_{name}" for name in ("token_file", "ca_file", "proxy", "proxy_file"))
    image = mirror.image(site.image) if site.image else None
    return replace(site, values={**site.values, **near}, image=image)
