"""Two boxes by a remote shell: what is run there and how, which addresses are used, and what cannot be asked of them."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from bench.measure import MEASURES as IN_THE_LAB
from bench.peers.common import Unavailable
from bench.plan import Step, Subject, load
from bench.remote.__main__ import fitted
from bench.remote.box import Box, Shell, place
from bench.remote.measures import MEASURES, WHY_NOT, Pair, addresses, pair, take
from lab.process import LabError, wait


@pytest.fixture
def shell(tmp_path: Path) -> str:
    """What ssh does for the rest of the program: the host, then one command line for a shell there."""
    script = tmp_path / "shell"
    script.write_text('#!/bin/sh\nhost=$1; shift\n[ "$host" = far ] && [ $# = 1 ] && exec sh -c "$1"\n')
    script.chmod(0o755)
    return f"{script}"


def test_a_command_arrives_word_by_word(shell: str) -> None:
    far = place("far", shell)
    words = ["a b", "$HOME", "it's", '"x"', "", "*", "a;b"]
    assert far.run(["printf", "%s|", *words]).stdout == "|".join([*words, ""])
    with pytest.raises(LabError):
        far.run(["false"])


@pytest.mark.parametrize("body", ['exec sh -c "$2"', 'cat | sh -c "$2; exit"'])
def test_a_program_ends_with_the_connection(tmp_path: Path, body: str) -> None:
    """Also where nothing but the end of its input tells the far side, as with ssh."""
    script = tmp_path / "shell"
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(0o755)
    mark = f"12345.{os.getpid()}"
    process = place("far", str(script)).popen(["sleep", mark])

    def running() -> bool:
        return subprocess.run(["pgrep", "-fx", f"sleep {mark}"], capture_output=True, check=False).returncode == 0

    wait(running, timeout=10, what="a program that runs")
    process.kill()
    process.wait()
    del process  # and with it our end of the connection
    wait(lambda: not running(), timeout=10, what="its end")


def test_a_program_that_ends_by_itself_ends_the_connection(shell: str) -> None:
    process = place("far", shell).popen(["sh", "-c", "echo done; exit 3"], stdout=subprocess.PIPE)
    begin = time.monotonic()
    assert process.communicate(timeout=10)[0] == "done\n" and process.returncode == 3 and time.monotonic() - begin < 10


def test_ssh_is_called_with_one_connection_for_all(tmp_path: Path) -> None:
    made = place("r2", "ssh -p 2222", tmp_path)
    assert isinstance(made, Shell)
    assert made.command(["echo", "a b"])[:3] == ["ssh", "-p", "2222"] and made.command(["echo", "a b"])[-2:] == ["r2", "echo 'a b'"]
    assert f"ControlPath={tmp_path}/%C" in made.prefix and place("localhost").command(["true"]) == ["true"]


def test_a_box_that_is_not_reached_is_named(shell: str) -> None:
    with pytest.raises(LabError, match="elsewhere is not reached: .*; log in there once by hand: ssh elsewhere"):
        _ = Box(place("elsewhere", shell), "zt0").facts


def _facts(own: int, **changes: Any) -> dict[str, Any]:
    other = 3 - own
    paths = [
        {
            "instance": k, "remote": f"R{other}", "next_hop": f"10.14.0.{4 * (k - 1) + other}", "state": "up",
            "underlay_address": f"198.51.100.{other}:9993",
        }
        for k in (1, 2, 3)
    ]  # fmt: skip
    return {
        "engine": "ztnode", "addresses": [f"10.0.55.{own}"], "paths": paths,
        "transit": {str(k): [f"10.14.0.{4 * (k - 1) + own}"] for k in (1, 2, 3)},
    } | changes  # fmt: skip


@dataclass
class Told(Box):
    """A box of which the facts are known."""

    facts: dict[str, Any]  # type: ignore[assignment]

    def __post_init__(self) -> None:
        super().__init__(place(f"R{3 - int(self.facts['paths'][0]['remote'][1])}"), "zt0")


def _pair(raw: bool = False, **changes: Any) -> Pair:
    return pair(Told(_facts(1, **changes)), Told(_facts(2)), raw)


def test_both_boxes_find_each_other_by_their_transit_addresses() -> None:
    found = _pair(raw=True)
    assert found.ways == {1: ("10.14.0.1", "10.14.0.2"), 2: ("10.14.0.5", "10.14.0.6"), 3: ("10.14.0.9", "10.14.0.10")}
    assert found.floating == ("10.0.55.1", "10.0.55.2") and found.underlay == ("198.51.100.1", "198.51.100.2")
    assert addresses(found, Subject("raw")) == [("198.51.100.1", "198.51.100.2")]
    down = [{**path, "state": "down"} for path in _facts(1)["paths"]]
    with pytest.raises(Unavailable, match="have no path of zt0 between them that is up"):
        _pair(paths=down)


def test_some_instances_are_measured_by_their_own_addresses_and_all_by_the_floating_ones() -> None:
    found = _pair()
    ours = Subject("ours", {"engine": "ztnode", "instances": 1})
    assert addresses(found, ours) == [("10.14.0.1", "10.14.0.2")]
    two = addresses(found, replace(ours, parameters={"engine": "ztnode", "instances": 2}))
    assert two == [("10.14.0.1", "10.14.0.2"), ("10.14.0.5", "10.14.0.6")]
    assert addresses(found, replace(ours, parameters={"engine": "ztnode", "instances": 3})) == [("10.0.55.1", "10.0.55.2")]


@pytest.mark.parametrize(
    ("subject", "why"),
    [
        (Subject("raw"), "--raw-link"),
        (Subject("wireguard-go"), "of no other kind"),
        (Subject("ours", {"engine": "zerotier-one", "instances": 1}), "zt0 runs ztnode"),
        (Subject("ours", {"engine": "ztnode", "instances": 4}), "zt0 has 3 instances"),
    ],
)
def test_what_the_boxes_do_not_have_is_said(subject: Subject, why: str) -> None:
    with pytest.raises(Unavailable, match=why):
        addresses(_pair(), subject)


def test_every_scenario_is_measured_or_says_why_not() -> None:
    assert MEASURES.keys() | WHY_NOT.keys() == IN_THE_LAB.keys() and not MEASURES.keys() & WHY_NOT.keys()
    (plan,) = load(["stalls"])
    with pytest.raises(Unavailable, match="not between two boxes: it kills instances"):
        take(_pair(), Step(plan, plan.subjects[0], 0), 1.0)


def test_all_instances_of_the_link_are_a_subject() -> None:
    plans = {plan.name: plan for plan in fitted(load(), cast(Pair, _pair()))}
    ours = Subject("ours", {"engine": "ztnode", "instances": 3})
    for name in MEASURES:
        assert plans[name].subjects.count(ours) == 1, name
    assert ours not in plans["stalls"].subjects and plans["stalls"].rounds == 1
