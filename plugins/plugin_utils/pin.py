# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turns the tag in a site's `serving_image` into a digest, in the file that declares it.

The digest is appended to the value, as in NAME:TAG@sha256:HEX, and nothing else of the file changes. So the tag stays
in sight; nodes pull by the digest alone. It is the digest of what the tag names: for an image of several architectures
that is their index, from which podman takes each node's own.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple

import yaml
from ansible_collections.sovereign.kimi_k3.plugins.module_utils import registry
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.image import (
    DIGEST,
    REFERENCE,
    VARIABLE,
    full_name,
)

# What Ansible reads as YAML; a file of group_vars needs no ending.
ENDINGS = frozenset({"", ".yml", ".yaml"})
# Folders beside the inventory that hold the site's data and no variables.
DATA_FOLDERS = frozenset({"catalogue", "state"})
# Written anew for each simulated site; the site's own files decide.
GENERATED = "simulated.yml"
VAULT = "$ANSIBLE_VAULT;"
STRING, NULL = "tag:yaml.org,2002:str", "tag:yaml.org,2002:null"
# Registries must take manifests up to this size (distribution specification 1.1); a list of tags is read as far.
ANSWER_BYTES = 4 << 20
NEAR_TAGS = 5


class Refused(Exception):
    """Why nothing was written; `row` holds where, value, limit and remedy."""

    def __init__(self, value: str, limit: str, remedy: str, place: Place | None = None):
        super().__init__(value)
        where = f"{VARIABLE} ({place.name})" if place else VARIABLE
        self.row = {"where": where, "value": value, "limit": limit, "remedy": remedy}


@dataclass(frozen=True)
class Place:
    """Where a file declares the variable; `node` is its value as YAML's parser found it in `text`."""

    file: Path
    text: str
    node: yaml.Node

    @property
    def name(self) -> str:
        return f"{self.file}, line {self.node.start_mark.line + 1}"

    @property
    def value(self) -> str:
        """What it says, or how it is written where that is no scalar."""
        if isinstance(self.node, yaml.ScalarNode):
            return {NULL: "", "!vault": "!vault ..."}.get(self.node.tag, self.node.value)
        return self.text[self.node.start_mark.index : self.node.end_mark.index].strip()

    def not_text(self) -> str:
        """Why the value is not a text that a digest can be appended to; empty where it is one."""
        if "{{" in self.value or "{%" in self.value:
            return "a template"
        if self.node.tag == "!vault":
            return "encrypted by ansible-vault"
        return "" if self.node.tag in (STRING, "!unsafe") else "a number, a list or the like"

    def with_digest(self, digest: str) -> str:
        """The file's text with the digest behind the value; comments, quotes and folding stay as they are.

        Refuses a value that is not there letter by letter (escapes), and one that other keys share (an anchor).
        """
        pinned = f"{self.value}@{digest}"
        at = self.text.rfind(self.value, self.node.start_mark.index, self.node.end_mark.index)
        if at >= 0:
            behind = at + len(self.value)
            changed = f"{self.text[:behind]}@{digest}{self.text[behind:]}"
            if self._only_change(changed) == (self.value, pinned):
                return changed
        limit = "the image's name as it is, without escapes, and no anchor that other keys use"
        raise Refused(self.value, limit, f"write {VARIABLE}: {pinned}", self)

    def _only_change(self, changed: str) -> tuple[str, str] | None:
        """(old, new) of the one scalar that differs from the file's text, read again; None where more or less does."""
        before, after = (list(_scalars(yaml.compose(text, yaml.SafeLoader))) for text in (self.text, changed))
        if len(before) != len(after):
            return None
        different = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
        return different[0] if len(different) == 1 else None


def _scalars(node: yaml.Node) -> Iterator[str]:
    """Every scalar of a document in order, keys too; what an alias stands for comes each time."""
    if isinstance(node, yaml.ScalarNode):
        yield node.value
        return
    for item in node.value:
        for child in item if isinstance(item, tuple) else (item,):
            yield from _scalars(child)


