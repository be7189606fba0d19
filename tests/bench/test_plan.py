"""Scenario files, the order of steps, and what a resumed run still has to do."""

from __future__ import annotations

import dataclasses

import pytest

from bench.measure import MEASURES
from bench.measure.common import Reading
from bench.peers import PEERS
from bench.plan import Step, Subject, left, load, only, parse, steps, time_left
from bench.record import add, unavailable, with_plans
from bench.results import Machine, ResultsError, Run, Settings, decode, encode, pairs, validate

TEXT = """
title = "T"
question = "Q?"
method = '''one
two'''
metric = "throughput"
unit = "Mbit/s"
better = "higher"
subjects = [{ kind = "raw" }, { kind = "ours", engine = ["ztnode", "zerotier-one"], instances = [1, 4] }]
[parameters]
traffic = ["tcp-1", "tcp-16"]
offload = true
[quick]
subjects = [{ kind = "raw" }]
parameters = { traffic = ["tcp-1"] }
"""
EMPTY = Run(Machine("cpu", 2, (), "6.1", 1, ""), "2026-11-22T17:00:00+00:00", {}, Settings(2, 1.0, False))


def test_lists_make_one_subject_of_each_entry():
    plan = parse("throughput", TEXT)
    assert [s.name for s in plan.subjects] == ["raw link", "ztnode x 1", "ztnode x 4", "zerotier-one x 1", "zerotier-one x 4"]
    assert plan.subjects[2] == Subject("ours", {"engine": "ztnode", "instances": 4})
    assert [s.group for s in plan.subjects] == ["raw"] + ["ours"] * 4
    assert plan.method == "one two"


def test_a_quick_run_replaces_what_its_table_has():
    plan = parse("throughput", TEXT, quick=True)
    assert [s.name for s in plan.subjects] == ["raw link"]
    assert plan.parameters == {"traffic": ["tcp-1"], "offload": True}


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("title = ", "scenario throughput: Invalid value"),
        (TEXT + "\ncolour = 1", "is unknown"),
        (TEXT.replace('unit = "Mbit/s"', ""), "scenario throughput: unit is missing"),
        (TEXT.replace('kind = "raw"', 'name = "raw"'), "scenario throughput: a subject has no kind"),
    ],
)
def test_a_broken_file(text, sentence):
    if "colour" in text:
        text = "colour = 1\n" + TEXT
    with pytest.raises(ResultsError, match=sentence):
        parse("throughput", text)


def test_a_name_that_is_none():
    with pytest.raises(ResultsError, match="there is no scenario speed; there are throughput"):
        load(["speed"])


@pytest.mark.parametrize("quick", [False, True])
def test_the_files_of_this_directory_name_only_what_there_is(quick):
    plans = load(quick=quick)
    assert {plan.name for plan in plans} == set(MEASURES)
    for plan in plans:
        assert {subject.kind for subject in plan.subjects} <= {*PEERS, "ours"}
        assert len({subject.name + str(dict(subject.parameters)) for subject in plan.subjects}) == len(plan.subjects)
        assert plan.better in ("higher", "lower")


def test_all_subjects_of_a_round_come_before_the_next_round():
    plan = parse("throughput", TEXT)
    todo = steps([plan], rounds=2)
    assert [(s.round, s.subject.name) for s in todo[:6]][-2:] == [(0, "zerotier-one x 4"), (1, "raw link")]
    assert len(todo) == 10
    assert len(steps([dataclasses.replace(plan, rounds=3)], rounds=2)) == 15


def test_only_some_subjects():
    plans = [parse("throughput", TEXT)]
    assert [s.name for s in only(plans, ["ztnode x 4", "raw"])[0].subjects] == ["raw link", "ztnode x 4"]
    assert len(only(plans, ["ours"])[0].subjects) == 4
    assert only(plans, ["Nebula"]) == []
    assert only(plans, []) == plans


def reading(value, metric="throughput", **more):
    return Reading({"traffic": "tcp-1"}, metric, "Mbit/s", "higher", value, **more)


def at(plan, subject, number=0):
    return Step(plan, subject, number)


