"""Figures out of samples: medians, spread, percentiles, and what is derived from several rows. All pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from functools import cache


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which so many of the values lie; ``values`` must not be empty."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def spread(samples: Sequence[float]) -> float:
    """Half the distance between smallest and largest sample, as a share of the median; 0 for one sample."""
    middle = statistics.median(samples)
    return (max(samples) - min(samples)) / 2 / abs(middle) if middle else 0.0


def ratio(samples: Sequence[float], reference: Sequence[float]) -> float:
    """Median of ``samples`` to median of ``reference``; not a number unless all of the reference is above 0.

    What may be negative is a difference (memory lost); around 0 its ratios say nothing.
    """
    middle = statistics.median(samples)
    return middle / statistics.median(reference) if min(reference) > 0 and middle >= 0 else math.nan


def efficiency(throughput: Mapping[int, float]) -> dict[int, float]:
    """T(N) / (N x T(1)) by the number of instances; ``throughput`` must have an entry for 1.

    1 is perfect scaling.
    """
    alone = throughput[1]
    return {number: value / (number * alone) for number, value in sorted(throughput.items())}


def interval(values: Sequence[float]) -> float:
    """Half the 95 % interval of the mean; not a number for fewer than two values."""
    return 1.96 * statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan


def evenness(shares: Sequence[float]) -> float:
    """Largest / mean share of paths; 1 is even."""
    return max(shares) / statistics.mean(shares) if sum(shares) else math.nan


@cache
def expected_evenness(flows: int, paths: int) -> float:
    """What :func:`evenness` is on average when equal flows choose paths at random (balls in bins), exactly.

    E[max] = sum over m of P(max > m), and P(max <= m) = flows! / paths^flows x [x^flows] (sum_{k<=m} x^k/k!)^paths.
    """
    mean = flows / paths
    expected = 0.0
    for most in range(flows):
        expected += 1.0 - _at_most(flows, paths, most)
    return expected / mean


def _at_most(flows: int, paths: int, most: int) -> float:
    """Probability that no path has more than ``most`` of ``flows`` flows, one path after the other."""
    chances = [0.0] * (flows + 1)  # by the flows placed so far, of those that are left to this many paths
    chances[0] = 1.0
    for left in range(paths, 0, -1):
        following = [0.0] * (flows + 1)
        for placed, chance in enumerate(chances):
            if chance == 0.0:
                continue
            rest = flows - placed
            for here in range(min(most, rest) + 1):
                share = 1.0 / left
                binomial = math.comb(rest, here) * share**here * (1.0 - share) ** (rest - here)
                following[placed + here] += chance * binomial
        chances = following
    return chances[flows]
