"""What a run does: scenarios out of their files, the subjects of each, and the steps that are still to be done. Pure.

A file ``bench/scenarios/NAME.toml`` says ``title``, ``question``, ``method``, the ``metric`` with its ``unit`` and which is
``better``, ``parameters`` of its measurement, and a list of ``subjects``. A list as the value of a subject's key
makes one subject of each entry. ``[quick]`` replaces parameters, and subjects, of a short run.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.results import SCENARIOS, Parameter, ResultsError, Row, Run

DIRECTORY = Path(__file__).parent / "scenarios"
KEYS = {"title", "question", "method", "metric", "unit", "better", "seconds", "rounds", "parameters", "subjects", "quick"}
NAMES = {"raw": "raw link", "zerotier": "ZeroTier x 1", "zerotier-multicore": "ZeroTier multicore", "ztnode": "ztnode x 1"}
GROUPS = {"raw": "raw", "zerotier": "stock", "zerotier-multicore": "stock", "ztnode": "ours", "ours": "ours"}


@dataclass(frozen=True)
class Subject:
    """What is measured: the kind of link, and how it is configured."""

    kind: str
    parameters: Mapping[str, Parameter] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What it is called in the report."""
        if self.kind == "ours":
            return f"{self.parameters.get('engine', 'ztnode')} x {self.parameters.get('instances', 1)}"
        return NAMES.get(self.kind, self.kind)

    @property
    def group(self) -> str:
        """raw, peer, stock or ours."""
        return GROUPS.get(self.kind, "peer")


@dataclass(frozen=True)
class Plan:
    """One scenario as its file says it."""

    name: str
    title: str
    question: str
    method: str
    metric: str
    unit: str
    better: str
    seconds: float  # of one measurement; 0 where the run says
    rounds: int  # 0 where the run says
    parameters: Mapping[str, Any]
    subjects: tuple[Subject, ...]


@dataclass(frozen=True)
class Step:
    """One subject of a scenario in one round: the unit of work, and of what a resumed run leaves out."""

    plan: Plan
    subject: Subject
    round: int


def parse(name: str, text: str, quick: bool = False) -> Plan:
    """A scenario out of its file's text. Raises :class:`ResultsError` with the file's name and what is wrong."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ResultsError(f"scenario {name}: {error}") from None
    if name not in SCENARIOS:
        raise ResultsError(f"scenario {name} is none of {', '.join(SCENARIOS)}")
    short = data.get("quick", {})
    for key in [*data, *short]:
        if key not in KEYS:
            raise ResultsError(f"scenario {name}: {key} is unknown")
    for key in ("title", "question", "method", "metric", "unit", "better", "subjects"):
        if key not in data:
            raise ResultsError(f"scenario {name}: {key} is missing")
    if quick:
        data |= short | {"parameters": data.get("parameters", {}) | short.get("parameters", {})}
    return Plan(
        name=name, title=data["title"], question=data["question"], method=" ".join(data["method"].split()),
        metric=data["metric"], unit=data["unit"], better=data["better"], seconds=data.get("seconds", 0),
        rounds=data.get("rounds", 0), parameters=data.get("parameters", {}), subjects=tuple(_subjects(name, data["subjects"])),
    )  # fmt: skip


def _subjects(scenario: str, entries: Sequence[Mapping[str, Any]]) -> Iterator[Subject]:
    for entry in entries:
        if "kind" not in entry:
            raise ResultsError(f"scenario {scenario}: a subject has no kind")
        rest = {key: value if isinstance(value, list) else [value] for key, value in entry.items() if key != "kind"}
        for values in itertools.product(*rest.values()):
            yield Subject(entry["kind"], dict(zip(rest, values, strict=True)))


def load(names: Iterable[str] = (), quick: bool = False, directory: Path = DIRECTORY) -> list[Plan]:
    """The scenarios of these names, or all that have a file, in the order of the report."""
    there = [name for name in SCENARIOS if (directory / f"{name}.toml").exists()]
    wanted = list(names) or there
    for name in wanted:
        if name not in there:
            raise ResultsError(f"there is no scenario {name}; there are {', '.join(there)}")
    return [parse(name, (directory / f"{name}.toml").read_text(), quick) for name in there if name in wanted]


def only(plans: Iterable[Plan], words: Sequence[str]) -> list[Plan]:
    """The plans with those subjects whose name or kind is one of ``words``; all when there are none."""
    if not words:
        return list(plans)
    kept = [replace(p, subjects=tuple(s for s in p.subjects if s.name in words or s.kind in words)) for p in plans]
    return [plan for plan in kept if plan.subjects]


def selected(names: Iterable[str], quick: bool, words: Sequence[str]) -> list[Plan]:
    """:func:`load` and :func:`only`. Raises :class:`ResultsError` also for a subject that none of the scenarios has."""
    plans = load(names, quick)
    for word in words:
        if not only(plans, [word]):
            there = dict.fromkeys(subject.name for plan in plans for subject in plan.subjects)
            raise ResultsError(f"subject {word} is in none of the chosen scenarios; they have {', '.join(there)}")
    return only(plans, words)


def steps(plans: Sequence[Plan], rounds: int) -> list[Step]:
    """Everything in its order: a scenario after the other, in each of them all subjects in a round before the next round."""
    return [
        Step(plan, subject, number)
        for plan in plans
        for number in range(plan.rounds or rounds)
        for subject in plan.subjects
    ]  # fmt: skip


def left(todo: Sequence[Step], run: Run) -> list[Step]:
    """The steps whose samples a run does not have yet; what could not be had is tried again."""
    return [step for step in todo if not _done(step, run)]


def _done(step: Step, run: Run) -> bool:
    scenario = run.scenario(step.plan.name)
    rows = [row for row in scenario.rows if belongs(row, step.subject)] if scenario else []
    return any(step.round in row.by_round for row in rows)


def belongs(row: Row, subject: Subject) -> bool:
    """Whether a row is one of a subject's: the same name, and all of the subject's parameters."""
    return row.subject == subject.name and all(row.parameters.get(k) == v for k, v in subject.parameters.items())


def time_left(todo: Sequence[Step], took: Mapping[tuple[str, str], float], fallback: float) -> float:
    """Seconds that steps will take, by what a step of the same scenario and kind took, else of the scenario, else of any."""
    means: dict[str, float] = {}
    for scenario, _ in took:
        times = [seconds for (name, _), seconds in took.items() if name == scenario]
        means[scenario] = sum(times) / len(times)
    overall = sum(means.values()) / len(means) if means else fallback
    return sum(took.get((s.plan.name, s.subject.kind), means.get(s.plan.name, overall)) for s in todo)