def _declarations(node: yaml.Node | None) -> Iterator[yaml.Node]:
    """The values of the variable at any depth: an inventory has it below a group's `vars`, group_vars at the top."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == VARIABLE:
                yield value
            yield from _declarations(value)


def files_of(sources: Iterable[str]) -> Iterator[Path]:
    """The files that Ansible may read variables from, for what was given with -i: folders, files or lists of hosts."""
    for source in map(Path, sources):
        if source.is_dir():
            folders = [path for path in source.iterdir() if path.is_dir() and path.name not in DATA_FOLDERS]
            yield from (path for path in source.iterdir() if path.is_file())
        elif source.is_file():
            folders = [source.parent / name for name in ("group_vars", "host_vars")]
            yield source
        else:
            continue
        yield from (path for folder in folders for path in folder.rglob("*") if path.is_file())


def declared(sources: Iterable[str]) -> tuple[list[Place], list[Path]]:
    """(the places that declare the variable, the files that are encrypted and may)."""
    places, encrypted = {}, []
    for file in sorted(set(files_of(sources))):
        if file.suffix not in ENDINGS or file.name.startswith(".") or file.name == GENERATED:
            continue
        try:
            text = file.read_bytes().decode()
            if text.startswith(VAULT):
                encrypted.append(file)
            elif VARIABLE in text:
                nodes = _declarations(yaml.compose(text, yaml.SafeLoader))
                places |= {(file, node.start_mark.index): Place(file, text, node) for node in nodes}
        except (OSError, ValueError, yaml.YAMLError):
            continue  # not YAML; Ansible itself judges the files of an inventory
    return list(places.values()), encrypted


@dataclass(frozen=True)
class Pin:
    """What becomes of the variable: the file's new text, or None where the image is pinned already."""

    reference: str
    pinned: str
    place: Place | None = None
    text: str | None = None

    @property
    def message(self) -> str:
        if self.text is None:
            where = f" in {self.place.name}" if self.place else ""
            return f"{VARIABLE}{where} is pinned already, no registry was asked: {self.pinned}"
        return f"{VARIABLE} in {self.place.name} becomes {self.pinned}"

    def diff(self) -> dict:
        """The changed line before and after, as Ansible shows it."""
        lines = zip(*(text.splitlines(keepends=True) for text in (self.place.text, self.text)), strict=True)
        number, before, after = next((n, old, new) for n, (old, new) in enumerate(lines, 1) if old != new)
        header = f"{self.place.file}, line {number}"
        return {"before_header": header, "before": before, "after_header": header, "after": after}

    def write(self) -> None:
        """Put the new text in the file's place at once, with its mode and owner."""
        file = self.place.file.resolve()  # a link stays one
        new = None
        try:
            with tempfile.NamedTemporaryFile(dir=file.parent, prefix=f".{file.name}.", delete=False) as opened:
                new = Path(opened.name)
                opened.write(self.text.encode())
            shutil.copymode(file, new)
            os.chown(new, file.stat().st_uid, file.stat().st_gid)
            new.replace(file)
        except OSError as error:
            if new:
                new.unlink(missing_ok=True)
            remedy = f"write {VARIABLE}: {self.pinned}"
            raise Refused(self.pinned, f"a file that can be replaced: {error.strerror}", remedy, self.place) from None


def pin(sources: Sequence[str], values: Iterable[str], insecure: Iterable[str]) -> Pin:
    """Decide what becomes of the variable; asks the image's registry and writes nothing.

    `sources` is what was given with -i, `values` what Ansible has for the variable on the hosts that have it, and
    `insecure` the registries that are reached over plain HTTP.
    """
    places, encrypted = declared(sources)
    if len(places) > 1:
        value, remedy = f"in {'; '.join(place.name for place in places)}", "keep the one in site.yml, remove the others"
        raise Refused(value, "declared once", remedy)
    place = places[0] if places else None
    known = list(dict.fromkeys(values))
    if place and not place.not_text() and known != [place.value]:
        limit = f"what Ansible reads, and that is {' and '.join(known) or 'nothing'}"
        remedy = "declare it once, in site.yml, and give it neither with -e nor elsewhere"
        raise Refused(place.value, limit, remedy, place)
    if len(known) == 1 and _pinned(known[0]):
        return Pin(known[0], known[0], place)
    if place is None:
        raise _undeclared(known, encrypted)
    _check(place)
    digest = Repository.of(place.value, insecure).digest()
    return Pin(place.value, f"{place.value}@{digest}", place, place.with_digest(digest))


def _pinned(reference: str) -> bool:
    match = REFERENCE.fullmatch(reference)
    return bool(match and DIGEST.fullmatch(match["digest"] or ""))


def _undeclared(known: Sequence[str], encrypted: Sequence[Path]) -> Refused:
    """Why there is no place to write to."""
    remedy = f"write {VARIABLE}: NAME:TAG into site.yml, under all: vars:"
    if known and encrypted:
        remedy = f"an image is no secret: {remedy}, and take it out of {' or '.join(map(str, encrypted))}"
        return Refused(known[0], "declared in a file that ansible-vault did not encrypt", remedy)
    if known:
        return Refused(known[0], "declared in a YAML file of the site's folder", remedy)
    return Refused("missing", "an image, as NAME:TAG", f"{remedy}; -i names the site's folder")


