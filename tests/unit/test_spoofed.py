"""What comes over a path with an address of this router as its source: what the plans want of nftables."""

from __future__ import annotations

import pytest
from tests.configuration import configured
from tests.unit.test_mss import plan
from zerotier_multi.bundle_parser import parse_bundle
from zerotier_multi.cpu import Cpu
from zerotier_multi.netlink.links import Address, Link, routing_domain
from zerotier_multi.netlink.state import KernelState
from zerotier_multi.pathd.decide import Inputs, decide
from zerotier_multi.pathd.nftables.spoofed import chains
from zerotier_multi.plan import Plan
from zerotier_multi.planner import make_plan


def test_the_chains_that_are_wanted() -> None:
    local = [Address(2, "198.51.100.1/24"), Address(2, "2001:db8:1::1/64"), Address(3, "198.51.100.1/32")]
    assert chains([plan()], local) == (
        " chain own-sources {\n"
        "  ip saddr 127.0.0.0/8 drop\n"
        "  ip6 saddr ::ffff:0:0/96 drop\n"
        "  ip saddr { 10.0.55.1, 10.14.0.1, 10.14.0.5, 10.14.0.9, 10.14.0.13, 198.51.100.1 } drop\n"
        "  ip6 saddr { 2001:db8:1::1 } drop\n"
        " }\n"
        " chain prerouting {\n"
        "  type filter hook prerouting priority raw\n"
        '  iifname "zt0p*" jump own-sources\n'
        " }\n"
    )


def test_they_are_the_same_whether_the_instances_run_or_not() -> None:
    assert chains([plan()], ()) == chains([plan()], [Address(2, text) for text in ("10.0.55.1/32", "10.14.0.1/30")])


def test_none_without_a_bundle_that_runs() -> None:
    assert chains([], ()) == chains([plan("disable")], ()) == ""


# -- VRFs, which may have the same addresses

# A hub with two VRFs, whose remotes have given it another site in each.
HUB = "".join(
    f"{zt} instances 2\n{zt} network-id 8056c2e21c000001\n{zt} transit prefix 10.14.0.0/28\n{zt} transit site {site}\n{zt} vrf {vrf}\n"
    for zt, vrf, site in (("zt0", "red", 1), ("zt1", "blue", 2))
)
DEVICES = (
    Link(1, "lo", None, 65536, True, True),
    Link(2, "eth0", None, 1500, True, True),
    Link(3, "eth1", None, 1500, True, True, master=90),
    Link(4, "eth2", None, 1500, True, True, master=91),
    Link(5, "br0", "bridge", 1500, True, True, master=90),
    Link(6, "eth3", None, 1500, True, True, master=5),
    Link(7, "br1", "bridge", 1500, True, True),
    Link(90, "red", "vrf", 65575, True, True, table=100),
    Link(91, "blue", "vrf", 65575, True, True, table=101),
)
LOCAL = [
    Address(index, f"{address}/24")
    for index, address in (
        (2, "192.0.2.2"), (3, "192.0.2.3"), (4, "192.0.2.4"), (5, "192.0.2.5"), (6, "192.0.2.6"), (7, "192.0.2.7"),
        (90, "192.0.2.90"), (91, "2001:db8::91"), (99, "192.0.2.99"),
    )
]  # fmt: skip


def plans_of(text: str) -> list[Plan]:
    tree = configured(text)
    return [make_plan(parse_bundle(name, tree[name]), (Cpu(0, 0),), "x") for name in tree]


def dropped(text: str) -> dict[str, set[str]]:
    """By member device, the addresses that are taken from nobody behind it; without loopback ones."""
    sets: dict[str, set[str]] = {}
    found: dict[str, set[str]] = {}
    for line in text.splitlines():
        words = line.replace(",", "").split()
        if words[:1] == ["chain"]:
            chain = sets.setdefault(words[1], set())
        elif "{" in words[:3] and words[0] in ("ip", "ip6"):
            chain |= set(words[3 : words.index("}")])
        elif words[:1] == ["iifname"] and words[2] == "jump":
            found.setdefault(words[1].strip('"'), set()).update(sets[words[3]])
    return found


def test_a_bundle_drops_the_addresses_of_its_own_vrf_alone() -> None:
    red, blue = plans_of(HUB)
    found = dropped(chains([red, blue], LOCAL, DEVICES))
    assert found == {
        "zt0p*": {"10.14.0.1", "10.14.0.5", "192.0.2.3", "192.0.2.5", "192.0.2.6", "192.0.2.90"},
        "zt1p*": {"10.14.0.2", "10.14.0.6", "192.0.2.4", "2001:db8::91"},
    }


def test_bundles_of_one_vrf_share_what_they_drop() -> None:
    together = plans_of(HUB.replace("vrf blue", "vrf red").replace("zt1 transit prefix 10.14.0.0", "zt1 transit prefix 10.15.0.0"))
    found = dropped(chains(together, LOCAL, DEVICES))
    assert found["zt0p*"] == found["zt1p*"] >= {"10.14.0.1", "10.15.0.2", "192.0.2.3"}
    none = dropped(chains([plan()], LOCAL, DEVICES))["zt0p*"]
    assert none == {"10.0.55.1", *(f"10.14.0.{n}" for n in (1, 5, 9, 13)), "192.0.2.2", "192.0.2.7", "192.0.2.99"}


def test_what_the_remote_sends_is_not_dropped_by_what_is_decided() -> None:
    """Each remote of the hub has the hub's own address in the other VRF."""
    have = KernelState(links={link.name: link for link in DEVICES}, local=frozenset(LOCAL))
    found = dropped(decide(Inputs(0.0, plans_of(HUB), have)).nftables)
    assert "10.14.0.2" not in found["zt0p*"] and "10.14.0.1" not in found["zt1p*"]
    assert found == dropped(chains(plans_of(HUB), LOCAL, DEVICES))


@pytest.mark.parametrize(("index", "domain"), [(2, None), (3, "red"), (6, "red"), (7, None), (91, "blue"), (99, None)])
def test_the_vrf_of_a_device(index: int, domain: str | None) -> None:
    assert routing_domain(index, {link.index: link for link in DEVICES}) == domain


def test_devices_that_are_masters_of_each_other_are_in_no_vrf() -> None:
    assert (
        routing_domain(1, {1: Link(1, "a", None, 0, True, True, master=2), 2: Link(2, "b", None, 0, True, True, master=1)}) is None
    )
