"""From the scenarios of a run to the page's sections. Pure but for drawing."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence

from matplotlib.figure import Figure

from bench import figures
from bench.report import field, flame, plots, svg, verdict, words
from bench.report.panels import Panel, panels
from bench.report.view import Block, Cell, Section, Table, unavailable
from bench.results import LOOPBACK_COST, ROUND_TRIP, Row, Run, Scenario

ORDER = (
    "scaling", "throughput", "forwarded", "pinned", "latency", "stalls", "evenness", "loopback", "memory", "transfer-1gb", "commit", "trusted-path", "profile",
)  # fmt: skip
TIMELINE = "Traffic over time, one strip per subject; the event is at 0. The table has the longest gap."
COMPACT = 3  # conditions from which on a metric that is not the scenario's own gets one block
MAIN_TRAFFIC = "tcp-16"
HOTTEST = 15  # functions in the table beside a flame graph


def sections(run: Run) -> list[Section]:
    """All of them, in the page's order."""
    return [_section(run, scenario) for name in ORDER if (scenario := run.scenario(name))]


def _section(run: Run, scenario: Scenario) -> Section:
    blocks = list(BLOCKS.get(scenario.name, _generic)(run, scenario))
    if scenario.name in field.TABLES:
        blocks.append(_field(scenario.name))
    commands: dict[str, list[str]] = {}
    for row in scenario.rows:
        known = commands.setdefault(row.subject, [])
        known += [command for command in row.commands if command not in known]
    return Section(
        scenario.name, scenario.title, scenario.question, f"{scenario.method} {scenario.origin}".strip(), blocks,
        [(subject, those) for subject, those in commands.items() if those],
    )  # fmt: skip


def _ids(scenario: Scenario) -> Iterator[str]:
    return (f"plot-{scenario.name}-{number}" for number in itertools.count(1))


def _field(name: str) -> Block:
    caption, source, headers, rows = field.TABLES[name]
    table = Table(caption, headers, [("", [Cell(text or "–") for text in row]) for row in rows])
    return Block(caption, "", table, f"{source}. Other machines: only the proportions compare.")


# -- bars or lines, for whatever a scenario measures


def _generic(run: Run, scenario: Scenario) -> Iterator[Block]:
    yield from _all(scenario, scenario.rows, _ids(scenario))


def _all(scenario: Scenario, rows: Sequence[Row], ids: Iterator[str], labels: Sequence[str] = ()) -> Iterator[Block]:
    """The scenario's own metric, which is that of its first row, plot by plot; others under many conditions in one block each."""
    own = scenario.rows[0].metric if scenario.rows else ""
    yield from _panels(scenario, panels([row for row in rows if row.metric == own], labels), ids)
    for metric in dict.fromkeys(row.metric for row in rows if row.metric != own):
        those = panels([row for row in rows if row.metric == metric], labels)
        if len(those) < COMPACT or any(panel.axis for panel in those):
            yield from _panels(scenario, those, ids)
        else:
            yield _compact(scenario, those, ids)


def _compact(scenario: Scenario, those: Sequence[Panel], ids: Iterator[str]) -> Block:
    """One table with a column for each condition, beside the plot of one of them."""
    shown = next((panel for panel in those if ("traffic", MAIN_TRAFFIC) in panel.conditions), those[-1])
    table = by_condition(those)
    drawn = plots.bars(bars(shown), f"{shown.unit}, {shown.better} is better")
    note = f"The plot: {', '.join(words.condition(name, value) for name, value in shown.conditions)}. Unit: {those[0].unit}."
    title = words.capital(those[0].metric)
    return Block(title, _inline(drawn, next(ids), f"{scenario.title}. {shown.title}", table), table, note)


