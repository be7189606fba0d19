"""What a run comes to: the goals with what was measured for each, ratios to the raw link and to one ZeroTier. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench import figures
from bench.report import field, words
from bench.results import LOOPBACK_COST, ROUND_TRIP, Row, Run

BUDGET = 0.1  # of a core for each instance, at which efficiency has goals
EFFICIENCY = {4: 0.95, 8: 0.90}  # at least
LOOPBACK = 0.01  # at most, as a share of the CPU time of a datagram
FLOWS, PATHS = 64, 4
DRAWS = 10  # of which the mean has an interval
EVENNESS = {"static": 1.25, "auto": 1.05}  # largest to mean share, at most


@dataclass(frozen=True)
class Claim:
    """A goal and what was measured. ``met`` is None where nothing was, or where that does not tell; ``why`` then says why."""

    what: str
    goal: str
    measured: str
    met: bool | None
    field: str = ""
    why: str = ""


def rows(run: Run, scenario: str) -> tuple[Row, ...]:
    """Rows of a scenario; none when the run does not have it."""
    found = run.scenario(scenario)
    return found.rows if found else ()


def scaling(run: Run, budget: float | None = None) -> dict[str, dict[int, Row]]:
    """Measured throughput by engine and number of instances; the budget is that of the run if there is but one."""
    found: dict[str, dict[int, Row]] = {}
    for row in rows(run, "scaling"):
        number = row.parameters.get("instances")
        if row.metric != "throughput" or not row.samples or not isinstance(number, int):
            continue
        if budget is not None and row.parameters.get("budget") != budget:
            continue
        found.setdefault(str(row.parameters.get("engine", row.subject)), {})[number] = row
    return {engine: dict(sorted(by_number.items())) for engine, by_number in found.items() if 1 in by_number}


def gains(by_number: dict[int, Row]) -> dict[int, float]:
    """T(N) / T(1)."""
    alone = words.median(by_number[1])
    return {number: words.median(row) / alone if alone else math.nan for number, row in by_number.items()}


@dataclass(frozen=True)
class Cost:
    """What the loopback address costs: the rows over it and without it, and its share, with half the 95 % interval."""

    over: Row
    without: Row
    share: float
    margin: float

    @property
    def said(self) -> str:
        return f"{words.percent(self.share)} ± {words.percent(self.margin)}"

    def at_most(self, limit: float) -> bool | None:
        """Whether it costs no more; None where the interval does not tell."""
        if self.share + self.margin <= limit:
            return True
        return False if self.share - self.margin > limit else None


def loopback(run: Run) -> list[Cost]:
    """By round trips in turns to the loopback and to the transit address of one instance."""
    those = {(row.subject, row.metric, row.parameters.get("to")): row for row in rows(run, "loopback") if row.samples}
    found = []
    for (subject, metric, _), row in those.items():
        over, without = (those.get((subject, ROUND_TRIP, to)) for to in ("loopback", "transit"))
        if metric == LOOPBACK_COST and row.distribution and over and without:
            found.append(Cost(over, without, statistics.mean(row.distribution), figures.interval(row.distribution)))
    return found


def _evenness(row: Row) -> str:
    """The figure; with many draws, where their mean lies, and what chance comes to."""
    drawn = row.distribution or ()
    if len(drawn) < DRAWS:
        return f"{words.median(row):.2f}"
    chance = figures.expected_evenness(FLOWS, PATHS)
    return f"{words.median(row):.2f} ({len(drawn)} draws: {statistics.mean(drawn):.2f} ± {figures.interval(drawn):.2f}; by chance {chance:.2f})"


def _why(those: Sequence[Row]) -> str:
    return next((row.unavailable for row in those if row.unavailable), "")


def claims(run: Run) -> list[Claim]:
    """Every goal, in the order in which a reader asks."""
    found = []
    by_engine = scaling(run, BUDGET)
    for number, least in EFFICIENCY.items():
        what = f"{number} instances, each with {words.percent(BUDGET)} of a core: throughput to {number} x that of one"
        values = {engine: figures.efficiency({n: words.median(row) for n, row in of.items()}) for engine, of in by_engine.items()}
        known = {engine: of[number] for engine, of in values.items() if number in of}
        said = ", ".join(f"{value:.2f} ({engine})" for engine, value in known.items())
        seen = field.MS01.gain().get(number)
        theirs = f"{seen / number:.2f} on MS-01" if seen else ""
        met = all(value >= least for value in known.values()) if known else None
        found.append(Claim(what, f"at least {least:.2f}", said, met, theirs, _why(rows(run, "scaling"))))
    costs = loopback(run)
    kept = [cost.at_most(LOOPBACK) for cost in costs]
    found.append(Claim(
        "what the loopback address costs (CPU time of a datagram)", f"at most {words.percent(LOOPBACK)}",
        ", ".join(f"{cost.said} ({cost.over.subject})" for cost in costs),
        False if False in kept else None if None in kept or not kept else True, f"{words.percent(field.FLOATING_IP_COST)} (throughput)",
        "the turns differ too much to tell" if kept else _why(rows(run, "loopback")),
    ))  # fmt: skip
    for weights, most in EVENNESS.items():
        those = [
            row for row in rows(run, "evenness")
            if row.metric == "evenness" and row.parameters.get("weights") == weights
            and (row.parameters.get("flows"), row.parameters.get("paths")) == (FLOWS, PATHS)
        ]  # fmt: skip
        known_rows = [row for row in those if row.samples]
        found.append(Claim(
            f"{FLOWS} flows over {PATHS} paths, weights {weights}: largest to mean share", f"at most {most:.2f}",
            ", ".join(map(_evenness, known_rows)),
            all(words.median(row) <= most for row in known_rows) if known_rows else None, "", _why(those),
        ))  # fmt: skip
    return found


@dataclass(frozen=True)
class Comparison:
    """A subject under one traffic, to the raw link and to one ZeroTier in the same run; nan where a reference is missing."""

    row: Row
    to_raw: float
    to_stock: float


def is_stock(row: Row) -> bool:
    """Whether this is one ZeroTier as it comes."""
    return row.group == "stock" and row.parameters.get("instances", 1) == 1 and not row.parameters.get("multicore")


def comparisons(those: Sequence[Row], metric: str = "throughput") -> dict[str, dict[str, Comparison]]:
    """By subject and traffic, in the order of the rows; unavailable rows too."""
    measured = [row for row in those if row.metric == metric]
    reference: dict[tuple[str, str], Row] = {}
    tests: dict[str, Callable[[Row], bool]] = {"raw": lambda row: row.group == "raw", "stock": is_stock}
    for kind, test in tests.items():
        for row in measured:
            if row.samples and test(row):
                reference.setdefault((kind, str(row.parameters.get("traffic", ""))), row)
    found: dict[str, dict[str, Comparison]] = {}
    for row in measured:
        traffic = str(row.parameters.get("traffic", ""))
        to = [
            figures.ratio(row.samples, reference[kind, traffic].samples) if row.samples and (kind, traffic) in reference else math.nan
            for kind in tests
        ]  # fmt: skip
        found.setdefault(row.subject, {})[traffic] = Comparison(row, *to)
    return found


def headline(run: Run) -> list[str]:
    """Sentences that say what the run comes to; none when it has no throughput."""
    by_subject = comparisons(rows(run, "throughput"))
    said = []
    for traffic in ("tcp-16", "tcp-1"):
        having = [of[traffic] for of in by_subject.values() if traffic in of and of[traffic].row.samples]
        # One stream has one instance, however many there are: more of them can only be luck.
        alone = [
            one for one in having if one.row.group == "ours" and (traffic != "tcp-1" or one.row.parameters.get("instances", 1) == 1)
        ]
        ours = max(alone, key=lambda one: words.median(one.row), default=None)
        if ours is None:
            continue
        parts = []
        if math.isfinite(ours.to_stock):
            parts.append(f"{ours.to_stock:.1f} times one ZeroTier")
        peer = max((one for one in having if one.row.group == "peer"), key=lambda one: words.median(one.row), default=None)
        if peer is not None:
            parts.append(
                f"{figures.ratio(ours.row.samples, peer.row.samples):.1f} times {peer.row.subject} (the fastest other VPN)"
            )
        if math.isfinite(ours.to_raw):
            parts.append(f"{words.percent(ours.to_raw)} of the raw link")
        amount = f"{words.number(words.median(ours.row))}{words.NARROW}{ours.row.unit}"
        tail = f": {' and '.join([', '.join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)}" if parts else ""
        said.append(f"{words.TRAFFIC[traffic]}: {ours.row.subject} carries {amount}{tail}.")
    throughput = run.scenario("throughput")
    if said and throughput and throughput.origin:
        said.append(f"Throughput between the routers: {throughput.origin[0].lower()}{throughput.origin[1:]}")
    known = [claim for claim in claims(run) if claim.met is not None]
    if known:
        met = sum(bool(claim.met) for claim in known)
        said.append(f"{met} of {len(known)} goals that were measured are met.")
    return said
