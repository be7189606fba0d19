"""``python3 -m bench engines RUN``: one instance of ztnode beside wireguard-go and ZeroTier as a table, out of a run's throughput."""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.report.build import machine_line
from bench.results import Parameter, ResultsError, Row, Run, load, pairs

OURS, STOCK, WIREGUARD = "ztnode x 1", "ZeroTier x 1", "wireguard-go"
SUBJECTS = ("raw link", WIREGUARD, STOCK, OURS)
MARKS = ("<!-- bench-engines -->\n", "<!-- /bench-engines -->\n")


@dataclass(frozen=True)
class Line:
    """A row of the table: traffic of a scenario, of which ``share`` counts."""

    label: str
    scenario: str
    parameters: Mapping[str, Parameter]
    share: float = 1.0


LINES = (
    Line("TCP, 1 stream", "throughput", {"traffic": "tcp-1"}),
    Line("TCP, 16 streams", "throughput", {"traffic": "tcp-16"}),
    Line("TCP both ways at once, one way counted", "throughput", {"traffic": "tcp-bidir"}, 0.5),
    Line("UDP flood, 1200 bytes", "throughput", {"traffic": "udp-1200"}),
    Line("UDP flood, 64 bytes", "throughput", {"traffic": "udp-64"}),
    Line("forwarded TCP, GRO on the LAN", "forwarded", {"traffic": "tcp-8", "lan_offload": "on"}),
    Line("forwarded TCP, no GRO", "forwarded", {"traffic": "tcp-8", "lan_offload": "off"}),
    Line("forwarded UDP 1200, at most 0.5 % lost", "forwarded", {"traffic": "udp-1200 lossless", "lan_offload": "on"}),
    Line("the same, UDP GRO on the LAN", "forwarded", {"traffic": "udp-1200 lossless", "lan_offload": "udp"}),
    Line("on one CPU: forwarded TCP, GRO on the LAN", "pinned", {"traffic": "tcp-8", "lan_offload": "on"}),
    Line("on one CPU: forwarded TCP, no GRO", "pinned", {"traffic": "tcp-8", "lan_offload": "off"}),
    Line("on one CPU: forwarded UDP 1200, at most 0.5 % lost", "pinned", {"traffic": "udp-1200 lossless", "lan_offload": "on"}),
    Line("on one CPU: the same, UDP GRO on the LAN", "pinned", {"traffic": "udp-1200 lossless", "lan_offload": "udp"}),
)


def row(run: Run, line: Line, subject: str, metric: str = "throughput") -> Row | None:
    """The row of one figure; None where it was not measured."""
    scenario = run.scenario(line.scenario)
    found: Sequence[Row] = scenario.rows if scenario else ()
    return next((r for r in found if (r.subject, r.metric, r.parameters) == (subject, metric, _of(r, line))), None)


def _of(row: Row, line: Line) -> Mapping[str, Parameter]:
    """A line's parameters, with those by which the row's subject is configured."""
    return {**{name: row.parameters[name] for name in ("engine", "instances") if name in row.parameters}, **line.parameters}


def cell(run: Run, line: Line, subject: str) -> str:
    """Median of the rounds, Mbit/s, and CPU seconds of the whole machine for each Gbit that counts."""
    rates, cpu = row(run, line, subject), row(run, line, subject, "cpu per Gbit")
    if not rates or not rates.samples:
        return "–"
    rate = f"{statistics.median(rates.samples) * line.share:.0f}"
    return f"{rate} ({statistics.median(cpu.samples) / line.share:.2f})" if cpu and cpu.samples else rate


def times(run: Run, line: Line, other: str) -> str:
    """Ours to another subject: the median of the rounds' ratios, and the smallest and largest of them."""
    own, others = row(run, line, OURS), row(run, line, other)
    ratios = [ours / theirs for ours, theirs in pairs(own, others)] if own and others else []
    return f"{statistics.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})" if ratios else "–"


def table(run: Run) -> str:
    """The table in Markdown, with the machine and the method above it."""
    headers = ["Mbit/s (CPU-s per Gbit)", *SUBJECTS, f"to {STOCK}", f"to {WIREGUARD}"]
    rows = [
        [line.label, *(cell(run, line, s) for s in SUBJECTS), times(run, line, STOCK), times(run, line, WIREGUARD)]
        for line in LINES
    ]
    lines = [f"| {' | '.join(cells)} |" for cells in (headers, ["---", *["---:"] * (len(headers) - 1)], *rows)]
    versions = ", ".join(
        f"{name} {run.versions[name]}" for name in sorted(run.versions) if name in ("wireguard-go", "zerotier-one", "ztnode")
    )
    method = f"{machine_line(run)}; {versions}; medians of {run.settings.rounds} interleaved rounds of {run.settings.seconds:g} s."
    why = {row.subject: row.unavailable for scenario in run.scenarios for row in scenario.rows if row.unavailable}
    reasons = [f"\n{subject}: {reason}" for subject, reason in why.items() if subject in SUBJECTS]
    return "\n".join([method, "", *lines, *reasons, ""])


def placed(page: str, text: str) -> str:
    """The page with the text between its marks. Raises :class:`ValueError` when it has none."""
    found, count = re.subn(f"(?s){MARKS[0]}.*?{MARKS[1]}", lambda _: f"{MARKS[0]}{text}{MARKS[1]}", page)
    if count != 1:
        raise ValueError(f"the page has no place {MARKS[0].strip()} … {MARKS[1].strip()}")
    return found


def main(arguments: Sequence[str]) -> int:
    """Print the table; ``--write`` puts it into a page."""
    parser = argparse.ArgumentParser(prog="python3 -m bench engines", description=__doc__)
    parser.add_argument("run", type=Path, help="a run's directory, or its results.json")
    parser.add_argument(
        "--write", type=Path, metavar="PAGE", help="also write it between the marks of a page, such as docs/engine.md"
    )
    options = parser.parse_args(arguments)
    try:
        text = table(load(options.run))
        if options.write:
            options.write.write_text(placed(options.write.read_text(), text))
    except (ResultsError, OSError, ValueError) as error:
        print(f"bench engines: {error}", file=sys.stderr)
        return 1
    print(text)
    return 0
