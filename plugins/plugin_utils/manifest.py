# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The manifest of a checkpoint, read from a hub at a pinned commit.

The hub's tree gives path and size of every file and the SHA-256 of the large ones. The small ones
have only a git blob hash: they are downloaded, compared with it, and their SHA-256 is recorded.
Nothing comes from the hub client's cache, so an origin that is gone is never taken for one that answers.
"""

from __future__ import annotations

import fnmatch
import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import httpx2
import huggingface_hub
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.fetch import manifest as manifests
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.fetch.faults import ConfigError, SourceFault, WrongBytes
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.fetch.manifest import Entry, Manifest
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.fetch.origin import Access, Web, origin
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.fetch.transfer import BLOCK_BYTES
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils import frozen
from huggingface_hub import errors

CONNECT_SECONDS = 10
TOTAL_SECONDS = 60
# The hub keeps files of 10 MiB and more as LFS files; leave room for mirrors with another threshold.
SMALL_BYTES = 64 << 20


@dataclass(frozen=True)
class Fault:
    """Why there is no manifest, or not this one: where it comes from, value, limit, remedy."""

    where: str
    value: object
    limit: str
    remedy: str

    def as_dict(self) -> dict:
        """Return it as plain data."""
        return asdict(self)


@dataclass
class Answer:
    """A manifest or none, what forbids its use, and what one should know of the origins tried before."""

    manifest: Manifest | None = None
    code: dict[str, str] = field(default_factory=dict)  # the checkpoint's Python files, which run inside the engine
    faults: list[Fault] = field(default_factory=list)
    warnings: list[Fault] = field(default_factory=list)
    code_diff: list[str] = field(default_factory=list)
    kept: bool = False  # the site has this manifest already


class OriginFailed(Exception):
    """An origin gave no manifest; holds the Fault."""

    def __init__(self, where: str, value: object, limit: str, remedy: str):
        super().__init__(value)
        self.fault = Fault(where, value, limit, remedy)


def read(origins: list[dict], repo: str, commit: str, token_file: str | None = None) -> Answer:
    """Ask the origins in order; the first that knows the commit and whose answer is sound decides."""
    if not manifests.COMMIT.fullmatch(commit):
        remedy = "write the commit itself, never a branch or a tag: a pin must not move"
        return Answer(faults=[Fault("serving_model_revision", commit, "40 hexadecimal digits", remedy)])
    if not origins:
        return Answer(faults=[Fault("checkpoint_origins", "none", "at least one origin", "name one")])
    answer = Answer()
    for number, origin in enumerate(origins):
        try:
            hub = _Hub(f"checkpoint_origins[{number}]", origin, repo, commit, token_file)
            answer.manifest, answer.code = hub.manifest(), hub.code
            return answer
        except OriginFailed as error:
            answer.warnings.append(error.fault)
    answer.faults, answer.warnings = answer.warnings, []
    return answer


def size_faults(manifest: Manifest, expected_bytes: int | None) -> Iterator[Fault]:
    """Yield why a manifest is not of the size that the catalogue promises."""
    if expected_bytes is not None and manifest.bytes != expected_bytes:
        value = f"{manifest.bytes} bytes in {len(manifest.files)} files of {manifest.repo} at {manifest.commit}"
        remedy = "correct serving_model_revision, or the model's size in the catalogue"
        yield Fault("serving_model_revision", value, f"{expected_bytes} bytes, says the catalogue", remedy)


def needed_faults(manifest: Manifest, needed: Sequence[str]) -> Iterator[Fault]:
    """Yield the files that an engine would look for in vain."""
    paths = [file.path for file in manifest.files]
    lacking = [name for name in needed if not fnmatch.filter(paths, name)]
    if lacking:
        value = f"{manifest.repo} at {manifest.commit} lacks {', '.join(lacking)}"
        remedy = "correct serving_model_revision, or `needed` of the model in the catalogue"
        yield Fault("serving_model_revision", value, "all files that the engine opens", remedy)


def compare(answer: Answer, repo: str, commit: str, folder: frozen.Folder, code_change_allowed: bool) -> None:
    """Hold the origins' answer against what the site has frozen; without an answer, what is frozen will do."""
    kept = folder.find(commit)
    if kept and kept.manifest.repo != repo:
        kept = None
    answer.kept = kept is not None
    if answer.manifest is None:
        if kept:
            answer.manifest, answer.code = kept.manifest, dict(kept.code)
            answer.warnings, answer.faults = answer.faults, []
        return
    if kept and kept.manifest.digest != answer.manifest.digest:
        remedy = "find out which origin was changed; a commit's files never change by themselves"
        limit = f"{kept.manifest.digest}, frozen in {kept.file}"
        answer.faults.append(Fault("checkpoint_origins", answer.manifest.digest, limit, remedy))
    before = None if kept else folder.before(answer.manifest)
    if before:
        _compare_code(answer, before, code_change_allowed)


