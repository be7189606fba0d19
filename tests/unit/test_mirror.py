"""Mirror and redirect: what can be configured, and the table of nftables that follows from it."""

from __future__ import annotations

import pytest
from tests.configuration import EXAMPLE, bundle
from zerotier_multi import mirror as configured
from zerotier_multi.cpu import Cpu
from zerotier_multi.netlink.links import Link
from zerotier_multi.pathd.nftables import mirror
from zerotier_multi.plan import Plan, from_json, to_json
from zerotier_multi.planner import make_plan


def plan(text: str) -> Plan:
    return make_plan(bundle(EXAMPLE + text), (Cpu(0, 0),), "x")


def links(**indexes: int) -> dict[str, Link]:
    return {name: Link(index, name, "tun" if name.startswith("zt") else None, 1500, True, True) for name, index in indexes.items()}


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("mirror ingress zt0p1", "mirror ingress zt0p1 is a device of a bundle"),
        ("mirror egress zt1", "mirror egress zt1 is a device of a bundle"),
        ("redirect zt0", "redirect zt0 is a device of a bundle"),
        ("redirect ifb0\nmirror egress eth3", "redirect ifb0 conflicts with mirror"),
    ],
)
def test_what_cannot_be(text: str, sentence: str) -> None:
    (problem,) = configured.problems(bundle(EXAMPLE + text))
    assert str(problem).replace("interfaces zerotier zt0 ", "").startswith(sentence)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("mirror ingress eth3\nmirror egress eth3", []),
        ("mirror ingress eth9", ["mirror ingress eth9: the interface does not exist yet"]),
        ("redirect ifb0", []),
        ("redirect eth3", ["redirect eth3: it takes the health checks too"]),
        ("redirect eth3\nhealth-check disable", []),
    ],
)
def test_what_a_user_should_know(text: str, expected: list[str]) -> None:
    found = configured.warnings(bundle(EXAMPLE + text), {"eth3", "ifb0"})
    assert [w.removeprefix("interfaces zerotier zt0 ").partition(";")[0].partition(", so")[0] for w in found] == expected


def test_each_has_a_chain_of_the_member_devices_that_exist() -> None:
    both = plan("mirror ingress eth3\nmirror egress eth4\n")
    assert from_json(to_json(both)) == both
    text = mirror.table([both, plan("")], links(zt0p1=7, zt0p3=9, eth3=3))
    assert text == (
        "table netdev zerotier_multi {\n chain zt0-mirror-ingress { # zt0p1=7 zt0p3=9 eth3=3\n"
        '  type filter hook ingress devices = { "zt0p1", "zt0p3" } priority -500; policy accept\n'
        '  dup to "eth3"\n }\n}\n'
    )
    assert text != mirror.table([both], links(zt0p1=8, zt0p3=9, eth3=3)), "another device of that name"
    assert mirror.table([both], links(zt0p1=7, eth4=4)).count("hook egress") == 1


def test_a_redirect_forwards() -> None:
    assert 'fwd to "ifb0"' in mirror.table([plan("redirect ifb0")], links(zt0p1=7, ifb0=3))


@pytest.mark.parametrize("text", ["", "mirror ingress eth3\ndisable", "redirect eth9"])
def test_no_table_where_nothing_is_wanted_or_there(text: str) -> None:
    assert mirror.table([plan(text)], links(zt0p1=7, eth3=3)) == ""
