"""A router whose kernel ignores echo requests: its paths come up, stay up and come up again, and it says what that means."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import Lab, Router
from lab.scenario import IDENTITY, example, introduce, loopback, loopback6, reach, status, wait_paths
from tests.lab.conftest import ENGINE
from zerotier_multi.pathd.kernel.sysctls import MUTE

INSTANCES, FAMILIES = 2, 2
PATHS = INSTANCES * FAMILIES
SAID = "is 1: other routers see their paths to this one only while zerotier-pathd runs"
_NFT = "table inet deaf { chain input { type filter hook input priority 0; iifname \"zt*\" icmp type echo-request drop; }\n}\n"
_ONE_WAY = "table inet deaf { chain input { type filter hook input priority 0; udp dport 9994 drop; }\n}\n"


def ignore(router: Router, yes: bool) -> None:
    router.run(["sysctl", "-qw", *(f"{name.replace('/', '.')}={int(yes)}" for name in MUTE.values())])


def said(router: Router) -> list[str]:
    return [w for w in router.json([IDENTITY, "show_summary", "--raw"])["warnings"] if SAID in w]


@pytest.fixture(scope="module")
def pair(lab: Lab) -> Iterator[list[Router]]:
    """R2 is told to ignore them before it has any bundle."""
    routers = lab.add_routers(["R1", "R2"])
    ignore(routers[1], True)
    for router, other in (routers, routers[::-1]):
        transit, engine = ("10.14.0.0/28", "2001:db8:14::/124"), Path(ENGINE).name
        router.must_configure(example(router, [other], INSTANCES, engine=engine, transit=transit, families=(4, 6)))
    introduce(routers, INSTANCES)
    wait_paths(routers, PATHS)
    yield routers
    for router in routers:
        ignore(router, False)


def test_its_paths_come_up_and_cost_no_copies(pair: list[Router]) -> None:
    r1, r2 = pair
    reach(r2, loopback(r2), loopback(r1))
    reach(r2, loopback6(r2), loopback6(r1))
    assert len(said(r2)) == FAMILIES and not said(r1)
    assert (
        len([line for line in r2.run(["journalctl", "-o", "cat", "-u", "zerotier-pathd"]).stdout.splitlines() if SAID in line])
        == FAMILIES
    )
    before = sent(r1)
    time.sleep(2.0)  # a rate needs a time
    assert (sent(r1) - before) / 2.0 <= 3 * 5 * PATHS, "a probe and an answer of each path, and something for the neighbours"
    assert all(path["loss"] in (None, 0.0) and path["rtt_ms"] < 50 for path in status(r1)["bundles"]["zt0"]["paths"])


def test_they_come_up_again_when_an_instance_is_restarted(pair: list[Router]) -> None:
    """At either end; and where both are told so while the paths are up."""
    for router, instance in zip(pair, (1, 2), strict=True):
        ignore(router, True)
        restart(pair, router, instance)
        assert len(said(router)) == FAMILIES
    for router in pair:
        ignore(router, False)
        router.wait(lambda r=router: not said(r), what="the end of the warning")
    restart(pair, pair[0], 1)
    reach(pair[0], loopback(pair[0]), loopback(pair[1]))


def test_where_a_firewall_drops_them_the_cause_says_so(pair: list[Router]) -> None:
    """The daemon sees as little of them as the kernel; or the underlay of an instance is cut in one direction."""
    r1, r2 = pair

    def causes() -> list[str]:
        return [p["cause"] or "" for p in status(r1)["bundles"]["zt0"]["paths"] if p["family"] == 4 and p["state"] == "down"]

    for drops, cause in (
        (_NFT, "a firewall may drop echo requests"),
        (_ONE_WAY, "hears nothing from here, so UDP to its port may be blocked"),
    ):
        r2.run(["nft", "-f", "-"], text_input=drops)
        try:
            r1.wait(lambda c=cause: [text for text in causes() if c in text], what="the cause")
        finally:
            r2.run(["nft", "delete", "table", "inet", "deaf"])
        wait_paths(pair, PATHS)


def restart(routers: list[Router], router: Router, instance: int) -> None:
    def changes() -> int:
        return sum(p["changes"] for p in status(router)["bundles"]["zt0"]["paths"] if p["instance"] == instance)

    before = changes()
    router.run(["systemctl", "restart", f"zerotier-multi@zt0-{instance}.service"])
    router.wait(lambda: changes() > before, what="the end of its paths")
    wait_paths(routers, PATHS)


def sent(router: Router) -> int:
    """Packets over all member devices."""
    links = router.json(["ip", "-s", "-j", "link", "show"])
    return sum(x["stats64"]["tx"]["packets"] for x in links if x["ifname"].startswith("zt0p"))
