"""A configured remote whose key is in hostile hands: what it seals ends no process and no other path."""

from __future__ import annotations

import multiprocessing
import random
from collections.abc import Callable

import pytest
from tests.attack.settings import Attack
from tests.attack.ztnode.machine import enter
from tests.attack.ztnode.packets import Packets
from tests.engine.test_contract import Node, engine, hosts, pair, reaches  # noqa: F401 (fixtures)

from lab.process import wait
from lab.ztproto import packet

pytestmark = pytest.mark.only_ztnode

COLLISION = 0x04  # code of an ERROR, which the core hears from its roots and moons


def _send(namespace: str, dice: random.Random, secret: str, victim: str, count: int) -> None:
    enter(namespace)
    peer = Packets(dice, secret, victim, "198.51.100.2", "198.51.100.1")
    for _ in range(count):
        peer.send(peer.seal(packet.ERROR, bytes([packet.HELLO]) + dice.randbytes(8) + bytes([COLLISION])))


def test_a_remote_that_claims_our_address_ends_nothing(attack: Attack, pair: Callable[..., tuple[Node, Node]]) -> None:
    a, b = pair()
    secret, victim = (b.home / "identity.secret").read_text(), (a.home / "identity.public").read_text()
    arguments = (b.host.name, attack.random("collision"), secret, victim, attack.either(50, 5000))
    sender = multiprocessing.Process(target=_send, args=arguments)
    sender.start()
    sender.join()
    assert sender.exitcode == 0
    wait(lambda: reaches(a), timeout=20, what="echo over the link")
    assert a.process and a.process.poll() is None
    said = (a.home.parent / "a.log").read_text()
    assert said.count("a peer reports another node with this node's address") == 1
    assert a.stop() == 0