def by_condition(those: Sequence[Panel]) -> Table:
    """Medians of one metric with smallest and largest: a row for each subject, a column for each condition."""
    columns: dict[str, list[tuple[str, Row]]] = {}
    for panel in those:
        head = ", ".join(words.condition(name, value) for name, value in panel.conditions) or panel.metric
        columns.setdefault(words.capital(head), []).extend((panel.label(row), row) for row in panel.rows)
    labels = dict.fromkeys((label, row.group) for column in columns.values() for label, row in column)
    rows = []
    for label, group in labels:
        found = [[row for name, row in column if name == label] for column in columns.values()]
        why = {row.unavailable for column in found for row in column}
        if all(why):
            rows.append(unavailable(label, group, "; ".join(sorted(map(str, why))), len(columns) + 1))
            continue
        measured = [next((row for row in column if row.samples), None) for column in found]
        cells = [Cell(words.number(words.median(row)), words.spread(row.samples)) if row else Cell("–") for row in measured]
        rows.append((group, [Cell(label), *cells]))
    return Table(f"{words.capital(those[0].metric)}, {those[0].unit}", ("", *columns), rows)


def _panels(scenario: Scenario, those: Sequence[Panel], ids: Iterator[str]) -> Iterator[Block]:
    for panel in those:
        measured = [row for row in panel.rows if row.samples]
        table = _panel_table(panel)
        if not measured:
            yield Block(panel.title, "", table)
            continue
        if panel.axis:
            drawn = plots.lines(_lines(panel), panel.axis.replace("_", " "), panel.unit, ticks=_ticks(panel))
        else:
            drawn = plots.bars(bars(panel), f"{panel.unit}, {panel.better} is better".lstrip(", "))
        yield Block(panel.title, _inline(drawn, next(ids), f"{scenario.title}. {panel.title}", table), table)


def _inline(drawn: Figure, ident: str, title: str, table: Table | None) -> str:
    said = "The table beside it has the same figures."
    if table:
        said = f"{', '.join(f'{cells[0].text}: {cells[1].text}' for _, cells in table.rows[:12])}. {said}"
    return svg.inline(drawn, ident, title, said)


def _reference(panel: Panel, test: Callable[[Row], bool]) -> Row | None:
    return next((row for row in panel.rows if row.samples and test(row)), None)


def bars(panel: Panel) -> list[plots.Bar]:
    stock = _reference(panel, verdict.is_stock)
    found = []
    for row in panel.rows:
        if row.samples:
            note = (
                words.times(figures.ratio(row.samples, stock.samples)) if stock and row is not stock and words.median(stock) else ""
            )
            bar = plots.Bar(panel.label(row), row.group, words.median(row), min(row.samples), max(row.samples), note)
            found.append(bar)
    return sorted(found, key=lambda bar: bar.value, reverse=panel.better == "higher")


def _lines(panel: Panel) -> list[plots.Line]:
    return [
        plots.Line(
            name, points[0][1].group, [(x, words.median(row)) for x, row in points],
            [(min(row.samples), max(row.samples)) for _, row in points],
        )
        for name, points in panel.lines().items()
    ]  # fmt: skip


def _ticks(panel: Panel) -> list[float]:
    return sorted({x for points in panel.lines().values() for x, _ in points}) if panel.axis else []


def _panel_table(panel: Panel) -> Table:
    raw = _reference(panel, lambda row: row.group == "raw")
    stock = _reference(panel, verdict.is_stock)
    headers = ["", f"median, {panel.unit}", "smallest–largest"]
    wanted = (raw, stock) if panel.better == "higher" else (stock,)
    references = [(f"to {row.subject}", row) for row in wanted if row and len(panel.rows) > 1]
    headers += [name for name, _ in references]
    rows = []
    for row in panel.rows:
        if row.unavailable:
            rows.append(unavailable(panel.label(row), row.group, row.unavailable, len(headers)))
            continue
        ratios = [words.times(figures.ratio(row.samples, of.samples)) if row is not of else "1" for _, of in references]
        cells = [panel.label(row), words.number(words.median(row)), words.spread(row.samples), *ratios]
        rows.append((row.group, [Cell(text) for text in cells]))
    return Table(panel.title, headers, rows)


# -- what has a form of its own


