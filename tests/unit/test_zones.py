"""Conntrack zones: what stands in VyOS's map for devices in a VRF, on the real nftables in a namespace of its own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator

import pytest
from tests.configuration import EXAMPLE, bundle
from zerotier_multi.cpu import Cpu
from zerotier_multi.names import is_our_device
from zerotier_multi.pathd.kernel.desired import desired_state
from zerotier_multi.netlink.state import KernelState
from zerotier_multi.pathd.nftables.zones import LOOK, MAP, Zones, changes, entries
from zerotier_multi.planner import make_plan
from zerotier_multi.netlink.links import Link

TWO = EXAMPLE.replace("instances 4", "instances 2")
BLUE = Link(50, "blue", "vrf", 65575, True, True, table=1000)
NAMESPACE = f"zones-{os.getpid()}"
# The map as vyos-1x makes it (data/vyos-firewall-init.conf).
TABLE = "table inet vrf_zones { map ct_iface_map { typeof iifname : ct zone; }; }"


def zones(text: str, *links: Link) -> dict[str, int]:
    plan = make_plan(bundle(text), (Cpu(0, 0), Cpu(1, 1)), "x")
    observed = KernelState(links={link.name: link for link in links})
    return desired_state([plan], observed, (), True, {}, 0.0).zones


def test_the_bundle_and_its_members_have_the_zone_of_their_vrf() -> None:
    assert zones(TWO + "vrf blue", BLUE) == {"zt0": 1000, "zt0p1": 1000, "zt0p2": 1000}
    assert zones(TWO + "vrf blue\ndisable", BLUE) == {"zt0": 1000}


def test_without_a_vrf_or_before_it_is_there_nothing_has_a_zone() -> None:
    assert zones(TWO, BLUE) == {} and zones(TWO + "vrf blue") == {}


@pytest.mark.parametrize("name", ["zt0", "zt255p32", "zt7p1"])
def test_names_of_ours(name: str) -> None:
    assert is_our_device(name)


@pytest.mark.parametrize("name", ["eth0", "zt", "zt00", "zt0p0", "zt0px", "zt0.5", "azt0", "zt0p123"])
def test_names_of_others(name: str) -> None:
    assert not is_our_device(name)


def test_changes_are_one_transaction_and_leave_others_alone() -> None:
    found = {"eth1": 7, "red": 101, "zt9": 9, "zt0": 101, "zt0p1": 102, "zt1p1": 5}
    assert changes(found, {"zt0": 102, "zt0p1": 102, "zt0p2": 102}, {"red", "zt9"}).splitlines() == [
        f'delete element {MAP} {{ "zt0" }}',
        f'delete element {MAP} {{ "zt1p1" }}',
        f'add element {MAP} {{ "zt0" : 102 }}',
        f'add element {MAP} {{ "zt0p2" : 102 }}',
    ]
    assert changes(None, {"zt0": 102}, ()) == ""


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"nftables": 1}', '{"nftables": [{"map": {"elem": 3}}]}', '{"nftables": [{"map": {"elem": [["a"], [1, 2], {}]}}]}'],
)
def test_an_answer_of_another_form_says_nothing(text: str) -> None:
    assert entries(text) == {}


class Firewall:
    """nftables of an own network namespace."""

    nft = ("ip", "netns", "exec", NAMESPACE, "nft")

    def run(self, *arguments: str) -> str:
        return subprocess.run([*self.nft, *arguments], capture_output=True, text=True, check=True).stdout

    def entries(self) -> dict[str, int]:
        return entries(self.run("-j", "list", "map", *MAP.split()))


@pytest.fixture
def firewall() -> Iterator[Firewall]:
    subprocess.run(["ip", "netns", "add", NAMESPACE], check=True)
    yield Firewall()
    subprocess.run(["ip", "netns", "del", NAMESPACE], check=True)


def test_entries_follow_the_vrf_and_go_with_it(firewall: Firewall) -> None:
    firewall.run(TABLE)
    firewall.run(f'add element {MAP} {{ "red" : 101, "eth1" : 101, "zt5" : 105, "zt3p1" : 9 }}')
    others = {"red": 101, "eth1": 101, "zt5": 105}
    held = Zones(firewall.nft)
    for wanted in ({"zt0": 101, "zt0p1": 101}, {"zt0": 102, "zt0p1": 102}, {"zt0": 102}, {}):
        assert held.hold(wanted, {"red", "zt5"}, 0.0) == []
        assert firewall.entries() == {**others, **wanted}


def test_a_daemon_started_anew_takes_out_what_the_one_before_left(firewall: Firewall) -> None:
    firewall.run(TABLE)
    Zones(firewall.nft).hold({"zt0": 101}, (), 0.0)
    assert Zones(firewall.nft).hold({}, (), 0.0) == []
    assert firewall.entries() == {}


def test_entries_of_a_bundle_whose_plan_cannot_be_read_stay_until_it_goes(firewall: Firewall) -> None:
    firewall.run(TABLE)
    Zones(firewall.nft).hold({"zt0": 101, "zt0p1": 101, "zt1": 101}, (), 0.0)
    held = Zones(firewall.nft)
    assert held.hold({}, (), 0.0, {"zt0"}) == [] and firewall.entries() == {"zt0": 101, "zt0p1": 101}
    assert held.hold({"zt0": 102}, (), 0.0, {"zt0"}) == [] and firewall.entries() == {"zt0": 102, "zt0p1": 101}
    assert held.hold({}, (), 0.0) == [] and firewall.entries() == {}


def test_an_entry_that_somebody_took_out_comes_back(firewall: Firewall) -> None:
    firewall.run(TABLE)
    held = Zones(firewall.nft)
    held.hold({"zt0": 101}, (), 0.0)
    firewall.run(f"flush map {MAP}")
    held.hold({"zt0": 101}, (), LOOK - 1)
    assert firewall.entries() == {}
    held.hold({"zt0": 101}, (), LOOK)
    assert firewall.entries() == {"zt0": 101}


def test_a_router_without_the_map_has_no_zones_and_no_problem(firewall: Firewall) -> None:
    held = Zones(firewall.nft)
    assert held.hold({"zt0": 101}, (), 0.0) == []
    assert firewall.run("list", "ruleset") == ""
    firewall.run(TABLE)
    assert held.hold({"zt0": 101}, (), LOOK) == [] and firewall.entries() == {"zt0": 101}
    assert Zones(("/nonexistent/nft",)).hold({"zt0": 101}, (), 0.0) == []


def test_a_zone_that_conntrack_has_not_is_told(firewall: Firewall) -> None:
    firewall.run(TABLE)
    held = Zones(firewall.nft)
    problem = held.hold({"zt0": 70000}, (), 0.0)
    assert len(problem) == 1 and problem[0].startswith(f"the conntrack zones in nft map {MAP} cannot be set (")
    assert held.hold({"zt0": 65535}, (), 0.0) == [] and firewall.entries() == {"zt0": 65535}


def test_what_nft_prints_is_read(firewall: Firewall) -> None:
    firewall.run(TABLE)
    assert json.loads(firewall.run("-j", "list", "map", *MAP.split()))["nftables"] and firewall.entries() == {}
