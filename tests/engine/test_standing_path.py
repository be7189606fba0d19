"""Who may get on the path between two ztnodes of a link without a controller, where the core prefers private addresses."""

from __future__ import annotations

import os
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest
from zerotier_multi.identity import PublicIdentity
from zerotier_multi.planet import make_moon, make_planet, moon_file

from lab.controller import inside
from lab.process import wait
from lab.ztproto.packet import HELLO
from tests.engine.test_contract import NETWORK, PORT, Host, Node, engine, link, tries  # noqa: F401 (a fixture)

pytestmark = pytest.mark.only_ztnode

# IPv4 of all three is one LAN. By IPv6 they are two, between which nobody routes.
OURS, THEIRS = ("198.51.100.1", "2001:db8:1::1"), ("198.51.100.2", "2001:db8:2::2")
# Each as our host and the remote see it: the Internet, with its distance, and a host beside us that wants to be between them.
INTERNET, BETWEEN = ("2001:db8:1::77", "2001:db8:2::77"), ("198.51.100.66", "2001:db8:2::66")
DISTANCE = 0.02


def close(node: Node, other: Node) -> None:
    """Give it the files that tell ztnode that the link has no nodes but these."""
    mine, theirs = (PublicIdentity.parse((one.home / "identity.public").read_text().strip()) for one in (node, other))
    for moon in (node.home / "moons.d").iterdir():
        moon.unlink()
    (node.home / "planet").write_bytes(make_planet(NETWORK, mine))
    (node.home / moon_file(theirs)).write_bytes(make_moon(theirs, ()))


def preferred(node: Node) -> str:
    """Where a node sends what is for its only peer; empty where there is no path."""
    (peer,) = cast(list[dict[str, list[dict[str, str]]]], node.get("/peer")[1])
    return next((path["address"].rpartition("/")[0] for path in peer["paths"] if path["preferred"]), "")


class Way(threading.Thread):
    """Hands on what our host sends to ``addresses[0]``, and the remote to ``addresses[1]``, some time later."""

    def __init__(self, host: Host, addresses: tuple[str, str], ours: str, delay: float) -> None:
        super().__init__(daemon=True)
        for address in addresses:
            _give(host, address, "br0")
        self._addresses, self._delay = addresses, delay
        self._ends = [(ours, PORT), (THEIRS[1], PORT)]
        self._sockets = inside(host.name, self._open)
        self._underway: deque[tuple[float, socket.socket, tuple[str, int], bytes]] = deque()
        self._ended = threading.Event()
        self._is_cut = False

    def _open(self) -> list[socket.socket]:
        made = [socket.socket(socket.AF_INET6 if ":" in a else socket.AF_INET, socket.SOCK_DGRAM) for a in self._addresses]
        for each, address in zip(made, self._addresses, strict=True):
            each.bind((address, PORT))
        return made

    def run(self) -> None:
        with selectors.DefaultSelector() as ready:
            for number, each in enumerate(self._sockets):
                ready.register(each, selectors.EVENT_READ, number)
            while not self._ended.is_set():
                for key, _ in ready.select(self._wait()):
                    self._receive(cast(socket.socket, key.fileobj).recv(2000), key.data)
                self._work()

    def _wait(self) -> float:
        return max(0.0, self._underway[0][0] - time.monotonic()) if self._underway else 0.1

    def cut(self) -> None:
        """Drop everything from now on."""
        self._is_cut = True

    def mend(self) -> None:
        """As before."""
        self._is_cut = False

    def _receive(self, data: bytes, number: int) -> None:
        if self._is_cut:
            return
        other = 1 - number
        self._underway.append((time.monotonic() + self._delay, self._sockets[other], self._ends[other], data))

    def _work(self) -> None:
        while self._underway and self._underway[0][0] <= time.monotonic():
            _, out, to, data = self._underway.popleft()
            with suppress(OSError):
                out.sendto(data, to)

    def close(self) -> None:
        self._ended.set()
        if self.ident:
            self.join()
        for each in self._sockets:
            each.close()


class Between(Way):
    """Has recorded a packet of the remote, and sends it again from a private address of its own."""

    HEARD = 2

    def __init__(self, host: Host) -> None:
        self._recorded, self._due = b"", 0.0
        super().__init__(host, BETWEEN, OURS[0], DISTANCE)  # its packets to the remote go by the Internet, too

    def _open(self) -> list[socket.socket]:
        heard = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0003))
        heard.bind(("br0", 0x0003))
        return [*super()._open(), heard]

    def _receive(self, data: bytes, number: int) -> None:
        if number != self.HEARD:
            super()._receive(data, number)
        elif data[:1] == b"\x60" and data[6] == socket.IPPROTO_UDP and data[8:40] == _packed(THEIRS[1]) + _packed(INTERNET[1]):
            packet = data[48:]
            if len(packet) > 27 and packet[18] & 0x38 == 0 and packet[27] == HELLO:
                self._recorded = packet

    def _work(self) -> None:
        super()._work()
        if self._recorded and time.monotonic() >= self._due:
            self._sockets[0].sendto(self._recorded, self._ends[0])
            self._due = time.monotonic() + 0.1


