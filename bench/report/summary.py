"""The summary in Markdown, and the plot for the README."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bench.report import build, plots, sections, svg, verdict, words
from bench.report.panels import panels
from bench.report.view import Cell, Table
from bench.results import Run

SHOWN = {  # metrics that the summary has of each scenario; the page has all
    "forwarded": ("throughput", "cpu per Gbit"), "pinned": ("throughput",), "latency": ("latency p99",), "stalls": ("stall",),
    "memory": ("PSS", "cpu per minute"), "transfer-1gb": ("duration",), "commit": ("commit time",), "trusted-path": ("throughput",),
}  # fmt: skip


def markdown(run: Run, plot: str | None) -> str:
    """Verdict, goals, one table or two of each scenario and what is not available; ``plot`` is the address of the plot."""
    lines = ["# Benchmark", ""]
    if build.is_synthetic(run):
        lines += ["**Invented figures: nothing was measured.**", ""]
    lines += [f"{build.machine_line(run)}; {build.day(run)}{', a quick run' if run.settings.quick else ''}.", ""]
    lines += [sentence for line in verdict.headline(run) for sentence in (line, "")]
    if plot:
        lines += [f"![Throughput by number of instances, beside what the field measured]({plot})", ""]
    lines += [build.NAMES_NOTE, "", "## Goals", "", *table(build.goals(run)), ""]
    ratios = build.ratios(run)
    if ratios:
        lines += [f"## {ratios.caption}", "", *table(ratios), "", build.RATIOS_NOTE, ""]
    for name in sections.ORDER:
        lines += _scenario(run, name)
    missing = build.missing(run)
    if missing.rows:
        lines += ["## Not available", "", *table(missing), ""]
    versions = ", ".join(f"{name} {of}" for name, of in sorted(run.versions.items()))
    lines += ["## Method", "", build.METHOD, "", f"Versions: {versions}.", ""]
    return "\n".join(lines)


_TABLES: Mapping[str, Callable[[Run], list[Table]]] = {
    "scaling": sections.scaling_tables,
    "evenness": sections.evenness_tables,
    "loopback": sections.loopback_tables,
}


def _scenario(run: Run, name: str) -> list[str]:
    """A scenario's tables with its question and its method; nothing where it was not measured."""
    scenario = run.scenario(name)
    tables = _TABLES[name](run) if name in _TABLES else []
    for metric in SHOWN.get(name, ()):
        those = panels([row for row in scenario.rows if row.metric == metric] if scenario else ())
        if any(row.samples for panel in those for row in panel.rows):
            tables.append(sections.by_condition(those))
    if not scenario or not tables:
        return []
    lines = [line for shown in tables for line in (f"**{shown.caption.replace(words.NARROW, ' ')}**", "", *table(shown), "")]
    origin = [scenario.origin, ""] if scenario.origin else []
    return [f"## {scenario.title}", "", scenario.question, "", *origin, *lines, scenario.method, ""]


def table(shown: Table) -> list[str]:
    """A table of Markdown; a cell that spans columns leaves the others empty."""
    lines = [_line([Cell(header) for header in shown.headers]), _line([Cell("---")] * len(shown.headers))]
    for _, cells in shown.rows:
        wide = [part for cell in cells for part in (cell, *[Cell("")] * (cell.span - 1))]
        lines.append(_line(wide))
    return lines


def _line(cells: list[Cell]) -> str:
    texts = [f"{cell.text} ({cell.small})" if cell.small else cell.text for cell in cells]
    return "| " + " | ".join(text.replace("|", r"\|").replace(words.NARROW, " ") for text in texts) + " |"


def plot(run: Run) -> str | None:
    """Scaling beside the field's curves as a file of its own, or bars of throughput; None when the run has neither."""
    by_engine = verdict.scaling(run, verdict.BUDGET) or verdict.scaling(run)
    title = "Throughput by number of instances"
    if by_engine:
        return svg.standalone(svg.inline(sections.scaling_plot(by_engine), "plot", title, "Each curve is 1 at one instance."))
    title = "Throughput"
    having = [
        row for row in verdict.rows(run, "throughput") if row.metric == "throughput" and row.parameters.get("traffic") == "tcp-16"
    ]
    found = [sections.bars(panel) for panel in panels(having)]
    if not any(found):
        return None
    return svg.standalone(svg.inline(plots.bars(found[0], having[0].unit), "plot", title, "Bars of all subjects."))
