"""A simulated site, deployed once, that the tests of this folder share and leave as they found it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import ansible_runner
import pytest
import yaml

from rehearsal.deploy import environment, message
from rehearsal.places import CHECKOUT, Site

ENGINES = {"node-01": "unified-0-rank-0", "node-02": "unified-0-rank-1"}
WORKER_UNIT = "kimi-k3-engine@unified-0-rank-1.service"
HEAD_UNIT = "kimi-k3-engine@unified-0-rank-0.service"


@dataclass
class Run:
    """One run of a playbook: what changed where, what failed with which words, and all that was printed."""

    code: int = 0
    changed: list[tuple[str, str]] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    output: str = ""
    seconds: float = 0.0

    def take(self, event: dict) -> bool:
        """Follow the events of ansible-runner."""
        self.output += event.get("stdout", "") + "\n"
        data = event.get("event_data", {})
        host, result = data.get("host"), data.get("res", {})
        if event["event"] == "runner_on_ok" and result.get("changed"):
            self.changed.append((host, data["task"]))
        if event["event"] in ("runner_on_failed", "runner_on_unreachable") and not data.get("ignore_errors"):
            self.failures[host] = message(result)
        return False

    @property
    def said(self) -> str:
        """Every failure's words."""
        return "\n".join(self.failures.values())


class Rehearsed:
    """A simulated site that is up, seen as its operator sees it."""

    def __init__(self, site: Site, scratch: Path):
        self.site, self.scratch = site, scratch

    def play(self, name: str = "deploy", *options: str, inventory: Path | None = None, **variables: object) -> Run:
        """Run a playbook on the site through ansible-runner."""
        run, began = Run(), time.monotonic()
        home = Path(tempfile.mkdtemp(dir=self.scratch))
        runner = ansible_runner.run(
            private_data_dir=str(home),
            project_dir=str(CHECKOUT),
            playbook=str(CHECKOUT / f"playbooks/{name}.yml") if "." not in name else name,
            inventory=[str(self.site.inventory), *([str(inventory)] if inventory else [])],
            extravars=variables,
            cmdline=" ".join(options) or None,
            envvars=environment(),
            settings={"suppress_output_file": True},
            quiet=True,
            event_handler=run.take,
        )
        run.code, run.seconds = runner.rc, time.monotonic() - began
        return run

    def ssh(self, host: str, command: str, check: bool = True) -> str:
        """Output of a command that the operator runs on a host."""
        argv = ["ssh", "-F", str(self.site.keys / "config"), host, "sudo", "sh", "-c", f"'{command}'"]
        return subprocess.run(argv, capture_output=True, text=True, check=check, stdin=subprocess.DEVNULL).stdout

    def write(self, host: str, path: str, text: str) -> None:
        """Give a host a file."""
        argv = ["ssh", "-F", str(self.site.keys / "config"), host, "sudo", "install", "-D", "/dev/stdin", path]
        subprocess.run(argv, input=text, text=True, capture_output=True, check=True)

    def starts(self) -> dict[str, str]:
        """systemd's identifier of the run of each engine; another one after every start."""
        return {
            node: self.ssh(node, f"systemctl show --value --property=InvocationID kimi-k3-engine@{engine}").strip()
            for node, engine in ENGINES.items()
        }

    def variable(self, name: str) -> object:
        """A variable of the simulated hosts."""
        return yaml.safe_load(self.site.simulated.read_text())["all"]["hosts"]["node-01"][name]

    def address(self, host: str) -> str:
        """Where a host is."""
        return yaml.safe_load(self.site.simulated.read_text())["all"]["hosts"][host]["fabric_address"]

    def chat(self, prompt: str = "What is the capital of Peru?") -> str:
        """The model's answer, asked from the service host."""
        body = json.dumps(
            {
                "model": "kimi-k3-tiny",
                "messages": [{"role": "user", "content": prompt}],
                "max_tokens": 64,
                "temperature": 0,
            }
        )
        url = f"http://{self.address('node-01')}:8000/v1/chat/completions"
        argv = ["ssh", "-F", str(self.site.keys / "config"), "service-01"]
        command = f"curl -s -m 60 -H 'content-type: application/json' -d @- {url}"
        done = subprocess.run([*argv, command], input=body, capture_output=True, text=True, check=False)
        try:
            return json.loads(done.stdout)["choices"][0]["message"]["content"]
        except (ValueError, KeyError):
            return ""

    def hub_log(self) -> list[dict]:
        """The requests that the hub has answered."""
        (log,) = self.site.hub_files.glob("*.log")
        return [json.loads(line) for line in log.read_text().splitlines()]

    def hub_faults(self, *faults: dict) -> None:
        """What the hub does wrong from now on."""
        (self.site.hub_files / "faults.json").write_text(json.dumps(faults))


@pytest.fixture(scope="session")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsed]:
    """A new site; `fresh_check` is a deploy with --check on it, `printed` what `make rehearse` said afterwards."""
    one = Rehearsed(Site.of(str(CHECKOUT / "inventories/rehearsal")), tmp_path_factory.mktemp("runner"))
    tool("up", "--fresh")
    one.fresh_check = one.play("deploy", "--check", "--diff")
    one.printed = tool("run")
    yield one
    tool("down")


def tool(*words: str) -> str:
    """What a command of the rehearsal prints; it must succeed."""
    argv = [sys.executable, "-m", "rehearsal", *words]
    done = subprocess.run(argv, cwd=CHECKOUT, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout
