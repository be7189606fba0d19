"""Which rows of a scenario belong into one plot and table: those that differ in the subject, or along one axis. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from bench.report import words
from bench.results import Parameter, Row

SILENT = ("engine", "timeline_unit")  # parameters that the subject's name has already, or that are about the row's parts
ORDER = {name: number for number, name in enumerate(words.TRAFFIC)}


@dataclass(frozen=True)
class Panel:
    """Rows of one metric under the same conditions. ``axis`` is the parameter that they vary along, if that is a number."""

    metric: str
    unit: str
    better: str
    conditions: tuple[tuple[str, Parameter], ...]
    rows: tuple[Row, ...]
    axis: str | None = None

    @property
    def title(self) -> str:
        """``Throughput: TCP, 16 streams``."""
        said = ", ".join(words.condition(name, value) for name, value in self.conditions)
        name = f"{self.metric} by {self.axis}" if self.axis else self.metric
        return words.capital(f"{name}: {said}" if said else name)

    def label(self, row: Row) -> str:
        """The row's subject, with what tells it from others of the same name."""
        fixed = {name for name, _ in self.conditions}
        same = [other for other in self.rows if other.subject == row.subject and other is not row]
        differing = [
            name for name in row.parameters
            if name not in fixed and any(other.parameters.get(name) != row.parameters[name] for other in same)
        ]  # fmt: skip
        return ", ".join([row.subject, *(words.condition(name, row.parameters[name]) for name in differing)])

    def lines(self) -> dict[str, list[tuple[float, Row]]]:
        """Measured rows by subject, along the axis."""
        told = {self.axis, "instances", *SILENT, *(name for name, _ in self.conditions)}
        names = dict.fromkeys(name for row in self.rows for name in row.parameters if name not in told)
        several = [name for name in names if len({row.parameters.get(name) for row in self.rows}) > 1]
        found: dict[str, list[tuple[float, Row]]] = defaultdict(list)
        for row in self.rows:
            if row.samples and self.axis is not None and self.axis in row.parameters:
                subject = family(row) if self.axis == "instances" else row.subject
                said = [words.condition(name, row.parameters[name]) for name in several if name in row.parameters]
                found[", ".join([subject, *said])].append((float(row.parameters[self.axis]), row))
        return {name: sorted(points, key=lambda point: point[0]) for name, points in found.items()}


def panels(rows: Sequence[Row], labels: Sequence[str] = ()) -> list[Panel]:
    """The panels of a scenario, in the order in which its metrics come up, traffic in its own order.

    Parameters in ``labels`` do not split: they tell rows of one panel apart. A row that is unavailable under no condition
    in particular is in every panel of its metric. Each other row is in one panel at least.
    """
    by_metric: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in rows:
        by_metric[row.metric, row.unit, row.better].append(row)
    found = []
    for kind, those in by_metric.items():
        varying = _varying(those)
        axes = _axes([row for row in those if row.samples], varying)
        conditions = [name for name in varying if name not in axes and name not in labels]
        left = list(those)
        for axis in axes:
            part = [row for row in _along(those, axis, axes) if row.samples]
            if len({row.parameters[axis] for row in part}) > 2:
                found += _by_conditions(kind, part, conditions, axis)
                left = [row for row in left if row not in part]
        found += _by_conditions(kind, left, conditions, None) if left else []
    return found


def family(row: Row) -> str:
    """The subject without its number of instances: ``ztnode`` of ``ztnode x 4``."""
    return row.subject.removesuffix(f" x {row.parameters.get('instances')}")


def _by_conditions(kind: tuple[str, str, str], rows: Sequence[Row], conditions: Sequence[str], axis: str | None) -> list[Panel]:
    grouped: dict[tuple[tuple[str, Parameter], ...], list[Row]] = defaultdict(list)
    anywhere = [row for row in rows if row.unavailable and not any(name in row.parameters for name in conditions)]
    for row in rows:
        if row not in anywhere:
            grouped[tuple((name, row.parameters[name]) for name in conditions if name in row.parameters)].append(row)
    if axis is None and len(grouped) > 1 and all(len(part) == 1 for part in grouped.values()):
        grouped = defaultdict(list, {(): [row for part in grouped.values() for row in part]})
    if not grouped:
        grouped[()] = []
    ordered = sorted(grouped.items(), key=lambda item: [ORDER.get(str(v), 0) for name, v in item[0] if name == "traffic"])
    return [Panel(*kind, said, (*(row for row in rows if row in part or row in anywhere),), axis) for said, part in ordered]


def _along(rows: Sequence[Row], axis: str, axes: Sequence[str]) -> list[Row]:
    """Rows along an axis, where the other axes have those values that give it the most points."""
    groups: dict[tuple[Parameter | None, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(row.parameters.get(other) for other in axes if other != axis)].append(row)
    return max(groups.values(), key=lambda part: len({row.parameters.get(axis) for row in part}))


def _varying(rows: Sequence[Row]) -> list[str]:
    """Parameters of which one subject has several values: conditions, not what the subject is."""
    values: dict[tuple[str, str], set[Parameter]] = defaultdict(set)
    for row in rows:
        for name, value in row.parameters.items():
            values[family(row), name].add(value)
    names = dict.fromkeys(name for row in rows for name in row.parameters if name not in SILENT)
    several = [name for name in names if any(len(found) > 1 for (_, of), found in values.items() if of == name)]
    return [name for name in several if name != "instances" or _numbered(rows)]


def _numbered(rows: Sequence[Row]) -> bool:
    """Whether every measured row has a number of instances: then that may be an axis, else it is part of the name."""
    return all("instances" in row.parameters for row in rows if row.samples)


def _axes(rows: Sequence[Row], varying: Sequence[str]) -> list[str]:
    """Numeric parameters of every row, with three values or more for one subject."""
    found = []
    for name in varying:
        seen: dict[str, set[Parameter]] = defaultdict(set)
        values = [row.parameters.get(name) for row in rows]
        if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
            continue
        for row in rows:
            seen[family(row)].add(row.parameters[name])
        if seen and max(map(len, seen.values())) > 2:
            found.append(name)
    return found
