"""The base system of the image, and what only its own Python can make: the compiled modules."""
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import shlex
import tarfile
from pathlib import Path

from .recipe import HERE, PACKAGES, SITE, SUITE, rules, run
from .slim import matcher

DEFAULT_MIRROR = "http://deb.debian.org/debian"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def mirror() -> str:
    """KIMI_K3_DEBIAN_MIRROR, or the mirror that this machine uses if it is a Debian, or Debian's own."""
    if chosen := os.environ.get("KIMI_K3_DEBIAN_MIRROR"):
        return chosen
    fields = "$(ORIGIN) $(LABEL) $(REPO_URI)"
    targets = run(["apt-get", "indextargets", "--format", fields, "Created-By: Packages"])
    own = [line.split()[2] for line in targets.splitlines() if line.startswith("Debian Debian ")]
    return own[0] if own else DEFAULT_MIRROR


def pack_modules(tree: Path, target: Path) -> None:
    """Write a tar of the modules that are worth compiling."""
    left_out = matcher(rules((HERE / "uncompiled.txt").read_text()))
    with tarfile.open(target, "w") as tar:
        for module in sorted(tree.rglob("*.py")):
            name = str(module.relative_to(tree))
            if not left_out(name):
                tar.add(module, f"source/{name}")


def bootstrap(tree: Path, target: Path) -> None:
    """Write the base system as a tar to `target`, and put the compiled modules into `tree`.

    Both in one go: mmdebstrap can run commands in the system that it makes, as root or not, so no
    container engine and no Python of the same version are needed on this machine.
    """
    modules, compiled = target.with_name("modules.tar"), target.with_name("compiled.tar")
    pack_modules(tree, modules)
    hooks = [
        'mkdir "$1"/mnt/k3 "$1"/mnt/k3/compiled',
        f"tar-in {shlex.quote(str(modules))} /mnt/k3",
        f"upload {shlex.quote(str(HERE / 'bytecode.py'))} /mnt/k3/bytecode.py",
        f'chroot "$1" python3 /mnt/k3/bytecode.py /mnt/k3/source /mnt/k3/compiled /{SITE}',
        f"tar-out /mnt/k3/compiled {shlex.quote(str(compiled))}",
        'rm -r "$1"/mnt/k3',
    ]
    unneeded = [f"--dpkgopt=path-exclude=/usr/share/{folder}/*" for folder in ("man", "doc", "locale")]
    run(
        [
            *("mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(PACKAGES)}", f"--keyring={KEYRING}"),
            *('--aptopt=APT::Install-Recommends "false"', *unneeded, *(f"--customize-hook={hook}" for hook in hooks)),
            *(SUITE, target, mirror()),
        ],
        SOURCE_DATE_EPOCH="1",
    )
    with tarfile.open(compiled) as tar:
        tar.extractall(tree, [member for member in tar if member.isfile()], filter="data")
