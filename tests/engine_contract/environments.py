"""The packages of each engine version that lines are judged with, in the user's cache folder.

A version is vLLM's own wheel for CUDA, without its compiled kernels. The packages that it needs are those of the
rehearsal's engine image: all versions share them.
"""
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rehearsal.commands import Job, run
from rehearsal.engine.builder import UNFINISHED, locked
from rehearsal.engine.packages import pip_options, sources
from rehearsal.engine.recipe import LOCK
from rehearsal.places import cache_dir

# The oldest version that is planned, the one of the catalogue's image, and the newest; each with what it alone needs.
VERSIONS = {
    path.name.removesuffix(".lock"): path for path in sorted((Path(__file__).parent / "versions").glob("*.lock"))
}
KEEP_DAYS = 3
JUDGE_SECONDS = 600
INSIDE = Path(__file__).parent / "inside"

Log = Callable[[str], None]


@dataclass(frozen=True)
class Environment:
    """Where one version's packages are, and where it may write while it judges."""

    version: str
    folder: Path
    home: Path

    def judge(self, cases: str) -> str:
        """Give cases to the judge as JSON and return its answers, a line of JSON each."""
        # Nothing of this process's own: a plan's line is judged with the plan's environment only.
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "PYTHONPATH": os.pathsep.join(map(str, (self.folder / self.version, self.folder / "shared"))),
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_LOGGING_LEVEL": "ERROR",
        }
        # Without -S the packages of the Python that runs this would mix with the engine's.
        command = [sys.executable, "-S", str(INSIDE / "judge.py")]
        done = subprocess.run(
            command, input=cases, env=environment, capture_output=True, text=True, timeout=JUDGE_SECONDS, check=False
        )
        if done.returncode:
            raise RuntimeError(f"the judge of vLLM {self.version} ended with code {done.returncode}:\n{done.stderr}")
        return done.stdout


def shared_lock() -> str:
    """The lock of the rehearsal's image without vLLM itself."""
    return re.sub(r"^vllm.*?(?=^\S|\Z)", "", LOCK.read_text(), flags=re.MULTILINE | re.DOTALL)


def key() -> str:
    """Sixteen hex digits that change with every pin, and with the Python that the packages are for."""
    pins = [shared_lock(), *(path.read_text() for path in VERSIONS.values()), sys.version, Path(__file__).read_text()]
    return hashlib.sha256("\n".join(pins).encode()).hexdigest()[:16]


def install(target: Path, lock: str, downloads: Path) -> None:
    """Install what `lock` pins into a new folder `target`, from wherever pip is configured to look."""
    from uv import find_uv_bin

    options = pip_options(run([sys.executable, "-m", "pip", "config", "list"]).stdout)
    trust = [f"SSL_CERT_FILE={file}" for file in options.get("cert", [])[-1:]]
    requirements = target.with_name(f"{target.name}.lock")
    requirements.write_text(lock)
    command = [
        *("env", *trust, find_uv_bin(), "pip", "install", "--quiet", f"--cache-dir={downloads}", f"--target={target}"),
        *(f"--python={sys.executable}", "--only-binary=:all:", "--no-deps", "--no-compile", "--require-hashes"),
        *sources(options),
        f"--requirements={requirements}",
    ]
    Job(command, target.with_name(f"{target.name}.log")).wait()


def assemble(work: Path, say: Log) -> None:
    """Put the shared packages and every version into the folder `work`."""
    downloads = work / "downloads"
    say("packages that all versions share")
    install(work / "shared", shared_lock(), downloads)
    for version, lock in VERSIONS.items():
        say(f"vLLM {version}")
        install(work / version, lock.read_text(), downloads)
        # 600 MB that nothing here can run.
        for kernels in (work / version / "vllm").rglob("*.so"):
            kernels.unlink()
    shutil.rmtree(downloads)


def build(home: Path, say: Log = print) -> dict[str, Environment]:
    """Return all versions, installed if the cache does not have them (1.3 GB to download, 2 GB on disk).

    `home` is a folder in which they may write. Raises RehearsalError.
    """
    root = cache_dir() / "engine_contract"
    folder = root / key()
    root.mkdir(parents=True, exist_ok=True)
    with locked(root / "lock", say):
        # The lock is ours, so whoever made these is dead.
        for dead in root.glob(UNFINISHED + "*"):
            shutil.rmtree(dead)
        if not folder.exists():
            work = root / (UNFINISHED + folder.name)
            work.mkdir()
            assemble(work, say)
            work.rename(folder)
        os.utime(folder)
        for old in root.glob("[0-9a-f]" * 16):
            if old.stat().st_mtime < time.time() - KEEP_DAYS * 86400:
                shutil.rmtree(old)
    return {version: Environment(version, folder, home) for version in VERSIONS}
