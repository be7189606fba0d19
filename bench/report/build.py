"""The page and its companions, from a run."""

from __future__ import annotations

import base64
import json
import math
from datetime import datetime
from pathlib import Path

import jinja2
from markupsafe import Markup

from bench.report import sections, verdict, words
from bench.report.view import Cell, Section, Table
from bench.results import Row, Run, encode

HERE = Path(__file__).parent
SYNTHETIC = "SYNTHETIC"  # what the machine of an invented run is called
RATIOS_NOTE = (
    "Medians over the rounds; beside each: the ratio to one ZeroTier (×ZT), and the share of the raw link, of the same run. "
    "A flood is sent as fast as the sender can, and what arrives counts: sender, receiver and subject share the cores, so it also starves the "
    "subject."
)
NAMES_NOTE = (
    "ZeroTier x 1 is zerotier-one by itself; ztnode x N and zerotier-one x N are this product with N instances of that engine. "
    "The field: lev-0.com, February 2024, N containers with ZeroTier on VyOS."
)
METHOD = (
    "Subjects take turns: one round measures each of them once, then the next round begins, so that a disturbance hits all. "
    "A figure is the median over the rounds; smallest and largest stand beside it. Ratios are those of the medians of one run. "
    "Both ends, the load and the kernel share this machine: absolute figures are low, proportions hold."
)


def page(run: Run) -> str:
    """The HTML page."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=False
    )
    shown = sections.sections(run)
    data = json.dumps(encode(run), separators=(",", ":"))
    return environment.get_template("page.html").render(
        run=run,
        day=day(run),
        machine_line=machine_line(run),
        synthetic=is_synthetic(run),
        style=Markup((HERE / "style.css").read_text() + (HERE / "page.css").read_text()),
        headline=verdict.headline(run),
        goals=goals(run),
        ratios=ratios(run),
        ratios_note=RATIOS_NOTE,
        sections=[_safe(section) for section in shown],
        missing=missing(run),
        method=METHOD,
        machine=_machine(run),
        versions=Table(
            "Versions", ("program", "version"), [("", [Cell(name), Cell(of)]) for name, of in sorted(run.versions.items())]
        ),
        download="data:application/json;base64," + base64.b64encode(data.encode()).decode(),
        data=Markup(data.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e")),
    )


def _safe(section: Section) -> dict[str, object]:
    """A section for the template; its SVG is ours and needs no escaping."""
    blocks = [{**vars(block), "svg": Markup(block.svg)} for block in section.blocks]
    return {**vars(section), "blocks": blocks}


def is_synthetic(run: Run) -> bool:
    """Whether nothing was measured."""
    return run.machine.cpu.startswith(SYNTHETIC)


def day(run: Run) -> str:
    """``22 November 2026``; what it does not understand as it is."""
    try:
        at = datetime.fromisoformat(run.started)
    except ValueError:
        return run.started
    return f"{at.day} {at:%B %Y}"


def machine_line(run: Run) -> str:
    """One line on the machine."""
    machine = run.machine
    virtual = f" ({machine.virtual})" if machine.virtual else ""
    memory = f"{machine.memory_bytes / 2**30:.0f}{words.NARROW}GiB"
    return f"{machine.cpu}{virtual}, {machine.cores} cores, {memory}, Linux {machine.kernel}"


def _machine(run: Run) -> Table:
    machine, settings = run.machine, run.settings
    entries = (
        ("processor", machine.cpu), ("cores", str(machine.cores)), ("processor features", ", ".join(machine.cpu_features) or "–"),
        ("memory", f"{machine.memory_bytes / 2**30:.1f}{words.NARROW}GiB"), ("kernel", machine.kernel),
        ("virtual machine", machine.virtual or "no"), ("rounds", _rounds(run)),
        ("seconds for each measurement", words.number(settings.seconds)), ("started", run.started),
    )  # fmt: skip
    return Table("Machine and settings", ("", ""), [("", [Cell(name), Cell(text)]) for name, text in entries])


def _rounds(run: Run) -> str:
    """How many there were; a part of a run may have had fewer."""
    most = {s.name: max((len(row.samples) for row in s.rows), default=0) for s in run.scenarios}
    counts = sorted({count for count in most.values() if count}, reverse=True)
    if len(counts) < 2:
        return str(counts[0] if counts else run.settings.rounds)
    return "; ".join(f"{count}: {', '.join(name for name, own in most.items() if own == count)}" for count in counts)


def goals(run: Run) -> Table:
    """Goals, each with what was measured."""
    rows = []
    for claim in verdict.claims(run):
        if claim.met is None:
            outcome = Cell("not told" if claim.measured else "not measured", claim.why, kind="why")
        else:
            outcome = Cell("met", kind="good") if claim.met else Cell("missed", kind="bad")
        rows.append(("", [Cell(claim.what), outcome, Cell(claim.measured or "–"), Cell(claim.goal), Cell(claim.field or "–")]))
    return Table("Goals", ("", "outcome", "measured", "goal", "the field"), rows)


def ratios(run: Run) -> Table | None:
    """Throughput of every subject with its ratios; None when the run has no throughput."""
    by_subject = verdict.comparisons(verdict.rows(run, "throughput"))
    kinds = list(dict.fromkeys(traffic for of in by_subject.values() for traffic, one in of.items() if traffic or one.row.samples))
    kinds.sort(key=lambda kind: list(words.TRAFFIC).index(kind) if kind in words.TRAFFIC else len(words.TRAFFIC))
    if not by_subject:
        return None
    kinds = kinds or [""]
    rows = []
    for subject, of in by_subject.items():
        group = next(iter(of.values())).row.group
        why = {comparison.row.unavailable for comparison in of.values()}
        if all(why):
            rows.append(
                (group, [Cell(subject), Cell(f"not available: {'; '.join(sorted(map(str, why)))}", kind="why", span=len(kinds))])
            )
            continue
        rows.append((group, [Cell(subject), *(_ratio_cell(of.get(kind)) for kind in kinds)]))
    units = {comparison.row.unit for of in by_subject.values() for comparison in of.values()}
    return Table(f"Throughput, {' or '.join(sorted(units))}", ("", *(words.TRAFFIC.get(kind, kind) for kind in kinds)), rows)


def _ratio_cell(comparison: verdict.Comparison | None) -> Cell:
    if comparison is None:
        return Cell("–")
    if comparison.row.unavailable:
        return Cell("–", comparison.row.unavailable)
    parts = []
    if math.isfinite(comparison.to_stock):
        parts.append(f"{comparison.to_stock:.2f}×ZT")
    if math.isfinite(comparison.to_raw) and comparison.row.group != "raw":
        parts.append(words.percent(comparison.to_raw))
    return Cell(words.number(words.median(comparison.row)), " · ".join(parts))


def missing(run: Run) -> Table:
    """Everything that is unavailable: one row for each subject and reason."""
    found: dict[tuple[str, str], list[str]] = {}
    groups: dict[tuple[str, str], Row] = {}
    for scenario in run.scenarios:
        for row in scenario.rows:
            if row.unavailable:
                names = found.setdefault((row.subject, row.unavailable), [])
                groups.setdefault((row.subject, row.unavailable), row)
                if scenario.title not in names:
                    names.append(scenario.title)
    rows = [(groups[key].group, [Cell(key[0]), Cell(", ".join(names)), Cell(key[1], kind="why")]) for key, names in found.items()]
    return Table("Not available", ("subject", "in", "why"), rows)
