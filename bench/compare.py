"""``python3 -m bench compare A B``: two runs row by row, with significance.

A row's effect is the median of the ratios of each sample of B to each of A. Its significance is that of the Mann-Whitney test, exactly, by counting
all ways in which the samples could have been dealt to the runs; so it holds for few rounds and for ties, and assumes
nothing about how samples are distributed. The interval holds the ratio with 95 % confidence, or says with how much.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import figures
from bench.report import verdict, words
from bench.results import ResultsError, Row, Run, load
from bench.results import pairs as in_pairs

LEVEL = 0.05
SMALLEST = 0.01  # a ratio nearer to 1 than this is no difference that anybody would notice


def deals(ranks: Sequence[int], chosen: int) -> dict[int, int]:
    """In how many ways ``chosen`` of the ranks can be picked, by their sum."""
    ways: list[dict[int, int]] = [{0: 1}, *({} for _ in range(chosen))]
    for rank in ranks:
        for size in range(chosen, 0, -1):
            for total, count in ways[size - 1].items():
                ways[size][total + rank] = ways[size].get(total + rank, 0) + count
    return ways[chosen]


def double_ranks(values: Sequence[float]) -> list[int]:
    """Twice the rank of each value; equal values share the middle of their ranks."""
    ordered = sorted(values)
    first = {value: ordered.index(value) + 1 for value in set(values)}
    return [2 * first[value] + ordered.count(value) - 1 for value in values]


def p_value(a: Sequence[float], b: Sequence[float]) -> float:
    """Two-sided probability of samples at least so far apart when both come from one source."""
    ranks = double_ranks([*a, *b])
    ways = deals(ranks, len(a))
    middle = len(a) * (len(ranks) + 1)  # twice the expected sum of the ranks of a
    seen = abs(sum(ranks[: len(a)]) - middle)
    extreme = sum(count for total, count in ways.items() if abs(total - middle) >= seen)
    return extreme / sum(ways.values())


def best_p(a: int, b: int) -> float:
    """The smallest p-value that so many samples can give."""
    return min(1.0, 2 / math.comb(a + b, a))


def effect(a: Sequence[float], b: Sequence[float]) -> float:
    """The median of all ratios of a sample of B to one of A, which :func:`interval` always holds. Samples must be above 0."""
    return statistics.median(y / x for x in a for y in b)


def interval(a: Sequence[float], b: Sequence[float], confidence: float = 1 - LEVEL) -> tuple[float, float, float]:
    """(low, high, confidence) of the ratio B / A: order statistics of all ratios of one sample to another, by the test's own counts.

    With too few samples it is the whole range, at the confidence that this has. Samples must be above 0.
    """
    ratios = sorted(y / x for x in a for y in b)
    ways = deals(range(1, len(a) + len(b) + 1), len(a))
    least = len(a) * (len(a) + 1) // 2
    every = sum(ways.values())
    cut, tail = 0, ways[least] / every  # P(U <= cut), one-sided
    if 2 * tail > 1 - confidence:
        return ratios[0], ratios[-1], 1 - 2 * tail
    while 2 * (tail + ways.get(least + cut + 1, 0) / every) <= 1 - confidence:
        cut += 1
        tail += ways.get(least + cut, 0) / every
    return ratios[cut], ratios[-1 - cut], 1 - 2 * tail


@dataclass(frozen=True)
class Difference:
    """A row in both runs. ``ratio`` is B / A, that of the medians where a sample is 0; ``word`` says what that means."""

    scenario: str
    a: Row
    b: Row
    ratio: float
    low: float
    high: float
    confidence: float
    p: float
    certain: bool  # also after the correction for the number of rows

    @property
    def word(self) -> str:
        """better, worse, no difference, or too few rounds."""
        if best_p(len(self.a.samples), len(self.b.samples)) > LEVEL:
            return "too few rounds"
        if self.p > LEVEL or abs(self.ratio - 1) < SMALLEST:
            return "no difference"
        higher = self.ratio > 1 if math.isfinite(self.ratio) else words.median(self.b) > words.median(self.a)
        return "better" if higher == (self.a.better == "higher") else "worse"


def pairs(a: Run, b: Run) -> Iterator[tuple[str, Row | None, Row | None]]:
    """(scenario, row of A, row of B) of every row of either."""
    names = list(dict.fromkeys(scenario.name for run in (a, b) for scenario in run.scenarios))
    for name in names:
        found = [{row.key: row for row in verdict.rows(run, name)} for run in (a, b)]
        for key in dict.fromkeys([*found[0], *found[1]]):
            yield name, found[0].get(key), found[1].get(key)


def differences(a: Run, b: Run) -> list[Difference]:
    """Rows that both have measured, in their order."""
    found = []
    for name, one, other in pairs(a, b):
        if one and other and one.samples and other.samples:
            positive = min(*one.samples, *other.samples) > 0
            bounds = interval(one.samples, other.samples) if positive else (math.nan, math.nan, math.nan)
            ratio = effect(one.samples, other.samples) if positive else figures.ratio(other.samples, one.samples)
            found.append(Difference(name, one, other, ratio, *bounds, p_value(one.samples, other.samples), False))
    sure = holm([difference.p for difference in found])
    return [dataclasses.replace(difference, certain=certain) for difference, certain in zip(found, sure, strict=True)]


def holm(values: Sequence[float], level: float = LEVEL) -> list[bool]:
    """Which of many p-values stay significant together (Holm): the chance that any of them is wrong is at most ``level``."""
    certain = [False] * len(values)
    for rank, at in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        if values[at] > level / (len(values) - rank):
            break
        certain[at] = True
    return certain


def relative(run: Run) -> Run:
    """The run with each sample of a throughput divided by that of one ZeroTier in the same round and traffic.

    So two machines compare, or a machine with itself on another day. Rows without that reference stay out.
    """
    scenarios = []
    for scenario in run.scenarios:
        references: dict[tuple[str, str], Row] = {}
        for row in scenario.rows:
            if verdict.is_stock(row) and row.samples:
                references.setdefault(_conditions(row), row)
        rows = []
        for row in scenario.rows:
            reference = references.get(_conditions(row))
            if reference is None or row is reference or not all(reference.samples):
                continue
            samples = tuple(x / y for x, y in in_pairs(row, reference))
            if samples:
                rows.append(dataclasses.replace(row, samples=samples, rounds=(), unit="× ZeroTier"))
        scenarios.append(dataclasses.replace(scenario, rows=tuple(rows)))
    return dataclasses.replace(run, scenarios=tuple(scenarios))


def _conditions(row: Row) -> tuple[str, str]:
    identity = ("engine", "instances", "multicore")
    return row.metric, str(sorted((name, value) for name, value in row.parameters.items() if name not in identity))


def warnings(a: Run, b: Run) -> list[str]:
    """What makes the runs hard to compare, one sentence each."""
    found = []
    for name in ("cpu", "cores", "kernel"):
        one, other = getattr(a.machine, name), getattr(b.machine, name)
        if one != other:
            found.append(f"{words.capital(name)} differs: {one} and {other}; --relative compares ratios to one ZeroTier.")
    for name in sorted(set(a.versions) & set(b.versions)):
        if a.versions[name] != b.versions[name]:
            found.append(f"{name} is {a.versions[name]} in A and {b.versions[name]} in B.")
    if a.settings.seconds != b.settings.seconds:
        found.append(f"A measured for {a.settings.seconds:g} s each, B for {b.settings.seconds:g} s.")
    return found


def table(found: Sequence[Difference]) -> Table:
    """Rows for a terminal or a pipe."""
    shown = Table(box=None, pad_edge=False)
    for header, right in (("scenario", 0), ("row", 0), ("A", 1), ("B", 1), ("B / A", 1), ("interval", 1), ("p", 1), ("", 0)):
        shown.add_column(header, justify="right" if right else "left", overflow="fold")
    colours = {"better": "green", "worse": "red"}
    for one in found:
        said = ", ".join(
            words.condition(name, value) for name, value in one.a.parameters.items() if name not in ("engine", "instances")
        )
        label = ", ".join(filter(None, (one.a.subject, one.a.metric, said)))
        low = f"{one.low:.3f}–{one.high:.3f}" if math.isfinite(one.low) else "–"
        low += f" ({one.confidence:.0%})" if math.isfinite(one.confidence) and one.confidence < 1 - LEVEL else ""
        word = f"{one.word}{', certain' if one.certain and one.word in colours else ''}"
        shown.add_row(
            one.scenario, label, words.number(words.median(one.a)), f"{words.number(words.median(one.b))} {one.a.unit}",
            f"{one.ratio:.3f}" if math.isfinite(one.ratio) else "–", low, f"{one.p:.3f}", word, style=colours.get(one.word, ""),
        )  # fmt: skip
    return shown


def closing(found: Sequence[Difference], a: Run, b: Run) -> str:
    """What it comes to, and how much of it chance alone would bring."""
    counts: Mapping[str, int] = {
        word: sum(one.word == word for one in found) for word in ("better", "worse", "no difference", "too few rounds")
    }
    only = [
        sum(1 for _, one, other in pairs(a, b) if bool(one) > bool(other)),
        sum(1 for _, one, other in pairs(a, b) if bool(other) > bool(one)),
    ]
    said = ", ".join(f"{count} {word}" for word, count in counts.items() if count) or "no row in both runs"
    text = f"{said}; {only[0]} rows only in A, {only[1]} only in B."
    judged = len(found) - counts["too few rounds"]
    if judged:
        text += (
            f" By chance alone about {LEVEL * judged:.0f} of {judged} rows would seem to differ;"
            f" 'certain' are those that differ even when that is accounted for."
        )
    if counts["too few rounds"]:
        text += " Four rounds in each run are the fewest that can show a difference."
    return text


def main(arguments: Sequence[str]) -> int:
    """Entry point; 1 when B is certainly worse anywhere, or cannot be read."""
    parser = argparse.ArgumentParser(prog="python3 -m bench compare", description="Two runs, row by row, with significance.")
    parser.add_argument("a", type=Path, help="the run before: its directory or results.json")
    parser.add_argument("b", type=Path, help="the run after")
    parser.add_argument(
        "--relative", action="store_true", help="compare ratios to one ZeroTier in the same round, as for two machines"
    )
    parser.add_argument("--changed", action="store_true", help="only rows that differ")
    options = parser.parse_args(arguments)
    try:
        a, b = load(options.a), load(options.b)
    except ResultsError as error:
        print(f"bench compare: {error}", file=sys.stderr)
        return 1
    for warning in warnings(a, b):
        print(warning, file=sys.stderr)
    if options.relative:
        a, b = relative(a), relative(b)
    found = differences(a, b)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
    console.print(table([one for one in found if not options.changed or one.word in ("better", "worse")]))
    console.print(closing(found, a, b))
    return 1 if any(one.certain and one.word == "worse" for one in found) else 0
