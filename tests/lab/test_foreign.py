"""Somebody works with ``ip`` on what is ours: traffic is back in a moment, or the state says what is in the way.

Never is a bundle said to be up whose packets go nowhere.
"""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from zerotier_multi import names

from lab import Lab, Router
from lab.scenario import connect, loopback, loopback6, status
from tests.lab.conftest import ENGINE

BACK = 5.0  # seconds that traffic may be away; about 0.2 is usual
HONEST = 3.0  # seconds that the state may be behind


class Site:
    """R1 with a bundle to R2 over both families, and somebody who has its root password."""

    def __init__(self, router: Router, other: Router, family: int) -> None:
        self.router, self.family = router, family
        self.own, self.target = (f(r) for f in [loopback if family == 4 else loopback6] for r in (router, other))
        self.host = f"{self.target}/{32 if family == 4 else 128}"
        self.route = f"ip -{family} route"
        # The metric of our routes: 0 for IPv4.
        self.place = f"{self.host} metric {names.route_metric(self.host)}"
        self.group = names.nexthop_id("zt0", family, other.number, 0)
        self.first, self.second = self.group + 1, self.group + 2

    def sh(self, *commands: str) -> None:
        """What is typed; all in one shell, so that the daemon finds the last state."""
        self.router.run(["sh", "-ec", "\n".join(commands)])

    def take(self, number: int, what: str, first: str = "true") -> None:
        """Put something in the place of a next hop; the daemon may be faster between two commands, so it is tried again.

        :param first: a command that runs before each try
        """
        once = f"{first} || true; ip nexthop del id {number} || true; ip nexthop add id {number} {what} && exit 0"
        self.sh(f"for try in $(seq 50); do {once}; done 2>/dev/null; exit 1")

    def reached(self) -> bool:
        return self.router.run(["ping", "-c1", "-W1", "-I", self.own, self.target], check=False).returncode == 0

    def bundle(self) -> dict[str, Any]:
        return dict(status(self.router)["bundles"]["zt0"])

    def words(self) -> set[str]:
        """States of the paths of this family."""
        return {path["state"] for path in self.bundle()["paths"] if path["family"] == self.family}

    def causes(self) -> str:
        return "; ".join(sorted({path["cause"] or "" for path in self.bundle()["paths"] if path["family"] == self.family}))

    def lies(self) -> bool:
        """Whether all is said to be up while nothing passes, and that not just for the moment that a look takes."""
        return not self.reached() and self.bundle()["state"] == "up" and not self.reached() and self.bundle()["state"] == "up"

    def wait_back(self, timeout: float = BACK) -> None:
        """Traffic passes, and the state says so."""
        self.router.wait(
            lambda: self.reached() and self.bundle()["state"] == "up", timeout=timeout, what=f"traffic (IPv{self.family})"
        )
        assert not self.lies()

    def wait_honest(self, cause: str) -> None:
        """Nothing passes, and the state says so, with the cause."""
        self.router.wait(lambda: self.words() == {"no route"}, timeout=HONEST, what=f"no route (IPv{self.family})")
        assert not self.reached() and self.bundle()["state"] != "up" and cause in self.causes()

    def told(self, event: str) -> str:
        """Messages of that kind of event."""
        return self.router.run(["journalctl", "-o", "cat", "-t", "zerotier-pathd", f"ZEROTIER_EVENT={event}"]).stdout

    def fresh(self) -> None:
        """A daemon that remembers no repairs, with all in its place."""
        self.router.run(["systemctl", "restart", "zerotier-pathd"])
        self.wait_back(20)


@pytest.fixture(scope="module")
def pair(lab: Lab) -> list[Router]:
    routers = lab.add_routers(["R1", "R2"])
    connect(routers, 3, engine=ENGINE.rpartition("/")[2], transit=("10.14.0.0/28", "2001:db8:14::/124"), families=(4, 6))
    return routers


