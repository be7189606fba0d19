"""A node that is the root of a lab's planet and the controller of its networks."""

from __future__ import annotations

import socket
import struct
import threading
import time
from dataclasses import dataclass, field

from lab.ztproto import packet
from lab.ztproto.crypto import Identity, Secret
from lab.ztproto.packet import Packet

# What it says to be, by whether it has AES; to an older one members seal with Salsa20/12.
_PROTOCOL, _VERSION = {False: 10, True: 12}, {False: (1, 4, 6), True: (1, 8, 4)}
_CREDENTIAL_DELTA = 7_200_000  # milliseconds by which two certificates of membership may differ
_ANY = 0xFFFF_FFFF_FFFF_FFFF
_ACCEPT = b"\x01\x00"  # the one rule of a network
_BROADCAST, _PRIVATE, _CONFIG_VERSION = 2, 0, 7
_ACTIVE_BRIDGE = 0x020000000000  # a specialist of a network: this, and its node (NetworkConfig.hpp)

Address = tuple[str, int]


@dataclass
class Peer:
    """A node that has said HELLO: the key shared with it, and where it was heard last."""

    identity: Identity
    key: bytes
    address: Address
    aes: bool = False  # whether both have it
    introduced: dict[str, float] = field(default_factory=dict)  # node -> when it was told of it


@dataclass
class Network:
    """A private network; ``asked`` are the nodes that have ever asked for its configuration."""

    mtu: int = 2800
    authorized: set[str] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)
    bridges: set[str] = field(default_factory=set)
    revision: int = 1


