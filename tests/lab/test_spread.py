"""Moving buckets in the kernel: what is forced is moved, and loses nothing."""

from __future__ import annotations

import json
import subprocess
import time

import pytest

from lab import Router
from lab.lan import Lan
from lab.scenario import member_bytes, shares
from zerotier_multi.pathd.balance.weights import LONGEST_FORCED
from zerotier_multi.pathd.kernel.desired import SETTLED_AFTER

OP_MODE = ["/usr/libexec/vyos/op_mode/zerotier.py"]
ZT = "set interfaces zerotier zt0"
# Everything but one bucket to the last path, by force; pathd puts the weights back as soon as it hears of it.
_FORCE = """
from dataclasses import replace
from zerotier_multi.netlink.rtnl import Rtnl
rtnl = Rtnl()
_, groups, _ = rtnl.nexthops()
(group,) = groups.values()
rtnl.set_group(replace(group, weights=(1,) * (len(group.members) - 1) + (group.buckets - len(group.members) + 1,), unbalanced=0.05))
"""


@pytest.fixture(scope="module")
def lans(pair: list[Router]) -> list[Lan]:
    """A LAN behind each router: what is forwarded chooses its path packet by packet, a socket of the router keeps it."""
    found = [Lan(router) for router in pair]
    for lan, other in (found, found[::-1]):
        lan.router.must_configure(f"{ZT} remote {other.router.name} prefix {other.prefix}")
    return found


# Four datagrams a second of each flow, from a port of its own, until the end of the standard input; prints how many were sent.
_SEND = """
import select, socket, sys, time
socks = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(400)]
for n, sock in enumerate(socks):
    sock.bind((sys.argv[1], 20000 + n))
sent, due = 0, time.monotonic()
while not select.select([sys.stdin], [], [], max(0.0, due - time.monotonic()))[0]:
    for sock in socks:
        sock.sendto(bytes(100), (sys.argv[2], 7000))
    sent, due = sent + len(socks), due + 0.25
print(sent)
"""
# Counts what comes, and prints that at each line of the standard input.
_COUNT = """
import selectors, socket, sys
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
sock.bind((sys.argv[1], 7000))
selector = selectors.DefaultSelector()
selector.register(sock, selectors.EVENT_READ)
selector.register(sys.stdin, selectors.EVENT_READ)
count = 0
print("ready", flush=True)
while True:
    for key, _ in selector.select():
        if key.fileobj is sock:
            sock.recv(200)
            count += 1
        elif sys.stdin.readline():
            print(count, flush=True)
        else:
            sys.exit()
"""


def test_a_path_that_returns_to_a_busy_router_gets_its_share(lans: list[Lan]) -> None:
    """No bucket is ever idle here, so for a minute nothing moves, and then without a loss."""
    here, there = lans
    r1 = here.router

    def program(lan: Lan, text: str, *arguments: str) -> subprocess.Popen[str]:
        command = lan.router.command(lan.command(["setpriv", "--pdeathsig", "KILL", "/usr/bin/python3", "-c", text, *arguments]))
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    counter = program(there, _COUNT, there.address)
    assert counter.stdout and counter.stdin and counter.stdout.readline() == "ready\n"
    sender = program(here, _SEND, here.address, there.address)

    def share(least: int = 1500) -> float:
        before = _packets(r1)
        after = r1.wait(lambda: (now := _packets(r1)) and sum(now.values()) > sum(before.values()) + least and now, what="traffic")
        return (after["zt0p1"] - before["zt0p1"]) / (sum(after.values()) - sum(before.values()))

    try:
        assert share() > 0.12
        r1.run([*OP_MODE, "restart_bundle", "--bundle=zt0", "--instance=1"])
        assert share() < 0.06, "flows in progress stay where they are"
        r1.wait(lambda: share() > 0.15, timeout=2 * SETTLED_AFTER, what="the share of the path that is back")
        sent = int(sender.communicate("\n", timeout=10)[0])

        def come() -> int:
            assert counter.stdin and counter.stdout
            counter.stdin.write("\n")
            counter.stdin.flush()
            return int(counter.stdout.readline())

        r1.wait(lambda: come() == sent, what=f"{sent} datagrams at the other end")
    finally:
        for process in (sender, counter):
            process.kill()
            process.wait()


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
