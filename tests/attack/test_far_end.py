"""A remote whose root is hostile: what it sends over the paths changes nothing at our end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address

import pytest
from tests.attack import packets
from tests.attack.hostile import answered, hardware, link_local, listening, memory, overheard, send, state
from tests.attack.settings import Attack
from zerotier_multi.pathd.probe import wire

from lab import Router
from lab.scenario import loopback, loopback6, reach, status, wait_paths

DEVICE, PATHD = "zt0p1", "zerotier-pathd.service"
PATHS = 2 * 2 * 2  # instances, families, remotes
PORT = 4000


def transit(router: Router, family: int = 4, instance: int = 1) -> str:
    return (
        f"10.14.0.{16 * (instance - 1) + router.number}" if family == 4 else f"2001:db8:14::{16 * (instance - 1) + router.number:x}"
    )


@pytest.fixture(autouse=True)
def unharmed(trio: list[Router]) -> Iterator[None]:
    """After an attack R1 is as it was, all its paths carry traffic, and it has none of them called down on the way."""
    first, second, third = trio
    before, changes = state(first), _changes(first)
    yield
    assert state(first) == before
    assert _changes(first) == changes, "a path has left"
    wait_paths(trio, PATHS)
    for other in (second, third):
        reach(first, loopback(first), loopback(other))
        reach(first, loopback6(first), loopback6(other))


def _changes(router: Router) -> dict[str, int]:
    return {f"{path['device']} {path['via']}": path["changes"] for path in status(router)["bundles"]["zt0"]["paths"]}


def to(router: Router, sender: Router, packet: bytes, device: str = DEVICE) -> tuple[str, bytes]:
    """A frame with an IP packet for a router."""
    kind = packets.ETHERTYPE[packet[0] >> 4]
    return device, packets.frame(hardware(router, device), hardware(sender, device), kind, packet)


# -- addresses


def test_our_own_addresses_are_nobody_elses(trio: list[Router]) -> None:
    """Nor are those that never are a source; what comes from anywhere else does come."""
    first, second, _third = trio
    own4 = [loopback(first), transit(first), transit(first, 4, 2), first.underlay4]
    own6 = [loopback6(first), transit(first, 6), transit(first, 6, 2), first.underlay6]
    never4 = ["127.0.0.1", "127.255.0.3", "0.0.0.0", "255.255.255.255", "224.0.0.1"]
    never6 = ["::1", "ff02::1", "::ffff:127.0.0.1", f"::ffff:{loopback(first)}"]
    others4, others6 = [loopback(second), "192.0.2.7"], [loopback6(second), "2001:db8:7::7"]
    forged, allowed = [], []
    for family, own in ((4, own4 + never4 + others4), (6, own6 + never6 + others6)):
        for source in own:
            for target in (loopback(first), transit(first)) if family == 4 else (loopback6(first), transit(first, 6)):
                word = f"{source} to {target}"
                forged.append(packets.udp(source, target, PORT, word.encode()))
                if source in others4 + others6:
                    allowed.append(f"{source} {word}")
    end = packets.udp(transit(second), transit(first), PORT, b"end")
    for setting in ("accept_local", "route_localnet"):
        first.run(["sysctl", "-qw", f"net.ipv4.conf.{DEVICE}.{setting}=1"])
    try:
        with listening(first, PORT, 1) as program:
            send(second, [to(first, second, packet) for packet in [*forged, end]])
            told, _ = program.communicate(timeout=20)
    finally:
        for setting in ("accept_local", "route_localnet"):
            first.run(["sysctl", "-qw", f"net.ipv4.conf.{DEVICE}.{setting}=0"])
    assert sorted(told.splitlines()) == sorted(allowed)


# -- words about paths


def test_a_third_router_has_no_say_about_the_path_to_another(trio: list[Router], attack: Attack) -> None:
    """R3 sends probes as if they were R2's: of its own making, and those that R1 would believe of R3 itself."""
    first, second, third = trio
    source, before = attack.random("probes"), memory(first, PATHD)
    made = [
        wire.Probe(
            source.randrange(1 << 16), source.random() < 0.5, source.choice((1, 1, 2, source.randrange(256))), source.randrange(1 << 16),
            source.randrange(1 << 63), 0, 0, source.choice((0, 3)), source.choice((None, 0, 100)),
            source.getrandbits(64), source.choice((0, source.getrandbits(64))), source.choice((0, 255)),
        )
        for _ in range(attack.either(1000, 20_000))
    ]  # fmt: skip
    messages = [(family, wire.encode(probe, family, source.randrange(1 << 16))) for probe in made for family in (4, 6)]
    messages += [(family, bytes([wire.ECHO_REPLY[family]]) + message[1:]) for family, message in messages[::5]]
    messages += overheard(third, DEVICE, 12) * 20
    forged = []
    for family, message in messages:
        hops = source.choice((255, 255, 255, 64))
        packet = packets.icmp(transit(second, family), transit(first, family), message[:2] + bytes(2) + message[4:], hops)
        forged.append(to(first, third, packet))
    send(third, forged)
    assert memory(first, PATHD) - before < 8 << 20