def test_a_resumed_run_leaves_out_what_has_its_samples():
    plan = parse("throughput", TEXT)
    todo = steps([plan], rounds=2)
    run = with_plans(EMPTY, [plan])
    assert left(todo, run) == todo
    one = plan.subjects[1]
    run = add(run, at(plan, one), [reading(100.0), reading(1.0, "cpu per Gbit")])
    assert [(s.round, s.subject) for s in todo if s not in left(todo, run)] == [(0, one)]
    run = add(run, at(plan, one, 1), [reading(110.0), reading(1.1, "cpu per Gbit")])
    assert [s.round for s in left(todo, run) if s.subject == one] == []
    run = add(run, at(plan, plan.subjects[0]), [unavailable(plan, "not here")])
    run = add(run, at(plan, plan.subjects[2]), [reading(1.0), unavailable(plan, "one kind of traffic failed")])
    assert {(s.subject.name, s.round) for s in left(todo, run) if "zerotier" not in s.subject.name} == {
        ("raw link", 0), ("raw link", 1), ("ztnode x 4", 1)  # what could not be had is tried again
    }  # fmt: skip
    validate(run)
    assert with_plans(run, [plan]) == run


def test_samples_of_a_row_come_together():
    plan = parse("throughput", TEXT)
    subject = plan.subjects[0]
    run = with_plans(EMPTY, [plan])
    line = ((0.0, 1.0),)
    run = add(run, at(plan, subject), [reading(5.0, distribution=(1.0, 2.0), timeline=line, commands=("a",))])
    run = add(run, at(plan, subject, 1), [reading(7.0, distribution=(3.0,), timeline=((0.0, 9.0),), commands=("b",))])
    run = add(run, at(plan, subject, 2), [reading(6.0, distribution=(4.0,), timeline=line)])
    run = add(run, at(plan, subject, 3), [reading(0.0, failed="no link")])  # what has samples keeps them
    (row,) = run.scenario("throughput").rows
    assert (row.samples, row.distribution, row.commands) == ((5.0, 7.0, 6.0), (1.0, 2.0, 3.0, 4.0), ("a",))
    assert row.timeline == ((0.0, 9.0),)  # of the worst round
    assert row.unavailable is None


def test_a_round_that_failed_leaves_its_place_free():
    plan = parse("throughput", TEXT)
    one, other = plan.subjects[:2]
    run = with_plans(EMPTY, [plan])
    for number, value in ((1, 20.0), (2, 30.0)):  # the first round failed
        run = add(run, at(plan, one, number), [reading(value)])
    for number, value in ((0, 1.0), (1, 2.0), (2, 3.0)):
        run = add(run, at(plan, other, number), [reading(value)])
    mine, theirs = run.scenario("throughput").rows
    assert pairs(mine, theirs) == [(20.0, 2.0), (30.0, 3.0)] and theirs.rounds == ()
    assert decode(encode(run)) == run
    assert [step.round for step in left(steps([plan], rounds=3), run) if step.subject == one] == [0]
    mine = add(run, at(plan, one, 0), [reading(10.0)]).scenario("throughput").rows[0]
    assert (mine.samples, mine.rounds) == ((20.0, 30.0, 10.0), (1, 2, 0)) and mine.by_round[0] == 10.0
    with pytest.raises(ResultsError, match="one for each sample"):
        validate(
            dataclasses.replace(
                run, scenarios=(dataclasses.replace(run.scenarios[0], rows=(dataclasses.replace(mine, rounds=(1, 2)),)),)
            )
        )


def test_a_failure_is_a_row_until_a_later_round_succeeds():
    plan = parse("throughput", TEXT)
    subject = plan.subjects[0]
    run = add(with_plans(EMPTY, [plan]), at(plan, subject), [reading(0.0, failed="no\n link")])
    assert run.scenario("throughput").rows[0].unavailable == "no link"
    run = add(run, at(plan, subject), [reading(5.0)])
    assert run.scenario("throughput").rows[0].samples == (5.0,)
    assert run.scenario("throughput").rows[0].unavailable is None


def test_what_can_be_had_at_last_is_unavailable_no_more():
    plan = parse("throughput", TEXT)
    run = with_plans(EMPTY, [plan])
    for subject in plan.subjects[1:3]:
        run = add(run, at(plan, subject), [unavailable(plan, "not built")])
    run = add(run, at(plan, plan.subjects[1]), [reading(5.0)])
    assert [(row.subject, row.unavailable) for row in run.scenario("throughput").rows] == [
        ("ztnode x 4", "not built"), ("ztnode x 1", None)
    ]  # fmt: skip


def test_time_left_uses_what_is_known_best():
    plan = parse("throughput", TEXT)
    todo = steps([plan], rounds=1)
    assert time_left(todo, {}, 20.0) == 100
    assert time_left(todo, {("throughput", "raw"): 2.0}, 20.0) == 10
    assert time_left(todo, {("throughput", "raw"): 2.0, ("throughput", "ours"): 10.0}, 20.0) == 42
    assert time_left(todo, {("latency", "raw"): 4.0}, 20.0) == 20
