"""The base system of the image, and what only its own Python can make: the compiled modules."""
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import shlex
import tarfile
from pathlib import Path

from rehearsal import debian

from .recipe import HERE, PACKAGES, SITE, SUITE, rules
from .slim import matcher


def pack_modules(tree: Path, target: Path) -> None:
    """Write a tar of the modules that are worth compiling."""
    left_out = matcher(rules((HERE / "uncompiled.txt").read_text()))
    with tarfile.open(target, "w") as tar:
        for module in sorted(tree.rglob("*.py")):
            name = str(module.relative_to(tree))
            if not left_out(name):
                tar.add(module, f"source/{name}")


def hooks(modules: Path, compiled: Path) -> list[str]:
    """What mmdebstrap does in the new system: compile the tar `modules` into the tar `compiled`."""
    return [
        'mkdir "$1"/mnt/k3 "$1"/mnt/k3/compiled',
        f"tar-in {shlex.quote(str(modules))} /mnt/k3",
        f"upload {shlex.quote(str(HERE / 'bytecode.py'))} /mnt/k3/bytecode.py",
        f'chroot "$1" python3 /mnt/k3/bytecode.py /mnt/k3/source /mnt/k3/compiled /{SITE}',
        f"tar-out /mnt/k3/compiled {shlex.quote(str(compiled))}",
        'rm -r "$1"/mnt/k3',
    ]


def bootstrap(tree: Path, target: Path, log: Path) -> None:
    """Write the base system as a tar to `target`, and put the compiled modules into `tree`.

    Both in one go: mmdebstrap can run commands in the system that it makes, so neither a container engine
    nor a Python of the same version is needed on this machine.
    """
    modules, compiled = target.with_name("modules.tar"), target.with_name("compiled.tar")
    pack_modules(tree, modules)
    command = debian.tree_command(SUITE, PACKAGES, hooks(modules, compiled))
    at = command.index("mmdebstrap")
    # sudo would drop the variable. It makes the same packages give the same bytes.
    debian.make_tree([*command[:at], "env", "SOURCE_DATE_EPOCH=1", *command[at:]], target, log)
    with tarfile.open(compiled) as tar:
        tar.extractall(tree, [member for member in tar if member.isfile()], filter="data")
