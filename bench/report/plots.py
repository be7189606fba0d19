"""The plots, each from plain values. Colour says the group, and so do marks, dashes or words: nothing is told by colour alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from bench.report import words
from bench.report.svg import COLOURS, SETTINGS, figure

WIDTH = 5.0  # inches, 360 units: a phone's width
MARKS = "osD^vPX*"
DASHES = ("solid", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))
BAR = 0.27  # inches of height for each bar


@dataclass(frozen=True)
class Bar:
    """One bar with its spread; ``note`` stands after the figure."""

    label: str
    group: str
    value: float
    low: float
    high: float
    note: str = ""


@dataclass(frozen=True)
class Line:
    """Points with a spread each; of ``field`` and ``ideal`` lines the group is that word."""

    label: str
    group: str
    points: Sequence[tuple[float, float]]
    spread: Sequence[tuple[float, float]] = ()


def _axes(height: float) -> tuple[Figure, Axes]:
    with matplotlib.rc_context(SETTINGS):
        drawn = figure(WIDTH, height)
        axes = drawn.subplots()
        axes.patch.set_visible(False)
    return drawn, axes


def _plain(axis: object) -> None:
    axis.set_major_formatter(FuncFormatter(lambda value, _: words.tick(value)))  # type: ignore[attr-defined]


def bars(entries: Sequence[Bar], unit: str) -> Figure:
    """Horizontal bars in the given order, first on top; each has its figure behind it."""
    with matplotlib.rc_context(SETTINGS):
        drawn, axes = _axes(0.55 + BAR * len(entries))
        most = scale(entries)
        for place, entry in enumerate(entries):
            cut = entry.value > most
            axes.barh(place, min(entry.value, most), height=0.66, color=COLOURS[entry.group])
            if cut:  # a gap near the end says that the bar goes on
                axes.barh(place, most * 0.012, left=most * 0.93, height=0.9, color=COLOURS["card"])
            elif entry.high > entry.low:
                axes.plot([entry.low, entry.high], [place, place], color=COLOURS["ink"], linewidth=1, solid_capstyle="butt")
            text = "  ".join(filter(None, (words.number(entry.value), "not to scale" if cut else entry.note)))
            weight = "bold" if entry.group == "ours" else "normal"
            axes.text(min(entry.high, most) + most * 0.015, place, text, va="center", ha="left", fontsize=8, fontweight=weight)
        axes.set_yticks(range(len(entries)), [entry.label for entry in entries], color=COLOURS["ink"], fontsize=8.5)
        axes.invert_yaxis()
        axes.set_ylim(len(entries) - 0.4, -0.6)
        axes.set_xlim(0, most * (1.32 if any(entry.note for entry in entries) else 1.2))
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        _plain(axes.xaxis)
        axes.set_xlabel(unit)
    return drawn


def scale(entries: Sequence[Bar]) -> float:
    """Where the axis ends: at the largest bar, unless the raw link would leave the others too little room."""
    every = max((entry.high for entry in entries), default=0.0) or 1.0
    others = max((entry.high for entry in entries if entry.group != "raw"), default=every)
    return others * 1.05 if others and every > others * 1.8 else every


def lines(
    entries: Sequence[Line], x: str, y: str, *, height: float = 3.3, log: str = "", ticks: Sequence[float] = (), zero: bool = True
) -> Figure:
    """Lines with marks; ``log`` names the axes that are logarithmic."""
    with matplotlib.rc_context(SETTINGS):
        drawn, axes = _axes(height)
        own = 0
        for entry in entries:
            xs, ys = [point[0] for point in entry.points], [point[1] for point in entry.points]
            if entry.group == "ideal":
                axes.plot(xs, ys, color=COLOURS["muted"], linewidth=1, linestyle=(0, (2, 2)), label=entry.label)
                continue
            dash = DASHES[own % len(DASHES)] if entry.group not in ("field", "field2") else (0, (4, 1.5))
            axes.plot(
                xs, ys, color=COLOURS[entry.group], marker=MARKS[own % len(MARKS)], markersize=4.5, linestyle=dash, label=entry.label,
            )  # fmt: skip
            if entry.spread:
                axes.vlines(
                    xs,
                    [low for low, _ in entry.spread],
                    [high for _, high in entry.spread],
                    color=COLOURS[entry.group],
                    linewidth=1,
                )
            own += 1
        _scales(axes, log, ticks, zero)
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        if len(entries) > 1:
            _legend(axes)
    return drawn


def _legend(axes: Axes) -> None:
    """Above the plot, where it hides nothing."""
    axes.legend(
        loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=2, fontsize=8, handlelength=2.6, columnspacing=1.2, borderaxespad=0.2,
    )  # fmt: skip


def _scales(axes: Axes, log: str, ticks: Sequence[float], zero: bool) -> None:
    if "x" in log:
        axes.set_xscale("log")
    if "y" in log:
        axes.set_yscale("log")
    elif zero:
        axes.set_ylim(bottom=0)
    if ticks:
        axes.set_xticks(list(ticks))
        axes.minorticks_off()
    _plain(axes.xaxis)
    _plain(axes.yaxis)


def distribution(samples: Mapping[str, tuple[str, Sequence[float]]], unit: str) -> Figure:
    """Share of the values that are at most so large, by label: (group, values); values on a logarithmic axis."""
    with matplotlib.rc_context(SETTINGS):
        drawn, axes = _axes(3.2)
        used: Counter[str] = Counter()
        for label, (group, values) in samples.items():
            dash = DASHES[used[group] % len(DASHES)]
            used[group] += 1
            ordered = sorted(values)
            step = max(1, len(ordered) // 400)  # more points cannot be seen
            kept = [*range(0, len(ordered), step), len(ordered) - 1]
            axes.plot(
                [max(ordered[at], 1e-6) for at in kept], [(at + 1) / len(ordered) for at in kept],
                color=COLOURS[group], linestyle=dash, label=label,
            )  # fmt: skip
        for share, name in ((0.5, "p50"), (0.99, "p99")):
            axes.axhline(share, color=COLOURS["muted"], linewidth=0.8, linestyle=(0, (1, 2)))
            axes.annotate(
                name, (1.0, share), xycoords=("axes fraction", "data"), fontsize=7.5, color=COLOURS["muted"], va="center", ha="left"
            )
        _scales(axes, "x", (), False)
        axes.set_ylim(0, 1.02)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value * 100:.0f} %"))
        axes.set_xlabel(unit)
        axes.set_ylabel("of the answers, at most")
        _legend(axes)
    return drawn


def timelines(entries: Mapping[str, tuple[str, Sequence[tuple[float, float]]]], y: str) -> Figure:
    """One strip per label: (group, points); all share the axis of time, whose 0 is the event."""
    with matplotlib.rc_context(SETTINGS):
        drawn = figure(WIDTH, 0.6 + 0.78 * len(entries))
        grid = drawn.subplots(len(entries), 1, sharex=True, squeeze=False)
        for axes, (label, (group, points)) in zip(grid[:, 0], entries.items(), strict=True):
            axes.patch.set_visible(False)
            xs, ys = [point[0] for point in points], [point[1] for point in points]
            axes.fill_between(xs, ys, step="post", color=COLOURS[group], linewidth=0)
            axes.axvline(0, color=COLOURS["bad"], linewidth=1)
            axes.set_ylim(bottom=0)
            axes.set_title(label, loc="left", fontsize=8.5, color=COLOURS["ink"], pad=2)
            axes.yaxis.set_major_locator(MaxNLocator(2))
            _plain(axes.yaxis)
            axes.tick_params(labelsize=7.5)
        grid[-1, 0].set_xlabel(f"seconds after the event (red line); height: {y}")
    return drawn
