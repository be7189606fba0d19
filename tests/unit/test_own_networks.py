"""Prefixes and transit addresses that are those of a link of this router."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.configuration import EXAMPLE, bundle
from tests.unit.test_decide import NOW, UP
from tests.unit.test_pathd import PLAN, all_taps, settle
from zerotier_multi.cpu import Cpu
from zerotier_multi.netlink.links import Address, Link
from zerotier_multi.netlink.state import KernelState
from zerotier_multi.pathd.decide import Inputs, decide
from zerotier_multi.pathd.routing.own_networks import conflicts, networks
from zerotier_multi.planner import make_plan

LAN, DOWN, BLUE = Link(2, "eth1", None, 1500, True, True), Link(4, "eth2", None, 1500, False, False), Link(5, "blue", "vrf", 65575, True, True, table=100)  # fmt: skip
PORT = Link(6, "eth3", None, 1500, True, True, master=5)
OWN = {
    Address(2, "192.168.2.1/24"), Address(2, "2001:db8:2::1/64"), Address(2, "198.51.100.7/32"),
    Address(4, "192.168.3.1/24"), Address(6, "192.168.4.1/24"), Address(9, "192.168.9.1/24"),
}  # fmt: skip


def test_networks_of_links_that_are_up_by_vrf() -> None:
    taps = [Link(7, "zt0p1", "tun", 1394, True, True)]
    found = networks([LAN, DOWN, BLUE, PORT, *taps], {*OWN, Address(7, "10.14.0.1/30")}, None)
    assert found == {"192.168.2.0/24": "eth1", "2001:db8:2::/64": "eth1"}
    assert networks([LAN, DOWN, BLUE, PORT, *taps], OWN, "blue") == {"192.168.4.0/24": "eth3"}


@pytest.mark.parametrize(
    ("prefix", "said"),
    [
        ("192.168.2.0/24", True), ("2001:db8:2::/64", True),
        ("192.168.0.0/16", False), ("192.168.2.128/25", False), ("0.0.0.0/0", False), ("192.168.7.0/24", False),
    ],
)  # fmt: skip
def test_a_prefix_that_is_a_network_of_this_router(prefix: str, said: bool) -> None:
    six = "transit prefix 2001:db8:ff::/120\n" if ":" in prefix else ""
    plan = make_plan(bundle(f"{EXAMPLE}{six}remote R2 prefix {prefix}"), tuple(Cpu(n, n) for n in range(4)), "x")
    found = list(conflicts(plan, networks([LAN], OWN, None)))
    sentence = (
        f"interfaces zerotier zt0 remote R2 prefix {prefix}: it is the network of eth1 on this router, whose hosts are then looked for behind R2; "
        f"set prefixes that R2 alone has"
    )
    assert found == ([sentence] if said else [])


def test_transit_addresses_inside_a_network_of_this_router_are_told_once() -> None:
    own = networks([LAN], {Address(2, "10.14.0.200/24")}, None)
    (found,) = conflicts(PLAN, own)
    assert found.startswith("interfaces zerotier zt0 transit prefix: 10.14.0.1/30 lies in 10.14.0.0/24 of eth1 on this router")
    assert not list(conflicts(PLAN, networks([LAN], {Address(2, "10.15.0.1/16")}, None)))


def test_show_says_it_as_long_as_it_is_so() -> None:
    have = settle(KernelState(links={**all_taps(), "eth1": LAN}))
    have.local = {Address(2, "10.14.0.9/29")}
    seen = Inputs(NOW, [PLAN], have, verdicts=UP)
    assert [
        note
        for note in decide(seen).want.notes
        if note.startswith("interfaces zerotier zt0 transit prefix: 10.14.0.1/30 lies in 10.14.0.8/29")
    ] == []
    have.local = {Address(2, "10.14.0.2/29")}
    assert [
        note
        for note in decide(replace(seen, have=have)).want.notes
        if note.startswith("interfaces zerotier zt0 transit prefix: 10.14.0.1/30 lies in")
    ]
