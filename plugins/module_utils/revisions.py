# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The revisions of one model on a node: where each keeps its files, and what a new one takes over from an old one."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from .fetch.config import Config
from .proof.faults import ConfigError
from .proof.manifest import COMMIT, Entry, Manifest
from .proof.store import Store, write_atomically

STATE = "/var/lib/kimi-k3/checkpoint"
_CTIME = "st_ctime_ns"


def settings(
    path: str, model: str, commit: str, state: str = STATE, reads_only: bool = False, **choices: object
) -> dict:
    """Return the content of the agent's configuration file for one revision of one model."""
    own = f"{state}/{model}-{commit}"
    return {
        "published": f"{path}/{model}/{commit}",
        "parts": f"{own}/parts" if reads_only else f"{path}/{model}/.part-{commit}",
        "state": own,
        "lock": f"{state}/{model}.lock",
        **choices,
    }


def others(config: Config) -> Iterator[Path]:
    """Yield the folders of the other revisions of a model."""
    with contextlib.suppress(OSError):
        for folder in sorted(config.published.parent.iterdir()):
            of_another = COMMIT.fullmatch(folder.name) and folder != config.published
            if of_another and folder.is_dir() and not folder.is_symlink():
                yield folder


def state_of(config: Config, folder: Path) -> Path:
    """Return where the agent kept its own files of another revision."""
    return config.state.parent / f"{folder.parent.name}-{folder.name}"


def adoptable(store: Store) -> dict[str, tuple[Store, Entry]]:
    """{path of a file that is missing: an older revision that holds the same content, and its name there}.

    Only what a stamp proves at this moment counts: nothing damaged, nothing that was never hashed.
    """
    missing = [entry for entry in store.missing() if not os.path.lexists(store.target(entry))]
    held = {}
    for folder in others(store.config) if missing else ():
        with contextlib.suppress(ConfigError, OSError, ValueError):
            old = _store(store.config, folder)
            held.update({entry.sha256: (old, entry) for entry in old.manifest.files if old.is_whole(entry)})
    return {entry.path: held[entry.sha256] for entry in missing if entry.sha256 in held}


def _store(config: Config, folder: Path) -> Store:
    state = state_of(config, folder)
    manifest = Manifest.from_dict(json.loads((state / "manifest.json").read_bytes()))
    place = settings(str(folder.parents[1]), folder.parent.name, folder.name, str(state.parent))
    return Store(Config.from_dict({**place, "origins": []}), manifest)


def adopt(store: Store) -> list[str]:
    """Link what older revisions hold of this one into its place; return the paths. Runs as the files' owner.

    A link moves the inode's ctime, and with it every stamp would lapse, also those of the revision that may be serving
    now. Nothing but the link happened between two looks, so both revisions get the stamp of the second one.
    """
    adopted = {}
    for path, (old, entry) in adoptable(store).items():
        source, target = old.target(entry), store.config.published / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(
            OSError
        ):  # another filesystem, or another run was first: then it is fetched, or hashed
            os.link(source, target, follow_symlinks=False)
            adopted[path] = (old, entry)
    for state in {old.config.state for old, _ in adopted.values()}:
        _renew(state, store, {path: entry.path for path, (old, entry) in adopted.items() if old.config.state == state})
    return sorted(adopted)


def _renew(state: Path, store: Store, names: dict[str, str]) -> None:
    """Write the stamps of linked files, {path in the new revision: path in the old one}, for both."""
    old, new = _read(state / "stamps.json"), _read(store.config.state / "stamps.json")
    for path, name in names.items():
        if stamp := _renewed(old[name], store.config.published / path):
            old[name] = new[path] = stamp
    write_atomically(state / "stamps.json", json.dumps(old).encode())
    write_atomically(store.config.state / "stamps.json", json.dumps(new).encode())


def _renewed(stamp: dict, path: Path) -> dict | None:
    """Return a stamp with the ctime of this moment, where all else about the file is as it was."""
    about = path.lstat()
    renewed = {**stamp, _CTIME: about.st_ctime_ns}
    same = all(getattr(about, key) == value for key, value in renewed.items() if key.startswith("st_"))
    return renewed if same and _CTIME in stamp else None


def _read(path: Path) -> dict:
    try:
        return dict(json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return {}


def freed_bytes(folders: Iterable[Path]) -> int:
    """Return how many bytes become free when these folders go: files that other folders link too stay."""
    links: Counter[tuple[int, int]] = Counter()
    about: dict[tuple[int, int], os.stat_result] = {}
    for folder in folders:
        for place, _, names in os.walk(folder):
            for name in names:
                found = os.lstat(os.path.join(place, name))
                links[found.st_dev, found.st_ino] += 1
                about[found.st_dev, found.st_ino] = found
    return sum(found.st_size for key, found in about.items() if links[key] >= found.st_nlink)


def users_of(folder: Path, proc: Path = Path("/proc"), units: Path = Path("/etc/systemd/system")) -> list[str]:
    """Return what names a folder: processes by their command line, and units of engines that would start with it."""
    wanted = os.fsencode(folder)
    found = []
    for path in [*proc.glob("[0-9]*/cmdline"), *units.glob("kimi-k3-engine@*.service")]:
        with contextlib.suppress(OSError):  # a process that just ended
            if wanted in path.read_bytes():
                found.append(f"process {path.parent.name}" if path.name == "cmdline" else path.name)
    return sorted(found)


def remove(config: Config, folder: Path) -> None:
    """Remove another revision with all that the agent kept of it; its files last, so that what is left is found.

    Its links move the ctime of files that the revisions that stay have too: those that were whole get a new stamp.
    """
    whole = []
    for other in (config.published, *others(config)):
        if other != folder:
            with contextlib.suppress(ConfigError, OSError, ValueError):
                store = _store(config, other)
                whole.append((store, [entry.path for entry in store.manifest.files if store.is_whole(entry)]))
    shutil.rmtree(state_of(config, folder), ignore_errors=True)
    shutil.rmtree(folder)
    for store, paths in whole:
        stamps = _read(file := store.config.state / "stamps.json")
        for path in paths:
            stamps[path] = _renewed(stamps[path], store.config.published / path)
        write_atomically(file, json.dumps(stamps).encode())
