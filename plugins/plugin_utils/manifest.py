# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The manifest of a checkpoint: from a hub at a pinned commit, from a file, or from both.

The hub's tree gives path and size of every file and the SHA-256 of the large ones. The small ones
have only a git blob hash: they are downloaded, compared with it, and their SHA-256 is recorded.
Nothing comes from the hub client's cache, so an origin that is gone is never taken for one that answers.
Of an HTTP mirror only one byte is asked, to say early that it cannot be reached; of a drive nothing.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import huggingface_hub
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.proof import manifest as manifests
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.proof.faults import ConfigError
from ansible_collections.sovereign.kimi_k3.plugins.module_utils.proof.manifest import Entry, Manifest
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils import frozen, reach
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.reach import Access, Fault, NoAnswer, OriginFailed
from huggingface_hub import errors

# The hub keeps files of 10 MiB and more as LFS files; leave room for mirrors with another threshold.
SMALL_BYTES = 64 << 20


@dataclass
class Answer:
    """A manifest or none, what forbids its use, and what one should know of the origins that failed."""

    manifest: Manifest | None = None
    code: dict[str, str] = field(default_factory=dict)  # the checkpoint's Python files, which run inside the engine
    faults: list[Fault] = field(default_factory=list)
    warnings: list[Fault] = field(default_factory=list)
    code_diff: list[str] = field(default_factory=list)
    kept: bool = False  # the site has this manifest already
    reached: bool = False  # some origin answers, or is a drive that only its nodes can look for


def read(origins: list[dict], repo: str, commit: str, access: Access, file: str | None = None) -> Answer:
    """Ask the hubs among the origins in order; the first that knows the commit and whose answer is sound decides.

    What it says must equal the file's manifest, where there is a file.
    """
    if not manifests.COMMIT.fullmatch(commit):
        remedy = "write the commit itself, never a branch or a tag: a pin must not move"
        return Answer(faults=[Fault("serving_model_revision", commit, "40 hexadecimal digits", remedy)])
    if not origins:
        return Answer(faults=[Fault("checkpoint_origins", "none", "at least one origin", "name one")])
    answer = Answer(faults=list(access.faults()))
    if not answer.faults:
        _ask_hubs(answer, origins, repo, commit, access)
    if file:
        try:
            _compare_file(answer, *from_file(file, repo, commit), file)
        except OriginFailed as error:
            answer.faults.append(error.fault)
    elif not answer.faults and all(origin.get("kind") in ("http", "drive") for origin in origins):
        remedy = "name the <commit>.json that bundle.yml writes beside a checkpoint"
        answer.faults.append(Fault("checkpoint_manifest_file", "none", "a manifest, as no origin is a hub", remedy))
    return answer


def _ask_hubs(answer: Answer, origins: list[dict], repo: str, commit: str, access: Access) -> None:
    for number, origin in enumerate(origins):
        if origin.get("kind") in ("http", "drive"):
            continue
        try:
            hub = _Hub(f"checkpoint_origins[{number}]", origin, repo, commit, access)
            answer.manifest, answer.code, answer.reached = hub.manifest(), hub.code, True
            return
        except OriginFailed as error:
            answer.warnings.append(error.fault)


def from_file(file: str, repo: str, commit: str) -> tuple[Manifest, dict[str, str]]:
    """Return the manifest that a file on the controller holds, and what Python files can be had; raise OriginFailed.

    The file is what bundle.yml writes beside a checkpoint, or what another site froze.
    """
    where = "checkpoint_manifest_file"
    try:
        content = json.loads(Path(file).read_bytes())
        froze = isinstance(content, dict) and "manifest" in content
        manifest = Manifest.from_dict(content["manifest"] if froze else content)
    except OSError as error:
        remedy = "correct the path, or bring the file"
        raise OriginFailed(where, f"{file}: {error.strerror}", "a file that can be read", remedy) from error
    except (ValueError, ConfigError) as error:
        remedy = "take the <commit>.json that bundle.yml writes beside a checkpoint"
        raise OriginFailed(where, f"{file}: {error}", "a manifest as JSON", remedy) from error
    if (manifest.repo, manifest.commit) != (repo, commit):
        value = f"{file} is of {manifest.repo} at {manifest.commit}"
        remedy = "bring the manifest of this commit, or correct serving_model_revision"
        raise OriginFailed(where, value, f"{repo} at {commit}", remedy)
    texts = content.get("code")
    return manifest, dict(_code(manifest, texts if isinstance(texts, dict) else {}, Path(file).with_suffix("")))


