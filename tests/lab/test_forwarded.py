"""What hosts behind the routers see: whole streams, the size of a path, and connections that no firewall can stall.

R1 is behind a NAT router that gives it its address; both have a LAN with a host, in both families.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.lab.conftest import ENGINE

from lab import Lab, Router
from lab.link import TRANSIT4, TRANSIT6
from lab.lan import Lan
from lab.nat import Nat
from lab.scenario import example, identity_lines, loopback6, wait_paths

ZT = "set interfaces zerotier zt0"
INSTANCES, MTU, PORT = 2, 1394, 5000
LEAVE = "\n".join(f"{ZT} {family} adjust-mss disable" for family in ("ip", "ipv6"))
CLAMP = "delete interfaces zerotier zt0 ip\ndelete interfaces zerotier zt0 ipv6"

# The client sends bytes of its own for every stream; the server answers how many came and what SHA-256 they have.
_SERVER = """
import hashlib, json, socket, sys
server = socket.create_server(("::", int(sys.argv[1])), family=socket.AF_INET6, dualstack_ipv6=True)
print("ready", flush=True)
while True:
    stream, _ = server.accept()
    stream.settimeout(60)
    seen, size = hashlib.sha256(), 0
    try:
        while data := stream.recv(1 << 18):
            seen.update(data); size += len(data)
        stream.sendall(json.dumps([size, seen.hexdigest()]).encode())
    except OSError:
        pass
    stream.close()
"""
_CLIENT = """
import hashlib, json, random, socket, sys, threading
address, port, size, streams, timeout = sys.argv[1], *map(int, sys.argv[2:6])
def work(seed):
    data = random.Random(seed).randbytes(size)
    stream = socket.create_connection((address, port), timeout=timeout)
    stream.settimeout(timeout)
    try:
        stream.sendall(data)
        stream.shutdown(socket.SHUT_WR)
        answer = json.loads(stream.makefile().read() or "null")
    except OSError:
        answer = None
    found[seed] = "same" if answer == [size, hashlib.sha256(data).hexdigest()] else answer
