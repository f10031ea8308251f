"""What exists of a site, written down before it is made; and one lock per site."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rehearsal.commands import RehearsalError
from rehearsal.containers import Host


@dataclass
class State:
    """The record of a site that is up or that was half made."""

    inventory: str
    engine: str
    subnet: str
    hosts: list[Host] = field(default_factory=list)
    images: dict[str, str] = field(default_factory=dict)
    ready: bool = False
    simulated_image: str | None = None

    def save(self, path: Path) -> None:
        """Atomic: a reader sees the old record or the new one."""
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        new.write_text(json.dumps(asdict(self), indent=2) + "\n")
        new.replace(path)

    @classmethod
    def load(cls, path: Path) -> "State | None":
        try:
            data = json.loads(path.read_text())
        except FileNotFoundError:
            return None
        data["hosts"] = [Host(**host) for host in data["hosts"]]
        return cls(**data)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a site; refuse at once, naming the holder, when another process has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            raise RehearsalError(f"process {holder} is at work on this site ({path}): wait for it or end it") from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
        file.truncate(0)
