"""The results of a benchmark run: what they are, and their file ``results.json``, which report and comparison read.

A row is one figure of one subject under one set of parameters, with one sample per round. Ratios are not stored: readers
compute them (:mod:`bench.figures`). A file is checked when it is written and when it is read; :class:`ResultsError` says
in one sentence which value is wrong.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

FORMAT = 1
GROUPS = ("raw", "peer", "stock", "ours")
BETTER = ("higher", "lower")
SCENARIOS = (
    "throughput", "forwarded", "pinned", "memory", "transfer-1gb", "scaling", "loopback", "evenness", "latency", "stalls", "commit",
    "trusted-path", "profile",
)  # fmt: skip

Parameter = str | int | float | bool
C = TypeVar("C")

# Metrics by which the report knows what the loopback address (the "floating IP" of the field) costs
LOOPBACK_COST = "loopback address per datagram"
ROUND_TRIP = "round trip"


class ResultsError(ValueError):
    """Results are not as this format wants them; the text is one sentence with place and value."""


@dataclass(frozen=True)
class Machine:
    """The machine that everything ran on. ``virtual`` is the hypervisor's name, empty on bare metal."""

    cpu: str
    cores: int
    cpu_features: tuple[str, ...]
    kernel: str
    memory_bytes: int
    virtual: str


@dataclass(frozen=True)
class Settings:
    """Rounds over all subjects, and seconds of one measurement; a scenario may use its own."""

    rounds: int
    seconds: float
    quick: bool


@dataclass(frozen=True)
class Row:
    """One figure of one subject. ``unavailable`` says in one sentence why there are no samples."""

    subject: str  # "ztnode x 4", "wireguard-go"
    group: str  # raw, peer, stock, ours
    parameters: Mapping[str, Parameter]  # traffic: "tcp-1", instances: 4, engine: "ztnode", budget: 0.1 ...
    metric: str  # "throughput", "cpu per Gbit" ...
    unit: str
    better: str  # higher, lower
    samples: tuple[float, ...] = ()  # one per round
    commands: tuple[str, ...] = ()  # what was run, as a person would type it
    unavailable: str | None = None
    distribution: tuple[float, ...] | None = None  # latencies in ms, of all rounds
    timeline: tuple[tuple[float, float], ...] | None = None  # (seconds, value), of one round
    stacks: str | None = None  # folded stacks: "a;b;c 12" per line
    rounds: tuple[int, ...] = ()  # of each sample, from 0; empty where they are the first ones in their order

    @property
    def by_round(self) -> dict[int, float]:
        """The samples by the round that they are of: one may have failed, or have been repeated later."""
        return dict(zip(self.rounds or range(len(self.samples)), self.samples, strict=True))

    @property
    def key(self) -> tuple[str, str, str]:
        """What a row is found by when a run is resumed or compared; unique in its scenario."""
        return self.subject, json.dumps(dict(self.parameters), sort_keys=True), self.metric


@dataclass(frozen=True)
class Scenario:
    """One question, and the rows that answer it."""

    name: str
    title: str
    question: str
    method: str
    rows: tuple[Row, ...] = ()
    origin: str = ""  # when and on what it was measured, in one sentence, where that is another run than the rest


@dataclass(frozen=True)
class Run:
    """A whole run."""

    machine: Machine
    started: str  # ISO 8601
    versions: Mapping[str, str]
    settings: Settings
    scenarios: tuple[Scenario, ...] = field(default_factory=tuple)

    def scenario(self, name: str) -> Scenario | None:
        """A scenario by its name; None when the run does not have it."""
        return next((scenario for scenario in self.scenarios if scenario.name == name), None)


def load(path: Path) -> Run:
    """Read a run; ``path`` is ``results.json`` or its directory. Raises :class:`ResultsError`."""
    file = path / "results.json" if path.is_dir() else path
    try:
        data = json.loads(file.read_text())
    except OSError as error:
        raise ResultsError(f"{file} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ResultsError(f"{file} is not JSON: {error}") from None
    try:
        return decode(data)
    except ResultsError as error:
        raise ResultsError(f"{file}: {error}") from None


def pairs(a: Row, b: Row) -> list[tuple[float, float]]:
    """The samples of two rows from the same rounds."""
    one, other = a.by_round, b.by_round
    return [(one[number], other[number]) for number in sorted(one.keys() & other.keys())]


def save(run: Run, path: Path) -> None:
    """Write a run; a reader sees the old file or the new one, never half of it. Raises :class:`ResultsError`."""
    text = json.dumps(encode(run), indent=1) + "\n"
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text)
    os.replace(partial, path)


