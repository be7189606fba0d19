"""A remote whose root is hostile: what it sends over the paths changes nothing at our end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.attack import packets
from tests.attack.hostile import hardware, link_local, listening, memory, send, state

from lab import Router
from lab.scenario import loopback, loopback6, reach, status, wait_paths

DEVICE, OTHER = "zt0p1", "zt0p2"
PATHS = 2 * 2 * 2  # instances, families, remotes
PORT = 4000


def transit(router: Router, family: int = 4, instance: int = 1) -> str:
    return f"10.14.0.{16 * (instance - 1) + router.number}" if family == 4 else f"2001:db8:14::{16 * (instance - 1) + router.number:x}"


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