def _scaling(run: Run, scenario: Scenario) -> Iterator[Block]:
    ids = _ids(scenario)
    note = f"T(N) / T(1) · efficiency, which is T(N) / (N T(1)). The field's curves: {field.SOURCE}."
    for share, by_engine in _scalings(run):
        table, title = _scaling_table(by_engine, f"Scaling, {share}"), f"Throughput by instances, {share}"
        yield Block(title, _inline(scaling_plot(by_engine), next(ids), title, table), table, note)
    yield from _all(
        scenario, [row for row in scenario.rows if row.metric not in ("efficiency", "throughput") or row.unavailable], ids
    )


def loopback_tables(run: Run) -> list[Table]:
    """What the loopback address costs, beside the field's; nothing where it was not measured."""
    rows = [
        (cost.over.group, [
            Cell(f"{cost.over.subject}, round trip of {cost.over.parameters['bytes']} bytes"),
            Cell(f"{words.number(words.median(cost.over))} {cost.over.unit}"),
            Cell(f"{words.number(words.median(cost.without))} {cost.without.unit}"), Cell(cost.said),
        ])
        for cost in verdict.loopback(run)
    ]  # fmt: skip
    if not rows:
        return []
    rows.append(
        ("field", [Cell("GK41, 1G (field)"), Cell("441 Mbit/s"), Cell("541 Mbit/s"), Cell(words.percent(field.FLOATING_IP_COST))])
    )
    return [Table("Loopback address", ("", "over it", "without it", "cost"), rows)]


def _loopback(run: Run, scenario: Scenario) -> Iterator[Block]:
    for table in loopback_tables(run):
        yield Block("What the loopback address costs", "", table)
    rest = [row for row in scenario.rows if row.metric not in (LOOPBACK_COST, ROUND_TRIP) or row.unavailable]
    yield from _all(scenario, rest, _ids(scenario))


def _scalings(run: Run) -> Iterator[tuple[str, dict[str, dict[int, Row]]]]:
    """By budget: how much of a core each instance has, and throughput by engine and number of instances."""
    for budget in sorted({float(row.parameters.get("budget", 0) or 0) for row in verdict.rows(run, "scaling")}):
        by_engine = verdict.scaling(run, budget) if budget else {
            engine: of for engine, of in verdict.scaling(run).items() if not of[1].parameters.get("budget")
        }  # fmt: skip
        if by_engine:
            yield f"each with {words.percent(budget)} of a core" if budget else "whole cores", by_engine


def scaling_tables(run: Run) -> list[Table]:
    """Throughput by instances, a table for each budget."""
    return [_scaling_table(by_engine, f"Throughput, {share}") for share, by_engine in _scalings(run)]


def scaling_plot(by_engine: dict[str, dict[int, Row]]) -> Figure:
    """T(N) / T(1) of each engine beside the field's curves."""
    last = max(8, *(max(of) for of in by_engine.values()))
    entries = [
        plots.Line(engine, next(iter(of.values())).group, sorted(verdict.gains(of).items()))
        for engine, of in by_engine.items()
    ]  # fmt: skip
    entries += [
        plots.Line(curve.name, group, sorted(curve.gain().items()))
        for curve, group in zip(field.CURVES, ("field", "field2"), strict=True)
    ]  # fmt: skip
    entries.append(plots.Line("proportional", "ideal", [(1, 1), (last, last)]))
    ticks = sorted({number for of in by_engine.values() for number in of} | {1, 2, 4, 8})
    return plots.lines(entries, "instances", "throughput, one instance = 1", height=3.6, ticks=ticks)


def _scaling_table(by_engine: dict[str, dict[int, Row]], caption: str) -> Table:
    gains = {engine: verdict.gains(of) for engine, of in by_engine.items()}
    numbers = sorted({number for of in by_engine.values() for number in of})
    headers = ["instances", *by_engine, "MS-01 (field)", "GK41 (field)"]
    rows = []
    for number in numbers:
        cells = [Cell(str(number))]
        for engine, of in by_engine.items():
            if number not in of:
                cells.append(Cell("–"))
                continue
            gain = gains[engine][number]
            cells.append(Cell(
                f"{words.number(words.median(of[number]))}{words.NARROW}{of[number].unit}", _gain(gain, number),
            ))  # fmt: skip
        for curve in field.CURVES:
            seen = curve.gain().get(number)
            cells.append(Cell("–") if seen is None else Cell(_gain(seen, number)))
        rows.append(("", cells))
    return Table(caption, headers, rows)