def test_what_is_no_probe_is_left_alone(trio: list[Router], attack: Attack) -> None:
    first, second, _third = trio
    source, before = attack.random("garbage"), memory(first, PATHD)
    good = wire.encode(wire.Probe(1, True, 1, 900, 5, 3, 3, 3, 50, 7, 8), 6, 9)
    forged = []
    for _ in range(attack.either(1000, 20_000)):
        family, message = source.choice((4, 6)), bytearray(good)
        message[0] = wire.ECHO_REQUEST[family] if source.random() < 0.7 else source.randrange(256)
        for _ in range(source.choice((0, 1, 4))):
            message[source.randrange(4, len(message))] = source.randrange(256)
        message = message[: source.choice((len(message), source.randrange(8, len(message) + 1)))] + bytes(
            source.choice((0, 0, 900))
        )
        message[2:4] = bytes(2)
        # A remote may say of its own paths what it likes; so these come from an address that it does not have.
        elsewhere = "10.14.0.9" if family == 4 else "2001:db8:14::9"
        forged.append(to(first, second, packets.icmp(elsewhere, transit(first, family), bytes(message), source.choice((255, 1)))))
    send(second, forged)
    assert memory(first, PATHD) - before < 8 << 20


# -- neighbours and routers


def test_nobody_teaches_us_neighbours_or_routes(trio: list[Router], attack: Attack) -> None:
    """Claims to be another, by ARP and ND; routers that advertise themselves; redirects."""
    first, second, third = trio
    ours, theirs, bad = hardware(first, DEVICE), hardware(second, DEVICE), hardware(third, DEVICE)
    local = link_local(third, DEVICE)
    frames: list[tuple[str, bytes]] = []
    for claimed in (transit(second), transit(first), loopback(second), loopback(first), transit(first, 4, 2), "10.14.0.9"):
        for operation, target_mac, target in (
            (1, "00:00:00:00:00:00", claimed),
            (2, ours, transit(first)),
            (2, packets.BROADCAST, claimed),
        ):
            told = packets.arp(operation, bad, claimed, target_mac, target)
            frames += [(DEVICE, packets.frame(to_mac, bad, packets.ARP, told)) for to_mac in (ours, packets.BROADCAST)]
    for claimed in (
        transit(second, 6),
        transit(first, 6),
        loopback6(second),
        link_local(first, DEVICE),
        link_local(second, DEVICE),
    ):
        for source_, target in ((local, transit(first, 6)), (claimed, "ff02::1"), (claimed, transit(first, 6))):
            told = packets.neighbour_advertisement(source_, target, claimed, bad)
            frames.append((DEVICE, packets.frame(ours, bad, packets.ETHERTYPE[6], told)))
    for source_ in (local, link_local(second, DEVICE)):
        for lifetime in (0, 9000):
            told = packets.router_advertisement(source_, lifetime, "2001:db8:bad::", 1280, bad)
            frames.append((DEVICE, packets.frame(ours, bad, packets.ETHERTYPE[6], told)))
    quoted4 = packets.udp(loopback(first), loopback(second), 5000, b"x" * 64)
    quoted6 = packets.udp(loopback6(first), loopback6(second), 5000, b"x" * 64)
    for source_ in (transit(second), loopback(second)):
        frames.append(to(first, second, packets.redirect(source_, transit(first), transit(third), quoted4, bad)))
    for source_ in (link_local(second, DEVICE), transit(second, 6)):
        for target in (transit(first, 6), loopback6(first)):
            frames.append(to(first, second, packets.redirect(source_, target, transit(third, 6), quoted6, bad)))
    assert theirs != bad
    for _ in range(attack.either(5, 500)):
        send(third, [frame for frame in frames if frame[1][6:12] == packets.mac(bad)])
        send(second, [frame for frame in frames if frame[1][6:12] != packets.mac(bad)])


