"""The digest of a tag, asked over the real protocol of a registry that is sound, or is not."""

from __future__ import annotations

import socket
import threading

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.module_utils import registry as asking
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils.pin import Refused, Repository

from tests.unit.pin.running_registry import DIGEST, NAME, RunningRegistry

KINDS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)


def digest(registry: RunningRegistry, tag: str = ":v0.29.0") -> str:
    return Repository.of(registry.image(tag), [registry.address]).digest()


def refusal(registry: RunningRegistry, tag: str = ":v0.29.0") -> dict:
    with pytest.raises(Refused) as refused:
        digest(registry, tag)
    assert refused.value.row["value"] == registry.image(tag)
    return refused.value.row


@pytest.mark.parametrize(
    ("image", "url", "tag"),
    [
        ("vllm/vllm-openai:v1", "https://registry-1.docker.io/v2/vllm/vllm-openai", "v1"),
        ("docker.io/vllm/vllm-openai:v1", "https://registry-1.docker.io/v2/vllm/vllm-openai", "v1"),
        ("debian", "https://registry-1.docker.io/v2/library/debian", "latest"),
        ("quay.io/a/b/c:v1", "https://quay.io/v2/a/b/c", "v1"),
        ("mirror.lan:5000/vllm:v1", "http://mirror.lan:5000/v2/vllm", "v1"),
    ],
)
def test_a_name_leads_to_its_registry_by_https_unless_the_site_says_otherwise(image, url, tag):
    found = Repository.of(image, ["mirror.lan:5000"])
    assert (found.url, found.tag) == (url, tag)


def test_the_digest_is_that_of_the_manifest_that_the_tag_names(registry):
    assert digest(registry) == DIGEST


def test_manifests_and_indexes_of_oci_and_docker_are_asked_for(registry):
    digest(registry)
    assert registry.asked[0][0] == f"/v2/{NAME}/manifests/v0.29.0"
    assert set(KINDS) <= set(registry.asked[0][1].split(", "))


def test_a_registry_that_does_not_say_the_digest_is_taken_at_its_bytes(registry):
    del registry.headers["Docker-Content-Digest"]
    assert digest(registry) == DIGEST


def test_an_anonymous_token_is_fetched_where_the_registry_wants_one(registry):
    registry.token = "for-nobody"
    assert digest(registry) == DIGEST


def test_a_digest_that_the_bytes_do_not_have_is_refused(registry):
    registry.headers["Docker-Content-Digest"] = said = f"sha256:{'0' * 64}"
    row = refusal(registry)
    assert said in row["limit"]
    assert DIGEST in row["remedy"]


@pytest.mark.parametrize("body", [b"<html>Sign in</html>", b"[]", b'{"schemaVersion": 1}'])
def test_what_is_no_manifest_is_refused(registry, body):
    registry.body, registry.headers = body, {"Content-Type": "text/html"}
    assert "it sent text/html" in refusal(registry)["remedy"]


def test_an_unknown_tag_is_refused_with_five_near_ones_at_most(registry):
    registry.tags = ("latest", *(f"v0.29.{n}" for n in range(7)))
    row = refusal(registry, ":v0.29.9")
    assert row["limit"] == f"a tag that {registry.address} has"
    assert row["remedy"].count("v0.29.") == 5


def test_an_unknown_tag_is_refused_also_where_the_registry_lists_none(registry):
    registry.lists_tags = False
    assert "it lists none that is near" in refusal(registry, ":v9")["remedy"]


def test_a_registry_that_gives_no_token_wants_a_login(registry):
    registry.token, registry.token_status = "for-members", 403
    row = refusal(registry)
    assert "without a login" in row["limit"]
    assert "write the digest by hand" in row["remedy"]


def test_a_registry_that_is_ill_is_named(registry):
    registry.status = 503
    assert "HTTP 503" in refusal(registry)["remedy"]


def refusal_without_a_registry(image: str, insecure: list[str]) -> dict:
    with pytest.raises(Refused) as refused:
        Repository.of(image, insecure).digest()
    return refused.value.row


def test_a_registry_that_nobody_listens_at_is_named_and_the_digest_can_be_written_by_hand():
    row = refusal_without_a_registry("127.0.0.1:9/vllm:v1", ["127.0.0.1:9"])
    assert row["limit"] == "the registry 127.0.0.1:9 answers"
    assert "Connection refused" in row["remedy"]
    assert row["remedy"].endswith("write the digest by hand: serving_image: 127.0.0.1:9/vllm:v1@sha256:HEX")


def test_a_registry_that_accepts_and_never_answers_is_given_up(monkeypatch):
    monkeypatch.setattr(asking, "TIMEOUT_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        assert "timed out" in refusal_without_a_registry(f"{address}/vllm:v1", [address])["remedy"]


def test_a_port_of_another_protocol_is_no_registry():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        threading.Thread(target=lambda: server.accept()[0].sendall(b"SSH-2.0-OpenSSH_9.2\r\n"), daemon=True).start()
        assert "SSH-2.0" in refusal_without_a_registry(f"{address}/vllm:v1", [address])["remedy"]


def test_a_registry_over_plain_http_that_the_site_does_not_name_is_told_where_to_stand(registry):
    assert "container_engine_insecure_registries" in refusal_without_a_registry(registry.image(), [])["remedy"]
