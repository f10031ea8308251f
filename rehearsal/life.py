"""The life of a simulated site: up, filled, down."""

import shutil
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from rehearsal import containers, disks, images, inventory, network, parts, ssh
from rehearsal.commands import RehearsalError, as_root, run
from rehearsal.containers import Engine, Host
from rehearsal.places import CHECKOUT, LABEL, Site, cache_dir
from rehearsal.state import State

Say = Callable[[str], None]
IMAGE_NAME = "vllm/vllm-openai-cpu"


def up(
    site: Site,
    engine: Engine,
    hosts: list[tuple[str, str]],
    drives: Collection[str] = (),
    sizes: Mapping[str, int] | None = None,
    *,
    fresh: bool = False,
) -> State:
    """Start the hosts, or keep those that run already as this checkout would start them. `sizes`: MiB of disks."""
    state = State.load(site.state_file)
    if not fresh and state and is_current(site, engine, state, hosts):
        return state
    down(site, keep_logs=True)
    subnet = network.choose(engine, site)
    wanted = {role: images.image(role) for role in images.ROLES}
    state = State(str(site.inventory), engine.name, subnet, inventory.place(hosts, subnet), wanted)
    state.save(site.state_file)
    ssh.make_keys(site)
    site.hub_files.mkdir(parents=True, exist_ok=True)
    engine("network", "create", "--label", site.label, "--subnet", subnet, site.network)
    for host in state.hosts:
        seen = mounts(site, host, host.name in drives)
        if size := (sizes or {}).get(host.name):
            seen[disks.make(site, host.name, size)] = "/srv/models"
        engine(*containers.run_arguments(engine.name, site, host, wanted[host.role], seen))
    ssh.configure(site, state.hosts)
    ssh.wait(site, state.hosts)
    inventory.write(site, state.hosts, None)
    state.ready = True
    state.save(site.state_file)
    return state


def is_current(site: Site, engine: Engine, state: State, hosts: list[tuple[str, str]]) -> bool:
    """Whether a site that was brought up still runs, as this checkout would start it now."""
    same = state.engine == engine.name and [(host.name, host.role) for host in state.hosts] == hosts
    wanted = {role: images.image(role) for role in images.ROLES}
    return state.ready and same and state.images == wanted and running(site, engine) == len(hosts)


def running(site: Site, engine: Engine) -> int:
    return len(engine("ps", "-q", "--filter", f"label={site.label}").split())


def mounts(site: Site, host: Host, drive: bool = False) -> dict[Path, str]:
    """Directories of this machine that a host sees."""
    seen = {site.keys: "/etc/ssh/site:ro"}
    if drive:
        site.drive.mkdir(parents=True, exist_ok=True)
        seen[site.drive] = "/mnt/drive:ro"
    if host.role == "service":
        for cache in (parts.ENGINE_CACHE, parts.HUB_CACHE):
            cache.mkdir(parents=True, exist_ok=True)
        seen |= {parts.ENGINE_CACHE: "/srv/engine:ro", parts.HUB_CACHE: "/srv/hub:ro"}
        seen |= {CHECKOUT / "rehearsal": "/srv/rehearsal:ro", site.hub_files: "/srv/site"}
    return seen


def fill(site: Site, engine: Engine, state: State, layout: dict[str, str]) -> None:
    """Push the engine image to the site's registry, digest kept, and name it in the generated inventory."""
    service = next((host for host in state.hosts if host.role == "service"), None)
    if service is None:
        raise RehearsalError("the site has stock but no host with simulated_image_role: service to hold it")
    source = f"oci:/srv/engine/{Path(layout['path']).relative_to(parts.ENGINE_CACHE)}"
    target = f"docker://127.0.0.1:{inventory.REGISTRY_PORT}/{IMAGE_NAME}:{layout['version']}"
    copy = ["skopeo", "copy", "--quiet", "--preserve-digests", "--dest-tls-verify=false", source, target]
    engine("exec", site.container(service.name), *copy)
    state.simulated_image = f"{service.address}:{inventory.REGISTRY_PORT}/{IMAGE_NAME}@{layout['digest']}"
    state.save(site.state_file)
    inventory.write(site, state.hosts, state.simulated_image)


def down(site: Site, *, keep_logs: bool = False) -> bool:
    """End all that was started for this site, by id, whatever state it is in. True if there was anything."""
    found = False
    for engine in containers.every_engine():
        hosts, networks = engine.ids("container", site.label), engine.ids("network", site.label)
        engine.remove_containers(hosts)
        for identifier in networks:
            engine("network", "rm", identifier)
        found = found or bool(hosts or networks)
    ssh.end_connections(site)
    disks.unmount(site)
    site.simulated.unlink(missing_ok=True)
    remove_tree(site.deploy_state)
    found = found or site.state_file.exists()
    for path in (
        site.state_file,
        site.keys,
        site.hub_files,
        site.drive,
        site.disks,
        *(() if keep_logs else (site.home,)),
    ):
        remove_tree(path)
    return found


def sites(default: Site) -> list[Site]:
    """The sites of this checkout that left a trace, and the default one."""
    found = {default.name: default}
    for record in default.home.parent.glob("*/state.json"):
        if (state := State.load(record)) is not None:
            found[record.parent.name] = Site(Path(state.inventory), record.parent.name)
    return list(found.values())


def clean(say: Say) -> None:
    """Remove what belongs to no site: this checkout's records, images and cache; the latter two stay while another
    checkout has a site up."""
    remove_tree(CHECKOUT / ".rehearsal")
    for engine in containers.every_engine():
        if others := engine.ids("container", LABEL):
            say(f"{len(others)} hosts of other checkouts are up: images and cache stay for them")
            return
    for engine in containers.every_engine():
        images.remove(engine)
    remove_tree(cache_dir())


def remove_tree(path: Path) -> None:
    """A directory or a file; also what a container wrote as root into a user's directory."""
    shutil.rmtree(path, ignore_errors=True)
    if path.exists():
        run(as_root(["rm", "-rf", "--one-file-system", str(path)]))
