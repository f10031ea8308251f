# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A bundle on this host: what it holds, and whether it is all there. Only reads."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from .filesystem import make_folder
from .proof.store import hash_file

FORMAT = 1
BLOCK_BYTES = 1 << 20
SMALL_BYTES = 64 << 20
# A copy is told of in pieces of about this size.
PIECE_BYTES = 8 << 30
# So many files are named in a fault; the others are counted.
NAMED = 3
_REFILL = "mount the right drive there, or run playbooks/bundle.yml again and bring it"


class Bundle:
    """The folder of a bundle and its index; raises LookupError, with a row, where there is none."""

    def __init__(self, path: str, index_sha256: str = ""):
        self.root = Path(path)
        try:
            data = (self.root / "index.json").read_bytes()
            self.index = json.loads(data)
            known = self.index["format"] == FORMAT
        except (OSError, ValueError, KeyError, TypeError) as error:
            value = f"{path} has no readable index.json: {getattr(error, 'strerror', None) or error!r}"
            raise LookupError(_row(value, "a bundle", _REFILL)) from None
        if not known:
            limit = f"format {FORMAT}, which this release of the collection reads"
            raise LookupError(_row(f"{path} has format {self.index['format']}", limit, "fill it with this release"))
        self.digest = hashlib.sha256(data).hexdigest()
        if index_sha256 and index_sha256.lower() != self.digest:
            value, limit = f"{path}/index.json has SHA-256 {self.digest}", f"site_mirror_index_sha256 {index_sha256}"
            raise LookupError(_row(value, limit, "do not use this drive before you know why it differs"))

    def faults(self, commit: str, images: list) -> Iterator[dict]:
        """Yield what the site needs and the bundle has not, then what the index has and the drive has not."""
        held = self.index["checkpoint"]
        if held["commit"] != commit:
            value = f"{self.root} holds {held['repo']} at {held['commit']}"
            yield _row(value, f"serving_model_revision {commit}", "fill the drive for this site, or correct site.yml")
        digests = {image["digest"] for image in self.index["images"]}
        for image in images:
            if image.partition("@")[2] not in digests:
                value = f"{self.root} holds {', '.join(sorted(digests)) or 'no image'}"
                yield _row(value, image, "fill the drive for this site, or correct serving_image")
        yield from self._file_faults()

    def _file_faults(self) -> Iterator[dict]:
        wrong = []
        for row in self.index["files"]:
            try:
                found = os.stat(self.root / row["path"]).st_size
            except OSError as error:
                wrong.append(f"{row['path']}: {error.strerror}")
                continue
            if found != row["bytes"]:
                wrong.append(f"{row['path']}: {found} bytes, not {row['bytes']}")
        if wrong:
            more = f" and {len(wrong) - NAMED} more" if len(wrong) > NAMED else ""
            limit = f"the {len(self.index['files'])} files of its index"
            yield _row("; ".join(wrong[:NAMED]) + more, limit, _REFILL)

    def images(self) -> list:
        """The images of the bundle, each with the path of its manifest in a registry."""
        rows = self.index["images"]
        return [{**image, "manifest": "{name}/manifests/{digest}".format(**image)} for image in rows]

    def space_faults(self, store: str) -> Iterator[dict]:
        """Yield why the registry's store cannot take the images that it does not have yet."""
        blobs = Path(store) / "docker/registry/v2/blobs/sha256"
        needed = sum(
            row["bytes"]
            for image in self.index["images"]
            for row in self.index["files"]
            if row["path"].startswith(image["path"] + "/")
            and not (blobs / row["sha256"][:2] / row["sha256"] / "data").exists()
        )
        yield from _space(store, needed, "images")

    def pieces(self) -> list:
        """Paths of all files in lists, each of some gigabytes or one file; the index comes last, when all is there."""
        pieces, size = [[]], 0
        for row in self.index["files"]:
            if size >= PIECE_BYTES:
                pieces.append([])
                size = 0
            pieces[-1].append(row["path"])
            size += row["bytes"]
        return [*pieces, ["index.json"]]

    def copy(self, paths: list, target: str, dry: bool = False) -> list:
        """Copy files that the target does not have whole, comparing SHA-256 on the way; return those that it lacked.

        Raises ValueError for bytes that are not those of the index. What was copied of a file stays as `.part`, and a
        later run goes on there.
        """
        rows = {row["path"]: row for row in self.index["files"]}
        rows["index.json"] = {"bytes": (self.root / "index.json").stat().st_size, "sha256": self.digest}
        before = _hashes(target)
        missing = [path for path in paths if not _is_copied(Path(target, path), rows[path], before)]
        for path in () if dry else missing:
            place = Path(target, path)
            make_folder(place.parent)
            _copy(self.root / path, place, rows[path])
        return missing

    def copy_faults(self, target: str) -> Iterator[dict]:
        """Yield why a folder cannot take a copy of the bundle."""
        before = _hashes(target)
        missing = (row for row in self.index["files"] if not _is_copied(Path(target, row["path"]), row, before))
        needed = sum(row["bytes"] for row in missing)
        yield from _space(target, needed, "files")

    def tree(self) -> list:
        """The checkpoint's files as a hub lists them, each with its SHA-256."""
        manifest = json.loads((self.root / self.index["checkpoint"]["manifest"]).read_bytes())
        return [
            {
                "type": "file",
                "path": entry["path"],
                "size": entry["size"],
                "oid": entry["sha256"],
                "lfs": {"oid": entry["sha256"], "size": entry["size"], "pointerSize": 134},
            }
            for entry in manifest["files"]
        ]

    def repositories(self) -> list:
        """The package repositories, each with the path of its release file and the key that this is signed with."""
        return [
            {
                **row,
                "release": "{path}/dists/{suite}/InRelease".format(**row),
                "key": (self.root / row["path"] / row["key_file"]).read_text(encoding="ascii"),
            }
            for row in self.index["packages"]
        ]


