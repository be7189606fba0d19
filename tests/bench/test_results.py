"""The results file: what was saved is loaded again, and what is wrong is refused with its place."""

from __future__ import annotations

import copy
import dataclasses
import json

import pytest

from bench.results import Machine, ResultsError, Row, Run, Scenario, Settings, decode, encode, load, save, validate

ROW = Row(
    subject="ztnode x 4", group="ours", parameters={"traffic": "tcp-16", "instances": 4, "engine": "ztnode", "budget": 0.1},
    metric="throughput", unit="Mbit/s", better="higher", samples=(4100.0, 4000.5, 4200.0), commands=("iperf3 -c 10.14.0.2",),
)  # fmt: skip
ABSENT = dataclasses.replace(ROW, subject="kernel WireGuard", group="peer", samples=(), unavailable="this kernel has no wireguard")
DELAYS = dataclasses.replace(
    ROW, metric="latency", unit="ms", better="lower", distribution=(0.1, 0.2), timeline=((0.0, 1.0), (0.1, 2.0)), stacks="a;b 3"
)
RUN = Run(
    machine=Machine("EPYC", 2, ("avx2", "vaes"), "6.18.44", 24 << 30, "kvm"),
    started="2026-11-22T17:00:00+00:00",
    versions={"ztnode": "1.8.4", "iperf3": "3.12"},
    settings=Settings(rounds=3, seconds=4.0, quick=False),
    scenarios=(Scenario("throughput", "Throughput", "How fast?", "iperf3.", (ROW, ABSENT, DELAYS)),),
)


def test_what_is_saved_is_loaded(tmp_path):
    save(RUN, tmp_path / "results.json")
    assert load(tmp_path / "results.json") == RUN
    assert load(tmp_path) == RUN
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]


def test_the_file_has_its_format_and_no_empty_parts():
    data = encode(RUN)
    assert data["format"] == 1
    first, _, delays = json.loads(json.dumps(data))["scenarios"][0]["rows"]
    assert not {"distribution", "timeline", "stacks"} & first.keys()
    assert first["unavailable"] is None
    assert first["samples"] == [4100.0, 4000.5, 4200.0]
    assert delays["timeline"] == [[0.0, 1.0], [0.1, 2.0]]


def test_scenario_by_name():
    assert RUN.scenario("throughput") is RUN.scenarios[0]
    assert RUN.scenario("memory") is None


def changed(place, value):
    """The run as JSON with one value changed; None takes it away."""
    data = json.loads(json.dumps(encode(RUN)))
    at = data
    for step in place[:-1]:
        at = at[step]
    if value is None:
        del at[place[-1]]
    else:
        at[place[-1]] = copy.deepcopy(value)
    return data


BAD = [
    (["format"], 2, "format is 2, this program reads 1"),
    (["format"], None, "format is None, this program reads 1"),
    (["started"], None, "started is missing"),
    (["colour"], "red", "colour is unknown"),
    (["machine", "cores"], "two", 'machine.cores is "two", not int'),
    (["machine", "cores"], True, "machine.cores is true, not int"),
    (["machine"], [], "machine is [], not an object"),
    (["settings", "seconds"], "4", 'settings.seconds is "4", not float'),
    (["versions", "iperf3"], 3.12, "versions.iperf3 is 3.12, not str"),
    (["scenarios"], {}, "scenarios is {}, not a list"),
    (["scenarios", 0, "name"], "speed", "scenario 'speed' is none of throughput, forwarded"),
    (["scenarios", 0, "rows", 0, "samples", 1], "x", 'scenarios[0].rows[0].samples[1] is "x", not float'),
    (["scenarios", 0, "rows", 0, "samples", 1], float("nan"), "rows[0]: nan is not a finite number"),
    (["scenarios", 0, "rows", 0, "samples"], [], "rows[0]: a row without samples says in 'unavailable' why"),
    (["scenarios", 0, "rows", 0, "unavailable"], "no", "rows[0]: a row that is unavailable says why and has no samples"),
    (["scenarios", 0, "rows", 1, "unavailable"], "", "rows[1]: a row that is unavailable says why and has no samples"),
    (["scenarios", 0, "rows", 0, "group"], "theirs", "group 'theirs' is none of raw, peer, stock, ours"),
    (["scenarios", 0, "rows", 0, "better"], "more", "better 'more' is none of higher, lower"),
    (["scenarios", 0, "rows", 0, "parameters", "mtu"], [1], "rows[0].parameters.mtu is [1], not a scalar"),
    (["scenarios", 0, "rows", 2, "timeline", 0], [1.0], "rows[2].timeline[0] has 1 values, not 2"),
    (["scenarios", 0, "rows", 2, "metric"], "throughput", "rows[2]: ztnode x 4, throughput with these parameters is there twice"),
]


@pytest.mark.parametrize("place, value, sentence", BAD)
def test_what_is_wrong_is_refused_with_its_place(place, value, sentence):
    with pytest.raises(ResultsError) as refused:
        decode(changed(place, value))
    assert sentence in str(refused.value)


def test_a_scenario_that_is_there_twice():
    with pytest.raises(ResultsError, match="scenario 'throughput' is there twice"):
        validate(dataclasses.replace(RUN, scenarios=RUN.scenarios * 2))


def test_files_that_are_no_results(tmp_path):
    with pytest.raises(ResultsError, match="cannot be read: No such file"):
        load(tmp_path)
    (tmp_path / "results.json").write_text("{")
    with pytest.raises(ResultsError, match="is not JSON"):
        load(tmp_path)
    (tmp_path / "results.json").write_text("{}")
    with pytest.raises(ResultsError, match=r"results.json: format is None"):
        load(tmp_path)


def test_a_broken_run_is_not_written(tmp_path):
    broken = dataclasses.replace(RUN, scenarios=(dataclasses.replace(RUN.scenarios[0], name="speed"),))
    with pytest.raises(ResultsError):
        save(broken, tmp_path / "results.json")
    assert not list(tmp_path.iterdir())
