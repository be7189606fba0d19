"""Packets at a node's socket: such as are on the wire, changed, replayed and spoofed, and such as only a peer can seal."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
from collections import deque

from tests.engine.test_contract import NETWORK, PORT

from lab.ztproto import packet
from lab.ztproto.crypto import Identity, Secret

_VERBS = range(0x20)
_ETHERTYPES = (0x0800, 0x86DD, 0x0806, 0x8100, 0xFFFF)


class Packets:
    """An attacker in the peer's place: he sees the wire, sends from any address, and has the peer's secret."""

    def __init__(self, dice: random.Random, secret: str, victim: str, here: str, there: str) -> None:
        self._dice, self._here, self._there = dice, here, there
        self._secret = Secret.parse(secret)
        address, _kind, key = victim.strip().split(":")[:3]
        self._victim = Identity(address, bytes.fromhex(key))
        self._key = self._secret.agree(self._victim)
        self._seen: deque[bytes] = deque(maxlen=512)
        self._wire = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0003))
        self._wire.bind(("eth0", 0))
        self._wire.setblocking(False)
        self._raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def _listen(self) -> None:
        with contextlib.suppress(BlockingIOError):
            for _ in range(64):
                data = self._wire.recv(4096)
                head = (data[0] & 15) * 4
                if data[0] >> 4 == 4 and data[9] == socket.IPPROTO_UDP and len(data) > head + 8 + 13:
                    self._seen.append(data[head + 8 :])

    def step(self) -> int:
        """Send some; how many."""
        self._listen()
        count = self._dice.randrange(1, 24)
        for _ in range(count):
            with contextlib.suppress(OSError):
                self.send(self._make())
        return count

    def _make(self) -> bytes:
        dice = self._dice
        chance = dice.random()
        if chance < 0.1:
            return self._sealed()
        if chance < 0.2 or not self._seen:
            return dice.randbytes(dice.choice([0, 1, 12, 13, 14, 27, 28, 29, 60, 61, 100, 1499, 1500, 1501]))
        data = bytearray(dice.choice(self._seen))
        if chance < 0.35:
            return bytes(data)
        if chance < 0.5 and len(data) > 18:  # the two kinds of heads: extended armor, fragments
            data[dice.choice((8, 13, 14, 15, 18))] = dice.choice((0xFF, 0x80, 0x87, 0xC0, dice.randrange(256)))
            if dice.random() < 0.5:
                data[18], data[8:13] = 0x80 | dice.randrange(8), bytes.fromhex(self._victim.address)
            if dice.random() < 0.3:
                data[13:18] = dice.randbytes(5)
        for _ in range(dice.choice((0, 1, 1, 2, 8, 64))):
            data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        if dice.random() < 0.3:
            del data[dice.randrange(len(data)) :]
        if dice.random() < 0.1:
            data += dice.randbytes(dice.randrange(3000))
        return bytes(data)

    def _frame(self) -> bytes:
        """An IP packet that TCP may be in, right or not."""
        dice = self._dice
        tcp = struct.pack(
            ">HHIIBBHHH",
            80,
            80,
            dice.getrandbits(8),
            1,
            dice.choice((0x50, 0x80, 0xF0, 0)),
            dice.choice((0x10, 0x18, 0x02)),
            99,
            0,
            0,
        )
        body = tcp + dice.randbytes(dice.choice((0, 1, 100, 1300)))
        if dice.random() < 0.5:
            return (
                struct.pack(
                    ">BBHHHBBH4s4s",
                    dice.choice((0x45, 0x4F, 0x40)),
                    0,
                    20 + len(body),
                    0,
                    0,
                    64,
                    6,
                    0,
                    b"\x0a\x0e\0\2",
                    b"\x0a\x0e\0\1",
                )
                + body
            )
        return struct.pack(">IHBB", 6 << 28, len(body), 6, 64) + bytes(32) + body

    def _sealed(self) -> bytes:
        """A packet that the peer vouches for, with any verb and payload."""
        dice = self._dice
        verb, network = dice.choice(_VERBS), bytes.fromhex(NETWORK)
        payload = dice.randbytes(dice.choice((0, 1, 8, 17, 64, 500, 1300)))
        if dice.random() < 0.4:
            kind = struct.pack(">H", dice.choice(_ETHERTYPES))
            verb, payload = 0x06, network + kind + self._frame()  # FRAME
            if dice.random() < 0.5:  # EXT_FRAME
                verb, payload = 0x07, network + bytes([dice.choice((0, 0, 1, 2, 255))]) + dice.randbytes(12) + kind + self._frame()
        elif dice.random() < 0.3:  # PUSH_DIRECT_PATHS, RENDEZVOUS: where to look for somebody
            addresses = [
                bytes([0, 0, 0, dice.choice((4, 6)), dice.choice((6, 18))]) + dice.randbytes(18) for _ in range(dice.randrange(9))
            ]
            verb, payload = 0x10, struct.pack(">H", dice.choice((len(addresses), 65535))) + b"".join(addresses)
        elif dice.random() < 0.5:
            payload = network + payload
        return self.seal(verb | dice.choice((0, 0, 0, 0x80)), payload[:1372])

    def seal(self, verb: int, payload: bytes) -> bytes:
        """A packet that the victim takes for the peer's."""
        return packet.seal(self._key, self._secret, self._victim.address, verb, payload)[0]

    def send(self, data: bytes) -> None:
        """Send a packet, mostly with the peer's address."""
        dice = self._dice
        if len(data) > 1400:
            self._udp.sendto(data[:60_000], (self._there, PORT))
            return
        source = self._here if dice.random() < 0.7 else f"198.51.100.{dice.randrange(1, 255)}"
        port = PORT if dice.random() < 0.8 else dice.randrange(65536)
        head = struct.pack(">HHHH", port, PORT, 8 + len(data), 0)
        ip = struct.pack(
            ">BBHHHBBH4s4s", 0x45, 0, 28 + len(data), 0, 0, 64, 17, 0, socket.inet_aton(source), socket.inet_aton(self._there)
        )
        self._raw.sendto(ip + head + data, (self._there, 0))
