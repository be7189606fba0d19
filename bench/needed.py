"""``python3 -m bench needed``: which programs of ``bench/peers/build`` a run needs, one a line.

So a part of the benchmark does not wait for peers that it does not measure.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence

from bench.peers import PROGRAMS
from bench.plan import Plan, selected
from bench.results import ResultsError
from bench.run import selection
from bench.traffic import KINDS


def programs(plans: Iterable[Plan]) -> list[str]:
    """Names of the programs that the subjects of these scenarios run, and those that make their traffic; sorted."""
    found: set[str] = set()
    for plan in plans:
        for subject in plan.subjects:
            found.update(PROGRAMS.get(subject.kind, ()))
        traffic = plan.parameters.get("traffic", [])
        kinds = [KINDS[name].program for name in ([traffic] if isinstance(traffic, str) else traffic)]
        found.update(kind for kind in kinds if kind != "iperf3")
    return sorted(found)


def main(words: Sequence[str]) -> int:
    """Print them; 1 where the scenarios or subjects do not exist."""
    arguments = argparse.ArgumentParser(prog="bench needed", description=__doc__, parents=[selection()]).parse_args(words)
    try:
        print("\n".join(programs(selected(arguments.scenarios, arguments.quick, arguments.subjects))))
    except ResultsError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    return 0