def _check(place: Place) -> None:
    """Refuse a value that no digest can be appended to, and a file that cannot be written."""
    if not place.value:
        raise Refused("empty", "an image, as NAME:TAG", f"write {VARIABLE}: NAME:TAG", place)
    if reason := place.not_text():
        remedy = f"write the digest by hand where the value comes from, or {VARIABLE}: NAME:TAG here"
        raise Refused(place.value, f"text; this is {reason}", remedy, place)
    match = REFERENCE.fullmatch(place.value)
    if not match or match["digest"] is not None:
        limit = "NAME:TAG, or NAME:TAG@sha256: and 64 lower-case hex digits"
        raise Refused(place.value, limit, "correct it; a tag without a digest is what this playbook pins", place)
    file = place.file.resolve()
    for path in (file, file.parent):
        if not os.access(path, os.W_OK):
            raise Refused(place.value, f"{path} can be written", "run as a user who may, or write it by hand", place)


class Answer(NamedTuple):
    """What a registry answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Repository:
    """An image's repository in its registry, asked without a login."""

    reference: str
    host: str
    url: str
    tag: str

    @classmethod
    def of(cls, reference: str, insecure: Iterable[str]) -> Repository:
        match = REFERENCE.fullmatch(reference)
        host, name, tag = registry.split(f"{full_name(match['name'])}@{match['tag'] or 'latest'}")
        return cls(reference, host, f"{'http' if host in insecure else 'https'}://{host}/v2/{name}", tag)

    def digest(self) -> str:
        """SHA-256 of the manifest that the tag names, as the registry says and as its bytes have it."""
        answer = self._ask(f"manifests/{self.tag}")
        if answer.status == 404:
            raise self._refused(f"a tag that {self.host} has", f"{self._near_tags()}; correct the tag")
        if answer.status in (401, 403):
            remedy = f"correct the name; behind a login, {self._by_hand()} (HTTP {answer.status})"
            raise self._refused(f"an image that {self.host} gives without a login", remedy)
        if answer.status != 200:
            raise self._refused(f"the registry {self.host} answers 200", f"it answered HTTP {answer.status}: try later")
        if not _is_manifest(answer.body):
            kind = answer.headers.get("Content-Type", "no type")
            remedy = f"it sent {kind}: see whether a proxy answers in its place, or what the tag holds"
            raise self._refused(f"the registry {self.host} gives an image's manifest", remedy)
        found = f"sha256:{hashlib.sha256(answer.body).hexdigest()}"
        said = answer.headers.get("Docker-Content-Digest", found)
        if said != found:
            remedy = f"do not use it before you know who changed it: its bytes are {found}"
            raise self._refused(f"the manifest that {self.host} calls {said}", remedy)
        return found

    def _ask(self, path: str) -> Answer:
        """One GET, once more with an anonymous token where the registry wants one."""
        try:
            answer = _get(f"{self.url}/{path}")
            if answer.status != 401:
                return answer
            try:
                token = registry.anonymous_token(answer.headers.get("WWW-Authenticate", ""))
            except urllib.error.HTTPError as error:
                return Answer(error.code, error.headers, b"")
            return _get(f"{self.url}/{path}", token) if token else answer
        except (OSError, ValueError, HTTPException) as error:
            reason = getattr(error, "reason", error) or type(error).__name__
            remedy = (
                f"{reason}: check name, port, proxy and firewall from this machine; a registry over plain HTTP stands "
                f"in container_engine_insecure_registries. Where no registry can be reached, {self._by_hand()}"
            )
            raise self._refused(f"the registry {self.host} answers", remedy) from None

    def _near_tags(self) -> str:
        """The tags most like this one, where the registry lists any."""
        try:
            tags = json.loads(self._ask("tags/list").body)["tags"] or []
        except (Refused, ValueError, KeyError, TypeError):
            tags = []
        near = difflib.get_close_matches(self.tag, filter(None, map(str, tags)), n=NEAR_TAGS, cutoff=0.3)
        return f"near ones are {', '.join(near)}" if near else "it lists none that is near"

    def _by_hand(self) -> str:
        return f"write the digest by hand: {VARIABLE}: {self.reference}@sha256:HEX"

    def _refused(self, limit: str, remedy: str) -> Refused:
        return Refused(self.reference, limit, remedy)


def _get(url: str, token: str = "") -> Answer:
    request = urllib.request.Request(url, headers={"Accept": f"{registry.ACCEPT}, application/json"})
    if token:
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=registry.TIMEOUT_SECONDS) as answer:
            return Answer(answer.status, answer.headers, answer.read(ANSWER_BYTES))
    except urllib.error.HTTPError as error:
        return Answer(error.code, error.headers, b"")


def _is_manifest(body: bytes) -> bool:
    """Image manifests and indexes of OCI and Docker have this in common; Docker's first schema is too old to pull."""
    try:
        return json.loads(body)["schemaVersion"] == 2
    except (ValueError, KeyError, TypeError):
        return False
