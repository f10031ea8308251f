"""A subnet that nobody on this machine uses."""

import json
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network, ip_network

from rehearsal.commands import RehearsalError, run
from rehearsal.containers import Engine
from rehearsal.places import Site

POOLS = ("10.213.0.0/16", "172.29.0.0/16", "192.168.0.0/16")
FIRST_HOST = 11


def candidates(site_id: str) -> Iterator[IPv4Network]:
    """All /24 of the pools; each site starts at another place, so that two that start at once seldom meet."""
    start = int(site_id, 16)
    for pool in POOLS:
        subnets = list(ip_network(pool).subnets(new_prefix=24))
        first = start % len(subnets)
        yield from subnets[first:] + subnets[:first]


def free(site_id: str, used: Iterable[IPv4Network]) -> Iterator[IPv4Network]:
    taken = [net for net in used if net.prefixlen > 0]
    return (net for net in candidates(site_id) if not any(net.overlaps(other) for other in taken))


def routes(listing: str) -> list[IPv4Network]:
    """Networks in the output of `ip -json -4 route show table all`, without the default route."""
    found = (row["dst"] for row in json.loads(listing or "[]"))
    return [ip_network(dst, strict=False) for dst in found if dst[0].isdigit()]


def used(engine: Engine) -> list[IPv4Network]:
    names = engine("network", "ls", "--format", "{{.Name}}").split()
    inspected = json.loads(engine("network", "inspect", *names)) if names else []
    return routes(run(["ip", "-json", "-4", "route", "show", "table", "all"]).stdout) + list(subnets(inspected))


def subnets(inspected: list[dict]) -> Iterator[IPv4Network]:
    """The IPv4 subnets in `network inspect`, in podman's and in docker's form."""
    for network in inspected:
        rows = network.get("subnets") or (network.get("IPAM") or {}).get("Config") or []
        for text in (row.get("subnet") or row.get("Subnet") or "" for row in rows):
            if text and ":" not in text:
                yield ip_network(text, strict=False)


def create(engine: Engine, site: Site, subnet: str) -> None:
    engine("network", "create", "--label", site.label, "--subnet", subnet, site.network)


def choose(engine: Engine, site: Site) -> str:
    """The first free subnet of this site, such as 10.213.7.0/24."""
    for subnet in free(site.id, used(engine)):
        return str(subnet)
    raise RehearsalError(f"no free /24 in {', '.join(POOLS)}: all overlap with routes of this machine (ip route)")


def address(subnet: str, index: int) -> str:
    """The address of the index-th host, counted from 0."""
    return str(ip_network(subnet)[FIRST_HOST + index])