class Node:
    """Serves on a socket in a thread of its own until it is closed.

    Members need nothing else: it tells them of each other (WHOIS, multicast groups), passes on what they send to each other
    until they have found a direct path, and gives them the configurations of the networks that it was told to have.
    """

    def __init__(self, secret: Secret, endpoint: socket.socket, aes: bool = True) -> None:
        """``aes`` False: one of before version 1.6."""
        self._secret, self._socket, self._aes = secret, endpoint, aes
        self._lock = threading.Lock()
        self._peers: dict[str, Peer] = {}
        self._networks: dict[str, Network] = {}
        self._groups: dict[tuple[bytes, bytes], set[str]] = {}  # (network, MAC and ADI) -> subscribers
        self._configured = 0  # time of the newest configuration, milliseconds
        self._running = True
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    # -- for the one who keeps it

    def add_network(self, network: str, mtu: int) -> None:
        """Have a network from now on."""
        with self._lock:
            self._networks[network] = Network(mtu)

    def members(self, network: str) -> set[str]:
        """Nodes that have asked for a network's configuration."""
        with self._lock:
            return set(self._networks[network].asked)

    def authorize(self, network: str, node: str, allowed: bool) -> None:
        """Take a node in, or put it out; it is told at once."""
        with self._lock:
            found = self._networks[network]
            (found.authorized.add if allowed else found.authorized.discard)(node)
            found.revision += 1
            peer = self._peers.get(node)
            if peer and allowed:
                self._send(peer, packet.NETWORK_CONFIG, self._config(network, found, peer))
            elif peer:
                self._error(peer, packet.NETWORK_CONFIG_REQUEST, bytes(8), packet.ACCESS_DENIED, bytes.fromhex(network))

    def allow_bridging(self, network: str, node: str, allowed: bool) -> None:
        """Let a node bridge, or not; all members are told at once."""
        with self._lock:
            found = self._networks[network]
            (found.bridges.add if allowed else found.bridges.discard)(node)
            found.revision += 1
            for peer in (self._peers[member] for member in found.authorized if member in self._peers):
                self._send(peer, packet.NETWORK_CONFIG, self._config(network, found, peer))

    def close(self) -> None:
        """Fall silent."""
        self._running = False
        self._thread.join()
        self._socket.close()

    # -- packets

    def _serve(self) -> None:
        self._socket.settimeout(0.1)
        while self._running:
            try:
                data, sender = self._socket.recvfrom(4096)
            except TimeoutError:
                continue
            with self._lock:
                try:
                    self._take(data, sender[:2])
                except (ValueError, IndexError, struct.error, OSError):
                    continue  # whatever was sent here, it does not end a lab

    def _take(self, data: bytes, sender: Address) -> None:
        to = packet.destination(data)
        if to == self._secret.identity.address:
            if packet.is_fragment(data):
                return  # nothing that is for us is so large
            opened, peer = self._open(data, sender)
            self._answer(peer, opened)
        elif to in self._peers and (onward := packet.relayed(data)):
            self._socket.sendto(onward, self._peers[to].address)
            self._introduce(packet.source(data), to)

    def _open(self, data: bytes, sender: Address) -> tuple[Packet, Peer]:
        """Open a packet for us; a HELLO makes its sender known. Raises ValueError."""
        node = packet.source(data) or ""
        peer = self._peers.get(node)
        if peer is None:
            identity, _length = Identity.read(data[41:])  # where a HELLO, which is not encrypted, has it
            if identity.address != node:
                raise ValueError("another's identity")
            peer = Peer(identity, self._secret.agree(identity), sender)
        opened = packet.open_packet(peer.key, data)
        peer.address = sender
        self._peers[node] = peer
        return opened, peer

    def _send(self, peer: Peer, verb: int, payload: bytes) -> None:
        data, _number = packet.seal(peer.key, self._secret, peer.identity.address, verb, payload, peer.aes)
        self._socket.sendto(data, peer.address)

    def _ok(self, peer: Peer, question: Packet, payload: bytes) -> None:
        self._send(peer, packet.OK, bytes([question.verb]) + question.number + payload)

    def _error(self, peer: Peer, verb: int, number: bytes, code: int, payload: bytes) -> None:
        self._send(peer, packet.ERROR, bytes([verb]) + number + bytes([code]) + payload)

    def _answer(self, peer: Peer, question: Packet) -> None:
        match question.verb:
            case packet.HELLO:
                peer.aes = self._aes and question.payload[0] >= _PROTOCOL[True]
                version = struct.pack(">BBBH", _PROTOCOL[self._aes], *_VERSION[self._aes])
                self._ok(peer, question, question.payload[5:13] + version + packet.address(*peer.address) + bytes(2))
            case packet.ECHO:
                self._ok(peer, question, question.payload)
            case packet.WHOIS:
                self._whois(peer, question)
            case packet.NETWORK_CONFIG_REQUEST:
                self._configure(peer, question)
            case packet.MULTICAST_LIKE:
                for at in range(0, len(question.payload) - 17, 18):
                    entry = question.payload[at : at + 18]
                    self._groups.setdefault((entry[:8], entry[8:]), set()).add(peer.identity.address)
            case packet.MULTICAST_GATHER:
                self._gather(peer, question)

    # -- a root

    def _whois(self, peer: Peer, question: Packet) -> None:
        wanted = [question.payload[at : at + 5].hex() for at in range(0, len(question.payload) - 4, 5)]
        known = [self._peers[node].identity.wire for node in wanted if node in self._peers]
        own = [self._secret.identity.wire] if self._secret.identity.address in wanted else []
        for identity in own + known:
            self._ok(peer, question, identity)

    def _gather(self, peer: Peer, question: Packet) -> None:
        network, group = question.payload[:8], question.payload[9:19]
        found = sorted(self._groups.get((network, group), set()) - {peer.identity.address})
        if found:
            count = struct.pack(">IH", len(found), len(found))
            self._ok(peer, question, network + group + count + b"".join(map(bytes.fromhex, found)))

    def _introduce(self, one: str | None, other: str) -> None:
        """Tell two nodes that talk by way of us where the other one is, now and then."""
        now = time.monotonic()
        for node, with_ in ((one, other), (other, one)):
            peer, far = self._peers.get(node or ""), self._peers.get(with_ or "")
            if not peer or not far or now - peer.introduced.get(far.identity.address, -60.0) < 5.0:
                continue
            peer.introduced[far.identity.address] = now
            host, port = far.address
            place = struct.pack(">HB", port, 4) + socket.inet_aton(host)
            self._send(peer, packet.RENDEZVOUS, b"\0" + bytes.fromhex(far.identity.address) + place)

    # -- a controller

    def _configure(self, peer: Peer, question: Packet) -> None:
        number = question.payload[:8]
        network, node = self._networks.get(number.hex()), peer.identity.address
        if network is None:
            self._error(peer, question.verb, question.number, packet.NOT_FOUND, number)
            return
        network.asked.add(node)
        if node in network.authorized:
            self._ok(peer, question, self._config(number.hex(), network, peer))
        else:
            self._error(peer, question.verb, question.number, packet.ACCESS_DENIED, number)

    def _config(self, number: str, network: Network, peer: Peer) -> bytes:
        """A configuration in one signed part. Members take a second one of the same millisecond for the first."""
        now = self._configured = max(int(time.time() * 1000), self._configured + 1)
        text = packet.dictionary({
            "v": _CONFIG_VERSION, "nwid": number, "ts": now, "ctmd": _CREDENTIAL_DELTA, "r": network.revision,
            "id": peer.identity.address, "f": _BROADCAST, "ml": 32, "t": _PRIVATE, "n": "lab", "mtu": network.mtu,
            "C": self._certificate(number, now, peer.identity), "R": _ACCEPT,
            "S": b"".join(struct.pack(">Q", _ACTIVE_BRIDGE | int(node, 16)) for node in sorted(network.bridges)),
        })  # fmt: skip
        body = bytes.fromhex(number) + struct.pack(">H", len(text)) + text + struct.pack(">BQII", 0, now, len(text), 0)
        signature = self._secret.sign(body)
        return body + struct.pack(">BH", 1, len(signature)) + signature

    def _certificate(self, number: str, now: int, member: Identity) -> bytes:
        """A certificate of membership: what members show each other."""
        fields = [
            (0, now, _CREDENTIAL_DELTA), (1, int(number, 16), 0), (2, int(member.address, 16), _ANY),
            *((3 + i, value, _ANY) for i, value in enumerate(struct.unpack(">4Q", member.digest[:32]))),
        ]  # fmt: skip
        packed = b"".join(struct.pack(">QQQ", *entry) for entry in fields)
        own = bytes.fromhex(self._secret.identity.address)
        return struct.pack(">BH", 1, len(fields)) + packed + own + self._secret.sign(packed)
