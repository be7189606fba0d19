"""``make bench-roaming``: how long traffic is away when addresses of the underlay move, by engine and kind of move.

It writes docs/roaming.md. Each run has flows of its own over two instances. RUNS=20 ENGINES="ztnode zerotier-one".
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from lab import Lab, LabError
from lab.roaming import FLOWS, INSTANCES, MOVES, Move, Outcome, Site

PATIENCE = 30.0  # seconds after which traffic counts as not coming back
HOPELESS = 3  # times in a row that it did not come back: the rest of the runs would say the same
HEADERS = ("engine", "what moves", "runs", "back p50", "p95", "worst", "limit p95", "all paths p95", "")
PAGE = Path(__file__).with_name("roaming.md")


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest of the values that no less than ``share`` of them do not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def row(engine: str, move: Move, outcomes: Sequence[Outcome], fault: str = "") -> tuple[list[str], bool]:
    """What the runs of a move came to, in words, and whether that is good."""
    inf = math.inf
    back = [inf if o.traffic is None else o.traffic for o in outcomes]
    paths = [inf if o.paths is None else o.paths for o in outcomes]
    if not back:
        return [engine, move.name, "0", *["-"] * 3, f"{move.limit:g}", "-", fault], False
    good = percentile(back, 0.95) <= move.limit and not fault
    times = (statistics.median_low(back), percentile(back, 0.95), max(back))
    words = ["not back" if t == inf else f"{t:.2f}" for t in times]
    whole = percentile(paths, 0.95)
    last = "never" if whole == inf else f"{whole:.1f}"
    verdict = fault or ("" if good else "missed")
    return [engine, move.name, str(len(back)), *words, f"{move.limit:g}", last, verdict], good


def measure(site: Site, move: Move, runs: int) -> tuple[list[Outcome], str]:
    """All runs of a move: outcomes, and a word on what went wrong besides."""
    outcomes: list[Outcome] = []
    fault = ""
    try:
        move.prepare(site)
        while len(outcomes) < runs:
            outcome = site.run(move, PATIENCE)
            outcomes.append(outcome)
            told = "not back" if outcome.traffic is None else f"{outcome.traffic:.2f} s"
            print(f"{site.engine}, {move.name}: {len(outcomes)}/{runs}: {told}", file=sys.stderr)
            if all(o.traffic is None for o in outcomes[-HOPELESS:]) and len(outcomes) >= HOPELESS:
                break
            if outcome.traffic is None or outcome.paths is None:
                move.prepare(site)
            else:
                site.settle(PATIENCE)
                move.again(site)
    except LabError as error:
        fault = f"stopped: {str(error).splitlines()[-1][:80]}"
        print(f"{site.engine}, {move.name}: {error}", file=sys.stderr)
    return outcomes, fault


def engine_rows(engine: str, debs: Sequence[Path], moves: Sequence[Move], runs: int) -> list[tuple[list[str], bool]]:
    """All rows of one engine; one that says so where it is not on this machine."""
    programs = {}
    if engine != "ztnode":
        path = shutil.which(engine)
        if path is None:
            return [([engine, "not on PATH, so not measured", *["-"] * 6, ""], False)]
        programs[f"/usr/sbin/{engine}"] = Path(path)
    rows = []
    with Lab(debs, programs=programs) as lab:
        site = Site(lab, engine)
        for move in moves:
            outcomes, fault = measure(site, move, runs)
            rows.append(row(engine, move, outcomes, fault))
        site.close()
    return rows


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """A table for the page."""
    lines = [HEADERS, ["---"] * 2 + ["---:"] * (len(HEADERS) - 3) + ["---"], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="bench.roaming")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--only", type=int, action="append", help="number of a move, from 1; may be given again")
    parser.add_argument("--engines", default="ztnode zerotier-one")
    parser.add_argument("--write", type=Path, help="the page")
    parser.add_argument("debs", type=Path, nargs="+")
    arguments = parser.parse_args()
    moves = [m for n, m in enumerate(MOVES, start=1) if not arguments.only or n in arguments.only]
    found = [r for e in arguments.engines.split() for r in engine_rows(e, arguments.debs, moves, arguments.runs)]
    table = Table(title=f"{INSTANCES} instances, {FLOWS} UDP flows of 100 packets/s each, echoed; seconds")
    for title in HEADERS:
        table.add_column(title, justify="left" if title in (*HEADERS[:2], HEADERS[-1]) else "right")
    for cells, _good in found:
        table.add_row(*cells)
    Console(width=160).print(table)
    if arguments.write:
        values = {"cpus": os.cpu_count(), "instances": INSTANCES, "flows": FLOWS, "patience": f"{PATIENCE:g}"}
        arguments.write.write_text(PAGE.read_text().format(table=markdown([cells for cells, _ in found]), **values))
    return 0 if all(good for _, good in found) else 1


if __name__ == "__main__":
    sys.exit(main())
