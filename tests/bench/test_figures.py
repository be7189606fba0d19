"""Figures that the report shows, by values that can be computed by hand."""

from __future__ import annotations

import itertools
import math

import pytest

from bench.figures import efficiency, evenness, expected_evenness, percentile, ratio, spread


def test_percentile_is_a_value_that_occurs():
    assert percentile([5, 1, 4, 2, 3], 0.5) == 3
    assert percentile(range(100), 0.99) == 99
    assert percentile([7], 0.99) == 7


def test_spread_is_half_the_range_to_the_median():
    assert spread([90, 100, 110]) == pytest.approx(0.1)
    assert spread([5]) == 0
    assert spread([0, 0]) == 0


def test_ratio_of_medians():
    assert ratio([200, 100, 900], [100, 50, 100]) == 2
    assert math.isnan(ratio([1], [0]))


def test_differences_around_zero_have_no_ratio():
    assert math.isnan(ratio([92, 95], [22, -40, 48])), "memory lost may be negative"
    assert math.isnan(ratio([-30], [20]))
    assert ratio([0], [20]) == 0


def test_efficiency_is_relative_to_one_instance():
    assert efficiency({1: 100.0, 4: 380.0, 2: 200.0}) == {1: 1.0, 2: 1.0, 4: 0.95}


def test_evenness():
    assert evenness([1, 1, 1, 1]) == 1
    assert evenness([3, 1]) == 1.5
    assert math.isnan(evenness([0, 0]))


@pytest.mark.parametrize("flows, paths", [(1, 2), (2, 2), (4, 3), (6, 4), (8, 2)])
def test_expected_evenness_is_the_mean_over_all_choices(flows, paths):
    every = [[choice.count(path) for path in range(paths)] for choice in itertools.product(range(paths), repeat=flows)]
    assert expected_evenness(flows, paths) == pytest.approx(sum(map(evenness, every)) / len(every))


def test_expected_evenness_of_the_benchmark():
    assert 1.2 < expected_evenness(64, 4) < 1.3
    assert expected_evenness(4, 4) > expected_evenness(16, 4) > expected_evenness(64, 4)