def encode(run: Run) -> dict[str, Any]:
    """A run as JSON has it; optional parts that a row does not have are left out. Raises :class:`ResultsError`."""
    validate(run)
    data = {"format": FORMAT, **dataclasses.asdict(run)}
    for scenario in data["scenarios"]:
        if not scenario["origin"]:
            del scenario["origin"]
        for row in scenario["rows"]:
            for name in ("distribution", "timeline", "stacks"):
                if row[name] is None:
                    del row[name]
            if not row["rounds"]:
                del row["rounds"]
    return data


def decode(data: object) -> Run:
    """A run out of JSON. Raises :class:`ResultsError`."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        found = data.get("format") if isinstance(data, dict) else None
        raise ResultsError(f"format is {found!r}, this program reads {FORMAT}")
    run = _object(Run, {key: value for key, value in data.items() if key != "format"}, "")
    validate(run)
    return run


def validate(run: Run) -> None:
    """Check what types do not say. Raises :class:`ResultsError`."""
    seen: set[str] = set()
    for scenario in run.scenarios:
        if scenario.name not in SCENARIOS:
            raise ResultsError(f"scenario {scenario.name!r} is none of {', '.join(SCENARIOS)}")
        if scenario.name in seen:
            raise ResultsError(f"scenario {scenario.name!r} is there twice")
        seen.add(scenario.name)
        keys: set[tuple[str, str, str]] = set()
        for number, row in enumerate(scenario.rows):
            place = f"scenarios {scenario.name} rows[{number}]"
            _validate_row(row, place)
            if row.key in keys:
                raise ResultsError(f"{place}: {row.subject}, {row.metric} with these parameters is there twice")
            keys.add(row.key)


def _validate_row(row: Row, place: str) -> None:
    if row.group not in GROUPS:
        raise ResultsError(f"{place}: group {row.group!r} is none of {', '.join(GROUPS)}")
    if row.better not in BETTER:
        raise ResultsError(f"{place}: better {row.better!r} is none of {', '.join(BETTER)}")
    if row.rounds and (len(row.rounds) != len(row.samples) or len(set(row.rounds)) < len(row.rounds)):
        raise ResultsError(f"{place}: rounds are not one for each sample")
    points = [*row.samples, *(row.distribution or ()), *(value for point in row.timeline or () for value in point)]
    for value in points:
        if not math.isfinite(value):
            raise ResultsError(f"{place}: {value} is not a finite number")
    if row.unavailable is not None and (row.samples or not row.unavailable):
        raise ResultsError(f"{place}: a row that is unavailable says why and has no samples")
    if row.unavailable is None and not row.samples:
        raise ResultsError(f"{place}: a row without samples says in 'unavailable' why")


# -- from JSON to dataclasses, by their annotations


def _object(kind: type[C], data: object, place: str) -> C:
    if not isinstance(data, dict):
        raise ResultsError(f"{place or 'the file'} is {_shown(data)}, not an object")
    hints = typing.get_type_hints(kind)
    fields = {entry.name: entry for entry in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for name in data:
        if name not in fields:
            raise ResultsError(f"{_join(place, name)} is unknown")
    values = {}
    for name, entry in fields.items():
        if name in data:
            values[name] = _value(hints[name], data[name], _join(place, name))
        elif entry.default is dataclasses.MISSING and entry.default_factory is dataclasses.MISSING:
            raise ResultsError(f"{_join(place, name)} is missing")
    return kind(**values)


def _value(hint: Any, data: object, place: str) -> Any:
    """``data`` as the annotation ``hint`` wants it."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint):
        return _object(typing.cast(type, hint), data, place)
    if origin in (types.UnionType, typing.Union):
        if data is None and type(None) in arguments:
            return None
        left = [argument for argument in arguments if argument is not type(None)]
        if len(left) == 1:
            return _value(left[0], data, place)
        if isinstance(data, tuple(left)):
            return data
        raise ResultsError(f"{place} is {_shown(data)}, not a scalar")
    if origin is tuple:
        if not isinstance(data, list | tuple):
            raise ResultsError(f"{place} is {_shown(data)}, not a list")
        kinds = [arguments[0]] * len(data) if arguments[-1] is ... else list(arguments)
        if len(kinds) != len(data):
            raise ResultsError(f"{place} has {len(data)} values, not {len(kinds)}")
        return tuple(_value(one, value, f"{place}[{n}]") for n, (one, value) in enumerate(zip(kinds, data, strict=True)))
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(data, dict):
            raise ResultsError(f"{place} is {_shown(data)}, not an object")
        return {str(key): _value(arguments[1], value, _join(place, str(key))) for key, value in data.items()}
    wanted: tuple[type, ...] = (int, float) if hint is float else (hint,)
    if not isinstance(data, wanted) or (isinstance(data, bool) and hint is not bool):
        raise ResultsError(f"{place} is {_shown(data)}, not {hint.__name__}")
    return data


def _join(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _shown(data: object) -> str:
    text = json.dumps(data, default=repr)
    return text if len(text) <= 60 else f"{text[:57]}..."
