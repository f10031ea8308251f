"""The images of simulated hosts: made once, kept under a key of what they are made from."""

import fcntl
import hashlib
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rehearsal import debian
from rehearsal.containers import Engine
from rehearsal.places import LABEL, cache_dir

SUITE = "trixie"
RECIPES = Path(__file__).parent / "images"
ROLES = ("host", "service")
REPOSITORY = "localhost/kimi-k3-rehearsal"
IMAGE_LABEL = f"{LABEL}.image"

Log = Callable[[str], None]


def key(week: str | None = None) -> str:
    """12 hex digits over all recipes, the suite and the ISO week, so that packages are at most a week old."""
    digest = hashlib.sha256(f"{SUITE} {week or time.strftime('%G-%V')}".encode())
    for path in sorted(RECIPES.iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def image(role: str) -> str:
    return f"{REPOSITORY}/{role}:{key()}"


def exists(engine: Engine, name: str) -> bool:
    return bool(engine("images", "-q", name, check=False))


def missing(engine: Engine) -> bool:
    return not all(exists(engine, image(role)) for role in ROLES)


def build(engine: Engine, log: Log, log_file: Path) -> None:
    """Make the images that are missing. A second builder waits for the first and finds the work done."""
    with _turn():
        if not missing(engine):
            return
        tar = cache_dir() / "nodes" / f"{SUITE}-{key()}.tar"
        if not tar.exists():
            log(f"make a Debian {SUITE} tree with mmdebstrap")
            debian.make_tree(_tree_command(), tar, log_file)
        log("make the images of the hosts")
        base = image("base")
        engine("import", "--change", f"LABEL {IMAGE_LABEL}={key()}", str(tar), base)
        for role, parent in (("host", base), ("service", image("host"))):
            _layer(engine, role, parent)
        _forget_older(engine)


def _tree_command() -> list[str]:
    offered = shlex.join(debian.packages(RECIPES / "offered.txt"))
    hook = f'{shlex.quote(str(RECIPES / "offer.sh"))} "$1" {offered}'
    return debian.tree_command(SUITE, debian.packages(RECIPES / "node.txt"), [hook])


def _layer(engine: Engine, role: str, parent: str) -> None:
    recipe = RECIPES / f"Containerfile.{role}"
    arguments = ["--build-arg", f"BASE={parent}", "--label", f"{IMAGE_LABEL}={key()}"]
    engine("build", "-q", "-t", image(role), *arguments, "-f", str(recipe), str(RECIPES))


def _forget_older(engine: Engine) -> None:
    """Earlier weeks' images; one that a running site uses stays until that site is gone."""
    for tar in (cache_dir() / "nodes").glob("*.tar"):
        if key() not in tar.name:
            tar.unlink()
    current = {line for role in ("base", *ROLES) for line in engine("images", "-q", image(role)).split()}
    for identifier in engine.ids("image", IMAGE_LABEL):
        if identifier not in current:
            engine("rmi", identifier, check=False)


def remove(engine: Engine) -> None:
    """All images of the tool. Parents can go only after their children: hence more than one round."""
    for _round in range(3):
        for identifier in engine.ids("image", IMAGE_LABEL):
            engine("rmi", identifier, check=False)


@contextmanager
def _turn() -> Iterator[None]:
    """One builder at a time among all checkouts of this user."""
    path = cache_dir() / "nodes" / "lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
