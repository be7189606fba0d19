"""How the benchmark of moving addresses reads what flows saw."""

from __future__ import annotations

import math

import pytest

from bench.roaming import HEADERS, percentile, row
from lab.roaming import MOVES, Outcome, away


def test_the_longest_row_of_lost_packets_counts_from_the_moment_of_the_move() -> None:
    gap = [10.0 + n * 0.01 for n in range(300)]
    assert away([], 10.0) == 0.0
    assert away(gap, 10.5) == pytest.approx(2.5)
    assert away([1.0, *gap, 20.0], 10.0) == pytest.approx(3.0), "single losses elsewhere are none of the move's"
    assert away([1.0], 10.0) == 0.0


def test_p95_of_twenty_is_the_second_worst() -> None:
    assert percentile(list(range(1, 21)), 0.95) == 19
    assert percentile([7.0], 0.95) == 7.0


def test_a_row_is_good_only_when_the_traffic_came_back_in_time() -> None:
    move = MOVES[0]
    good = [Outcome(1.0, 2.0)] * 19 + [Outcome(None, None)]
    cells, verdict = row("ztnode", move, good)
    assert verdict and len(cells) == len(HEADERS) and cells[5] == "not back"
    assert row("ztnode", move, [Outcome(move.limit + 0.1, 6.0)])[1] is False
    assert row("ztnode", move, [Outcome(None, None)] * 3)[0][3:6] == ["not back"] * 3
    assert row("ztnode", move, [])[1] is False
    assert row("ztnode", move, good, "stopped: R1 did not boot")[1] is False
    assert math.isinf(percentile([math.inf, math.inf], 0.5))