found = {}
threads = [threading.Thread(target=work, args=(seed,)) for seed in range(streams)]
[t.start() for t in threads]
[t.join() for t in threads]
print(json.dumps([found[seed] for seed in range(streams)]))
"""


@pytest.fixture(scope="module")
def lans(lab: Lab) -> Iterator[tuple[Lan, Lan]]:
    r1, r2 = lab.add_routers(["R1", "R2"])
    nat = Nat(lab.underlay, 61)
    nat.attach(r1)
    here, there = Lan(r1), Lan(r2)
    for near, far in ((here, there), (there, here)):
        near.router.must_configure(
            example(near.router, [far.router], INSTANCES, transit=(TRANSIT4, TRANSIT6), families=(4, 6), engine=Path(ENGINE).name)
            + "".join(f"{ZT} remote {far.router.name} prefix {prefix}\n" for prefix in (far.prefix, far.prefix6))
        )
    # What is behind a NAT is nowhere to be found; it calls.
    lines = identity_lines(r1, INSTANCES, endpoints=""), identity_lines(r2, INSTANCES, endpoints="4")
    r2.must_configure(lines[0])
    r1.must_configure(lines[1])
    wait_paths([r1, r2], INSTANCES * 2)
    for target in (there.address, there.address6):
        here.reach(target)
    server = there.popen(["/usr/bin/python3", "-c", _SERVER, str(PORT)])
    assert server.stdout and server.stdout.readline() == "ready\n"
    yield here, there
    server.kill()
    server.wait()
    nat.close()


def target(lan: Lan, family: int) -> str:
    return lan.address if family == 4 else lan.address6


def send(lans: tuple[Lan, Lan], family: int, size: int, streams: int = 1, timeout: int = 60) -> list[object]:
    """What became of streams from one host to the other: ``same``, or what the far end has seen instead."""
    here, there = lans
    command = ["/usr/bin/python3", "-c", _CLIENT, target(there, family), *map(str, (PORT, size, streams, timeout))]
    return list(here.json(command, timeout=timeout + 30))


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("gro", [True, False])
def test_streams_arrive_whole(lans: tuple[Lan, Lan], family: int, gro: bool) -> None:
    for lan in lans:
        lan.set_gro(gro)
    assert send(lans, family, 8 << 20, streams=4) == ["same"] * 4


def ping(lan: Lan, family: int, address: str, packet: int) -> str:
    """What ping says of one packet of so many bytes that nobody may cut up."""
    payload = packet - (28 if family == 4 else 48)
    return lan.run(["ping", f"-{family}", "-M", "do", "-c", "1", "-W", "5", "-s", str(payload), address], check=False).stdout


def forget(lans: tuple[Lan, Lan]) -> None:
    """Let the hosts forget the path MTUs that they have learned."""
    for lan in lans:
        lan.run(["ip", "route", "flush", "cache"])
        lan.run(["ip", "-6", "route", "flush", "cache"])


@pytest.mark.parametrize("family", [4, 6])
def test_a_host_hears_of_the_size_of_the_path(lans: tuple[Lan, Lan], family: int) -> None:
    here, there = lans
    forget(lans)
    text = ping(here, family, target(there, family), 1500)
    gateway = here.gateway if family == 4 else here.gateway6
    assert f"From {gateway} " in text and f"mtu={MTU}" in text.replace("mtu = ", "mtu=")
    assert f"mtu {MTU} " in here.run(["ip", "route", "get", target(there, family)]).stdout, "the host believes it"
    assert " 0% packet loss" in ping(here, family, target(there, family), MTU)


def syn(lans: tuple[Lan, Lan], family: int, which: str) -> int:
    """The MSS in the SYN packet (``syn``) as the far host sees it, or in its answer (``syn-ack``) as the near one does."""
    here, there = lans
    forget(lans)
    flags = {"syn": 0x02, "syn-ack": 0x12}[which]
    expression = f"(ip and tcp and tcp[13] = {flags}) or (ip6 and ip6[6] = 6 and ip6[53] = {flags})"
    command = ["tcpdump", "-l", "-n", "-i", "eth0", "-c", "1", expression]
    watch = (there if which == "syn" else here).popen(command)
    try:
        assert watch.stdout
        next(line for line in watch.stdout if "listening on" in line)
        assert send(lans, family, 1) == ["same"]
        text, _ = watch.communicate(timeout=10)
    finally:
        watch.kill()
        watch.wait()
    found = re.search(r"mss (\d+)", text)
    assert found, text
    return int(found[1])


@pytest.fixture
def configured(lans: tuple[Lan, Lan]) -> Iterator[Callable[[str, str], None]]:
    """Configure both routers, and give back what was."""

    def configure(near: str, far: str) -> None:
        for lan, lines in zip(lans, (near, far), strict=True):
            lan.router.configure(f"{CLAMP}\ncommit\n")  # fails where there is nothing to delete
            if lines:
                lan.router.must_configure(lines)

    yield configure
    configure("", "")


def test_what_a_firewall_eats_stalls_no_connection(lans: tuple[Lan, Lan], configured: Callable[[str, str], None]) -> None:
    rules = "icmp type destination-unreachable drop; icmpv6 type packet-too-big drop"
    for lan in lans:
        lan.run(["nft", f"table inet eats {{ chain input {{ type filter hook input priority 0; {rules}; }}; }}"])
    forget(lans)
    try:
        for family in (4, 6):
            assert send(lans, family, 1 << 20) == ["same"]
        configured(LEAVE, LEAVE)
        for family in (4, 6):
            assert send(lans, family, 1 << 20, timeout=2) == [None], "without clamping the first large packet is lost for ever"
    finally:
        for lan in lans:
            lan.run(["nft", "delete", "table", "inet", "eats"])
    for family in (4, 6):
        assert send(lans, family, 1 << 20) == ["same"], "with the messages it finds the size by itself"


def test_the_mss_is_that_of_the_path_at_both_ends_whoever_clamps_it(
    lans: tuple[Lan, Lan], configured: Callable[[str, str], None]
) -> None:
    fits = {4: MTU - 40, 6: MTU - 60}
    for near, far in ((LEAVE, ""), ("", LEAVE)):
        configured(near, far)
        for family in (4, 6):
            assert syn(lans, family, "syn") == syn(lans, family, "syn-ack") == fits[family]
    configured(LEAVE, LEAVE)
    assert (syn(lans, 4, "syn"), syn(lans, 6, "syn-ack")) == (1460, 1440)
    configured(f"{ZT} ip adjust-mss 1200\n{ZT} ipv6 adjust-mss disable", LEAVE)
    assert [syn(lans, family, "syn") for family in (4, 6)] == [1200, 1440]
    shown = lans[0].router.run(["ztsh", "show", "zerotier", "zt0"]).stdout
    assert re.search(r"Adjust MSS: +IPv4 1200 bytes, IPv6 off", shown)


def members4(router: Router) -> list[str]:
    """IPv4 addresses of its member devices."""
    devices = router.json(["ip", "-j", "-4", "address"])
    return [info["local"] for device in devices if device["ifname"].startswith("zt0p") for info in device["addr_info"]]


def test_what_lies_behind_the_far_router_may_take_less_still(lans: tuple[Lan, Lan]) -> None:
    here, there = lans
    less = 1300
    there.router.run(["ip", "link", "set", there.device, "mtu", str(less)])
    try:
        for family, headers in ((4, 40), (6, 60)):
            forget(lans)
            text = ping(here, family, target(there, family), MTU)
            # IPv4: the address of the device by which the packet came, as VyOS wants it (icmp_errors_use_inbound_ifaddr)
            senders = members4(there.router) if family == 4 else [loopback6(there.router)]
            assert any(f"From {sender} " in text for sender in senders) and f"mtu={less}" in text.replace("mtu = ", "mtu=")
            assert syn(lans, family, "syn-ack") == less - headers
            assert send(lans, family, 1 << 20) == ["same"]
    finally:
        there.router.run(["ip", "link", "set", there.device, "mtu", "1500"])


def tables(router: Router) -> str:
    return router.run(["nft", "list", "tables"]).stdout


def test_who_flushes_the_firewall_takes_nothing_from_us_and_the_last_bundle_takes_all(lans: tuple[Lan, Lan]) -> None:
    router = lans[0].router
    before = router.run(["nft", "list", "ruleset"]).stdout
    assert before.count("maxseg") == 4
    router.run(["nft", "flush", "ruleset"])
    router.wait(lambda: router.run(["nft", "list", "ruleset"]).stdout == before, timeout=5, what="the rules again")
    said = "nft table inet zerotier_multi was changed by another program"
    router.wait(lambda: said in router.journal("zerotier-pathd.service"), timeout=5, what="a word about it")
    router.run(["systemctl", "kill", "--signal=KILL", "zerotier-pathd"])
    router.must_configure("delete interfaces zerotier")
    router.wait(lambda: tables(router) == "", timeout=10, what="no table")