def _compare_code(answer: Answer, before: frozen.Kept, allowed: bool) -> None:
    """A new revision whose Python files differ waits for consent: engines run them."""
    found = frozen.code_differences(before.code, answer.code)
    answer.code_diff = [line for lines in found.values() for line in lines]
    if found and not allowed:
        value = f"{', '.join(found)} differ from {before.manifest.commit}, which this site has served"
        limit = "Python files of a checkpoint run inside the engine, so their change needs consent"
        remedy = "read the difference above, then write checkpoint_code_change_allowed: true"
        answer.faults.append(Fault("serving_model_revision", value, limit, remedy))


class _Client(httpx2.Client):
    """The hub client's HTTP client, kept from waiting and from trying again: an answer is wanted soon.

    Without it the hub library sets no timeout at all on these requests and tries six times.
    """

    def __init__(self, deadline: float):
        super().__init__(follow_redirects=True)
        self._deadline = deadline

    def send(self, request: httpx2.Request, **options: object) -> httpx2.Response:
        """Send one request within what is left of the time."""
        left = min(CONNECT_SECONDS, self._deadline - time.monotonic())
        request.extensions["timeout"] = dict.fromkeys(("connect", "read", "write", "pool"), max(left, 0.1))
        try:
            response = super().send(request, **options)
        except httpx2.TransportError as error:
            reason = str(error) or f"no answer within {left:.0f} s"
            raise SourceFault(f"{request.url.host} port {_port(request.url)}: {reason}") from error
        if response.status_code in (408, 429) or response.status_code >= 500:
            raise SourceFault(f"{request.url.host} answered {response.status_code} {response.reason_phrase}")
        return response


def _port(url: httpx2.URL) -> int:
    return url.port or {"https": 443}.get(url.scheme, 80)


