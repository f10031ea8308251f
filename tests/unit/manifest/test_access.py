"""The site's token, CA and proxy, as the controller uses them on the way to an origin."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import ssl
import threading
from http.server import HTTPServer, SimpleHTTPRequestHandler

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils import manifest as manifests
from ansible_collections.sovereign.kimi_k3.plugins.plugin_utils import reach
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.unit.manifest.running_proxy import RunningProxy
from tests.unit.manifest.test_file import COMMIT, REPO, Site


@pytest.fixture
def site(tmp_path):
    running = Site(tmp_path)
    yield running
    running.hub.stop()


@pytest.fixture
def proxy():
    running = RunningProxy()
    yield running
    running.stop()


def certificate(folder):
    """A certificate of 127.0.0.1 that signs itself, and its key."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, secret = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (folder / "ca.pem").write_bytes(made.public_bytes(pem))
    (folder / "key.pem").write_bytes(key.private_bytes(pem, secret, serialization.NoEncryption()))
    return folder / "ca.pem", folder / "key.pem"


@pytest.fixture
def private(site):
    """The mirror over TLS, with a certificate that nobody else knows: (origin, CA)."""
    ca, key = certificate(site.folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ca, key)

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *words):
            super().__init__(*words, directory=site.place)

        def log_message(self, *_words):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield {"kind": "http", "url": f"https://127.0.0.1:{server.server_address[1]}"}, str(ca)
    server.shutdown()
    server.server_close()


def test_the_tree_and_the_small_files_of_a_hub_come_through_the_proxy(site, proxy):
    answer = manifests.check([site.hub.origin], REPO, COMMIT, access=reach.Access(proxy=f"http://{proxy.place}"))
    assert answer.manifest.canonical() == site.file.read_bytes()
    paths = [url.removeprefix(site.hub.url) for url, _password, _token in proxy.asked]
    assert [path.partition("/tree/")[0] for path in paths[:1]] == [f"/api/models/{REPO}"]
    assert len([path for path in paths if "/resolve/" in path]) == 3


def test_a_proxys_password_comes_from_its_file_and_the_token_goes_to_the_hub(site, proxy, tmp_path):
    (tmp_path / "proxy").write_text(f"http://ana:word@{proxy.place}\n")
    (tmp_path / "token").write_text("hf_word\n")
    access = reach.Access(proxy_file=str(tmp_path / "proxy"), token_file=str(tmp_path / "token"))
    assert manifests.check([site.hub.origin], REPO, COMMIT, access=access).faults == []
    words = f"Basic {base64.b64encode(b'ana:word').decode()}"
    assert {(password, token) for _url, password, token in proxy.asked} == {(words, "Bearer hf_word")}


def test_signed_urls_are_asked_as_they_are_and_without_the_hubs_token(site, proxy, tmp_path):
    (tmp_path / "token").write_text("hf_word")
    access = reach.Access(proxy=f"http://{proxy.place}", token_file=str(tmp_path / "token"))
    assert site.check(site.signed(), access=access).faults == []
    assert proxy.asked == [(f"{site.mirror['url']}/config.json?sig=word", None, None)]


def test_a_proxy_that_nobody_listens_at_is_said_of_the_origin(site):
    answer = manifests.check([site.hub.origin], REPO, COMMIT, access=reach.Access(proxy="http://127.0.0.1:9"))
    assert "cannot be reached" in answer.faults[0].value
    assert "the proxy" in answer.faults[0].remedy


def test_a_certificate_of_the_sites_own_ca_is_taken(site, private):
    origin, ca = private
    assert site.check(origin, access=reach.Access(ca_file=ca)).faults == []


def test_a_certificate_that_nobody_vouches_for_is_refused(site, private):
    [fault] = site.check(private[0]).faults
    assert "certificate verify failed" in fault.value


# what is wrong: (variable, what is in the file, what it must say)
FILES = {
    "a token file that is not there": ("token_file", None, "No such file"),
    "a token file without a token": ("token_file", "\n", "empty"),
    "a token file that is no text": ("token_file", b"\xff", "no text"),
    "a CA that is none": ("ca_file", "word", "certificates as PEM"),
    "a proxy's file without a URL": ("proxy_file", "word", "http://[USER:PASSWORD@]HOST:PORT"),
    "a proxy's file with another protocol": ("proxy_file", "socks5://ana:word@p.lan:1", "HOST:PORT"),
    "a proxy's file with a port that is none": ("proxy_file", "http://ana:word@p.lan:x", "HOST:PORT"),
}


@pytest.mark.parametrize("case", FILES)
def test_a_file_of_the_way_is_refused_and_not_shown(site, tmp_path, case):
    name, content, words = FILES[case]
    file = tmp_path / "file"
    if content is not None:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    answer = manifests.check([site.hub.origin], REPO, COMMIT, access=reach.Access(**{name: str(file)}))
    [fault] = answer.faults
    assert fault.where == f"checkpoint_{name}"
    assert words in f"{fault.value} {fault.limit}"
    assert "word" not in f"{fault.value} {fault.limit} {fault.remedy}"
