"""What a site is made of besides its hosts: their images, the engine image and the tiny model.

Each is built by a process of its own, so that they use both cores and end cleanly on Ctrl-C.
"""

import importlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rehearsal import containers, images
from rehearsal.commands import Job, RehearsalError, tail
from rehearsal.places import Site, cache_dir

ENGINE_CACHE = cache_dir() / "engine"
HUB_CACHE = cache_dir() / "hub"
POLL_SECONDS = 0.2

Say = Callable[[str], None]


def has_engine() -> bool:
    """Whether some engine image is in the cache; its key is the builder's business."""
    return any(ENGINE_CACHE.glob("oci-*"))


def build(part: str, say: Say) -> dict[str, Any]:
    """Build one part in this process; a part that is in the cache costs almost nothing."""
    return _BUILDERS[part](say)


def _hosts(say: Say) -> dict[str, Any]:
    images.build(containers.detect(), say, cache_dir() / "nodes" / "mmdebstrap.log")
    return {role: images.image(role) for role in images.ROLES}


def _engine(say: Say) -> dict[str, Any]:
    builder = importlib.import_module("rehearsal.engine")
    try:
        layout = builder.build(say)
    except builder.BuildError as error:
        raise RehearsalError(str(error)) from error
    if not Path(layout.path).is_relative_to(ENGINE_CACHE):
        raise RehearsalError(f"the engine image is in {layout.path}: it must be below {ENGINE_CACHE}")
    return {"path": str(layout.path), "digest": layout.digest, "version": layout.version}


def _model(_say: Say) -> dict[str, Any]:
    builder = importlib.import_module("rehearsal.model.build")
    try:
        return {"commit": builder.build(HUB_CACHE)}
    except ValueError as error:
        raise RehearsalError(str(error)) from error


_BUILDERS = {"hosts": _hosts, "engine": _engine, "model": _model}
PARTS = tuple(_BUILDERS)


def build_all(site: Site, parts: list[str], say: Say) -> dict[str, dict[str, Any]]:
    """Build parts side by side; the first failure ends the others. Returns each part's result.

    `say` gets the last line of each part's log, again and again.
    """
    jobs = {part: _start(site, part) for part in parts}
    try:
        _watch(jobs, say)
    finally:
        for job in jobs.values():
            job.end()
    return {part: json.loads(_result(site, part).read_text()) for part in parts}


def _start(site: Site, part: str) -> Job:
    log, result = site.logs / f"build-{part}.log", _result(site, part)
    log.unlink(missing_ok=True)
    result.unlink(missing_ok=True)
    argv = [sys.executable, "-m", "rehearsal", "build", part, "--result", str(result)]
    return Job(argv, log, directory=site.checkout)


def _result(site: Site, part: str) -> Path:
    return site.logs / f"build-{part}.json"


def _watch(jobs: dict[str, Job], say: Say) -> None:
    waiting = dict(jobs)
    while waiting:
        for part, job in list(waiting.items()):
            if job.process.poll() is not None:
                job.wait()
                del waiting[part]
        say(", ".join(f"{part}: {tail(job.log, 1)}" for part, job in waiting.items()))
        time.sleep(POLL_SECONDS)
