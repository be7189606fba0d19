"""Whoever can send packets to a router's port, with any source: nothing grows, no path falls, no packet gets smaller.

What a neighbour on the underlay sees he may repeat and change: node addresses stand in the clear.
"""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from pathlib import Path

import pytest
from tests.attack import packets
from tests.attack.attacker import PACKETS_MOST, Attacker, payloads_of
from tests.attack.settings import Attack

from lab import Lab, Router
from lab.process import wait
from lab.scenario import iperf, loopback, loopback6, memory, processes, reach, status

PORT, INSTANCE = 9993, 1
TRIES = 3  # a path may also fall, and echoes be lost, because all have two cores; a flood that works does so each time
TRANSIT = "10.14.0.2"  # R2's address on the path of that instance
MOST_MB, LATER_MB, GROWTH_MB = 64.0, 24.0, 4.0
MOST_LOST = 10.0  # % of echoes
only_ztnode = pytest.mark.only_ztnode


@pytest.fixture(scope="module")
def pair(trio: list[Router]) -> list[Router]:
    return trio[:2]


@pytest.fixture(scope="module")
def attacker(lab: Lab, pair: list[Router], attack: Attack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacker]:
    made = Attacker(lab, tmp_path_factory.mktemp("attacker"), attack.seed)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def heard(lab: Lab, pair: list[Router], tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """What R2 has sent to the instance at R1 while there was traffic, as anybody between them could have kept it."""
    r1, r2 = pair
    path = tmp_path_factory.mktemp("capture") / "packets.pcap"
    with without(r1, "ip6"):
        r1.run(["ping", "-q", "-c", "20", "-i", "0.1", TRANSIT], check=False)
        wait(lambda: not down(r1) and not down(r2), timeout=30, what="all paths up over IPv4")
        capture(lab, r1, r2, path)
    wait(lambda: not down(r1) and not down(r2), timeout=20, what="all paths up again")
    return single(path)


def capture(lab: Lab, r1: Router, r2: Router, path: Path) -> None:
    """At its end R2 says that it does not hear R1, which is repeated with all the rest."""
    with lab.underlay.capture("R1", path, expression=f"udp dst port {PORT} and src host {r2.underlay4}"):
        for size in (56, 1200):
            r1.run(["ping", "-q", "-c", "100", "-i", "0.01", "-s", str(size), TRANSIT])
        wait(lambda: len(single(path)) >= 100, timeout=10, what="packets in the capture")
        with without(r1, "ip"):
            wait(lambda: down(r1) and down(r2), timeout=10, what="paths down at both ends")


def single(capture: Path) -> list[bytes]:
    """Its packets, but for those that the kernel has not cut into segments yet."""
    return [payload for payload in payloads_of(capture) if len(payload) <= PACKETS_MOST]


class without:  # noqa: N801 (reads as words)
    """While the block runs a router sends nothing to the engines' ports by one IP version (``ip``, ``ip6``)."""

    def __init__(self, router: Router, family: str) -> None:
        self._router, self._family = router, family

    def __enter__(self) -> None:
        rule = "type filter hook output priority 0; udp dport 9993-9994 drop;"
        self._router.run(["nft", f"table {self._family} attacked {{ chain out {{ {rule} }}; }}"])

    def __exit__(self, *_: object) -> None:
        self._router.run(["nft", "delete", "table", self._family, "attacked"])


def memory_mb(router: Router) -> float:
    """Resident memory of the attacked instance."""
    return memory(router, processes(router)[INSTANCE]) / 1024


def down(router: Router) -> list[str]:
    """Paths that are not up."""
    return [f"{p['instance']} {p['state']}" for p in status(router)["bundles"]["zt0"]["paths"] if p["state"] != "up"]


def public(router: Router) -> tuple[bytes, bytes]:
    """Node address and public key of the instance."""
    address, _kind, key = router.read(f"/config/zerotier-multi/zt0/{INSTANCE}/identity.public").strip().split(":")[:3]
    return bytes.fromhex(address), bytes.fromhex(key)


def hello(to: bytes, source: bytes, key: bytes) -> bytes:
    """A HELLO without a valid MAC."""
    version = struct.pack(">BBBHQ", 11, 1, 8, 4, int(time.time() * 1000))
    return bytes(8) + to + source + bytes(9) + b"\x01" + version + source + b"\0" + key + b"\0" + bytes(60)


Payloads = tuple[list[bytes], list[str], int]  # templates, what is changed in each packet, how many a second


def garbage(_r1: Router, _r2: Router, _heard: list[bytes]) -> Payloads:
    return [bytes(size) for size in (20, 100, 1400)], ["random=0:1400"], 50_000


def headers(r1: Router, r2: Router, _heard: list[bytes]) -> Payloads:
    """Right addresses of both nodes, all else made up."""
    head = bytes(8) + public(r1)[0] + public(r2)[0] + b"\x18"
    return [head + bytes(200)], ["random=0:8", "random=19:200"], 50_000


def hellos_of_strangers(r1: Router, _r2: Router, _heard: list[bytes]) -> Payloads:
    words = ["random=0:8", "random=13:5", "copy=13:41:5", "random=47:64", "random=19:8"]
    return [hello(public(r1)[0], bytes(5), bytes(64))], words, 10_000


def hellos_of_the_remote(r1: Router, r2: Router, _heard: list[bytes]) -> Payloads:
    """With its own identity, and with others for its address."""
    own, (node, key) = public(r1)[0], public(r2)
    return [hello(own, node, key), hello(own, node, key[:-8] + bytes(8))], ["random=0:8", "random=19:8", "random=103:8"], 10_000


def fragments(r1: Router, _r2: Router, _heard: list[bytes]) -> Payloads:
    return [bytes(8) + public(r1)[0] + b"\xff\x31\x00" + bytes(500)], ["random=0:8"], 50_000


def copies(_r1: Router, _r2: Router, heard: list[bytes]) -> Payloads:
    """Genuine packets, from other addresses than they came from."""
    return heard, [], 10_000


@only_ztnode
@pytest.mark.parametrize("flood", [garbage, headers, hellos_of_strangers, hellos_of_the_remote, fragments, copies])
def test_a_flood_of_made_up_sources_costs_neither_memory_nor_paths(
    pair: list[Router], attacker: Attacker, heard: list[bytes], attack: Attack,
    flood: Callable[[Router, Router, list[bytes]], Payloads],
) -> None:  # fmt: skip
    r1, r2 = pair
    payloads, edits, rate = flood(r1, r2, heard)
    seconds = attack.either(4.0, 80.0)
    before, peak, pid = memory_mb(r1), 0.0, processes(r1)[INSTANCE]
    for _try in range(TRIES):
        fallen: set[str] = set()
        echo = r1.popen(["ping", "-q", "-i", "0.02", "-c", str(int(40 * seconds)), TRANSIT])
        with attacker.flood(r1, PORT, payloads, *edits, rate=rate, packets=int(rate * seconds)) as program:
            while program.poll() is None:
                peak = max(peak, memory_mb(r1))
                fallen |= {*down(r1)}
                time.sleep(0.2)
            assert program.stdout
            words = program.stdout.read().split()
        lost = float(echo.communicate(timeout=60)[0].partition("% packet loss")[0].rpartition(" ")[2])
        sent, took = int(words[1]), float(words[3])
        print(f"{flood.__name__}: {sent} packets in {took} s, {before:.1f} MB before, {peak:.1f} at most, {lost} % lost, {fallen}")
        if not fallen and lost < MOST_LOST:
            break
        wait(lambda: not down(r1), timeout=20, what="all paths up again")
    assert processes(r1)[INSTANCE] == pid and not fallen
    assert peak < MOST_MB and peak - before < GROWTH_MB
    assert lost < MOST_LOST
    if attack.long:
        wait(lambda: memory_mb(r1) < LATER_MB, timeout=60, what="memory given back")


@only_ztnode
def test_genuine_packets_that_were_changed_on_the_way_do_nothing(
    pair: list[Router], attacker: Attacker, heard: list[bytes], attack: Attack
) -> None:
    """From the remote's own address and port, which no filter of addresses keeps out."""
    r1, r2 = pair
    pid, packets = processes(r1)[INSTANCE], attack.either(15_000, 300_000)
    for _try in range(TRIES):
        fallen: set[str] = set()
        with attacker.flood(r1, PORT, heard, "flip=3", rate=5_000, packets=packets, source=f"{r2.underlay4}:{PORT}") as program:
            while program.poll() is None:
                fallen |= {*down(r1)}
                time.sleep(0.2)
            assert program.returncode == 0
        if not fallen:
            break
        wait(lambda: not down(r1), timeout=20, what="all paths up again")
    assert not fallen
    assert processes(r1)[INSTANCE] == pid
    reach(r1, loopback(r1), loopback(r2))


# -- "fragmentation needed"


def too_big(r1: Router, r2: Router, family: int) -> list[bytes]:
    """What a router between them would send R1 if its line took 552 or 1280 bytes: about UDP, and about an echo."""
    own, far = (r.underlay4 if family == 4 else r.underlay6 for r in (r1, r2))
    between, rest = str(ip_address(own) - int(ip_address(own)) % 256 + 99), bytes(1432)
    echo = packets.icmp(own, far, struct.pack(">BBHHH", 8 if family == 4 else 128, 0, 0, 1, 1) + rest)
    head, quoted = (struct.pack(">BBHHH", 3, 4, 0, 0, 552), 28) if family == 4 else (struct.pack(">BBHI", 2, 0, 0, 1280), 48)
    # A router quotes the head of the packet and eight bytes.
    about = (packets.udp(own, far, PORT, rest), echo)
    return [packets.icmp(between, own, head + packet[:quoted], 255) for packet in about]


def counters(router: Router, family: int) -> tuple[int, int]:
    """Datagrams and pieces of packets that the router has sent by an IP version; many segments are one datagram."""
    if family == 6:
        of = dict(line.split() for line in router.read("/proc/net/snmp6").splitlines())
        return int(of["Udp6OutDatagrams"]), int(of["Ip6FragCreates"])
    lines = [line.split() for line in router.read("/proc/net/snmp").splitlines()]
    of = {}
    for (kind, *names), (_, *values) in zip(lines[::2], lines[1::2], strict=True):
        of |= {kind + name: value for name, value in zip(names, values, strict=True)}
    return int(of["Udp:OutDatagrams"]), int(of["Ip:FragCreates"])


def learned(router: Router, target: str) -> int | None:
    """The path MTU that the kernel believes in."""
    route = json.dumps(router.json(["ip", "-j", "-details", "route", "get", target]))
    return next((mtu for mtu in (552, 1280) if f'"mtu": {mtu}' in route), None)


@only_ztnode
@pytest.mark.parametrize("family", [4, 6])
def test_words_of_a_smaller_mtu_on_the_way_cut_no_packet_in_pieces(pair: list[Router], attacker: Attacker, family: int) -> None:
    r1, r2 = pair
    target = r2.underlay4 if family == 4 else r2.underlay6
    with without(r1, "ip6" if family == 4 else "ip"):
        reach(r1, loopback(r1), loopback(r2))
        try:
            attacker.send(r1, too_big(r1, r2, family))
            wait(lambda: learned(r1, target), timeout=5, what="the kernel taken in")
            datagrams, pieces = counters(r1, family)
            iperf(r1, r2, flows=4, seconds=1, source=loopback(r1), target=loopback(r2))
            datagrams_after, pieces_after = counters(r1, family)
        finally:
            r1.run(["ip", f"-{family}", "route", "flush", "cache"])
    assert datagrams_after - datagrams > 200, "it went by the other version of IP"
    assert pieces_after == pieces


@only_ztnode
def test_segments_are_tried_again_after_the_kernel_has_refused_them(pair: list[Router]) -> None:
    r1, r2 = pair

    def sent() -> tuple[int, int]:
        octets = int(r1.read("/sys/class/net/eth0/statistics/tx_bytes"))
        return octets, sum(counters(r1, family)[0] for family in (4, 6))

    def bytes_per_datagram() -> float:
        octets, datagrams = sent()
        iperf(r1, r2, flows=4, seconds=1, source=loopback(r1), target=loopback(r2))
        octets_after, datagrams_after = sent()
        return (octets_after - octets) / (datagrams_after - datagrams)

    usual = bytes_per_datagram()
    assert usual > 2500, "no segmentation offload on this kernel"
    r1.run(["ip", "link", "set", "eth0", "mtu", "1300"])
    try:
        assert bytes_per_datagram() < 1600
    finally:
        r1.run(["ip", "link", "set", "eth0", "mtu", "1500"])
    r1.wait(lambda: not down(r1), what="all paths up")
    wait(lambda: bytes_per_datagram() > usual / 2, timeout=30, what="segments again")
    assert "rejects segments" in r1.journal(f"zerotier-multi@zt0-{INSTANCE}") + r1.journal("zerotier-multi@zt0-2")


def test_the_link_carries_traffic_afterwards(pair: list[Router]) -> None:
    for one, other in (pair, pair[::-1]):
        reach(one, loopback(one), loopback(other))
        reach(one, loopback6(one), loopback6(other))
