"""Comparison of two runs: the test by brute force, intervals that hold what they promise, and the words."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from pathlib import Path

import pytest
from bench import compare
from bench.results import Machine, Row, Run, Scenario, Settings, save


def run_of(*rows: Row, **machine: object) -> Run:
    known = Machine("a processor", 2, (), "6.1", 2**30, "")
    return Run(
        dataclasses.replace(known, **machine),
        "2026-11-22",
        {"iperf3": "3.12"},
        Settings(5, 1.0, quick=False),
        (Scenario("throughput", "A", "B", "C", rows),),
    )  # type: ignore[arg-type]


def row(*samples: float, subject: str = "ztnode x 1", group: str = "ours", better: str = "higher", **parameters: object) -> Row:
    return Row(subject, group, {"traffic": "tcp-1", **parameters}, "throughput", "Mbit/s", better, samples)  # type: ignore[arg-type]


def by_hand(a: list[float], b: list[float]) -> float:
    """The share of all ways to deal the values whose U is at least as far from its mean."""

    def u(of: list[float], others: list[float]) -> float:
        return sum((x > y) + (x == y) / 2 for x in of for y in others)

    every, seen, extreme = 0, abs(u(a, b) - len(a) * len(b) / 2), 0
    both = a + b
    for chosen in itertools.combinations(range(len(both)), len(a)):
        rest = [both[at] for at in range(len(both)) if at not in chosen]
        every += 1
        extreme += abs(u([both[at] for at in chosen], rest) - len(a) * len(b) / 2) >= seen
    return extreme / every


def test_the_p_value_is_that_of_all_ways_to_deal_the_samples() -> None:
    dice = random.Random(1)
    for _ in range(60):
        a, b = ([float(dice.randint(1, 6)) for _ in range(dice.randint(1, 5))] for _ in range(2))
        assert compare.p_value(a, b) == pytest.approx(by_hand(a, b))


def test_known_p_values() -> None:
    assert compare.p_value([1, 2, 3, 4, 5], [6, 7, 8, 9, 10]) == pytest.approx(2 / 252)
    assert compare.p_value([1, 2, 3], [1, 2, 3]) == 1 and compare.p_value([1, 2, 3], [4, 5, 6]) == pytest.approx(0.1)
    assert compare.best_p(3, 3) == pytest.approx(0.1) and compare.best_p(4, 4) < 0.05 < compare.best_p(3, 4)


def test_the_interval_is_right_as_often_as_it_says() -> None:
    dice = random.Random(2)
    held, count, promised = 0, 600, 0.0
    for _ in range(count):
        a = [math.exp(dice.gauss(0, 0.1)) for _ in range(6)]
        b = [1.2 * math.exp(dice.gauss(0, 0.1)) for _ in range(6)]
        low, high, promised = compare.interval(a, b)
        held += low <= 1.2 <= high
        assert low <= compare.effect(a, b) <= high
        assert (compare.p_value(a, b) > 1 - promised + 1e-9) == (low <= 1 <= high)  # interval and test agree
    assert 0.95 <= promised < 0.97 and held / count > promised - 0.03


def test_with_three_rounds_the_interval_says_how_little_it_knows() -> None:
    low, high, confidence = compare.interval([1, 2, 3], [10, 20, 30])
    assert (low, high) == (10 / 3, 30) and confidence == pytest.approx(0.9)


def words_of(a: Row, b: Row) -> str:
    return compare.differences(run_of(a), run_of(b))[0].word


def test_words() -> None:
    slow, fast = (100, 101, 102, 103, 104), (120, 121, 122, 123, 124)
    assert words_of(row(*slow), row(*fast)) == "better" and words_of(row(*fast), row(*slow)) == "worse"
    assert words_of(row(*slow, better="lower"), row(*fast, better="lower")) == "worse"
    assert words_of(row(*slow), row(*slow)) == "no difference"
    assert words_of(row(*slow), row(*(value * 1.005 + 4e-9 for value in slow))) == "no difference"
    assert words_of(row(*slow[:3]), row(*fast[:3])) == "too few rounds"
    assert words_of(row(0, 0, 0, 0, 0, better="lower"), row(*fast, better="lower")) == "worse"


def test_many_rows_are_corrected_for() -> None:
    assert compare.holm([0.001, 0.02, 0.04]) == [True, True, True] and compare.holm([0.03, 0.001, 0.04]) == [False, True, False]
    assert compare.holm([]) == []


def test_rows_of_one_run_only_are_counted() -> None:
    a, b = run_of(row(1, 2), row(3, subject="x")), run_of(row(1, 2), row(3, subject="y"), row(4, subject="z"))
    assert "1 rows only in A, 2 only in B" in compare.closing(compare.differences(a, b), a, b)


def test_relative_divides_by_one_zerotier_of_the_same_round() -> None:
    stock = row(100, 200, subject="ZeroTier x 1", group="stock", instances=1)
    found = compare.relative(run_of(stock, row(300, 500, instances=4), row(5, 5, traffic="udp-64"))).scenarios[0].rows
    assert [(one.subject, one.samples, one.unit) for one in found] == [("ztnode x 1", (3.0, 2.5), "× ZeroTier")]


def test_other_machines_and_versions_are_said() -> None:
    other = dataclasses.replace(run_of(cores=4), versions={"iperf3": "3.18"})
    text = " ".join(compare.warnings(run_of(), other))
    assert (
        "Cores differs: 2 and 4" in text
        and "iperf3 is 3.12 in A and 3.18 in B" in text
        and compare.warnings(run_of(), run_of()) == []
    )


def test_the_command_fails_where_something_is_certainly_worse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, factor in (("a", 1.0), ("b", 0.8)):
        (tmp_path / name).mkdir()
        save(run_of(row(*(factor * value for value in (100, 101, 102, 103, 104)))), tmp_path / name / "results.json")
    assert compare.main([str(tmp_path / "a"), str(tmp_path / "b")]) == 1
    assert "worse, certain" in capsys.readouterr().out
    assert compare.main([str(tmp_path / "a"), str(tmp_path / "a"), "--changed"]) == 0
    assert compare.main([str(tmp_path / "a"), str(tmp_path / "none")]) == 1 and "cannot be read" in capsys.readouterr().err
