"""The run that the documentation shows. It is measured in parts: a scenario stays until a later run has it."""

from __future__ import annotations

from dataclasses import replace

from bench.report import build
from bench.results import Row, Run, Scenario

MOST_VALUES = 1000  # of a distribution; a longer one is for the page of the run itself


def merged(run: Run, earlier: Run | None) -> Run:
    """The run, and those scenarios of an earlier one that it does not have; each of these says when it was measured, and where."""
    own = tuple(scenario for scenario in run.scenarios if any(row.samples for row in scenario.rows))
    if not earlier:
        return replace(run, scenarios=own)
    names = {scenario.name for scenario in own}
    kept = tuple(_of(one, earlier, run) for one in earlier.scenarios if one.name not in names)
    return replace(run, scenarios=own + kept, versions={**earlier.versions, **run.versions})


def _of(scenario: Scenario, run: Run, later: Run) -> Scenario:
    """A scenario of an earlier run, with its date, its machine, and the versions that a later run has others of."""
    if scenario.origin:
        return scenario
    other = [f"{name} {of}" for name, of in sorted(run.versions.items()) if later.versions.get(name, of) != of]
    with_versions = f"; {', '.join(other)}" if other else ""
    return replace(scenario, origin=f"Measured on {build.day(run)}: {build.machine_line(run)}{with_versions}.")


def slim(run: Run) -> Run:
    """The run without what tables do not show: flame graphs, timelines, long distributions."""
    scenarios = [replace(one, rows=tuple(map(_slim, one.rows))) for one in run.scenarios if one.name != "profile"]
    return replace(run, scenarios=tuple(scenarios))


def _slim(row: Row) -> Row:
    short = row.distribution and len(row.distribution) <= MOST_VALUES
    return replace(row, stacks=None, timeline=None, distribution=row.distribution if short else None)
