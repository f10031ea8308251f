"""The playbook itself, on a copy of the site in Lima whose image a registry on this machine has."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.unit.pin.running_registry import DIGEST, RunningRegistry

LIMA = ROOT / "inventories/lima"


@pytest.fixture
def site(tmp_path, registry) -> Path:
    """A copy of Lima's folder with an image by its tag."""
    folder = shutil.copytree(LIMA, tmp_path / "lima")
    lines = (folder / "site.yml").read_text(encoding="utf-8").splitlines(keepends=True)
    (at,) = (number for number, line in enumerate(lines) if line.startswith("    serving_image:"))
    lines[at] = f"    serving_image: {registry.image()}\n"
    lines[at:at] = [f"    container_engine_insecure_registries: ['{registry.address}']\n"]
    (folder / "site.yml").write_text("".join(lines), encoding="utf-8")
    return folder


def playbook(site: Path, *arguments: str) -> subprocess.CompletedProcess:
    command = [Path(sys.executable).with_name("ansible-playbook"), "playbooks/pin.yml", "-i", site, *arguments]
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_the_playbook_writes_the_digest_once_and_a_check_only_shows_it(site: Path, registry: RunningRegistry) -> None:
    file = site / "site.yml"
    before = file.read_text(encoding="utf-8")

    checked = playbook(site, "--check", "--diff", "--limit", "gpu-05")
    assert f"+    serving_image: {registry.image()}@{DIGEST}" in checked.stdout, checked.stdout + checked.stderr
    assert "changed=1" in checked.stdout
    assert file.read_text(encoding="utf-8") == before

    written = playbook(site)
    assert "changed=1" in written.stdout, written.stdout + written.stderr
    assert file.read_text(encoding="utf-8").replace(f"@{DIGEST}", "") == before

    registry.asked.clear()
    again = playbook(site)
    assert "is pinned already" in again.stdout
    assert "changed=0" in again.stdout
    assert registry.asked == []


def test_the_playbook_refuses_with_one_message_that_has_value_limit_and_remedy(site: Path) -> None:
    done = playbook(site, "-e", "serving_image=a:1")
    assert done.returncode != 0
    assert "1 fault, nothing was changed:" in done.stdout
    assert "needed: what Ansible reads, and that is a:1; remedy: declare it once, in site.yml" in done.stdout