def _compare_file(answer: Answer, manifest: Manifest, code: dict[str, str], file: str) -> None:
    """Take the file's manifest; a hub that answered must have said the same."""
    if answer.manifest and answer.manifest.digest != manifest.digest:
        remedy = "find out which of the two was changed; a commit's files never change by themselves"
        limit = f"{answer.manifest.digest}, says the hub"
        answer.faults.append(Fault("checkpoint_manifest_file", f"{file}: {manifest.digest}", limit, remedy))
    elif not answer.manifest:
        answer.manifest, answer.code = manifest, code


def _code(manifest: Manifest, texts: Mapping[str, str], folder: Path) -> Iterator[tuple[str, str]]:
    """The Python files that are among the texts, or in the folder where the checkpoint lies beside its manifest."""
    for entry in (entry for entry in manifest.files if entry.path.endswith(".py")):
        path, data = folder / entry.path, str(texts.get(entry.path, "")).encode()
        if path.is_file() and path.stat().st_size == entry.size:
            data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() == entry.sha256:
            yield entry.path, data.decode("utf-8", errors="replace")


def probe(answer: Answer, origins: list[dict], access: Access) -> None:
    """Ask each HTTP mirror for a byte; an origin that fails is a fault where nothing else can be had."""
    for number, origin in enumerate(origins):
        try:
            if origin.get("kind") == "http":
                reach.probe(f"checkpoint_origins[{number}]", origin, answer.manifest, access)
            answer.reached = answer.reached or origin.get("kind") in ("http", "drive")
        except OriginFailed as error:
            # A file that the site names is its own to have; a mirror may be gone for a while.
            own = error.fault.where.endswith("urls_file")
            (answer.faults if own else answer.warnings).append(error.fault)


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
    """Hold the manifest against what the site has frozen; without one, what is frozen will do."""
    kept = folder.find(commit)
    if kept and kept.manifest.repo != repo:
        kept = None
    answer.kept = kept is not None
    if answer.manifest is None:
        if kept:
            answer.manifest, answer.code = kept.manifest, dict(kept.code)
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
    found = frozen.code_differences(before, answer.manifest, answer.code)
    answer.code_diff = [line for lines in found.values() for line in lines]
    if found and not allowed:
        value = f"{', '.join(found)} differ from {before.manifest.commit}, which this site has served"
        limit = "Python files of a checkpoint run inside the engine, so their change needs consent"
        remedy = "read the difference above, then write checkpoint_code_change_allowed: true"
        answer.faults.append(Fault("serving_model_revision", value, limit, remedy))


