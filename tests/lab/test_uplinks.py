"""A router with two WANs, both by DHCP, and one with a single one; hosts behind both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import Lab, Router
from lab.flows import Flows
from lab.scenario import paths_up, status, wait_paths
from lab.uplinks import DEVICES, ZT, Site, two_uplinks
from tests.lab.conftest import ENGINE

MOVED = 1.0  # seconds in which flows of a WAN that was cut are on the other one


@pytest.fixture(scope="module")
def site(lab: Lab) -> Iterator[Site]:
    with two_uplinks(lab, Path(ENGINE).name) as made:
        yield made


def _ports(router: Router, address: str) -> set[int]:
    """UDP ports on which engines listen at an address."""
    lines = router.run(["ss", "-Hlun"]).stdout.splitlines()
    sockets = [line.split()[3].rpartition(":") for line in lines]
    return {int(port) for own, _, port in sockets if own.partition("%")[0] == address and 9993 <= int(port) <= 9996}


def test_each_instance_is_on_its_uplink_alone(site: Site) -> None:
    first, second = site.addresses
    assert _ports(site.r1, first) == {9993, 9994} and _ports(site.r1, second) == {9995, 9996}


def test_the_second_uplink_has_its_own_way_out(site: Site) -> None:
    """The client of DHCP has left out its default route, because there is one already."""
    defaults = site.r1.json(["ip", "-j", "route", "show", "default"])
    assert [route["dev"] for route in defaults] == ["eth0"]
    way = ["ip", "-j", "route", "get", site.r2.underlay4, "from", site.addresses[1], "ipproto", "17", "sport"]
    assert [route["dev"] for route in site.r1.json([*way, "9995"])] == ["eth1"]
    # What is not an instance's goes where it always went.
    assert [route["dev"] for route in site.r1.json([*way, "5000"])] == ["eth0"]


def test_a_strict_filter_is_loose_meanwhile(site: Site) -> None:
    site.r1.run(["sysctl", "-qw", "net.ipv4.conf.eth1.rp_filter=1"])
    site.r1.run(["systemctl", "reload-or-restart", "zerotier-pathd"])
    site.r1.wait(lambda: site.r1.read("/proc/sys/net/ipv4/conf/eth1/rp_filter").strip() == "2", what="a loose filter")
    assert site.r1.read("/proc/sys/net/ipv4/conf/eth1/rp_filter").strip() == "2"


_WATCH = """
table inet watch {
    set seen { type inet_service . ifname; flags dynamic; size 4096; }
    chain forward { type filter hook forward priority 0; udp %s 7000 add @seen { udp %s . oifname }; }
}
"""


def _watch(router: Router, there: str, own: str) -> None:
    """Note the member devices over which flows are forwarded; what is asked of the kernel knows not the hash of a packet."""
    router.run(["nft", "-f", "-"], text_input=_WATCH % (there, own))


def _seen(router: Router) -> dict[int, set[str]]:
    """By port, the member devices over which a flow has gone."""
    found: dict[int, set[str]] = {}
    (entry,) = [e["set"] for e in router.json(["nft", "-j", "list", "set", "inet", "watch", "seen"])["nftables"] if "set" in e]
    for element in entry.get("elem", []):
        port, device = element["concat"]
        found.setdefault(port, set()).add(device)
    return found


def test_one_uplink_is_cut(site: Site) -> None:
    here, there = site.lans
    wait_paths([site.r1, site.r2], 4)  # the daemon has just been restarted
    _watch(site.r1, "dport", "sport")
    _watch(site.r2, "sport", "dport")
    flows = Flows(here, there)
    ports = range(20000, 20032)
    try:
        for router in (site.r1, site.r2):
            router.wait(lambda r=router: len(_seen(r)) == len(ports), what="every flow")
        ways = [_seen(site.r1)[port] | _seen(site.r2)[port] for port in ports]
        over = [bool(way & {"zt0p3", "zt0p4"}) for way in ways]
        assert 0 < sum(over) < len(over), "flows on both uplinks"
        site.wans[1].cut()
        for router in (site.r1, site.r2):
            router.wait(lambda r=router: paths_up(r) == 2, what="two paths left")
        seen = flows.end()
    finally:
        flows.kill()
        site.wans[1].repair()
    hit = [flow.gap for flow, gone in zip(seen, over, strict=True) if gone]
    others = [flow.lost for flow, gone in zip(seen, over, strict=True) if not gone]
    assert max(hit) < MOVED and sum(others) == 0, (max(hit), others)
    wait_paths([site.r1, site.r2], 4, timeout=40)


def test_an_uplink_that_comes_later(site: Site) -> None:
    done = site.r1.must_configure(f"{ZT} instance 4 source-interface eth2")
    assert done.output.count("eth2") == 1, done.output
    assert "instance 4 waits for eth2, which does not exist" in " ".join(done.output.split())
    site.r1.wait(lambda: status(site.r1)["bundles"]["zt0"]["paths"][3]["state"] == "down", what="a path without its uplink")
    assert not _ports(site.r1, site.addresses[1]) & {9996}
    address = site.wans[1].attach(site.r1, "eth2")
    wait_paths([site.r1, site.r2], 4, timeout=60)
    assert _ports(site.r1, address) == {9996}


def test_all_of_it_goes_with_the_configuration(site: Site) -> None:
    assert "proto 122" in site.r1.run(["ip", "rule"]).stdout
    site.r1.must_configure("".join(f"delete interfaces zerotier zt0 instance {k} source-interface\n" for k in DEVICES))
    assert "proto 122" not in site.r1.run(["ip", "rule"]).stdout
    assert [r for r in site.r1.json(["ip", "-j", "route", "show", "table", "all", "proto", "122"]) if r["dst"] == "default"] == []
    assert site.r1.read("/proc/sys/net/ipv4/conf/eth1/rp_filter").strip() == "1"
