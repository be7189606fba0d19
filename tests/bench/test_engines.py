"""The table of one instance of each engine, out of a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.bench.synthetic import invented

from bench.engines import LINES, MARKS, OURS, cell, main, placed, table, times
from bench.results import Row, Run, Scenario, save

BOTH = next(line for line in LINES if line.share != 1)


def run_of(**rates: tuple[float, ...]) -> Run:
    """Traffic both ways of some subjects, a second of CPU for each Gbit."""
    rows = []
    for name, samples in rates.items():
        subject = {"ours": OURS, "stock": "ZeroTier x 1"}[name]
        own = {"engine": "ztnode", "instances": 1} if name == "ours" else {}
        for metric, values in (("throughput", samples), ("cpu per Gbit", (1.0,))):
            rows.append(Row(subject, "ours" if own else "stock", {**own, **BOTH.parameters}, metric, "x", "higher", values))
    base = invented()
    return Run(
        base.machine,
        base.started,
        {"ztnode": "0.9", "go": "1"},
        base.settings,
        (Scenario("throughput", "T", "Q?", "M.", tuple(rows)),),
    )


def test_one_way_of_both_counts_for_rate_and_cpu() -> None:
    run = run_of(ours=(4000.0, 6000.0, 5000.0), stock=(1000.0, 1000.0, 1000.0))
    assert cell(run, BOTH, OURS) == "2500 (2.00)"
    assert times(run, BOTH, "ZeroTier x 1") == "5.0 (4.0 to 6.0)"


def test_what_was_not_measured_is_a_dash() -> None:
    run = run_of(ours=(4000.0,))
    assert times(run, BOTH, "ZeroTier x 1") == "–"
    assert f"| {BOTH.label} | – | – | – | 2000 (2.00) | – | – |" in table(run)
    assert "; ztnode 0.9; medians of" in table(run)


def test_a_subject_that_could_not_be_had_says_why() -> None:
    run = run_of(ours=(4000.0,))
    row = Row("ZeroTier x 1", "stock", {}, "throughput", "Mbit/s", "higher", unavailable="zerotier-one is not on PATH")
    (scenario,) = run.scenarios
    text = table(replace(run, scenarios=(replace(scenario, rows=(*scenario.rows, row)),)))
    assert text.endswith("|\n\nZeroTier x 1: zerotier-one is not on PATH\n")


def test_the_page_gets_the_table_between_its_marks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, file = tmp_path / "page.md", tmp_path / "results.json"
    save(run_of(ours=(4000.0,)), file)
    page.write_text(f"before\n{MARKS[0]}old\n{MARKS[1]}after\n")
    assert main([str(file), "--write", str(page)]) == 0
    assert page.read_text() == f"before\n{MARKS[0]}{table(run_of(ours=(4000.0,)))}{MARKS[1]}after\n"
    page.write_text("no marks\n")
    assert main([str(file), "--write", str(page)]) == 1
    assert "no place" in capsys.readouterr().err


def test_the_documentation_has_its_place() -> None:
    assert "new" in placed((Path(__file__).parents[2] / "docs/engine.md").read_text(), "new")
