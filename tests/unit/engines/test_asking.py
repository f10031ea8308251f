"""Asking registries, endpoints and the node itself, each over the real protocol or the real format."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from ansible_collections.sovereign.kimi_k3.plugins.module_utils import acceptance, node, registry

DIGEST = "sha256:" + "a" * 64


@pytest.fixture
def serve():
    """Start a server whose answers are {(method, path): (status, headers, body)}; give its address."""
    servers = []

    def start(answers):
        class Handler(BaseHTTPRequestHandler):
            def answer(self):
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                found = answers.get((self.command, self.path.split("?")[0]), (404, {}, b""))
                status, headers, content = found(self, body) if callable(found) else found
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            do_GET = do_POST = do_HEAD = answer

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"127.0.0.1:{server.server_address[1]}"

    yield start
    for server in servers:
        server.shutdown()


@pytest.mark.parametrize(
    "reference, parts",
    [
        (f"10.0.0.1:5000/vllm/cpu@{DIGEST}", ("10.0.0.1:5000", "vllm/cpu", DIGEST)),
        (f"quay.io/a/b@{DIGEST}", ("quay.io", "a/b", DIGEST)),
        (f"docker.io/vllm/vllm-openai@{DIGEST}", ("registry-1.docker.io", "vllm/vllm-openai", DIGEST)),
        (f"vllm/vllm-openai@{DIGEST}", ("registry-1.docker.io", "vllm/vllm-openai", DIGEST)),
        (f"debian@{DIGEST}", ("registry-1.docker.io", "library/debian", DIGEST)),
    ],
)
def test_a_reference_names_registry_image_and_digest(reference, parts):
    assert registry.split(reference) == parts


def ask_registry(serve, answers):
    address = serve(answers)
    return registry.fault(f"{address}/v@{DIGEST}", [address])


PATH = f"/v2/v/manifests/{DIGEST}"


def test_a_registry_that_holds_the_image_is_no_fault(serve):
    assert ask_registry(serve, {("HEAD", PATH): (200, {}, b"")}) is None


def test_an_anonymous_token_is_fetched_where_the_registry_wants_one(serve):
    address = serve({("GET", "/token"): (200, {}, b'{"token": "t"}')})
    challenge = {"WWW-Authenticate": f'Bearer realm="http://{address}/token",service="s",scope="repository:v:pull"'}

    def manifest(request, _):
        return (200, {}, b"") if request.headers.get("Authorization") == "Bearer t" else (401, challenge, b"")

    assert ask_registry(serve, {("HEAD", PATH): manifest}) is None


@pytest.mark.parametrize(
    "answer, words",
    [
        ((404, {}, b""), "holds"),
        ((403, {}, b""), "without a login"),
        ((401, {"WWW-Authenticate": "Basic realm=x"}, b""), "without a login"),
        ((500, {}, b""), "answers 200"),
    ],
)
def test_what_a_registry_refuses_is_said(serve, answer, words):
    row = ask_registry(serve, {("HEAD", PATH): answer})
    assert words in row["limit"] and DIGEST in row["value"]


def test_a_registry_that_is_not_there_is_named():
    row = registry.fault(f"127.0.0.1:9/v@{DIGEST}", ["127.0.0.1:9"])
    assert "127.0.0.1:9 answers" in row["limit"] and "refused" in row["remedy"]


MODELS = (200, {}, b'{"data": [{"id": "m"}]}')


def chat(text="Lima", finish="stop", end="data: [DONE]\n\n", field="content"):
    """Answers of the chat API, whole and streamed."""

    def answer(_, body):
        if not body.get("stream"):
            return 200, {}, json.dumps({"choices": [{"message": {field: text}, "finish_reason": finish}]}).encode()
        half = len(text) // 2
        deltas = [({field: text[:half]}, None), ({field: text[half:]}, None), ({}, finish)]
        events = [{"choices": [{"delta": delta, "finish_reason": why}]} for delta, why in deltas]
        return 200, {}, ("".join(f"data: {json.dumps(event)}\n\n" for event in events) + end).encode()

    return answer


def ask(serve, answer, models=MODELS):
    address = serve({("GET", "/v1/models"): models, ("POST", "/v1/chat/completions"): answer})
    return acceptance.accept(f"http://{address}", "m", "Where?", "Lima", 8, 5)


@pytest.mark.parametrize("field", ["content", "reasoning", "reasoning_content"])
def test_a_right_answer_is_accepted_whole_and_streamed(serve, field):
    assert ask(serve, chat(field=field))["answer"] == "Lima"


@pytest.mark.parametrize(
    "answer, words",
    [
        (chat(text="Quito"), "an answer that matches 'Lima'"),
        (chat(text=""), "text that ends with"),
        (chat(finish=None), "text that ends with"),
        (chat(end=""), "no end marker"),
        ((500, {}, b"EngineCore encountered an issue"), "HTTP 500: EngineCore"),
    ],
    ids=["wrong", "empty", "unfinished", "stream cut", "dead engine"],
)
def test_an_answer_that_is_not_right_is_refused(serve, answer, words):
    with pytest.raises(acceptance.Refused) as refused:
        ask(serve, answer)
    assert words in " ".join(refused.value.args)


def test_a_model_of_another_name_is_refused(serve):
    with pytest.raises(acceptance.Refused, match="a model named m"):
        ask(serve, chat(), models=(200, {}, b'{"data": [{"id": "other"}]}'))


@pytest.mark.parametrize(
    "text, name",
    [
        ('ID=debian\nVERSION_ID="13"\n', "debian 13"),
        ('ID=ubuntu\nVERSION_ID="24.04"\n', "ubuntu 24"),
        ('ID="rocky"\nVERSION_ID="9.5"\n', "rocky 9"),
    ],
)
def test_a_system_is_named_by_id_and_major_version(text, name):
    assert node.os_release(text) == name


def test_another_system_is_refused_with_the_list():
    (row,) = node.platform_faults(["plan9 4"])
    assert "plan9 4" in row["limit"]


TCP = """  sl  local_address rem_address   st tx_queue
   0: 0B00000A:1F40 00000000:0000 0A 00000000
   1: 0B00000A:0016 0100000A:C350 01 00000000
