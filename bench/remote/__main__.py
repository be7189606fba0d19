"""``python3 -m bench.remote HOST [HOST]``: the scenarios of ``make bench`` over the link between two real boxes.

HOST is the far box as ssh knows it; the near one is this machine, or the first of two. Both have a bundle with a path
between them that is up, and iperf3. Nothing is configured or restarted. What two boxes in use cannot be asked is a row
that says why. ``make bench-report RUN=build/bench/NAME`` makes the report.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench.peers.common import Unavailable
from bench.plan import Plan, Subject, left, load, steps
from bench.record import with_plans
from bench.remote.box import Box, place
from bench.remote.measures import WHY_NOT, Pair, pair, take
from bench.results import ResultsError, save
from bench.run import Log, begin, carry_out, chosen, place_and_time
from lab.process import LabError


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="bench.remote", description=__doc__, parents=[chosen(), place_and_time()])
    made.add_argument(
        "hosts", nargs="+", metavar="HOST", help="the far box, or the near one and the far one; localhost is this machine"
    )
    made.add_argument("--bundle", default="zt0", help="the same at both; zt0 where it is not said")
    made.add_argument("--raw-link", action="store_true", help="measure the underlay too: iperf3 listens there meanwhile")
    made.add_argument("--shell", default="ssh -o BatchMode=yes", help="what takes a host and a command line, as ssh does")
    return made


def fitted(plans: Sequence[Plan], found: Pair) -> list[Plan]:
    """The plans for a link: all its instances are a subject wherever some are, and what is not measured has one round."""
    made = []
    for plan in plans:
        ours = Subject("ours", {"engine": found.engine, "instances": len(found.ways)})
        if plan.name in WHY_NOT:
            plan = replace(plan, rounds=1)
        elif any(subject.kind == "ours" for subject in plan.subjects) and ours not in plan.subjects:
            plan = replace(plan, subjects=(*plan.subjects, ours))
        made.append(plan)
    return made


def programs(found: Pair) -> dict[str, str]:
    """Versions of what is measured; the far box is told as one of them."""
    far = found.far.machine
    iperf3 = found.near.facts["iperf3"].split()[1]
    return {**found.near.facts["packages"], "iperf3": iperf3, "far box": f"{far.cpu}, {far.cores} cores, Linux {far.kernel}"}


def measured(boxes: tuple[Box, Box], arguments: argparse.Namespace) -> Path:
    """Measure two boxes; the directory of the run. Raises :class:`LabError`, :class:`Unavailable`, :class:`ResultsError`."""
    found = pair(*boxes, arguments.raw_link)
    name = arguments.name or f"remote-{datetime.datetime.now().strftime('%Y-%m-%d-%H%M')}"
    directory: Path = arguments.directory / name
    directory.mkdir(parents=True, exist_ok=True)
    file, log = directory / "results.json", Log(directory / "log")
    run = begin(arguments, file, found.near.machine, programs(found))
    plans = fitted(load(arguments.scenarios, arguments.quick), found)
    if arguments.rounds:
        plans = [replace(plan, rounds=0) for plan in plans]
    run = with_plans(run, plans)
    todo = left(steps(plans, run.settings.rounds), run)
    log(f"{len(todo)} steps into {file}")
    save(carry_out(todo, run, partial(take, found), file, log), file)
    log(f"results: {file}; report: make bench-report RUN={directory}")
    return directory


def main(words: Sequence[str]) -> int:
    """Measure; 0 when all steps were done, whatever they came to."""
    arguments = parser().parse_args(words)
    hosts = arguments.hosts if len(arguments.hosts) > 1 else ["localhost", *arguments.hosts]
    if len(hosts) > 2:
        print("bench.remote: it takes one host or two", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="ztm-") as controls:
        near, far = (Box(place(host, arguments.shell, Path(controls)), arguments.bundle) for host in hosts)
        try:
            measured((near, far), arguments)
        except (LabError, Unavailable, ResultsError) as error:
            print(f"bench.remote: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("\nto go on, give the same --name again", file=sys.stderr)
            return 130
        finally:
            near.close()
            far.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
