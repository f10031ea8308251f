"""Python packages of the image: installed by uv for the image's own Python, whatever Python runs this."""
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import ast
import os
import re
import sys
from pathlib import Path

from rehearsal.commands import Job, run

from .recipe import LOCK, PLATFORM, PYTHON

TORCH_INDEX = "https://download.pytorch.org/whl/cpu"


def pip_options(listing: str) -> dict[str, list[str]]:
    """Values by option name from `pip config list`, whichever section or variable they come from."""
    options: dict[str, list[str]] = {}
    for section_and_name, value in re.findall(r"^(\S+?)=(.+)$", listing, re.MULTILINE):
        words = str(ast.literal_eval(value)).split()
        known = options.setdefault(section_and_name.rpartition(".")[2], [])
        known += [word for word in words if word not in known]
    return options


def torch_release() -> str:
    """The release of torch in the lock, such as 2.13.0+cpu."""
    return re.search(r"^torch==(\S+)", LOCK.read_text(), re.MULTILINE)[1]


def sources(options: dict[str, list[str]]) -> list[str]:
    """The arguments for uv that name where packages come from: as for pip, and PyTorch's CPU builds.

    Those are not on PyPI. KIMI_K3_TORCH_INDEX names another index that has them; none is asked when a
    folder of pip's find-links holds the wheel.
    """
    links = options.get("find-links", [])
    indexes = options.get("extra-index-url", [])
    if not any(list(Path(link).glob(f"torch-{torch_release()}-*.whl")) for link in links):
        indexes = [os.environ.get("KIMI_K3_TORCH_INDEX") or TORCH_INDEX, *indexes]
    arguments = [f"--find-links={link}" for link in links] + [f"--index={index}" for index in indexes]
    arguments += [f"--default-index={index}" for index in options.get("index-url", [])[-1:]]
    # Every package has a hash in the lock, so it does not matter which index answers.
    return [*arguments, "--index-strategy=unsafe-best-match"]


def install(tree: Path, downloads: Path, log: Path) -> None:
    """Install the lock's packages into a new folder `tree`; uv keeps its downloads in `downloads`."""
    from uv import find_uv_bin

    options = pip_options(run([sys.executable, "-m", "pip", "config", "list"]).stdout)
    trust = [f"SSL_CERT_FILE={file}" for file in options.get("cert", [])[-1:]]
    command = [
        *("env", *trust, find_uv_bin(), "pip", "install", "--quiet", f"--cache-dir={downloads}", f"--target={tree}"),
        *(f"--python={sys.executable}", f"--python-version={PYTHON}", f"--python-platform={PLATFORM}"),
        *("--only-binary=:all:", "--no-deps", "--no-compile", "--require-hashes", "--link-mode=hardlink"),
        *sources(options),
        f"--requirements={LOCK}",
    ]
    Job(command, log).wait()
