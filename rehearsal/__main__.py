"""Command line of the rehearsal; see docs/en/rehearsal.md."""

import argparse
import json
import os
import sys
from pathlib import Path

from rehearsal import containers, life, parts
from rehearsal.commands import Interrupted, RehearsalError, listen
from rehearsal.places import CHECKOUT, Site
from rehearsal.session import Session
from rehearsal.state import State, locked

DEFAULT_SITE = "inventories/rehearsal"


def say(message: str) -> None:
    print(message, flush=True)


def command_up(arguments: argparse.Namespace) -> int:
    site = Site.of(arguments.inventory, arguments.name)
    with locked(site.lock_file):
        return Session(site, arguments.fresh).up()


def command_run(arguments: argparse.Namespace) -> int:
    site = Site.of(arguments.inventory, arguments.name)
    with locked(site.lock_file):
        return Session(site, arguments.fresh).run()


def command_down(arguments: argparse.Namespace) -> int:
    site = Site.of(arguments.inventory, arguments.name)
    with locked(site.lock_file):
        say(f"The site {site.name} is gone" if life.down(site) else f"There was no site {site.name}")
    return 0


def command_status(arguments: argparse.Namespace) -> int:
    site = Site.of(arguments.inventory, arguments.name)
    state = State.load(site.state_file)
    if state is None:
        say(f"There is no site {site.name}")
        return 1
    count = life.running(site, containers.detect(state.engine))
    say(f"{site.name} (id {site.id}): {count} of {len(state.hosts)} hosts run in {state.engine}, subnet {state.subnet}")
    for host in state.hosts:
        say(f"  {host.name:14} {host.address:15} {site.container(host.name)}")
    return 0 if count == len(state.hosts) else 1


def command_clean(_arguments: argparse.Namespace) -> int:
    for site in life.sites(Site.of(f"{CHECKOUT}/{DEFAULT_SITE}")):
        with locked(site.lock_file):
            life.down(site)
    life.clean(say)
    return 0


def command_build(arguments: argparse.Namespace) -> int:
    result = json.dumps(parts.build(arguments.part, say))
    if arguments.result:
        Path(arguments.result).write_text(result)
    else:
        say(result)
    return 0


def parser() -> argparse.ArgumentParser:
    main = argparse.ArgumentParser(prog="python -m rehearsal", description=__doc__)
    commands = main.add_subparsers(required=True, metavar="COMMAND")
    site_commands = (
        ("run", command_run, "start the site, or keep the one that is up, and run deploy.yml on it"),
        ("up", command_up, "start the site and leave it up"),
        ("down", command_down, "end the site and remove what belongs to it"),
        ("status", command_status, "say which hosts run, and where"),
    )
    for name, function, text in site_commands:
        command = commands.add_parser(name, help=text)
        command.set_defaults(function=function)
        command.add_argument("--inventory", "--site", default=DEFAULT_SITE, help="its inventory directory")
        command.add_argument("--name", help="name of the site (the directory's)")
        if name in ("up", "run"):
            fresh = os.environ.get("FRESH", "") not in ("", "0")
            command.add_argument("--fresh", action="store_true", default=fresh, help="end a site that is up first")
    command = commands.add_parser("clean", help="remove all that this tool made: sites, images, cache")
    command.set_defaults(function=command_clean)
    command = commands.add_parser("build", help="build one part into the cache")
    command.set_defaults(function=command_build)
    command.add_argument("part", choices=parts.PARTS)
    command.add_argument("--result", help="file for the result, as JSON")
    return main


def main() -> int:
    listen()
    arguments = parser().parse_args()
    try:
        return arguments.function(arguments)
    except RehearsalError as error:
        print(f"rehearsal: {error}", file=sys.stderr)
        return 1
    except Interrupted:
        print("rehearsal: interrupted. What was started stays; `make clean` removes it", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
