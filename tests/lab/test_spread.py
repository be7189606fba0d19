"""Moving buckets in the kernel: what is forced is moved, and loses nothing."""

from __future__ import annotations

import json
import time

import pytest

from lab import Router
from lab.lan import Lan
from lab.scenario import member_bytes, shares
from zerotier_multi.pathd.balance.weights import LONGEST_FORCED

ZT = "set interfaces zerotier zt0"
# Everything but one bucket to the last path, by force; pathd puts the weights back as soon as it hears of it.
_FORCE = """
from dataclasses import replace
from zerotier_multi.netlink.rtnl import Rtnl
rtnl = Rtnl()
_, groups, _ = rtnl.nexthops()
(group,) = groups.values()
rtnl.set_group(replace(group, weights=(1,) * (len(group.members) - 1) + (group.buckets - len(group.members) + 1,), forced=True))
"""


@pytest.fixture(scope="module")
def lans(pair: list[Router]) -> list[Lan]:
    """A LAN behind each router: what is forwarded chooses its path packet by packet, a socket of the router keeps it."""
    found = [Lan(router) for router in pair]
    for lan, other in (found, found[::-1]):
        lan.router.must_configure(f"{ZT} remote {other.router.name} prefix {other.prefix}")
    return found


def test_a_forced_move_loses_nothing(lans: list[Lan]) -> None:
    here, there = lans
    r1 = here.router
    pathd = r1.run(["systemctl", "show", "--property=MainPID", "--value", "zerotier-pathd"]).stdout.strip()
    server = there.popen(["iperf3", "-s", "-1"])
    there.listens(5201)
    client = here.popen(["iperf3", "-J", "-u", "-b", "1M", "-l", "500", "-P", "16", "-t", "8", "-c", there.address])
    try:
        r1.wait(lambda: sum(_new(r1).values()) > 1000, what="traffic")
        r1.run(["kill", "-STOP", pathd])
        r1.run(["/usr/bin/python3", "-c", _FORCE])
        r1.wait(lambda: _buckets(r1).get("zt0p4") == 125, timeout=LONGEST_FORCED, what="the buckets on the last path")
        new = r1.wait(lambda: (new := _new(r1)) and sum(new.values()) > 1000 and new, what="traffic after it")
        assert new["zt0p4"] > 0.7 * sum(new.values()), "a flow may be on one of the buckets that stay"
        r1.run(["kill", "-CONT", pathd])
        r1.wait(lambda: ",125" not in r1.run(["ip", "nexthop"]).stdout, what="the weights of the plan")
        text, _ = client.communicate(timeout=60)
        summary = json.loads(text)["end"]["sum"]
        assert summary["packets"] > 10_000 and summary["lost_packets"] == 0
    finally:
        r1.run(["kill", "-CONT", pathd])
        for process in (client, server):
            process.kill()
            process.wait()


def test_many_flows_come_to_lie_evenly(lans: list[Lan]) -> None:
    """Twelve equal flows, which the hash lays evenly once in fifty times, fill no path."""
    here, there = lans
    r1 = here.router
    r1.must_configure(f"{ZT} balance weights auto")
    server = there.popen(["iperf3", "-s", "-1"])
    there.listens(5201)
    client = here.popen(["iperf3", "-b", "150M", "-P", "12", "-t", "100", "-c", there.address])
    try:
        r1.wait(lambda: sum(_new(r1).values()) > 1000, what="traffic")
        r1.wait(lambda: max(_shares(r1)) < 1.15 / 4, timeout=90, what="three flows on each path")
    finally:
        for process in (client, server):
            process.kill()
            process.wait()
        r1.must_configure("delete interfaces zerotier zt0 balance weights")


def _shares(router: Router) -> list[float]:
    """Of each member device, of the bytes of two seconds."""
    before = member_bytes(router)
    time.sleep(2.0)  # a rate needs a time
    return list(shares(before, member_bytes(router)).values())


def _buckets(router: Router) -> dict[str, int]:
    """How many buckets are on each member device."""
    devices = {n["id"]: n["dev"] for n in router.json(["ip", "-j", "nexthop"]) if "dev" in n}
    found: dict[str, int] = {}
    for entry in router.json(["ip", "-j", "nexthop", "bucket"]):
        device = devices[entry["bucket"]["nhid"]]
        found[device] = found.get(device, 0) + 1
    return found


def _new(router: Router) -> dict[str, int]:
    """Packets that went to each member device in half a second."""
    before = _packets(router)
    time.sleep(0.5)  # a rate needs a time
    return {device: count - before[device] for device, count in _packets(router).items()}


def _packets(router: Router) -> dict[str, int]:
    links = router.json(["ip", "-s", "-j", "link", "show"])
    return {
        x["ifname"]: x["stats64"]["tx"]["packets"] + x["stats64"]["tx"]["dropped"] for x in links if x["ifname"].startswith("zt0p")
    }
