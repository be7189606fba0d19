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
        return words.capital(f"{self.metric}: {said}" if said else self.metric)

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
        found: dict[str, list[tuple[float, Row]]] = defaultdict(list)
        for row in self.rows:
            if row.samples and self.axis is not None and self.axis in row.parameters:
                at = row.parameters[self.axis]
                found[row.subject.removesuffix(f" x {at}")].append((float(at), row))
        return {name: sorted(points, key=lambda point: point[0]) for name, points in found.items()}


def panels(rows: Sequence[Row]) -> list[Panel]:
    """The panels of a scenario, in the order in which its metrics and conditions come up; traffic in its own order."""
    by_metric: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in rows:
        by_metric[row.metric, row.unit, row.better].append(row)
    found = []
    for (metric, unit, better), those in by_metric.items():
        varying = _varying(those)
        axes = _axes(those, varying)
        for axis, part in _along(those, axes) if axes else [(None, those)]:
            conditions = [name for name in varying if name not in axes]
            found += _by_conditions(metric, unit, better, part, conditions, axis)
    return found


def _by_conditions(
    metric: str, unit: str, better: str, rows: Sequence[Row], conditions: Sequence[str], axis: str | None
) -> list[Panel]:
    grouped: dict[tuple[tuple[str, Parameter], ...], list[Row]] = defaultdict(list)
    for row in rows:
        grouped[tuple((name, row.parameters[name]) for name in conditions if name in row.parameters)].append(row)
    if axis is None and len(rows) > 1 and all(len(part) == 1 for part in grouped.values()):
        grouped = defaultdict(list, {(): list(rows)})
    ordered = sorted(grouped.items(), key=lambda item: [ORDER.get(str(v), 0) for name, v in item[0] if name == "traffic"])
    return [Panel(metric, unit, better, said, tuple(part), axis) for said, part in ordered]


def _along(rows: Sequence[Row], axes: Sequence[str]) -> list[tuple[str, list[Row]]]:
    """Rows along each axis, where the other axes are at their smallest."""
    smallest = {axis: min(float(row.parameters[axis]) for row in rows if axis in row.parameters) for axis in axes}
    return [
        (axis, [
            row for row in rows
            if all(other == axis or row.parameters.get(other, smallest[other]) == smallest[other] for other in axes)
        ])
        for axis in axes
    ]  # fmt: skip


def _varying(rows: Sequence[Row]) -> list[str]:
    """Parameters of which one subject has several values: conditions, not what the subject is."""
    values: dict[tuple[str, str], set[Parameter]] = defaultdict(set)
    for row in rows:
        for name, value in row.parameters.items():
            values[row.subject, name].add(value)
    names = dict.fromkeys(name for row in rows for name in row.parameters if name not in SILENT)
    return [name for name in names if any(len(found) > 1 for (_, of), found in values.items() if of == name)]


def _axes(rows: Sequence[Row], varying: Sequence[str]) -> list[str]:
    """Numeric parameters with three values or more for one subject."""
    found = []
    for name in varying:
        seen: dict[str, set[Parameter]] = defaultdict(set)
        for row in rows:
            value = row.parameters.get(name)
            if isinstance(value, int | float) and not isinstance(value, bool):
                seen[row.subject].add(value)
        if seen and max(map(len, seen.values())) > 2:
            found.append(name)
    return found
