"""Builds the engine image once per key, and never twice at a time."""
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import datetime
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from rehearsal.places import cache_dir

from . import base, layout, packages, recipe, slim
from .layout import Layout
from .recipe import Log

KEEP_DAYS = 14
UNFINISHED = "unfinished-"


@contextlib.contextmanager
def locked(path: Path, log: Log) -> Iterator[None]:
    """Hold an exclusive lock; the kernel frees it when its holder ends, however it ends."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log("engine image: another build is running, waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def stopwatch(log: Log) -> Log:
    """A log that says how many seconds the build has taken so far."""
    start = time.monotonic()
    return lambda step: log(f"engine image, {time.monotonic() - start:3.0f} s: {step}")


def assemble(work: Path, downloads: Path, say: Log) -> Path:
    """Make the layout inside the folder `work` and return its path."""
    tree, system, image, output = work / "tree", work / "base.tar", work / "layout", work / "commands.log"
    say(f"install vLLM {recipe.VERSION} for CPU and what it needs (about 520 MB to download)")
    packages.install(tree, downloads, output)
    say("take out what serving does not need")
    slim.slim(tree)
    say(f"make a Debian {recipe.SUITE} system and compile the modules with its Python")
    base.bootstrap(tree, system, output)
    say("write the image's layers")
    layout.write(image, system, tree)
    return image


def remove_old(root: Path, now: float) -> None:
    """Remove images that no rehearsal has used for KEEP_DAYS."""
    for image in root.glob("oci-*"):
        if image.stat().st_mtime < now - KEEP_DAYS * 86400:
            shutil.rmtree(image)


def build(log: Log = print) -> Layout:
    """Return the engine image, built if the cache does not have it (about 100 s and 520 MB of downloads).

    `log` gets a line at the start of each step. A build that is cut off keeps its downloads, and leaves
    only a folder that the next build removes. Raises RehearsalError.
    """
    root = cache_dir() / "engine"
    image = root / f"oci-{recipe.key(recipe.inputs(), datetime.date.today())}"
    root.mkdir(parents=True, exist_ok=True)
    with locked(root / "lock", log):
        # The lock is ours, so whoever made these is dead.
        for dead in root.glob(UNFINISHED + "*"):
            shutil.rmtree(dead)
        if not image.exists():
            work, downloads = root / (UNFINISHED + image.name), root / "downloads"
            work.mkdir()
            say = stopwatch(log)
            assemble(work, downloads, say).rename(image)
            say("remove downloads and intermediate files")
            shutil.rmtree(work)
            shutil.rmtree(downloads)
            say("ready")
        os.utime(image)
        remove_old(root, time.time())
    return layout.read(image)
