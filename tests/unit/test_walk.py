"""How a walk of random commits draws, types and compares (tests/walk)."""

from __future__ import annotations

from random import Random

import pytest
from tests.configuration import SCHEMA
from tests.walk.aspects import ASPECTS, BEGIN, configuration, drawn, typed
from ztsh.confmode import ConfMode
from ztsh.session import Session
from ztsh.text import set_commands

from lab.fingerprint import differences

ZT = "interfaces zerotier zt0"


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ((), ("mtu 1280",), f"set {ZT} mtu 1280\n"),
        (("mtu 1280",), ("mtu 1280",), ""),
        (("instances 2", "mtu 1280"), ("instances 2",), f"delete {ZT} mtu\n"),
        (("mtu 1280",), ("mtu auto",), f"delete {ZT} mtu 1280\nset {ZT} mtu auto\n"),
        (("mtu auto", "instance 1 cpu 1", "instance 1 weight 5"), ("mtu auto",), f"delete {ZT} instance\n"),
        (("instance 1 cpu 1", "instance 1 weight 5"), ("instance 1 cpu 1",), f"delete {ZT} instance 1 weight\n"),
        (("instance 1 cpu 1", "instance 12 cpu 1"), ("instance 12 cpu 1",), f"delete {ZT} instance 1\n"),
    ],
)  # fmt: skip
def test_what_is_typed(before: tuple[str, ...], after: tuple[str, ...], lines: str) -> None:
    assert typed([f"{ZT} {line}" for line in before], [f"{ZT} {line}" for line in after]) == lines


def test_a_bundle_is_deleted_as_one() -> None:
    whole = ("interfaces zerotier zt0 disable", "interfaces zerotier zt1 disable", "interfaces zerotier zt1 mtu auto")
    assert typed(whole, whole[:1]) == "delete interfaces zerotier zt1\n"
    assert typed(whole, ()) == "delete interfaces\n"


def test_what_is_typed_makes_what_was_drawn() -> None:
    """Whatever becomes of it at the commit, conf mode takes every line."""
    conf, choice = ConfMode(Session(SCHEMA), lambda _words: ""), BEGIN
    play(conf, typed((), configuration(BEGIN)))
    for number in range(500):
        before, choice = choice, drawn(choice, Random(number))
        play(conf, typed(configuration(before), configuration(choice)))
        shown = set_commands(conf.session.wanted.tree, SCHEMA).replace("'", "").splitlines()
        assert sorted(shown) == sorted(f"set {line}" for line in configuration(choice))


def play(conf: ConfMode, lines: str) -> None:
    for line in lines.splitlines():
        conf.line(line)


def test_every_alternative_is_drawn() -> None:
    found, choice = set(), BEGIN
    for number in range(2000):
        choice = drawn(choice, Random(number))
        found |= set(choice.items())
    assert found == {(aspect, number) for aspect, lines in ASPECTS.items() for number in range(len(lines))}


def test_the_same_seed_draws_the_same() -> None:
    assert drawn(BEGIN, Random("1 2")) == drawn(BEGIN, Random("1 2")) != BEGIN


def test_differences_name_the_section() -> None:
    before = {"links": ["a", "b"], "rules": ["same"], "units": ["only here"]}
    after = {"links": ["b", "c"], "rules": ["same"]}
    assert differences(before, before) == ""
    assert differences(before, after) == "## links\n-a\n+c\n## units\n-only here"
