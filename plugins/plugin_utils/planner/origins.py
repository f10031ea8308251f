# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges where a site's checkpoint comes from, and what a site says of the way there."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from urllib.parse import SplitResult, urlsplit

from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.faults import Fault, suggest
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.planner.network import AGENT_PORTS, EPHEMERAL

PATH = re.compile(r"/[A-Za-z0-9._/-]+")
HOST = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?")
URL_PATH = re.compile(r"[A-Za-z0-9._~/%+@:,=!$&'()*-]*")
# Files on the controller that say how the origins are reached, and what comes from them.
FILES = ("checkpoint_token_file", "checkpoint_ca_file", "checkpoint_proxy_file", "checkpoint_manifest_file")
PUBLIC_HUB = "huggingface.co"
EXAMPLES = {
    "hub": "{kind: hub, url: https://huggingface.co}",
    "http": "{kind: http, url: https://mirror.lan/kimi-k3}",
    "drive": "{kind: drive, path: /mnt/kimi-k3, nodes: [gpu-01]}",
}
SIGNED = "{kind: http, urls_file: a JSON file of {path: URL} on the controller}"
# The keys of each kind: all ways to write it, and in words.
KEYS = {
    "hub": ([{"kind", "url"}], "kind and url"),
    "http": ([{"kind", "url"}, {"kind", "urls_file"}], "kind and url, or kind and urls_file"),
    "drive": ([{"kind", "path"}, {"kind", "path", "nodes"}], "kind, path and perhaps nodes"),
}


def faults(values: Mapping, repo: str | None) -> Iterator[Fault]:
    """All that is wrong with a site's origins and with the way to them; names of hosts are judged elsewhere.

    `repo` is the model's repository, which no URL of a hub has in it.
    """
    origins = values["checkpoint_origins"]
    if origins == []:
        yield Fault("checkpoint_origins", [], "at least one origin", f"add {EXAMPLES['hub']}")
    for index, origin in enumerate(origins or []):
        yield from origin_faults(f"checkpoint_origins[{index}]", origin, values["checkpoint_path"], repo)
        if isinstance(origin, dict) and origin in origins[:index]:
            limit = f"checkpoint_origins[{origins.index(origin)}] is the same origin"
            yield Fault(f"checkpoint_origins[{index}]", origin.get("kind"), limit, "leave it out")
    for name in FILES:
        yield from controller_file_faults(name, values[name])
    yield from _proxy_faults(values["checkpoint_proxy"], values["checkpoint_proxy_file"])
    yield from port_faults("checkpoint_port", values["checkpoint_port"])


def origin_faults(where: str, origin: object, root: str | None, repo: str | None) -> Iterator[Fault]:
    """`root` is where the nodes keep checkpoints. Values of an origin may be secrets: only sound ones are shown."""
    if not isinstance(origin, dict):
        yield Fault(where, _bare(origin), "must be a mapping with a kind", f"write {EXAMPLES['hub']}")
        return
    kind = str(origin.get("kind") or "")
    if kind not in EXAMPLES:
        yield Fault(f"{where}.kind", kind or None, "must be one of the kinds of origin", suggest(kind, EXAMPLES))
        return
    ways, words = KEYS[kind]
    if set(origin) not in ways:
        limit = f"{kind} has {words}, nothing else"
        yield Fault(where, sorted(map(str, origin)), limit, f"write {EXAMPLES[kind]}")
    elif "urls_file" in origin:
        yield from controller_file_faults(f"{where}.urls_file", origin["urls_file"])
    elif kind == "drive":
        yield from _drive_faults(where, origin, root)
    else:
        yield from _url_faults(f"{where}.url", origin["url"], kind, repo)


def _drive_faults(where: str, origin: Mapping, root: str | None) -> Iterator[Fault]:
    """A folder that has the manifest's files, and the hosts that have it; whether they exist is judged elsewhere."""
    path, nodes = str(origin["path"]), origin.get("nodes", ["all"])
    yield from path_faults(f"{where}.path", path, "name the folder that has the checkpoint's files", _no_more)
    if root and f"{path}/".startswith(f"{posixpath.normpath(root)}/"):
        limit = f"must lie outside checkpoint_path, {root}, which is filled from it"
        yield Fault(f"{where}.path", path, limit, "name where the drive is mounted")
    if not isinstance(nodes, list) or not nodes:
        limit = "must be a list of hosts that have the drive"
        yield Fault(f"{where}.nodes", nodes, limit, "write them, or leave nodes out where all have it")