class _Hub:
    """One origin of kind hub, for one repository at one commit."""

    def __init__(self, where: str, origin: dict, repo: str, commit: str, token_file: str | None):
        if origin.get("kind") != "hub" or not str(origin.get("url", "")).startswith(("http://", "https://")):
            raise OriginFailed(where, origin, "{kind: hub, url: https://...}", "name a hub; no other kind is known")
        self._where, self._url = where, origin["url"].rstrip("/")
        self._repo, self._commit, self._token_file = repo, commit, token_file
        self._deadline = time.monotonic() + TOTAL_SECONDS
        self.code: dict[str, str] = {}

    def manifest(self) -> Manifest:
        """Return the manifest; raise OriginFailed."""
        try:
            place = Manifest(self._repo, self._commit, ())
            hub = origin({"kind": "hub", "url": self._url}, place, Access(self._token_file, stall_seconds=CONNECT_SECONDS))
            entries = [self._entry(file, hub) for file in self._tree()]
            manifest = Manifest(self._repo, self._commit, tuple(sorted(entries, key=lambda entry: entry.path)))
        except OSError as error:
            raise self._failed(f"{error.filename}: {error.strerror}", "a readable token", "see to that file") from error
        if unsafe := list(manifest.faults()):
            raise self._failed("; ".join(unsafe), "safe names, each once", "do not use this origin")
        return manifest

    def _tree(self) -> list[huggingface_hub.hf_api.RepoFile]:
        token = Path(self._token_file).read_text(encoding="utf-8").strip() if self._token_file else False
        huggingface_hub.set_client_factory(lambda: _Client(self._deadline))
        api = huggingface_hub.HfApi(endpoint=self._url, token=token)
        try:
            tree = list(api.list_repo_tree(self._repo, recursive=True, revision=self._commit))
        except SourceFault as error:
            remedy = "see to the route, the name and the proxy from here to it, or name another origin"
            raise self._failed(f"{self._url} cannot be reached: {error}", "an origin that answers", remedy) from error
        except errors.HfHubHTTPError as error:
            raise self._refused(error) from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            value = f"{self._url} did not answer as a hub does: {error!r}"
            raise self._failed(value, "the hub's API", "correct the URL") from error
        return [entry for entry in tree if isinstance(entry, huggingface_hub.hf_api.RepoFile)]

    def _refused(self, error: errors.HfHubHTTPError) -> OriginFailed:
        status = error.response.status_code
        place = f"{self._repo} at {self._url}"
        if isinstance(error, errors.GatedRepoError):
            remedy = f"accept its terms at {self._url}/{self._repo} and give that account's token"
            return self._failed(f"{place} is gated ({status})", "an account that may read it", remedy)
        if isinstance(error, errors.RevisionNotFoundError):
            value = f"{self._commit} is not in {place}"
            remedy = "correct serving_model_revision, or name an origin that has it"
            return OriginFailed("serving_model_revision", value, "a commit of that repository", remedy)
        if status == 404:
            return self._failed(f"{place} does not exist", "a hub with that repository", "correct either name")
        limit, remedy = "an origin that lets us read", "give a token that may read it, or correct the repository's name"
        return self._failed(f"{place} is refused: {status} {error.response.reason_phrase}", limit, remedy)

    def _entry(self, file: huggingface_hub.hf_api.RepoFile, hub: Web) -> Entry:
        if file.lfs:
            return Entry(file.path, file.size, file.lfs.sha256)
        if fault := manifests.path_fault(file.path):
            raise self._failed(f"file {file.path!r}: {fault}", "safe names", "do not use this origin")
        if file.size > SMALL_BYTES:
            value = f"{file.path}: {file.size} bytes and no SHA-256"
            raise self._failed(value, f"a SHA-256 for files above {SMALL_BYTES} bytes", "name another origin")
        data = self._download(Entry(file.path, file.size, ""), hub)
        found = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
        if found != file.blob_id:
            value = f"{file.path} from {self._url}: git hash {found}"
            raise self._failed(value, f"{file.blob_id}, says its own tree", "name another origin: this one is damaged")
        if file.path.endswith(".py"):
            self.code[file.path] = data.decode("utf-8", errors="replace")
        return Entry(file.path, file.size, hashlib.sha256(data).hexdigest())

    def _download(self, entry: Entry, hub: Web) -> bytes:
        data, block = bytearray(), memoryview(bytearray(BLOCK_BYTES))
        try:
            with hub.open(entry) as stream:
                while (count := stream.readinto(block)) and len(data) <= entry.size and time.monotonic() < self._deadline:
                    data += block[:count]
        except (SourceFault, WrongBytes) as error:
            limit = f"{entry.size} bytes, says its own tree"
            raise self._failed(f"{entry.path}: {error}", limit, "run again, or name another origin") from error
        if len(data) != entry.size:
            value = f"{entry.path} from {self._url}: {len(data)} bytes"
            raise self._failed(
                value, f"{entry.size} bytes within {TOTAL_SECONDS} s", "run again, or name another origin"
            )
        return bytes(data)

    def _failed(self, value: object, limit: str, remedy: str) -> OriginFailed:
        return OriginFailed(self._where, value, limit, remedy)


def check(
    origins: list[dict],
    repo: str,
    commit: str,
    *,
    token_file: str | None = None,
    expected_bytes: int | None = None,
    needed: Sequence[str] = (),
    state: str | None = None,
    code_change_allowed: bool = False,
) -> Answer:
    """Read the manifest and compare it with what is known of it; every fault is in the answer.

    `state` is the folder of the site's frozen manifests.
    """
    answer = read(origins, repo, commit, token_file)
    if answer.manifest:
        answer.faults += [*size_faults(answer.manifest, expected_bytes), *needed_faults(answer.manifest, needed)]
    if state:
        try:
            compare(answer, repo, commit, frozen.Folder(state), code_change_allowed)
        except ConfigError as error:
            remedy = "restore the file, or move it away and let this run freeze the origin's answer"
            answer.faults.append(Fault("frozen manifest", str(error), "what an earlier run froze", remedy))
    return answer
