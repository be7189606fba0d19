"""Other shapes of the link: IPv6 alone, three routers, delay and loss on the underlay."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from lab import Lab
from lab.scenario import iperf, loopback, loopback6, paths_up, reach
from tests.lab.conftest import new_lab


@pytest.fixture
def fresh() -> Iterator[Lab]:
    with new_lab() as made:
        yield made


def test_ipv6_transit_over_an_ipv6_underlay(fresh: Lab, connected: Callable[..., None]) -> None:
    routers = fresh.add_routers(["R1", "R2"])
    for router in routers:
        router.run(["ip", "-4", "addr", "flush", "dev", "eth0"])
    connected(routers, 2, transit=("2001:db8:14::/124",), families=(6,))
    r1, r2 = routers
    report = iperf(r1, r2, flows=8, seconds=2, source=loopback6(r1), target=loopback6(r2))
    assert report["end"]["sum_received"]["bytes"] > 1_000_000
    nexthops = [n for n in r1.json(["ip", "-j", "nexthop"]) if n.get("protocol") == "122" and "gateway" in n]
    assert sorted(n["gateway"] for n in nexthops) == ["2001:db8:14::2", "2001:db8:14::6"]


def test_dual_stack_by_invites(fresh: Lab, connected: Callable[..., None]) -> None:
    routers = fresh.add_routers(["R1", "R2"])
    connected(routers, 2, transit=("10.14.0.0/29", "2001:db8:14::/124"), families=(4, 6), invites=True)
    (remote,) = routers[0].json(["/usr/libexec/vyos/op_mode/zerotier.py", "show_remotes", "--bundle", "zt0", "--raw"])["remotes"]
    assert remote["name"] == "R2" and {loopback(routers[1]) + "/32", loopback6(routers[1]) + "/128"} == set(remote["prefixes"])
    assert {entry["node"] for entry in remote["instances"]} and all(entry["endpoints"] for entry in remote["instances"])


def test_three_routers(fresh: Lab, connected: Callable[..., None]) -> None:
    routers = fresh.add_routers(["R1", "R2", "R3"])
    connected(routers, 2, transit=("10.14.0.0/28",), subnet_lengths=(29,))
    for a in routers:
        for b in routers:
            if a is not b:
                reach(a, loopback(a), loopback(b))
    assert [paths_up(r) for r in routers] == [4, 4, 4]


def test_delay_and_loss_on_the_underlay(fresh: Lab, connected: Callable[..., None]) -> None:
    routers = fresh.add_routers(["R1", "R2"])
    connected(routers, 4)
    r1, r2 = routers
    fresh.underlay.netem("R1", delay_ms=20, loss_pct=1)
    fresh.underlay.netem("R2", delay_ms=20)
    answer = r1.run(["ping", "-q", "-c", "20", "-i", "0.05", "-I", loopback(r1), loopback(r2)], check=False).stdout
    assert float(answer.rpartition("= ")[2].split("/")[0]) >= 40, answer
    report = iperf(r1, r2, flows=8, seconds=3, source=loopback(r1), target=loopback(r2))
    assert report["end"]["sum_received"]["bytes"] > 100_000
    fresh.underlay.clear("R1")
    fresh.underlay.clear("R2")


def test_what_arrives_is_what_was_sent(fresh: Lab, connected: Callable[..., None]) -> None:
    routers = fresh.add_routers(["R1", "R2"])
    connected(routers, 2)
    r1, r2 = routers
    program = (
        "import hashlib,os,random,socket,sys,threading\n"
        "role, own, peer, size = sys.argv[1], sys.argv[2], sys.argv[3], 200_000_000\n"
        "def sender(s):\n"
        "    left, h, r, block = size, hashlib.sha256(), random.Random(1), os.urandom(1 << 20)\n"
        "    while left:\n"
        "        n = min(left, r.choice([1, 100, 1400, 9000, 65536, 300000])); at = r.randrange(len(block) - n)\n"
        "        piece = block[at:at + n]; h.update(piece); s.sendall(piece); left -= n\n"
        "    print('sent', h.hexdigest(), flush=True)\n"
        "def receiver(s):\n"
        "    left, h = size, hashlib.sha256()\n"
        "    while left:\n"
        "        d = s.recv(min(left, 1 << 18)); assert d; h.update(d); left -= len(d)\n"
        "    print('got', h.hexdigest(), flush=True)\n"
        "if role == 'server':\n"
        "    l = socket.create_server((own, 7000)); print('ready', flush=True); s, _ = l.accept()\n"
        "else:\n"
        "    s = socket.create_connection((peer, 7000), source_address=(own, 0))\n"
        "t = threading.Thread(target=sender, args=(s,)); t.start(); receiver(s); t.join()\n"
    )
    for router in routers:
        router.write("/tmp/exchange.py", program)
    server = r2.popen(["/usr/bin/python3", "/tmp/exchange.py", "server", loopback(r2), loopback(r1)])
    assert server.stdout and server.stdout.readline() == "ready\n"
    client = r1.run(["/usr/bin/python3", "/tmp/exchange.py", "client", loopback(r1), loopback(r2)], timeout=120).stdout
    there = dict(line.split() for line in server.communicate(timeout=60)[0].splitlines())
    here = dict(line.split() for line in client.splitlines())
    assert here["sent"] == there["got"] and there["sent"] == here["got"]
    for router in routers:
        errors = router.read("/proc/net/snmp")
        header, values = (line.split() for line in errors.splitlines() if line.startswith("Tcp:"))
        assert dict(zip(header, values, strict=True))["InCsumErrors"] == "0"
