"""Moving buckets in the kernel: what is forced is moved and loses nothing, and floods that share a path are parted."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from lab import Router
from lab.lan import Lan
from lab.scenario import status

ZT = "set interfaces zerotier zt0"
PORTS = (5201, 5202)
PACKETS = 2000  # packets by which a device that carries a flood is told from one that does not
# Everything but one bucket to the last path, by force; pathd puts the weights back as soon as it hears of it.
_FORCE = """
from dataclasses import replace
from zerotier_multi.rtnl import Rtnl
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


@pytest.fixture
def measured(pair: list[Router]) -> Iterator[None]:
    for router in pair:
        router.must_configure(f"{ZT} balance weights auto\n{ZT} balance resilient idle-timer 2")
    yield
    for router in pair:
        router.must_configure("delete interfaces zerotier zt0 balance")


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
        r1.wait(lambda: _buckets(r1).get("zt0p4") == 125, what="the buckets on the last path")
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


def _buckets(router: Router) -> dict[str, int]:
    """How many buckets are on each member device."""
    devices = {n["id"]: n["dev"] for n in router.json(["ip", "-j", "nexthop"]) if "dev" in n}
    found: dict[str, int] = {}
    for entry in router.json(["ip", "-j", "nexthop", "bucket"]):
        device = devices[entry["bucket"]["nhid"]]
        found[device] = found.get(device, 0) + 1
    return found


class Flood:
    """Small packets from one LAN to the other, as many as there can be: more than an instance takes."""

    def __init__(self, here: Lan, there: Lan, port: int) -> None:
        self.server = there.popen(["iperf3", "-s", "-p", str(port)])
        there.listens(port)
        self.client = here.popen(["iperf3", "-c", there.address, "-p", str(port), "-u", "-b", "0", "-l", "64", "-t", "120"])

    def end(self) -> None:
        for process in (self.client, self.server):
            process.kill()
            process.wait()


def carrying(router: Router) -> set[str]:
    """Member devices that carry a flood, of those that carry anything now."""
    found = router.wait(lambda: (new := _new(router)) and sum(new.values()) > 20 * PACKETS and new, what="a flood")
    return {device for device, count in found.items() if count > PACKETS}


def _new(router: Router) -> dict[str, int]:
    """Packets that went to each member device in half a second."""
    before = _packets(router)
    time.sleep(0.5)  # a rate needs a time
    return {device: count - before[device] for device, count in _packets(router).items()}


def _changes(router: Router) -> list[int]:
    """Changes of the state of each path."""
    return [path["changes"] for path in status(router)["bundles"]["zt0"]["paths"]]


def _packets(router: Router) -> dict[str, int]:
    links = router.json(["ip", "-s", "-j", "link", "show"])
    return {x["ifname"]: x["stats64"]["tx"]["packets"] + x["stats64"]["tx"]["dropped"] for x in links if x["ifname"].startswith("zt0p")}


def colliding(here: Lan, there: Lan) -> list[Flood]:
    """Two floods on one path; which path one takes is its sender's chance."""
    first = Flood(here, there, PORTS[0])
    device = carrying(here.router)
    for _ in range(40):
        second = Flood(here, there, PORTS[1])
        if carrying(here.router) == device and second.client.poll() is None:
            return [first, second]
        second.end()
    first.end()
    raise AssertionError("no two floods have met on one path")


def test_floods_that_share_a_path_are_parted(lans: list[Lan], measured: None) -> None:
    r1 = lans[0].router
    before = [_changes(lan.router) for lan in lans]
    floods = colliding(*lans)
    try:
        r1.wait(lambda: len(carrying(r1)) == 2, timeout=90, what="a path for each of the floods")
        told = status(r1)["bundles"]["zt0"]
        assert max(i["load"] or 0 for i in told["instances"]) > 0.5
        assert len({p["weight"] for p in told["paths"]}) > 1
        assert "a busy bucket is moved" in r1.journal("zerotier-pathd")
        text = r1.run(["/usr/libexec/vyos/op_mode/zerotier.py", "show_balance", "--bundle", "zt0"]).stdout
        assert "Load is how much" in text
        assert [_changes(lan.router) for lan in lans] == before, "a path that is full is not dead"
    finally:
        for flood in floods:
            flood.end()
