# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask an OCI registry whether it holds an image by digest, before anything is pulled.

Protocol: OCI distribution specification 1.1, HEAD /v2/<name>/manifests/<digest>, with the bearer-token exchange that
public registries want from anonymous clients.
"""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.parse
import urllib.request

TIMEOUT_SECONDS = 15
ACCEPT = ", ".join(
    [
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    ]
)


def split(reference):
    """(registry, name, digest) of `[registry/]name@sha256:...`; names without a registry are Docker Hub's."""
    name, _, digest = reference.partition("@")
    first, slash, rest = name.partition("/")
    if not slash or not ("." in first or ":" in first or first == "localhost"):
        return "registry-1.docker.io", name if slash else "library/" + name, digest
    return ("registry-1.docker.io" if first == "docker.io" else first), rest, digest


def ask(url, token=""):
    """Status of one HEAD request and its challenge; redirects are followed."""
    headers = {"Accept": ACCEPT, **({"Authorization": "Bearer " + token} if token else {})}
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, headers=headers, method="HEAD"), timeout=TIMEOUT_SECONDS
        ) as answer:
            return answer.status, ""
    except urllib.error.HTTPError as error:
        return error.code, error.headers.get("WWW-Authenticate", "")


def anonymous_token(challenge):
    """Token for a `Bearer realm=...,service=...,scope=...` challenge; empty where the registry wants a login."""
    fields = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    if not challenge.startswith("Bearer") or "realm" not in fields:
        return ""
    query = urllib.parse.urlencode({key: value for key, value in fields.items() if key in ("service", "scope")})
    with urllib.request.urlopen(fields["realm"] + "?" + query, timeout=TIMEOUT_SECONDS) as answer:
        content = json.load(answer)
    return content.get("token") or content.get("access_token", "")


def fault(reference, insecure=()):
    """None where the registry holds the image; else {where, value, limit, remedy}."""
    registry, name, digest = split(reference)
    scheme = "http" if registry in insecure else "https"
    url = f"{scheme}://{registry}/v2/{name}/manifests/{digest}"
    try:
        status, challenge = ask(url)
        if status == 401:
            status, _ = ask(url, anonymous_token(challenge))
    except (OSError, ValueError) as error:
        return _row(
            reference,
            f"the registry {registry} answers",
            "{}: check name, port, proxy and firewall from this node".format(getattr(error, "reason", error)),
        )
    if status == 200:
        return None
    if status == 404:
        return _row(reference, f"an image that {registry} holds", "push it there, or correct the digest")
    if status in (401, 403):
        return _row(
            reference,
            f"an image that {registry} gives without a login",
            f"use a mirror that this node may read (HTTP {status})",
        )
    return _row(reference, f"the registry {registry} answers 200", f"it answered HTTP {status}: look at its log")


def _row(value, limit, remedy):
    return {"where": "serving_image", "value": value, "limit": limit, "remedy": remedy}
