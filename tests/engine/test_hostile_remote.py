"""A configured remote that is hostile: what it may ask of ztnode on a link without a controller."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from zerotier_multi.identity import PublicIdentity
from zerotier_multi.planet import make_moon, make_planet, moon_file

from lab.controller import inside
from lab.process import wait
from lab.ztproto import node as ztproto
from lab.ztproto import packet
from lab.ztproto.crypto import Identity, Secret
from tests.engine.test_contract import NETWORK, PORT, Host, Node, engine, hosts, link  # noqa: F401 (fixtures)

pytestmark = pytest.mark.only_ztnode


class Remote(ztproto.Node):
    """Answers as any node, keeps what it hears, and sends what it is told to."""

    def __init__(self, secret: Secret, namespace: str) -> None:
        self.heard: list[packet.Packet] = []
        super().__init__(secret, inside(namespace, self._open_socket))

    @staticmethod
    def _open_socket() -> socket.socket:
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.bind(("198.51.100.2", PORT))
        return made

    def _answer(self, peer: ztproto.Peer, question: packet.Packet) -> None:
        self.heard.append(question)
        super()._answer(peer, question)

    @property
    def victim(self) -> ztproto.Peer:
        return next(iter(self._peers.values()))

    def send(self, verb: int, payload: bytes) -> None:
        with self._lock:
            self._send(self.victim, verb, payload)

    def settle(self) -> None:
        """Wait until it has worked on all that was sent before; it answers one ECHO a second."""
        text = f"echo {len(self.heard)}".encode()

        def answered() -> bool:
            self.send(packet.ECHO, text)
            return any(p.payload.endswith(text) for p in self.answers_to(packet.ECHO))

        wait(answered, timeout=10, what="an answer")

    def answers_to(self, verb: int) -> list[packet.Packet]:
        return [p for p in self.heard if p.verb == packet.OK and p.payload[0] == verb]


@pytest.fixture
def ends(engine: str, hosts: tuple[Host, Host], tmp_path: Path) -> Iterator[tuple[Node, Remote]]:
    ours, theirs = Node(engine, hosts[0], tmp_path / "a"), Node(engine, hosts[1], tmp_path / "b")
    link(ours, theirs, (["198.51.100.1"], ["198.51.100.2"]))
    for moon in (ours.home / "moons.d").iterdir():
        moon.unlink()
    mine, other = (PublicIdentity.parse((node.home / "identity.public").read_text().strip()) for node in (ours, theirs))
    # As the product does, which tells ztnode what kind of link it is.
    (ours.home / "planet").write_bytes(make_planet(NETWORK, mine))
    (ours.home / moon_file(other)).write_bytes(make_moon(other, ()))
    remote = Remote(Secret.parse((theirs.home / "identity.secret").read_text()), hosts[1].name)
    try:
        ours.start()
        wait(lambda: remote.heard, timeout=10, what="a HELLO of ours")
        remote.settle()
        yield ours, remote
    finally:
        remote.close()


def config_of(controller: Secret, victim: ztproto.Peer) -> bytes:
    """A configuration of the network as its controller would send it."""
    maker = SimpleNamespace(_secret=controller, _configured=0)
    maker._certificate = lambda *what: ztproto.Node._certificate(maker, *what)
    return ztproto.Node._config(maker, NETWORK, ztproto.Network(mtu=1500), victim)


def test_it_does_not_become_the_controller(ends: tuple[Node, Remote], tmp_path: Path) -> None:
    """Neither by telling who the controller is, which a root is believed, nor without."""
    ours, remote = ends
    maker = Node(ours.engine, ours.host, tmp_path / "c")
    maker.generate()
    own = Secret.parse((maker.home / "identity.secret").read_text())
    controller = Secret(Identity(NETWORK[:10], own.identity.key), own.private)
    before = (ours.home / "networks.d" / f"{NETWORK}.conf").read_bytes()
    config = config_of(controller, remote.victim)
    numbers = {p.number for p in remote.heard if p.verb == packet.HELLO} | {bytes(8)}
    for number in numbers:
        remote.send(packet.OK, bytes([packet.WHOIS]) + number + controller.identity.wire)
        remote.send(packet.NETWORK_CONFIG, config)
        remote.send(packet.OK, bytes([packet.NETWORK_CONFIG_REQUEST]) + number + config)
    remote.settle()
    (network,) = ours.get("/network")[1]
    assert (network["name"], network["mtu"]) == ("test", 1394)
    assert (ours.home / "networks.d" / f"{NETWORK}.conf").read_bytes() == before
    assert [peer["address"] for peer in ours.get("/peer")[1]] == [remote._secret.identity.address]


def test_it_makes_no_nodes_and_learns_of_none(ends: tuple[Node, Remote]) -> None:
    ours, remote = ends
    hello = next(p.number for p in remote.heard if p.verb == packet.HELLO)
    for number in range(300):
        made = Identity(f"12345{number:05x}", remote._secret.identity.key)
        remote.send(packet.OK, bytes([packet.WHOIS]) + hello + made.wire)
    own = bytes.fromhex(ours.get("/status")[1]["address"])
    remote.send(packet.WHOIS, own * 200)
    remote.settle()
    assert remote.answers_to(packet.WHOIS) == []
    assert len(ours.get("/peer")[1]) == 1


def open_unsealed(key: bytes, data: bytes, sealed: Callable[[bytes, bytes], packet.Packet] = packet.open_packet) -> packet.Packet:
    """What comes by a trusted path, too."""
    if data[18] & 0x38 != 0x10:
        return sealed(key, data)
    return packet.Packet(data[:8], data[13:18].hex(), data[27] & 0x1F, data[28:])


def answers_unsealed(remote: Remote, number: int) -> bool:
    """Whether a question without encryption and MAC is answered, which says that it came by trusted path ``number``.

    One ECHO a second is answered: the first that counts. A sealed one that is answered twice has not been forestalled.
    """
    unsealed, sealed = (f"{what} {number} {len(remote.heard)}".encode() for what in ("unsealed", "sealed"))
    whom, own = (bytes.fromhex(node.address) for node in (remote.victim.identity, remote._secret.identity))
    head = len(remote.heard).to_bytes(8) + whom + own + bytes([0x10]) + number.to_bytes(8)

    def answered(text: bytes) -> int:
        return sum(p.payload.endswith(text) for p in remote.answers_to(packet.ECHO))

    def settled() -> bool:
        remote._socket.sendto(head + bytes([packet.ECHO]) + unsealed, remote.victim.address)
        remote.send(packet.ECHO, sealed)
        return bool(answered(unsealed)) or answered(sealed) > 1

    wait(settled, timeout=20, what="an answer")
    return bool(answered(unsealed))


@pytest.mark.parametrize(("physical", "answered"), [
    ({"mtu": 1400}, set()), ({"trustedPathId": 7}, {7}), ({"trustedPathId": 7, "mtu": 1400}, {7}),
], ids=str)  # fmt: skip
def test_nobody_is_believed_without_a_key(
    ends: tuple[Node, Remote], physical: dict[str, int], answered: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only where it is configured; the core takes an MTU alone for a path of number 0."""
    monkeypatch.setattr(packet, "open_packet", open_unsealed)
    ours, remote = ends
    ours.stop()
    conf = json.loads((ours.home / "local.conf").read_text())
    conf["physical"]["198.51.100.0/24"] = physical
    (ours.home / "local.conf").write_text(json.dumps(conf))
    heard = len(remote.heard)
    ours.start()
    wait(lambda: len(remote.heard) > heard, timeout=10, what="a HELLO of ours")
    remote.settle()
    assert {number for number in (0, 7, 8) if answers_unsealed(remote, number)} == answered