def path_faults(
    where: str, path: str, remedy: str, judge: Callable[[str, str, str], Iterator[Fault]]
) -> Iterator[Fault]:
    """A path on a node, written so that it can be copied anywhere as it is; `judge` has the rest to say."""
    clean = posixpath.normpath(path)
    if not path.startswith("/"):
        yield Fault(where, path, "must be an absolute path", remedy)
    elif clean in ("/", "//"):
        yield Fault(where, path, "must not be the root of the filesystem", remedy)
    elif not PATH.fullmatch(path) or clean != path.rstrip("/"):
        yield Fault(where, path, "letters, digits, - . _ and single slashes; no . or .. as a name", remedy)
    else:
        yield from judge(where, path, remedy)


def _no_more(_where: str, _path: str, _remedy: str) -> Iterator[Fault]:
    yield from ()


def controller_file_faults(where: str, path: object) -> Iterator[Fault]:
    """A relative path would depend on where a command is typed; what stands here may be the secret itself."""
    if path is not None and not (isinstance(path, str) and path.startswith("/") and path.isprintable()):
        limit = "must be an absolute path on the controller"
        yield Fault(where, "no absolute path", limit, 'write "{{ inventory_dir }}/NAME", or another absolute path')


def _proxy_faults(proxy: str | None, file: str | None) -> Iterator[Fault]:
    """A proxy's address alone: with a password it stands in a file, as every secret does."""
    where, example = "checkpoint_proxy", "http://proxy.lan:3128"
    if proxy is not None and file is not None:
        yield Fault(f"{where}_file", file, f"{where} says it too", "leave one of them out")
    if proxy is None:
        return
    url = _split(proxy)
    if "@" in proxy:
        limit = "a plan is printed and kept, so no user or password stands in it"
        remedy = f"write the whole URL into a file on the controller, and name it as {where}_file"
        yield Fault(where, _bare(proxy), limit, remedy)
    elif url is None or url.scheme != "http" or url.port is None or url.path.strip("/") or url.query or url.fragment:
        yield Fault(where, _bare(proxy), "must be http://HOST:PORT", f"write {example}")


def _split(given: object) -> SplitResult | None:
    """An http(s) URL in its parts; None for what is none."""
    try:
        url = urlsplit("" if re.search(r"\s", str(given)) else str(given))
        sound = url.scheme in ("http", "https") and HOST.fullmatch(url.netloc.rpartition("@")[2]) and url.port != 0
    except ValueError:
        sound = False
    return url if sound else None


def _bare(given: object) -> object:
    """What is shown of a URL: no user, no password, no query."""
    return re.sub(r"//[^/]*@|[?#].*", lambda found: "//" if found[0].startswith("//") else "", str(given or ""))


def _url_faults(where: str, given: object, kind: str, repo: str | None) -> Iterator[Fault]:
    """Of a hub what stands before the repository, of a mirror the folder; no secret in either."""
    url, example = _split(given), f"write {EXAMPLES[kind]}"
    if url is None:
        folder = "/FOLDER" if kind == "http" else ""
        yield Fault(where, _bare(given), f"must be http(s)://HOST[:PORT]{folder}, without blanks", example)
        return
    host = url.netloc.rpartition("@")[2]
    address = f"{url.scheme}://{host}"
    bare = f"{address}{url.path}"
    if "@" in url.netloc or url.query or url.fragment or "?" in str(given):
        limit = "a plan holds no secret, so a URL has no user, password or query"
        remedy = f"write {bare.rstrip('/')}" + (f", or signed URLs in a file: {SIGNED}" if kind == "http" else "")
        yield Fault(where, bare, limit, remedy)
    elif kind == "hub" and url.path.strip("/") and host == PUBLIC_HUB:
        yield Fault(where, bare, "is the hub's address alone, without a path", f"write {address}")
    elif kind == "hub" and repo and url.path.rstrip("/").endswith(f"/{repo}"):
        limit = "has no repository in it; serving_model says which"
        yield Fault(where, bare, limit, f"write {bare.rstrip('/').removesuffix(f'/{repo}')}")
    elif not URL_PATH.fullmatch(url.path):
        yield Fault(where, bare, "other letters than a URL has", "write them with percent signs, a blank as %20")


def port_faults(where: str, port: int | None) -> Iterator[Fault]:
    """The agent runs as a user of its own, beside the keeper, and its port is never an outgoing connection's."""
    remedy = f"leave it out for {AGENT_PORTS['fetch']}, or write another"
    if port is None or port < 1:  # said already
        return
    if port < 1024:
        yield Fault(where, port, "must be 1024 or more, as the agent is not root", remedy)
    elif port > 65535:
        yield Fault(where, port, "must be 65535 or less", remedy)
    elif port in EPHEMERAL:
        limit = f"must be outside {EPHEMERAL.start}-{EPHEMERAL.stop - 1}, the kernel's own ports"
        yield Fault(where, port, limit, remedy)
    elif port == AGENT_PORTS["keeper"]:
        yield Fault(where, port, "keeper listens there already", remedy)