def _packed(address: str) -> bytes:
    return socket.inet_pton(socket.AF_INET6, address)


def _give(host: Host, address: str, device: str) -> None:
    """An address, to be used at once."""
    host.run("ip", "addr", "add", *([f"{address}/64", "nodad"] if ":" in address else [f"{address}/24"]), "dev", device)


@pytest.fixture
def hosts() -> Iterator[tuple[Host, Host, Host]]:
    """Ours, the remote, and between them a third, over which all of their packets go."""
    ours, theirs, middle = made = tuple(Host(f"zt{letter}-{os.getpid()}") for letter in "abc")
    try:
        middle.run("ip", "link", "add", "br0", "type", "bridge")
        for host, addresses in ((ours, OURS), (theirs, THEIRS)):
            middle.run("ip", "link", "add", host.name, "type", "veth", "peer", "name", "eth0", "netns", host.name)
            middle.run("ip", "link", "set", host.name, "master", "br0", "up")
            host.run("ip", "link", "set", "eth0", "up")
            for address in addresses:
                _give(host, address, "eth0")
        middle.run("ip", "link", "set", "br0", "up")
        yield made
    finally:
        for host in made:
            host.close()


@pytest.fixture
def ends(engine: str, hosts: tuple[Host, Host, Host], tmp_path: Path) -> tuple[Node, Node]:
    ours, theirs = Node(engine, hosts[0], tmp_path / "a"), Node(engine, hosts[1], tmp_path / "b")
    link(ours, theirs, ([OURS[1]], [THEIRS[1]]))
    return ours, theirs


@pytest.fixture
def internet(ends: tuple[Node, Node], hosts: tuple[Host, Host, Host]) -> Iterator[Way]:
    """Where they are told to look for each other; these addresses are global, those of the LAN are not."""
    for node, other, seen in zip(ends, reversed(ends), INTERNET, strict=True):
        tries(node, (other.home / "identity.public").read_text(), [seen])
    made = Way(hosts[2], INTERNET, OURS[1], DISTANCE)
    made.start()
    yield made
    made.close()


@pytest.fixture
def between(hosts: tuple[Host, Host, Host]) -> Iterator[Between]:
    made = Between(hosts[2])
    yield made
    made.close()


def known(node: Node) -> set[str]:
    """The addresses of all paths to its only peer."""
    (peer,) = cast(list[dict[str, list[dict[str, str]]]], node.get("/peer")[1])
    return {path["address"].rpartition("/")[0] for path in peer["paths"]}


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "open"])
def test_nobody_gets_between_two_that_reach_each_other(
    ends: tuple[Node, Node], internet: Way, between: Between, closed: bool
) -> None:
    """At an open gate it succeeds: there, members find each other by themselves."""
    ours, theirs = ends
    theirs.settings["bind"] = [THEIRS[1]]
    tries(theirs, (ours.home / "identity.public").read_text(), [INTERNET[1]])
    if closed:
        close(ours, theirs)
        close(theirs, ours)
    theirs.start()
    ours.start()
    wait(lambda: preferred(ours) == INTERNET[0], timeout=20, what="the path by the Internet")
    between.start()
    if not closed:
        wait(lambda: preferred(ours) == BETWEEN[0], timeout=20, what="the path by way of the host between them")
        return
    wait(lambda: BETWEEN[0] in known(ours), timeout=20, what="the host between them as a path")
    seen = {preferred(ours) for _ in range(50)}
    assert seen == {INTERNET[0]}
    # Nor afterwards, if he was there while the Internet was not.
    internet.cut()
    wait(lambda: preferred(ours) != INTERNET[0], timeout=20, what="the path by the Internet is gone")
    internet.mend()
    wait(lambda: preferred(ours) == INTERNET[0], timeout=20, what="the path by the Internet again")
    assert BETWEEN[0] in known(ours)


def test_a_line_that_nobody_configured_serves_once_the_others_do_not_answer(ends: tuple[Node, Node], internet: Way) -> None:
    ours, theirs = ends
    tries(theirs, (ours.home / "identity.public").read_text(), [OURS[0], INTERNET[1]])
    close(ours, theirs)
    close(theirs, ours)
    theirs.start()
    ours.start()
    wait(lambda: preferred(ours) in (INTERNET[0], THEIRS[0]), timeout=20, what="a path")
    internet.cut()
    wait(lambda: preferred(ours) == THEIRS[0], timeout=20, what="the path by the LAN")
