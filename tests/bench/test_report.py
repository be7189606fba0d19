"""The report: its pure parts, and the page of an invented run, which is well-formed, complete and needs nothing else."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

import pytest
from bench.__main__ import VERBS
from bench.__main__ import main as bench
from bench.report import build, command, field, flame, panels, plots, published, sections, summary, svg, verdict, words
from bench.results import Machine, Row, Run, Scenario, Settings, decode, load, save

from tests.bench.synthetic import invented

XHTML = "{http://www.w3.org/1999/xhtml}"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def run() -> Run:
    return invented(traffics=("tcp-16", "udp-64"))


@pytest.fixture(scope="module")
def text(run: Run) -> str:
    return build.page(run)


@pytest.fixture(scope="module")
def page(text: str) -> ET.Element:
    return ET.fromstring(text)  # fails where it is not well-formed


def said(element: ET.Element) -> str:
    return " ".join("".join(element.itertext()).replace("\u00a0", " ").split())


def row(subject: str = "ztnode x 1", *samples: float, **changes: object) -> Row:
    known = {"group": "ours", "parameters": {}, "metric": "throughput", "unit": "Mbit/s", "better": "higher"}
    return Row(subject, samples=samples, **{**known, **changes})  # type: ignore[arg-type]


def made_of(name: str, *rows: Row) -> Run:
    machine = Machine("a processor", 2, (), "6.1", 2**30, "")
    return Run(machine, "2026-11-22T12:00:00+00:00", {}, Settings(3, 1.0, quick=False), (Scenario(name, "A", "B?", "C.", rows),))


# -- the page


def test_every_row_is_on_the_page(page: ET.Element, run: Run) -> None:
    for scenario in run.scenarios:
        section = next(one for one in page.iter(f"{XHTML}section") if one.get("id") == scenario.name)
        cells = [cell for table in section.iter(f"{XHTML}table") for cell in table.iter(f"{XHTML}td")]
        tables = " | ".join(text.strip() for cell in cells for text in cell.itertext())
        for one in scenario.rows:
            if one.unavailable:
                assert one.unavailable in tables
            elif scenario.name == "evenness":
                assert f"{words.median(one):.2f}" in tables
            elif not one.distribution:
                assert f"| {words.number(words.median(one))}" in f"| {tables}", (scenario.name, one.subject, one.parameters)


def test_what_is_unavailable_stands_together_too(page: ET.Element, run: Run) -> None:
    missing = next(one for one in page.iter(f"{XHTML}section") if one.get("id") == "missing")
    reasons = {one.unavailable for scenario in run.scenarios for one in scenario.rows if one.unavailable}
    assert len(reasons) > 3 and all(reason in said(missing) for reason in reasons)


def test_the_page_needs_nothing_else(page: ET.Element, text: str) -> None:
    assert not [
        one.tag for one in page.iter() if one.tag.rpartition("}")[2] in ("link", "img", "iframe", "object", "base", "image")
    ]
    assert [one.get("type") for one in page.iter(f"{XHTML}script")] == ["application/json"]
    addresses = [value for one in page.iter() for name, value in one.attrib.items() if name.rpartition("}")[2] in ("href", "src")]
    assert addresses and all(address.startswith(("#", "data:application/json")) for address in addresses)
    assert not re.search(r"@import|url\((?!#)", text) and not [
        name for one in page.iter() for name in one.attrib if name.startswith("on")
    ]


def test_ids_are_unique_and_every_reference_has_its_target(page: ET.Element, text: str) -> None:
    ids = [value for one in page.iter() if (value := one.get("id"))]
    assert len(ids) == len(set(ids))
    targets = set(re.findall(r'(?:href="#|url\(#)([^")]+)', text))
    targets |= {ident for one in page.iter() for ident in (one.get("aria-labelledby") or "").split()}
    assert targets <= set(ids)


def test_every_plot_says_what_it_shows_and_has_a_table(page: ET.Element) -> None:
    figures = [one for one in page.iter(f"{XHTML}div") if one.get("class") == "pair" and one.find(f"{XHTML}figure") is not None]
    assert len(figures) > 20
    for pair in figures:
        drawn = next(pair.iter(f"{SVG}svg"))
        assert drawn.get("role") == "img" and drawn.findtext(f"{SVG}title")
        assert next(pair.iter(f"{XHTML}table"), None) is not None


def test_plots_take_their_colours_from_the_page(page: ET.Element) -> None:
    for drawn in page.iter(f"{SVG}svg"):
        styles = " ".join(one.get("style", "") for one in drawn.iter())
        assert "var(--" in styles and not re.search(r"(fill|stroke): #", styles), drawn.findtext(f"{SVG}title")
    style = page.findtext(f".//{XHTML}style") or ""
    assert "prefers-color-scheme: dark" in style and "@media print" in style
    used = set(re.findall(r"var\(--([\w-]+)\)", ET.tostring(page, "unicode")))
    assert used <= set(re.findall(r"--([\w-]+):", style))


def test_the_data_are_in_the_page_whole(page: ET.Element, run: Run) -> None:
    data = next(one for one in page.iter(f"{XHTML}script") if one.get("id") == "results").text
    assert decode(json.loads(data or "")) == run
    link = next(one for one in page.iter(f"{XHTML}a") if one.get("download"))
    assert decode(json.loads(base64.b64decode(link.get("href", "").partition(",")[2]))) == run


def test_an_invented_run_says_so_and_a_measured_one_does_not(text: str, run: Run) -> None:
    assert "Invented figures." in text
    assert "Invented" not in build.page(made_of("throughput", row("ztnode x 1", 5.0, parameters={"traffic": "tcp-1"})))


def test_text_of_a_run_cannot_become_markup() -> None:
    evil = "<script>alert(1)</script>&amp;"
    shown = build.page(
        made_of("throughput", row(evil, 5.0, 6.0, parameters={"traffic": "tcp-1"}, commands=(evil,)), row("b", unavailable=evil))
    )
    assert len(list(ET.fromstring(shown).iter(f"{XHTML}script"))) == 1 and said(ET.fromstring(shown)).count(evil) > 2


@pytest.mark.parametrize("name", ["scaling", "loopback", "evenness", "latency", "stalls", "profile", "commit", "memory"])
def test_a_scenario_without_figures_is_still_shown(name: str) -> None:
    shown = build.page(made_of(name, row(unavailable="the cable is missing")))
    assert "the cable is missing" in shown and "This run has no throughput to judge." in shown
    ET.fromstring(build.page(made_of(name)))


# -- the command


def test_the_command_writes_page_summary_and_plot(tmp_path: Path, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    save(
        dataclasses.replace(run, scenarios=tuple(one for one in run.scenarios if one.name == "scaling")), tmp_path / "results.json"
    )
    assert bench(["report", str(tmp_path)]) == 0
    written = [Path(line) for line in capsys.readouterr().out.split()]
    assert [one.relative_to(tmp_path / "report").name for one in written] == ["index.html", "summary.md", "scaling.svg"]
    drawn = ET.parse(tmp_path / "report/scaling.svg").getroot()
    assert float(drawn.get("width", "0")) > 400 and "prefers-color-scheme" in ET.tostring(drawn, "unicode")
    assert "](scaling.svg)" in (tmp_path / "report/summary.md").read_text()


def test_an_invented_run_stays_out_of_the_documentation(tmp_path: Path, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    save(run, tmp_path / "results.json")
    assert command.main([str(tmp_path), "--docs"]) == 1
    assert "was not measured" in capsys.readouterr().err and not (tmp_path / "report").exists()
    assert command.main([str(tmp_path / "none")]) == 1


def test_the_documentation_gets_results_plot_and_pictures(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = dataclasses.replace(run.machine, cpu="a processor")
    scaling = tuple(one for one in run.scenarios if one.name == "scaling")
    save(dataclasses.replace(run, machine=measured, scenarios=scaling), tmp_path / "results.json")
    monkeypatch.setattr(command, "DOCS", tmp_path / "docs")
    monkeypatch.setattr(command.shutil, "which", lambda _: None)  # a machine without a browser
    assert command.main([str(tmp_path), "--docs"]) == 0
    written = sorted(one.name for one in (tmp_path / "docs").rglob("*.*"))
    assert written == ["benchmark-results.json", "benchmark-results.md", "benchmark.svg"]


def test_the_documentation_keeps_what_a_later_run_has_not_measured(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = dataclasses.replace(run, machine=dataclasses.replace(run.machine, cpu="a processor"))
    later = {
        "evenness": dataclasses.replace(first, started="2026-11-24T12:00:00+00:00"),
        "commit": dataclasses.replace(first, started="2026-11-25T12:00:00+00:00"),
    }
    monkeypatch.setattr(command, "DOCS", tmp_path / "docs")
    monkeypatch.setattr(command.shutil, "which", lambda _: None)
    save(first, tmp_path / "results.json")
    assert command.main([str(tmp_path), "--docs"]) == 0
    for name, part in later.items():
        only = tuple(one for one in part.scenarios if one.name == name)
        save(dataclasses.replace(part, scenarios=only), tmp_path / "results.json")
        assert command.main([str(tmp_path), "--docs"]) == 0
    text = (tmp_path / "docs" / command.RESULTS).read_text()
    parts = {name: _part(text, first, name) for name in ("commit", "evenness", "forwarded")}
    assert text.splitlines()[2].endswith("; 25 November 2026.")
    assert "Measured on" not in parts["commit"]
    assert "Measured on 24 November 2026: a processor" in parts["evenness"]
    assert "Measured on 22 November 2026: a processor" in parts["forwarded"]
    assert "Throughput between the routers: measured on 22 November 2026: a processor" in text.partition("## Goals")[0]
    data = load(tmp_path / "docs" / command.DATA)
    assert {one.name for one in data.scenarios} == {one.name for one in run.scenarios} - {"profile"}
    rows = [one for scenario in data.scenarios for one in scenario.rows]
    assert not any(one.timeline or one.stacks for one in rows) and any(one.distribution for one in rows)


def _part(text: str, run: Run, name: str) -> str:
    """The part of the summary on a scenario."""
    scenario = run.scenario(name)
    assert scenario
    return text.partition(f"## {scenario.title}\n")[2].partition("\n## ")[0]


def test_every_verb_has_its_module(capsys: pytest.CaptureFixture[str]) -> None:
    import importlib

    for verb, (module, what) in VERBS.items():
        assert callable(importlib.import_module(module).main) and what
    assert bench([]) == 2 and bench(["no-verb"]) == 2 and bench(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {verb} " in shown for verb in VERBS)


def test_the_summary_is_tables_of_equal_rows(run: Run) -> None:
    text = summary.markdown(run, None)
    for block in re.findall(r"(?:^\|.*\n)+", text, re.M):
        assert len({line.count("|") for line in block.splitlines()}) == 1
    assert "| 0.9" in text and "## Not available" in text and "![" not in text


def test_the_summary_has_the_figures_of_each_scenario_with_their_spread(run: Run) -> None:
    text = summary.markdown(run, None)
    for name, metrics in summary.SHOWN.items():
        scenario = run.scenario(name)
        assert scenario
        part = _part(text, run, name).replace(" ", words.NARROW)
        for one in scenario.rows:
            if one.metric in metrics and one.samples:
                spread = f" ({words.spread(one.samples)})" if len(one.samples) > 1 else ""
                cell = f"| {words.number(words.median(one))}{spread} |"
                assert cell.replace(" ", words.NARROW) in part, (name, one.subject, one.metric)


def test_columns_of_the_same_condition_are_one() -> None:
    rows = [
        row(f"ztnode x {n}", float(n), parameters={"instances": n, "commit": kind})
        for n in (1, 2, 3)
        for kind in ("first", "again")
    ]
    rows += [row("ztnode x 2", 7.0, parameters={"instances": 2, "commit": kind, "remotes": 9}) for kind in ("first", "again")]
    shown = sections.by_condition(panels.panels(rows))
    assert list(shown.headers) == ["", "First", "Again"]
    assert [[cell.text for cell in cells] for _, cells in shown.rows][0] == ["ztnode x 1", "1.00", "1.00"]


def test_one_is_not_several() -> None:
    assert words.condition("uplinks", 1) == "1 uplink" and words.condition("uplinks", 2) == "2 uplinks"


def test_the_readme_has_the_figures_of_the_published_run() -> None:
    root = Path(__file__).parents[2]
    table = (
        (root / "docs" / command.RESULTS)
        .read_text()
        .partition("**Throughput, each with 10 % of a core**\n\n")[2]
        .partition("\n\n")[0]
    )
    measured = {number: value.replace(" ", "") for number, value in re.findall(r"^\| (\d+) \| ([\d ]+) Mbit/s", table, re.M)}
    lines = (root / "README.md").read_text().splitlines()
    heads, row = (
        [cell.strip() for cell in next(line for line in lines if line.startswith(start)).split("|")]
        for start in ("| curve |", "| `ztnode` |")
    )
    shown = {number: value for number, value in zip(heads[3:], row[3:], strict=True) if value}
    assert len(shown) > 3 and shown == {number: measured[number] for number in shown}


def test_a_later_run_replaces_its_scenarios_and_the_others_say_what_they_were_measured_with() -> None:
    first = dataclasses.replace(
        made_of("throughput", row("ztnode x 1", 1.0)),
        started="2026-11-22T17:00:00+00:00",
        versions={"ztnode": "0.1", "nebula": "1.9"},
    )
    first = dataclasses.replace(
        first, scenarios=(*first.scenarios, *made_of("latency", row("ztnode x 1", 1.0, metric="latency")).scenarios)
    )
    later = dataclasses.replace(
        made_of("throughput", row("a", 2.0)), started="2026-11-24T17:00:00+00:00", versions={"ztnode": "0.2"}
    )
    found = published.merged(later, first)
    throughput, latency = found.scenario("throughput"), found.scenario("latency")
    assert throughput and latency and throughput.rows[0].samples == (2.0,) and not throughput.origin
    assert latency.origin.startswith("Measured on 22 November 2026: ") and latency.origin.endswith("; ztnode 0.1.")
    assert found.versions == {"ztnode": "0.2", "nebula": "1.9"}
    assert published.merged(later, found).scenario("latency") == latency


# -- what it says


def test_a_goal_is_met_missed_or_not_measured() -> None:
    def scaled(four: float) -> Run:
        return made_of("scaling", *(
            row(f"ztnode x {n}", value, parameters={"engine": "ztnode", "instances": n, "budget": 0.1}) for n, value in ((1, 100.0), (4, four))
        ))  # fmt: skip

    assert verdict.claims(scaled(381))[0].met is True and verdict.claims(scaled(379))[0].met is False
    assert "0.95 (ztnode)" in verdict.claims(scaled(380))[0].measured
    assert verdict.claims(scaled(380))[1].met is None
    broken = made_of("scaling", row(unavailable="no cgroups here"))
    assert verdict.claims(broken)[0].why == "no cgroups here"


def test_the_loopback_address_is_compared_with_the_transit_address() -> None:
    def made(shares: Sequence[float]) -> Run:
        same = {"engine": "ztnode", "instances": 1, "bytes": 1200}
        rows = [row("a", 125.2, metric="round trip", parameters={**same, "to": "transit"})]
        rows += [row("a", 125.8, metric="round trip", parameters={**same, "to": "loopback"})]
        rows += [row("a", 1.0, metric="loopback address per datagram", parameters=same, distribution=tuple(shares))]
        return made_of("loopback", *rows)

    def goal(shares: Sequence[float]) -> verdict.Claim:
        return next(claim for claim in verdict.claims(made(shares)) if "loopback" in claim.what)

    (cost,) = verdict.loopback(made((0.02, 0.04)))
    assert round(cost.share, 3) == 0.03 and words.median(cost.over) == 125.8 and words.median(cost.without) == 125.2
    assert goal((0.03, 0.03)).met is False and goal((0.005, 0.005)).met is True
    uneven = goal((0.1, -0.1, 0.1, -0.1))
    assert uneven.met is None and "differ" in uneven.why and f"± 11.3{words.NARROW}%" in uneven.measured
    assert uneven.measured.count("(") == 1 and uneven.field == f"18.5{words.NARROW}% (throughput)"
    cells = re.findall(r"1200 bytes</th><td>([^<]*)</td><td>([^<]*)</td>", build.page(made((0.02, 0.04))))
    assert [[cell.split()[0] for cell in pair] for pair in cells] == [["126", "125"]]


def test_static_weights_say_what_chance_comes_to() -> None:
    same = {"engine": "ztnode", "instances": 4, "weights": "static", "flows": 64, "paths": 4}
    draws = (1.2, 1.3) * 10
    drawn = row("ztnode x 4", 1.25, metric="evenness", parameters=same, distribution=draws)
    (claim,) = [one for one in verdict.claims(made_of("evenness", drawn)) if "weights static" in one.what]
    assert claim.met is True and claim.measured == "1.25 (20 draws: 1.25 ± 0.02; by chance 1.26)"


def test_ratios_are_those_of_the_same_traffic() -> None:
    def one(subject: str, group: str, value: float, traffic: str, **more: object) -> Row:
        return row(subject, value, group=group, parameters={"traffic": traffic, **more})

    found = verdict.comparisons([
        one("raw link", "raw", 1000, "tcp-1"), one("raw link", "raw", 500, "tcp-16"),
        one("multicore", "stock", 300, "tcp-1", multicore=True), one("ZeroTier x 1", "stock", 100, "tcp-1"), one("ztnode", "ours", 250, "tcp-1"),
        one("ztnode", "ours", 250, "tcp-16"),
    ])  # fmt: skip
    assert (found["ztnode"]["tcp-1"].to_raw, found["ztnode"]["tcp-1"].to_stock) == (0.25, 2.5)
    assert found["ztnode"]["tcp-16"].to_raw == 0.5 and found["ztnode"]["tcp-16"].to_stock != found["ztnode"]["tcp-16"].to_stock


def test_the_headline_of_one_stream_is_that_of_one_instance() -> None:
    def one(instances: int, mbit: float) -> Row:
        return row(f"ztnode x {instances}", mbit, parameters={"instances": instances, "traffic": "tcp-1"})

    (said_first, *_) = verdict.headline(made_of("throughput", one(1, 4800.0), one(8, 5000.0)))
    assert said_first.startswith("TCP, 1 stream: ztnode x 1 carries")


def test_the_headline_names_the_fastest_of_each(run: Run) -> None:
    first = verdict.headline(run)[0]
    ours = [
        one
        for one in verdict.rows(run, "throughput")
        if (one.group, one.parameters.get("traffic")) == ("ours", "tcp-16") and one.metric == "throughput"
    ]
    best = max(ours, key=words.median)
    assert (
        first.startswith(f"TCP, 16 streams: {best.subject} carries {words.number(words.median(best))}")
        and "times one ZeroTier" in first
        and "times wireguard-go" in first
        and "of the raw link" in first
    )


def test_gains_of_the_field() -> None:
    assert field.MS01.gain()[8] == pytest.approx(4.74, abs=0.01) and pytest.approx(0.185, abs=0.001) == field.FLOATING_IP_COST


def test_panels_split_by_condition_and_run_along_numbers() -> None:
    rows = [row("a", 1.0, parameters={"traffic": t, "engine": "e"}) for t in ("udp-64", "tcp-1")] + [
        row("b", 2.0, parameters={"traffic": "tcp-1"})
    ]
    assert [(panel.title, len(panel.rows)) for panel in panels.panels(rows)] == [
        ("Throughput: TCP, 1 stream", 2),
        ("Throughput: UDP flood, 64 bytes", 1),
    ]
    same = {"instances": 1, "remotes": 1}
    along = panels.panels(
        [row("a", 1.0, parameters={**same, name: n}) for name in same for n in (2, 3, 4)] + [row("a", 1.0, parameters=same)]
    )
    assert not [panel for panel in along if panel.axis is None]
    assert [(panel.axis, [x for x, _ in panel.lines()["a"]]) for panel in along] == [
        ("instances", [1, 2, 3, 4]),
        ("remotes", [1, 2, 3, 4]),
    ]
    numbered = panels.panels([row(f"z x {n}", 1.0, parameters={"instances": n}) for n in (1, 2)])
    assert [panel.label(numbered[0].rows[0]) for panel in numbered] == ["z x 1"]


def test_rows_off_the_axes_are_shown_too() -> None:
    points = [(1, 1), (4, 1), (16, 1), (4, 10), (4, 100)]
    found = panels.panels([row(f"a x {n}", 1.0, parameters={"instances": n, "remotes": r}) for n, r in [*points, (16, 7)]])
    assert [(panel.axis, len(panel.rows)) for panel in found] == [("instances", 3), ("remotes", 3), (None, 1)]
    assert found[0].title == "Throughput by instances" and list(found[0].lines()) == ["a"]


def test_what_is_unavailable_everywhere_is_in_every_panel_and_makes_none() -> None:
    rows = [row("a", 1.0, parameters={"traffic": traffic}) for traffic in ("tcp-1", "udp-64")] + [row("b", unavailable="no")]
    found = panels.panels([*rows, row("c", 2.0, parameters={"traffic": "tcp-1"})])
    assert [[one.subject for one in panel.rows] for panel in found] == [["a", "b", "c"], ["a", "b"]]
    assert [[one.subject for one in panel.rows] for panel in panels.panels(rows[2:])] == [["b"]]
    ratios = build.ratios(made_of("throughput", *rows))
    assert ratios is not None and ratios.headers == ("", "TCP, 1 stream", "UDP flood, 64 bytes")
    assert build.ratios(made_of("throughput", *rows[2:])) is not None


def test_labels_do_not_split() -> None:
    rows = [
        row("a", 1.0, parameters={"trusted_path": on, "traffic": traffic})
        for on in ("off", "on")
        for traffic in ("tcp-1", "tcp-16")
    ]
    assert [len(panel.rows) for panel in panels.panels(rows, ("trusted_path",))] == [2, 2]
    rows = [row("a", 1.0, parameters={"prefixes": n, "commit": kind}) for kind in ("first", "deletion") for n in (1, 2, 3)]
    assert list(panels.panels(rows, ("commit",))[0].lines()) == ["a, first", "a, deletion"]


def test_rows_of_one_subject_are_told_apart_by_what_differs() -> None:
    found = panels.panels([row("a", 1.0, parameters={"event": event}) for event in ("cut", "kill")])
    assert [found[0].label(one) for one in found[0].rows] == ["a, cut", "a, kill"]


@pytest.mark.parametrize(("value", "text"), [
    (6136, "6 140"), (0, "0"), (0.28444, "0.284"), (12.34, "12.3"), (1234567, "1 230 000"), (float("nan"), "–"), (-3.14159, "-3.14"), (999.7, "1 000"),
])  # fmt: skip
def test_numbers(value: float, text: str) -> None:
    assert words.number(value).replace(words.NARROW, " ") == text


def test_a_raw_link_does_not_dwarf_the_others() -> None:
    def bars(*values: tuple[str, float]) -> list[plots.Bar]:
        return [plots.Bar(group, group, value, value, value) for group, value in values]

    assert plots.scale(bars(("raw", 38000), ("ours", 6000))) == pytest.approx(6300)
    assert plots.scale(bars(("raw", 9000), ("ours", 6000))) == 9000 and plots.scale(bars(("raw", 9000))) == 9000


def test_a_gap_is_the_longest_time_with_less_than_half() -> None:
    def line(*values: float) -> Sequence[tuple[float, float]]:
        return [(number - 2, value) for number, value in enumerate(values)]

    assert sections.gap(line(10, 10, 10, 2, 2, 10, 4, 10)) == 2 and sections.gap(line(10, 10, 9, 9)) == 0
    assert sections.gap(line(10, 10, 0, 0, 0)) == 2 and sections.gap([]) == 0


# -- flame graphs


def test_folded_stacks_become_a_tree() -> None:
    root = flame.parse("a;b 3\na;b;c 1\n\na;d<int, char> 6\n")
    assert root.total == 10 and root.callees["a"].callees["b"].total == 4 and root.depth(0) == 4
    assert flame.hottest(root, 2) == [("d<int, char>", 0.6, 0.6), ("b", 0.3, 0.4)]
    assert flame.hottest(flame.parse("a;b;a 1"), 9) == [("a", 1.0, 1.0)]
    with pytest.raises(ValueError, match="no folded stack"):
        flame.parse("a;b")


def test_a_flame_graph_leaves_out_what_cannot_be_seen() -> None:
    text = flame.render(flame.parse("a<x>;b_[k] 9990\na<x>;tiny 1\n"), "p", "T & U")
    drawn = ET.fromstring(text)
    titles = [one.text or "" for one in drawn.iter(f"{SVG}title")]
    assert (
        titles[0] == "T & U"
        and any(title.startswith("a<x>: 100") for title in titles)
        and not any("tiny" in title for title in titles)
    )
    assert "var(--kernel)" in text


def test_themed_keeps_words_that_look_like_colours() -> None:
    drawn = plots.bars([plots.Bar("#00ff00 & <b>", "ours", 1.0, 0.9, 1.1)], "s")
    text = svg.inline(drawn, "p", "a", "b")
    assert "#00ff00 &amp; &lt;b&gt;" in text and 'id="p-title"' in text
    assert svg.inline(plots.bars([plots.Bar("x", "ours", 1.0, 0.9, 1.1)], "s"), "p", "a", "b") == svg.inline(
        plots.bars([plots.Bar("x", "ours", 1.0, 0.9, 1.1)], "s"), "p", "a", "b"
    )


def test_a_run_without_rounds_to_spread_is_drawn() -> None:
    one = dataclasses.replace(invented(traffics=()), scenarios=())
    assert "Method and machine" in build.page(one) and summary.plot(one) is None


def test_rounds_are_those_of_each_scenario() -> None:
    def told(**counts: int) -> str:
        scenarios = tuple(made_of(name, row("x", *[1.0] * count)).scenarios[0] for name, count in counts.items())
        page = ET.fromstring(build.page(dataclasses.replace(made_of("commit"), scenarios=scenarios)))
        cells = next([said(cell) for cell in line] for line in page.iter(f"{XHTML}tr") if said(line).startswith("rounds"))
        return cells[1]

    assert (told(commit=3), told(commit=3, memory=1)) == ("3", "3: commit; 1: memory")