"""


def test_only_listening_ports_are_taken():
    assert node.listening_ports(TCP) == {8000}


def test_a_port_that_another_program_holds_is_a_fault(monkeypatch):
    monkeypatch.setattr(node, "_read", lambda path: TCP)
    (row,) = node.port_faults([8000, 22], runner=lambda argv, check: "")
    assert row["value"] == 8000


def test_ports_of_our_own_services_are_theirs(monkeypatch):
    monkeypatch.setattr(node, "_read", lambda path: TCP)
    assert node.port_faults([8000], runner=lambda argv, check: "kimi-k3-keeper.service loaded active running\n") == []


@pytest.mark.parametrize(
    "argument, missing",
    [
        ("--device=nvidia.com/gpu=all", []),
        ("--device=amd.com/gpu=all", ["amd.com/gpu=all"]),
        ("--device=/dev/null", []),
        ("--device=/dev/null:/dev/zero", []),
        ("--device=/dev/infiniband", ["/dev/infiniband"]),
        ("--shm-size=1g", []),
    ],
)
def test_a_device_that_the_node_does_not_have_is_a_fault(tmp_path, argument, missing):
    (tmp_path / "nvidia.yaml").write_text("cdiVersion: 0.7.0\nkind: nvidia.com/gpu\n")
    assert [row["value"] for row in node.device_faults([argument], (str(tmp_path),))] == missing


LINKS = json.dumps(
    [
        {"ifname": "lo", "addr_info": [{"local": "127.0.0.1"}]},
        {"ifname": "eth0", "addr_info": [{"local": "10.0.0.1"}, {"local": "fe80::1"}]},
        {"ifname": "eth1", "addr_info": [{"local": "10.1.0.1"}]},
    ]
)


@pytest.mark.parametrize(
    "address, interface, remedy",
    [
        ("10.0.0.1", "eth0", None),
        ("10.0.0.1", "eth1", "declare fabric_interface: eth0"),
        (
            "10.9.0.1",
            "eth0",
            "declare one of: fabric_interface: eth0, fabric_address: 10.0.0.1; "
            "fabric_interface: eth1, fabric_address: 10.1.0.1",
        ),
    ],
)
def test_a_fabric_address_elsewhere_is_a_fault_with_the_lines_to_paste(address, interface, remedy):
    rows = node.fabric_faults(address, interface, runner=lambda argv, check: LINKS)
    assert [row["remedy"] for row in rows] == ([remedy] if remedy else [])
