"""The runner on two namespaces joined by a cable: samples, what cannot be had, and going on with a run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from bench.ends import Site
from bench.measure.latency import ping
from bench.measure.load import send
from bench.peers.common import Unavailable
from bench.plan import left, parse, steps
from bench.record import with_plans
from bench.measure.common import Reading
from bench.results import Machine, ResultsError, Run, Settings, load, save
from bench.run import Log, begin, carry_out, missing, parser, take
from bench.ends import End
from lab import Lab, Router
from lab.process import run

SCENARIO = """
title = "T"
question = "Q?"
method = "M."
metric = "throughput"
unit = "Mbit/s"
better = "higher"
subjects = [{ kind = "raw" }, { kind = "Nebula" }]
[parameters]
traffic = ["tcp-bidir", "udp-1200"]
"""


@dataclass
class Namespace:
    """What the runner asks of a router."""

    name: str
    namespace: str
    underlay4: str


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    ends = [
        Namespace(name, f"ztm-run{os.getpid()}{name}", address) for name, address in (("a", "198.51.100.1"), ("b", "198.51.100.2"))
    ]
    try:
        for end in ends:
            run(["ip", "netns", "add", end.namespace])
        run(
            [
                "ip",
                "-n",
                ends[0].namespace,
                "link",
                "add",
                "eth0",
                "type",
                "veth",
                "peer",
                "name",
                "eth0",
                "netns",
                ends[1].namespace,
            ]
        )
        for end in ends:
            run(["ip", "-n", end.namespace, "addr", "add", f"{end.underlay4}/24", "dev", "eth0"])
            for device in ("lo", "eth0"):
                run(["ip", "-n", end.namespace, "link", "set", device, "up"])
        near, far = (cast(Router, end) for end in ends)
        yield Site(cast(Lab, None), near, far, tmp_path / "peers", None)
    finally:
        for end in ends:
            run(["ip", "netns", "del", end.namespace], check=False)


def test_a_run_has_samples_and_reasons_and_goes_on_where_it_was(site, tmp_path):
    plan = parse("throughput", SCENARIO)
    empty = Run(Machine("cpu", 2, (), "6.1", 1, ""), "2026-11-22T17:00:00+00:00", {}, Settings(2, 0.2, False))
    file, log = tmp_path / "results.json", Log(tmp_path / "log")
    run_ = with_plans(empty, [plan])
    todo = steps([plan], rounds=1)
    save(carry_out(todo, run_, partial(take, site), file, log), file)
    one = load(file)
    rows = {(r.subject, r.parameters.get("traffic"), r.metric): r for r in one.scenario("throughput").rows}
    for traffic in ("tcp-bidir", "udp-1200"):
        assert rows["raw link", traffic, "throughput"].samples[0] > 1
        assert rows["raw link", traffic, "cpu per Gbit"].samples[0] > 0
    assert any("iperf3 -J -c 198.51.100.2" in command for command in rows["raw link", "tcp-bidir", "throughput"].commands)
    assert rows["Nebula", None, "throughput"].unavailable.startswith("nebula was not built: run bench/peers/build")
    assert [step.subject.name for step in left(todo, one)] == ["Nebula"]
    more = left(steps([plan], rounds=2), one)
    assert [(step.subject.name, step.round) for step in more] == [("Nebula", 0), ("raw link", 1), ("Nebula", 1)]
    carry_out(more, one, partial(take, site), file, log)
    assert {len(row.samples) for row in load(file).scenario("throughput").rows if not row.unavailable} == {2}
    assert "[1/2, 0:40 left] throughput, round 1: raw link" in (tmp_path / "log").read_text()


def test_a_file_and_echoes_between_the_ends(site):
    here, there = (End(place, address) for place, address in zip(site.places, site.underlay, strict=True))
    assert send((here, there), 1 << 20) > 0
    sent, times = ping(here, there, 0.2)
    assert sent == 20
    assert 0 < len(times) <= 20
    assert not run(["ip", "netns", "pids", site.near.namespace]).stdout.split()


MACHINE = Machine("cpu", 2, (), "6.1", 1, "")


def test_one_faulty_subject_neither_ends_the_run_nor_takes_its_namesakes_with_it(tmp_path):
    """Two subjects are called ztnode x 4: one cannot be had, the other fails in its first round."""
    text = SCENARIO.replace('{ kind = "Nebula" }', '{ kind = "ours", instances = 4, uplinks = [1, 2] }')
    plan, asked = parse("throughput", text), []

    def faulty(step, _seconds):
        asked.append((step.subject.parameters.get("uplinks"), step.round))
        if step.subject.parameters.get("uplinks") == 1:
            raise Unavailable("one uplink is too few")
        if step.subject.parameters.get("uplinks") == 2 and step.round == 0:
            raise KeyError("zt0")
        return [Reading({}, plan.metric, plan.unit, plan.better, float("nan") if step.round else 1.0)]

    run_ = with_plans(Run(MACHINE, "2026-11-22T17:00:00+00:00", {}, Settings(2, 0.2, False)), [plan])
    done = carry_out(steps([plan], rounds=2), run_, faulty, tmp_path / "results.json", Log(tmp_path / "log"))
    assert asked == [(None, 0), (1, 0), (2, 0), (2, 0), (None, 1), (2, 1)]
    rows = done.scenario("throughput").rows
    assert [(row.parameters.get("uplinks"), row.unavailable) for row in rows if row.unavailable] == [
        (1, "one uplink is too few"), (2, "it failed: KeyError: 'zt0'"),
    ]  # fmt: skip
    assert [row.samples for row in rows if row.subject == "raw link"] == [(1.0,)]
    assert "KeyError" in (tmp_path / "log").read_text() and load(tmp_path / "results.json") == done


def test_samples_that_do_not_compare_are_not_put_into_one_row(tmp_path):
    file = tmp_path / "results.json"

    def go_on(*words, machine=MACHINE, programs=None):
        return begin(parser().parse_args([*words, "a.deb"]), file, machine, programs or {"ztnode": "0.2.0"})

    save(go_on("--seconds", "2"), file)
    assert go_on().settings.seconds == 2 and go_on("--rounds", "5").settings.rounds == 5
    assert go_on(programs={"nebula": "1.9"}).versions == {"ztnode": "0.2.0", "nebula": "1.9"}
    for words, more, why in (
        (["--seconds", "4"], {}, "has measurements of 2 s; choose another NAME, or leave SECONDS out"),
        (["--quick"], {}, "is no quick run; choose another NAME"),
        ([], {"programs": {"ztnode": "0.3.0"}}, "was measured with ztnode 0.2.0, and 0.3.0 is here; choose another NAME"),
        ([], {"machine": Machine("cpu", 4, (), "6.1", 1, "")}, "is of another machine or kernel"),
    ):
        with pytest.raises(ResultsError, match=why):
            go_on(*words, **more)


def test_what_cannot_be_measured_is_told_before_hours_are_spent(tmp_path):
    plan = parse("throughput", SCENARIO.replace('{ kind = "raw" }', '{ kind = "zerotier" }'))
    said = list(missing([plan], tmp_path, None))
    assert said[0].startswith("zerotier-one is not on PATH") and "ZEROTIER_ONE=" in said[0]
    assert said[1].startswith("Nebula is not measured: nebula was not built") and len(said) == 2
    assert len(list(missing([plan], tmp_path, "/usr/sbin/zerotier-one"))) == 1


@pytest.mark.parametrize(("words", "why"), [
    (["--rounds", "0"], "0 is no number of rounds; give 1 or more"), (["--zerotier-one", "/nowhere"], "/nowhere is no program"),
])  # fmt: skip
def test_wrong_words_are_refused_at_once(words, why, capsys):
    with pytest.raises(SystemExit):
        parser().parse_args([*words, "a.deb"])
    assert why in capsys.readouterr().err