@pytest.fixture(scope="module", params=[4, 6], ids=["ipv4", "ipv6"])
def family(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def site(pair: list[Router], family: int) -> Site:
    """Nobody has changed anything yet: what the tests do one after another would be a fight, which is bounded."""
    made = Site(*pair, family)
    made.fresh()
    return made


def nexthop(site: Site, number: int) -> str:
    return site.router.run(["ip", "nexthop", "show", "id", str(number)], check=False).stdout


def test_a_blackhole_on_the_group_s_id(site: Site) -> None:
    g, spare = site.group, site.group + names.GROUP_ALTERNATE
    site.take(g, "blackhole")
    site.wait_back()
    assert "blackhole" in nexthop(site, g) and "group" in nexthop(site, spare)
    assert f"next hop {g} is a blackhole of another program" in str(status(site.router)["problems"])
    assert re.search(f"next-hop group {g} was (replaced by a blackhole|deleted)", site.told("repaired")), (
        "by the moment of the look"
    )
    # A commit passes all the same.
    site.router.must_configure(
        "set interfaces zerotier zt0 description foreign\ncommit\ndelete interfaces zerotier zt0 description"
    )
    site.take(spare, f"group {site.first}")
    site.wait_back()
    site.sh(f"ip nexthop del id {g}; ip nexthop del id {spare}")
    site.wait_back()
    assert status(site.router)["problems"] == []


def test_groups_that_are_not_as_ours(site: Site) -> None:
    for number in (site.group, site.group + names.GROUP_ALTERNATE + 1):  # wherever it is now
        if "group" not in nexthop(site, number):
            continue
        resilient, other = "type resilient buckets 128 idle_timer 10", f"group {site.first}"
        for text in (f"replace id {number} {other} {resilient} proto 122", f"replace id {number} {other} {resilient}"):
            site.sh(f"ip nexthop {text}")
            site.wait_back()
    site.take(site.group, "via 192.0.2.1 fdb", first="ip nexthop flush proto 122")
    site.wait_back()
    site.sh(f"ip nexthop del id {site.group} || true; ip nexthop flush proto 122")
    site.wait_back()
    for word in ("group", "blackhole"):
        numbers = [
            line.split()[1]
            for line in site.router.run(["ip", "nexthop"]).stdout.splitlines()
            if word in line and "proto" not in line
        ]
        site.sh(*[f"ip nexthop del id {number}" for number in numbers])
    # One that is not resilient, made in the moment in which there is none.
    site.sh(f"ip nexthop flush proto 122; ip nexthop add id {site.group} blackhole proto 122 || true")
    site.wait_back()
    groups = [line for line in site.router.run(["ip", "nexthop"]).stdout.splitlines() if " group " in line and "proto 122" in line]
    assert len(groups) == 2 and all("resilient buckets 128" in line for line in groups)


@pytest.mark.parametrize("instead", ["blackhole", "group {second}", "via 192.0.2.1 fdb"], ids=["blackhole", "group", "fdb"])
def test_something_else_on_the_id_of_a_next_hop(site: Site, instead: str) -> None:
    site.take(site.first, instead.format(second=site.second))
    site.wait_back()
    assert "proto 122" in nexthop(site, site.first) and "dev zt0p1" in nexthop(site, site.first)


def test_all_of_it_flushed(site: Site) -> None:
    # ip fails when the daemon puts back what it is about to delete.
    site.sh("ip nexthop flush || true", *(f"ip -{family} route flush proto 122 || true" for family in (4, 6)))
    site.wait_back()


def test_routes_of_others_in_the_place_of_ours_and_in_front(site: Site) -> None:
    in_the_way = [("replace", "del")] + [("prepend", "del")] * (site.family == 4)
    for put, take in in_the_way:
        site.sh(f"{site.route} {put} blackhole {site.place}")
        site.wait_honest(f"{site.host} does not go over it: a blackhole route drops it")
        assert f"{site.host} does not go over it" in site.told("bundle-degraded") + site.told("bundle-down")
        if put == "replace":
            assert "dev zt0 " not in site.router.run(["sh", "-c", f"{site.route} show {site.host}"]).stdout, "no twin for FRR alone"
            assert "another program has one in its place" in str(status(site.router)["problems"])
        site.sh(f"{site.route} {take} blackhole {site.place}")
        site.wait_back()
    site.sh(f"{site.route} replace blackhole {site.place} proto 122")
    site.wait_back()
    site.sh(f"{site.route} del {site.place}")
    site.wait_back()


def test_a_rule_in_front(site: Site) -> None:
    site.sh(f"ip -{site.family} rule add to {site.host} pref 10 blackhole")
    site.wait_honest(f"{site.host} does not go over it: a blackhole route drops it")
    summary = site.router.json(["/usr/libexec/vyos/op_mode/zerotier.py", "show_bundle", "--bundle", "zt0", "--raw"])
    assert summary["state"] == "degraded" and summary["paths_up"] == 3
    assert f"packets for {site.host} do not go over zt0: a blackhole route drops it" in summary["warnings"]
    site.sh(f"ip -{site.family} rule del to {site.host} pref 10 blackhole")
    site.wait_back()


def test_devices_and_addresses(site: Site) -> None:
    site.fresh()
    for command in ("ip link set zt0p1 down", "ip link set zt0 down", "ip link set zt0p2 mtu 600", "ip addr flush dev zt0p1; ip addr flush dev zt0",
                    "ip link del zt0"):  # fmt: skip
        site.sh(command)
        site.wait_back()
    assert "device zt0p1 was set otherwise" in site.told("repaired")


def test_a_device_of_another_program_by_the_name_of_the_bundle(site: Site) -> None:
    """It lacks our mark; so it is left as it is, and the paths carry on."""
    look = ["sh", "-c", "ip -o link show zt0 | cut -d' ' -f2-; ip -o address show zt0"]
    before = site.router.run(look).stdout
    site.sh("ip link set zt0 group default; ip link set zt0 mtu 1400; ip address add 198.51.100.9/32 dev zt0")
    site.router.wait(lambda: "of another program, which is left as it is" in str(status(site.router)["problems"]), what="the note")
    site.wait_back()
    found = site.router.run(look).stdout
    assert "mtu 1400" in found and "198.51.100.9" in found
    site.sh(f"ip link set zt0 group {names.DEVICE_GROUP}")
    site.router.wait(lambda: status(site.router)["problems"] == [], what="no note")
    site.wait_back()
    assert site.router.run(look).stdout == before


def test_packets_that_a_policy_route_marks_are_told_of(site: Site) -> None:
    """As VyOS does it for ``policy route`` and ``load-balancing wan``: the paths are up, and some hosts do not reach the remote."""
    ip = f"ip -{site.family}"

    def shown() -> str:
        return " ".join(site.router.run(["ztsh", "show", "zerotier", "zt0", "routes"]).stdout.split())

    def noted(mark: str, where: str) -> bool:
        return (
            f"Note: packets with firewall mark {mark}," in shown() and f"not go over zt0 to {site.host}, but by {where};" in shown()
        )

    marked = ["ping", "-m", "100", "-c1", "-W1", "-I", site.own, site.target]
    assert "Note:" not in shown()
    try:
        site.sh(f"{ip} rule add pref 100 fwmark 100 table 100", f"{ip} route add {site.host} dev lo table 100")
        assert noted("0x64", "table 100") and site.router.run(marked, check=False).returncode != 0
        assert site.reached() and site.bundle()["state"] == "up"
        site.sh(f"{ip} route flush table 100", f"{ip} route add unreachable {site.host} table 100")
        assert noted("0x64", "another table")
        site.sh(f"{ip} rule add pref 99 fwmark 100 to {site.host} lookup main")
        assert "Note:" not in shown() and site.router.run(marked, check=False).returncode == 0
        site.sh(f"{ip} rule add pref 98 fwmark 0x200/0xf00 prohibit")
        assert noted("0x200/0xf00", "another table")
    finally:
        site.sh(*[f"{ip} rule del pref {n} || true" for n in (98, 99, 100)], f"{ip} route flush table 100")
    site.wait_back()


def test_a_member_device_by_another_name(site: Site) -> None:
    site.sh("ip link set zt0p3 down; ip link set zt0p3 name other")
    site.router.wait(site.reached, timeout=BACK, what="traffic over the others")
    site.wait_back(20)


def test_a_fight_is_bounded_and_told(site: Site) -> None:
    """A program that takes a next hop again and again gets it, and the other paths carry."""
    site.fresh()
    seconds = cpu(site)
    loop = f"while sleep 0.02; do ip nexthop replace id {site.first} blackhole || {{ ip nexthop del id {site.first}; ip nexthop add id {site.first} blackhole; }}; done"
    other = site.router.popen(["sh", "-c", f"{loop} 2>/dev/null"])
    try:
        began = time.monotonic()
        path = lambda: next(p for p in site.bundle()["paths"] if (p["family"], p["instance"]) == (site.family, 1))  # noqa: E731
        site.router.wait(lambda: path()["state"] == "no route", timeout=10, what="the path given up")
        assert path()["cause"] == "another program keeps changing its next hop"
        site.router.wait(lambda: site.reached(), timeout=BACK, what="traffic over the others")
        assert site.bundle()["state"] == "degraded"
        settled, at = cpu(site), time.monotonic()
        site.router.run(["ping", "-q", "-c", "30", "-i", "0.1", "-I", site.own, site.target])
        share = (cpu(site) - settled) / (time.monotonic() - at)
        assert share < 0.25, (
            f"zerotier-pathd takes {share:.0%} of a CPU, {cpu(site) - seconds:.1f} s in {time.monotonic() - began:.0f} s"
        )
        assert re.search(f"next hop {site.first} was .* more than 10 times in 60 s", site.told("contested"))
    finally:
        other.kill()
        other.wait()
    if site.family == 4:
        site.wait_back(15)
    else:
        site.fresh()


def cpu(site: Site) -> float:
    """Seconds of CPU time that zerotier-pathd has had."""
    pid = site.router.run(["systemctl", "show", "-P", "MainPID", "zerotier-pathd"]).stdout.strip()
    fields = site.router.read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100
