"""Run drills on a simulated site and print what came of each: see docs/en/drills.md.

python -m tests.drills --list
python -m tests.drills                              all of them
python -m tests.drills agent-killed hub-down@60%    some; the second at 60 % of the bytes
python -m tests.drills disk-full+hub-503@5s         two at once; the second 5 s after the first byte
python -m tests.drills --three                      the three of the day, or those in KIMI_K3_DRILLS
"""

from __future__ import annotations

import argparse
import os
import sys
import time

from rehearsal import life
from rehearsal.commands import Interrupted, RehearsalError, listen
from rehearsal.places import CHECKOUT, Site
from rehearsal.state import locked
from tests.drills import model, site, table
from tests.drills.runner import Drill, Verdict, run_drill

VARIABLE = "KIMI_K3_DRILLS"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.drills", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="a drill, as --list shows it")
    parser.add_argument("--list", action="store_true", help="say what there is, and do nothing")
    parser.add_argument("--three", action="store_true", help=f"three by the day of the year, or those in {VARIABLE}")
    parser.add_argument("--nodes", type=int, default=3, help="nodes of the site, 2 or more (default 3)")
    parser.add_argument("--megabytes", type=int, default=200, help="size of the checkpoint (default 200)")
    parser.add_argument("--fresh", action="store_true", help="end a site that is up first")
    parser.add_argument("--keep", action="store_true", help="leave the site up for the next time")
    return parser.parse_args()


def chosen(options: argparse.Namespace, known: dict[str, Drill]) -> list[Drill]:
    """The drills that the command line and the environment ask for."""
    names = options.names or list(known)
    if options.three and (wanted := os.environ.get(VARIABLE)):
        names = wanted.replace(",", " ").split()
    elif options.three:
        names = table.three(list(known), time.gmtime().tm_yday)
        print(f"The three of day {time.gmtime().tm_yday} of the year: {', '.join(names)}", flush=True)
    return [table.named(name, known) for name in names]


def say(verdict: Verdict, width: int) -> None:
    """One line of the table, and what speaks against the drill."""
    outcome = verdict.outcome if not verdict.complaints else "NOT AS IT SHOULD BE"
    print(f"{verdict.drill:{width}} {verdict.seconds:6.0f} s {verdict.wan:7.3f} x  {outcome}", flush=True)
    for complaint in verdict.complaints:
        print(f"{'':{width}}   - {complaint}", flush=True)


def run(options: argparse.Namespace, drills: list[Drill]) -> int:
    """Run the drills one after the other; 1 if one did not end as it should."""
    where = Site.of(str(CHECKOUT / ".cache" / "drills"))
    with locked(where.lock_file):
        try:
            up = site.bring_up(where, options.nodes, options.megabytes * 1_000_000, options.fresh)
            width = max(len(drill.name) for drill in drills)
            print(f"\n{'drill':{width}} {'seconds':>8} {'WAN':>9}  outcome", flush=True)
            verdicts = []
            for drill in drills:
                verdicts.append(run_drill(up, drill, where.logs))
                say(verdicts[-1], width)
        finally:
            if not options.keep:
                life.down(where, keep_logs=True)
    bad = [verdict.drill for verdict in verdicts if verdict.complaints]
    print(f"\n{len(verdicts) - len(bad)} of {len(verdicts)} drills ended as they should; logs in {where.logs}")
    return int(bool(bad))


def main() -> int:
    listen()
    options = arguments()
    try:
        known = table.drills(model.sizes(options.megabytes * 1_000_000), options.nodes)
        drills = chosen(options, known)
        if options.list:
            for drill in drills:
                print(f"{drill.name:24} {drill.what}")
            return 0
        return run(options, drills)
    except RehearsalError as error:
        print(f"drills: {error}", file=sys.stderr)
        return 1
    except Interrupted:
        print("drills: interrupted. `make clean` removes what stays", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