class _Hub:
    """One origin of kind hub, for one repository at one commit."""

    def __init__(self, where: str, origin: dict, repo: str, commit: str, access: Access):
        if origin.get("kind") != "hub" or not str(origin.get("url", "")).startswith(("http://", "https://")):
            raise OriginFailed(where, origin, "{kind: hub, url: https://...}", "name a hub, an HTTP mirror or a drive")
        self._where, self._url = where, origin["url"].rstrip("/")
        self._repo, self._commit, self._token = repo, commit, access.token
        self._deadline = time.monotonic() + reach.TOTAL_SECONDS
        self._access = access
        self.code: dict[str, str] = {}

    def manifest(self) -> Manifest:
        """Return the manifest; raise OriginFailed."""
        tree = self._tree()
        with self._access.client(self._deadline) as client:
            entries = [self._entry(file, client) for file in tree]
        manifest = Manifest(self._repo, self._commit, tuple(sorted(entries, key=lambda entry: entry.path)))
        if unsafe := list(manifest.faults()):
            raise self._failed("; ".join(unsafe), "safe names, each once", "do not use this origin")
        return manifest

    def _tree(self) -> list[huggingface_hub.hf_api.RepoFile]:
        huggingface_hub.set_client_factory(lambda: self._access.client(self._deadline))
        api = huggingface_hub.HfApi(endpoint=self._url, token=self._token or False)
        try:
            tree = list(api.list_repo_tree(self._repo, recursive=True, revision=self._commit))
        except NoAnswer as error:
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

    def _entry(self, file: huggingface_hub.hf_api.RepoFile, client: reach.Client) -> Entry:
        if file.lfs:
            return Entry(file.path, file.size, file.lfs.sha256)
        if fault := manifests.path_fault(file.path):
            raise self._failed(f"file {file.path!r}: {fault}", "safe names", "do not use this origin")
        if file.size > SMALL_BYTES:
            value = f"{file.path}: {file.size} bytes and no SHA-256"
            raise self._failed(value, f"a SHA-256 for files above {SMALL_BYTES} bytes", "name another origin")
        data = self._download(Entry(file.path, file.size, ""), client)
        found = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
        if found != file.blob_id:
            value = f"{file.path} from {self._url}: git hash {found}"
            raise self._failed(value, f"{file.blob_id}, says its own tree", "name another origin: this one is damaged")
        if file.path.endswith(".py"):
            self.code[file.path] = data.decode("utf-8", errors="replace")
        return Entry(file.path, file.size, hashlib.sha256(data).hexdigest())

    def _download(self, entry: Entry, client: reach.Client) -> bytes:
        url = f"{self._url}/{self._repo}/resolve/{self._commit}/{quote(entry.path)}"
        try:
            # The client drops this header when a redirect leads to another host.
            data = client.download(url, entry.size, {"Authorization": f"Bearer {self._token}"} if self._token else {})
        except NoAnswer as error:
            limit = f"{entry.size} bytes, says its own tree"
            raise self._failed(
                f"{entry.path} from {self._url}: {error}", limit, "run again, or name another origin"
            ) from error
        if len(data) != entry.size:
            value = f"{entry.path} from {self._url}: {len(data)} bytes"
            limit = f"{entry.size} bytes within {reach.TOTAL_SECONDS} s, says its own tree"
            raise self._failed(value, limit, "run again, or name another origin")
        return data

    def _failed(self, value: object, limit: str, remedy: str) -> OriginFailed:
        return OriginFailed(self._where, value, limit, remedy)


def check(
    origins: list[dict],
    repo: str,
    commit: str,
    *,
    access: Access | None = None,
    manifest_file: str | None = None,
    expected_bytes: int | None = None,
    needed: Sequence[str] = (),
    state: str | None = None,
    code_change_allowed: bool = False,
) -> Answer:
    """Read the manifest and compare it with what is known of it; every fault is in the answer.

    `state` is the folder of the site's frozen manifests.
    """
    access = access or Access()
    answer = read(origins, repo, commit, access, manifest_file)
    if answer.manifest:
        answer.faults += [*size_faults(answer.manifest, expected_bytes), *needed_faults(answer.manifest, needed)]
    if state:
        try:
            compare(answer, repo, commit, frozen.Folder(state), code_change_allowed)
        except ConfigError as error:
            remedy = "restore the file, or move it away and let this run freeze the origin's answer"
            answer.faults.append(Fault("frozen manifest", str(error), "what an earlier run froze", remedy))
    if answer.manifest and not answer.faults:
        probe(answer, origins, access)
    if not (answer.reached or answer.kept):
        answer.faults, answer.warnings = [*answer.faults, *answer.warnings], []
    return answer
