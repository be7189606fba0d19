"""Rows out of readings: how a run grows. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from bench.measure.common import Reading
from bench.plan import Plan, Step, Subject
from bench.results import Row, Run, Scenario


def with_plans(run: Run, plans: Iterable[Plan]) -> Run:
    """The run with a scenario for each plan; rows that it has stay."""
    scenarios = {scenario.name: scenario for scenario in run.scenarios}
    for plan in plans:
        rows = scenarios[plan.name].rows if plan.name in scenarios else ()
        scenarios[plan.name] = Scenario(plan.name, plan.title, plan.question, plan.method, rows)
    return replace(run, scenarios=tuple(scenarios.values()))


def add(run: Run, step: Step, readings: Sequence[Reading]) -> Run:
    """The run with one more sample for each row of a step; a failed reading is a row only where there is none with samples."""
    changed, subject = [], step.subject
    for scenario in run.scenarios:
        if scenario.name == step.plan.name:
            there = any(not reading.failed for reading in readings)
            rows = {row.key: row for row in scenario.rows if not (there and _stale(row, subject))}
            for reading in readings:
                row = _row(subject, reading, step.round)
                rows[row.key] = _merged(rows[row.key], row) if row.key in rows else row
            scenario = replace(scenario, rows=tuple(rows.values()))
        changed.append(scenario)
    return replace(run, scenarios=tuple(changed))


def unavailable(plan: Plan, why: str) -> Reading:
    """The reading of a subject that cannot be had."""
    return Reading({}, plan.metric, plan.unit, plan.better, failed=why)


def _stale(row: Row, subject: Subject) -> bool:
    """Whether a row says that a subject cannot be had at all."""
    return row.unavailable is not None and row.subject == subject.name and dict(row.parameters) == dict(subject.parameters)


def _row(subject: Subject, reading: Reading, number: int) -> Row:
    return Row(
        subject=subject.name, group=subject.group, parameters={**subject.parameters, **reading.parameters},
        metric=reading.metric, unit=reading.unit, better=reading.better,
        samples=() if reading.failed else (round(reading.value, 6),), commands=reading.commands,
        unavailable=reading.failed and " ".join(reading.failed.split())[:400],
        distribution=reading.distribution, timeline=reading.timeline, stacks=reading.stacks,
        rounds=() if reading.failed or number == 0 else (number,),
    )  # fmt: skip


def _merged(old: Row, new: Row) -> Row:
    """One more sample; distributions are of all rounds, a timeline is of the round with the largest value, stacks of the last."""
    if new.unavailable:
        return old
    worse = not old.samples or new.samples[0] > max(old.samples)
    rounds = (*old.by_round, *new.by_round)
    joined = (*(old.distribution or ()), *(new.distribution or ()))
    return replace(
        old, samples=old.samples + new.samples, unavailable=None, commands=old.commands or new.commands,
        distribution=joined or None, timeline=new.timeline if worse else old.timeline, stacks=new.stacks or old.stacks,
        rounds=() if rounds == tuple(range(len(rounds))) else rounds,
    )  # fmt: skip