def _hashes(folder: str) -> dict:
    """{path: SHA-256} of the bundle that was copied to a folder before; empty where there is none."""
    try:
        return {row["path"]: row["sha256"] for row in Bundle(folder).index["files"]}
    except LookupError:
        return {}


def _is_copied(place: Path, row: dict, before: dict) -> bool:
    """Small files are read; a large one got its name when it was whole, and is another if it was another before."""
    if not place.is_file() or place.stat().st_size != row["bytes"]:
        return False
    if row["bytes"] <= SMALL_BYTES or "path" not in row:  # the index, which does not list itself
        return hash_file(place) == row["sha256"]
    return before.get(row.get("path"), row["sha256"]) == row["sha256"]


def _copy(source: Path, place: Path, row: dict) -> None:
    part = place.with_name(place.name + ".part")
    digest = hashlib.sha256()
    with source.open("rb") as old, part.open("a+b") as new:
        new.seek(0)
        for block in iter(lambda: new.read(BLOCK_BYTES), b""):
            digest.update(block)
        old.seek(new.tell())
        for block in iter(lambda: old.read(BLOCK_BYTES), b""):
            digest.update(block)
            new.write(block)
        new.flush()
        os.fsync(new.fileno())
    if digest.hexdigest() != row["sha256"]:
        part.unlink()
        raise ValueError(f"{source}: SHA-256 {digest.hexdigest()}; needed: {row['sha256']}; remedy: {_REFILL}")
    part.chmod(0o644)
    part.replace(place)


def _space(folder: str, needed: int, what: str) -> Iterator[dict]:
    place = Path(folder)
    while not place.is_dir():
        place = place.parent
    space = os.statvfs(place)
    free = space.f_bavail * space.f_frsize
    if needed > free:
        remedy = f"free {needed - free} bytes there, or mount a larger disk at {folder}"
        yield _row(f"{free} bytes free at {folder}", f"{needed} bytes for {what} of the bundle", remedy)


def _row(value: str, limit: str, remedy: str) -> dict:
    return {"where": "site_mirror_bundle", "value": value, "limit": limit, "remedy": remedy}