def _gain(gain: float, number: int) -> str:
    return f"{words.times(gain)} · {gain / number:.2f}"


def _evenness(run: Run, scenario: Scenario) -> Iterator[Block]:
    ids = _ids(scenario)
    for paths, by_weights, expected in _evennesses(scenario):
        entries = []
        for name, of in by_weights.items():
            points = sorted((float(row.parameters["flows"]), row) for row in of if row.samples and "flows" in row.parameters)
            entries.append(plots.Line(
                name, of[0].group, [(x, words.median(row)) for x, row in points], [(min(r.samples), max(r.samples)) for _, r in points],
            ))  # fmt: skip
        entries.append(plots.Line("by chance (balls in bins)", "ideal", sorted(expected.items())))
        table = _evenness_table(paths, by_weights, expected)
        drawn = plots.lines(entries, "flows", "largest / mean share", ticks=sorted(expected), log="x", zero=False)
        yield Block(table.caption, _inline(drawn, next(ids), table.caption, table), table, "1 is even.")
    yield from _all(scenario, [row for row in scenario.rows if not _is_evenness(row)], ids)


def _is_evenness(row: Row) -> bool:
    return row.metric == "evenness" and "flows" in row.parameters


def _evennesses(scenario: Scenario) -> Iterator[tuple[int, dict[str, list[Row]], dict[int, float]]]:
    """By number of paths: rows by subject and weights, and what flows that choose at random come to."""
    measured = [row for row in scenario.rows if _is_evenness(row)]
    for paths in sorted({int(row.parameters.get("paths", 0)) for row in measured}):
        those = [row for row in measured if row.parameters.get("paths", 0) == paths]
        by_weights: dict[str, list[Row]] = {}
        for row in those:
            by_weights.setdefault(f"{row.subject}, weights {row.parameters.get('weights', 'static')}", []).append(row)
        numbers = sorted({int(row.parameters["flows"]) for row in those})
        yield paths, by_weights, {number: figures.expected_evenness(number, paths) for number in numbers if paths}


def evenness_tables(run: Run) -> list[Table]:
    """Largest to mean share, a table for each number of paths."""
    scenario = run.scenario("evenness")
    return [_evenness_table(*of) for of in _evennesses(scenario)] if scenario else []


def _evenness_table(paths: int, by_weights: Mapping[str, Sequence[Row]], expected: Mapping[int, float]) -> Table:
    rows = []
    for number in sorted(expected):
        cells = [Cell(str(number))]
        for of in by_weights.values():
            row = next((row for row in of if row.parameters.get("flows") == number), None)
            if row is None or row.unavailable:
                cells.append(Cell("–", row.unavailable or "" if row else ""))
            else:
                cells.append(Cell(f"{words.median(row):.2f}", words.spread(row.samples)))
        rows.append(("", [*cells, Cell(f"{expected[number]:.2f}")]))
    return Table(f"Largest to mean share over {paths} paths", ("flows", *by_weights, "by chance"), rows)


def _latency(run: Run, scenario: Scenario) -> Iterator[Block]:
    ids = _ids(scenario)
    drawn_metrics = {row.metric for row in scenario.rows if row.distribution}
    for panel in panels([row for row in scenario.rows if row.metric in drawn_metrics]):
        having = [row for row in panel.rows if row.distribution]
        if not having:
            yield from _panels(scenario, [panel], ids)
            continue
        rows = []
        for row in panel.rows:
            if row.unavailable or not row.distribution:
                rows.append(unavailable(panel.label(row), row.group, row.unavailable or "no distribution was kept", 5))
                continue
            shares = [figures.percentile(row.distribution, share) for share in (0.5, 0.9, 0.99)]
            cells = [panel.label(row), *map(words.number, [*shares, max(row.distribution)])]
            rows.append((row.group, [Cell(text) for text in cells]))
        table = Table(panel.title, ("", f"p50, {panel.unit}", "p90", "p99", "worst"), rows)
        drawn = plots.distribution({panel.label(row): (row.group, row.distribution or ()) for row in having}, panel.unit)
        yield Block(panel.title, _inline(drawn, next(ids), panel.title, table), table)
    yield from _all(scenario, [row for row in scenario.rows if row.metric not in drawn_metrics], ids)