def test_nobody_fills_the_tables_of_neighbours(trio: list[Router]) -> None:
    """They are those of all devices: full, they leave no room for hosts of the LANs."""
    first, second, third = trio
    ours, bad = hardware(first, DEVICE), hardware(third, DEVICE)
    many, frames = 1000, []
    for n in range(many):
        asked = packets.arp(1, bad, f"172.20.{n >> 8}.{n & 255}", "00:00:00:00:00:00", transit(first))
        frames.append((DEVICE, packets.frame(ours, bad, packets.ARP, asked)))
        for prefix in ("2001:db8:bad::", "fe80::bad:"):
            asked = packets.neighbour_solicitation(f"{prefix}{n + 1:x}", transit(first, 6), transit(first, 6), bad)
            frames.append((DEVICE, packets.frame(ours, bad, packets.ETHERTYPE[6], asked)))
    began = time.monotonic()
    send(third, frames)
    reach(first, loopback(first), loopback(third))
    seconds = time.monotonic() - began
    for family, most in (("-4", 20), ("-6", 120 + 10 * seconds)):
        found = first.json(["ip", "-j", family, "neighbour", "show", "dev", DEVICE])
        assert len(found) <= most, f"{len(found)} neighbours after {seconds:.1f} s"
    # Who asks as one of the link is answered, also now, and so is a neighbour that nothing is known of yet.
    with ThreadPoolExecutor(1) as pool:
        flood = pool.submit(send, third, [frame for frame in frames if frame[1][12:14] == b"\x86\xdd"] * 5)
        target = f"{link_local(second, DEVICE)}%{DEVICE}"
        for _ in range(3):
            first.run(["ip", "-6", "neighbour", "flush", "dev", DEVICE, "nud", "reachable", "nud", "stale", "nud", "delay"])
            second.run(["ip", "-6", "neighbour", "flush", "dev", DEVICE, "nud", "reachable", "nud", "stale", "nud", "delay"])
            first.run(["ping", "-6", "-c", "1", "-W", "5", target])
        flood.result()
    own = hardware(third, DEVICE)
    question = packets.frame(
        packets.BROADCAST, own, packets.ARP, packets.arp(1, own, transit(third), "00:00:00:00:00:00", transit(first))
    )
    assert answered(third, DEVICE, [question], transit(first)) == [transit(first)]


def test_no_answer_for_addresses_that_are_not_of_the_link(trio: list[Router]) -> None:
    first, second, _third = trio
    own = hardware(second, DEVICE)

    def question(target: str) -> bytes:
        asked = packets.arp(1, own, transit(second), "00:00:00:00:00:00", target)
        return packets.frame(packets.BROADCAST, own, packets.ARP, asked)

    targets = [loopback(first), transit(first, 4, 2), first.underlay4, "192.0.2.1", "10.14.0.9", transit(first)]
    assert answered(second, DEVICE, map(question, targets), transit(first)) == [transit(first)]


def test_nobody_is_sent_on_by_a_route_of_his_own(trio: list[Router]) -> None:
    """Source routes: neither taken nor passed on."""
    first, second, third = trio
    forged = []
    for strict in (False, True):
        for way in ([loopback(third)], [transit(first, 4, 2), loopback(third)]):
            option = packets.source_route(way, strict)
            forged.append(packets.udp(transit(second), transit(first), PORT, b"source route", options=option))
    datagram = packets.udp(transit(second, 6), loopback6(third), PORT, b"routing header")[40:]
    for kind in (0, 2, 253):
        header = bytes([packets.UDP, 2, kind, 1]) + bytes(4) + ip_address(loopback6(third)).packed
        forged.append(packets.ip(transit(second, 6), transit(first, 6), 43, header + datagram))
    end = [packets.udp(transit(second), target, PORT, b"end") for target in (transit(first), transit(third))]
    with listening(first, PORT, 1) as here, listening(third, PORT, 1) as there:
        send(second, [to(first, second, packet) for packet in [*forged, end[0]]])
        assert here.communicate(timeout=20)[0] == ""
        send(second, [to(third, second, end[1])])
        assert there.communicate(timeout=20)[0] == ""