def _stalls(run: Run, scenario: Scenario) -> Iterator[Block]:
    ids = _ids(scenario)
    for metric in dict.fromkeys(row.metric for row in scenario.rows):
        found = panels([row for row in scenario.rows if row.metric == metric])
        yield from [_compact(scenario, found, ids)] if len(found) >= COMPACT else _panels(scenario, found, ids)
    by_event: dict[str, list[Row]] = {}
    for row in scenario.rows:
        if row.timeline:
            by_event.setdefault(str(row.parameters.get("event", row.metric)), []).append(row)
    for event, those in by_event.items():
        labels = {
            row.subject if row.subject not in [o.subject for o in those if o is not row] else _full(row): row for row in those
        }
        unit = str(those[0].parameters.get("timeline_unit", "packets/s"))
        drawn = plots.timelines({label: (row.group, row.timeline or ()) for label, row in labels.items()}, unit)
        title = f"{words.capital(words.condition('event', event))}: traffic over time"
        rows = [
            (row.group, [Cell(label), Cell(f"{gap(row.timeline or ()):.2f} s"), Cell(_range(row))]) for label, row in labels.items()
        ]
        table = Table(title, ("", "longest gap", "seconds shown"), rows)
        yield Block(
            title,
            svg.inline(drawn, next(ids), title, TIMELINE),
            table,
            "A gap is a time with less than half of the traffic before it.",
        )


def _full(row: Row) -> str:
    return ", ".join([row.subject, row.metric, *(words.condition(name, value) for name, value in row.parameters.items())])


def gap(timeline: Sequence[tuple[float, float]]) -> float:
    """The longest time after the event, in seconds, with less than half of the median before it."""
    before = [value for second, value in timeline if second < 0]
    after = [(second, value) for second, value in timeline if second >= 0]
    least = statistics.median(before or [value for _, value in after] or [0.0]) / 2
    longest, began = 0.0, None
    for second, value in after:
        if value >= least:
            began = None
            continue
        began = second if began is None else began
        following = next((later for later, _ in after if later > second), second)
        longest = max(longest, following - began)
    return longest


def _range(row: Row) -> str:
    times = [second for second, _ in row.timeline or ()]
    return f"{min(times):g} to {max(times):g}"


def _profile(run: Run, scenario: Scenario) -> Iterator[Block]:
    ids = _ids(scenario)
    yield from _all(scenario, scenario.rows, ids)
    for row in scenario.rows:
        if not row.stacks:
            continue
        root = flame.parse(row.stacks)
        title = f"Where {row.subject} spends its time"
        rows = []
        for name, own, total in flame.hottest(root, HOTTEST):
            side = "program" if flame.plain(name) == name else "kernel"
            rows.append(("", [Cell(text) for text in (flame.plain(name), side, words.percent(own), words.percent(total))]))
        table = Table(f"{title}: hottest functions", ("function", "of", "itself", "with callees"), rows)
        note = "Width is the share of samples; callers are below. Blue frames are the kernel's."
        yield Block(title, flame.render(root, next(ids), title), table, note, wide=True)


def _together(*labels: str) -> Callable[[Run, Scenario], Iterator[Block]]:
    """As :func:`_generic`, with rows that differ in these parameters in one plot."""
    return lambda _, scenario: _all(scenario, scenario.rows, _ids(scenario), labels)


BLOCKS: dict[str, Callable[[Run, Scenario], Iterator[Block]]] = {
    "scaling": _scaling, "loopback": _loopback, "evenness": _evenness, "latency": _latency, "stalls": _stalls, "profile": _profile,
    "trusted-path": _together("trusted_path"), "commit": _together("commit"),
}  # fmt: skip
