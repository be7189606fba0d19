"""Packets: sealing and opening them, and what is packed into their payloads."""

from __future__ import annotations

import hmac
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from cryptography.hazmat.primitives.poly1305 import Poly1305

from lab.ztproto.crypto import Secret, salsa12, siv_keys, siv_open, siv_seal, xor

HELLO, ERROR, OK, WHOIS, RENDEZVOUS, ECHO = 0x01, 0x02, 0x03, 0x04, 0x05, 0x08
MULTICAST_LIKE, NETWORK_CONFIG_REQUEST, NETWORK_CONFIG, MULTICAST_GATHER = 0x09, 0x0B, 0x0C, 0x0D
NOT_FOUND, ACCESS_DENIED = 0x03, 0x07  # codes of an ERROR

HEAD, FRAGMENT_HEAD = 28, 16  # bytes: packet id 8, destination 5, source 5, flags 1, MAC 8, verb 1
_FRAGMENT = 0xFF  # where a whole packet has the first byte of its source
_COMPRESSED, _VERB = 0x80, 0x1F
# Bits of the flags: Salsa20/12 with Poly1305, Poly1305 alone, or AES-GMAC-SIV.
_CIPHER, _SEALED, _PLAIN, _AES = 0x38, 0x08, 0x00, 0x18
_HOPS = 0x07


@dataclass(frozen=True)
class Packet:
    """A packet that has been opened; nodes are 10 hex digits."""

    number: bytes
    source: str
    verb: int
    payload: bytes


def destination(data: bytes) -> str | None:
    """The node that a packet or a fragment is for; None for what is neither."""
    return data[8:13].hex() if len(data) > FRAGMENT_HEAD else None


def is_fragment(data: bytes) -> bool:
    """Whether this is a later part of a packet, which has another head."""
    return data[13] == _FRAGMENT


def source(data: bytes) -> str | None:
    """The node that a whole packet says it is from."""
    return data[13:18].hex() if len(data) >= HEAD and not is_fragment(data) else None


def relayed(data: bytes) -> bytes | None:
    """A packet with one hop more; None when it has gone too far."""
    at = 15 if is_fragment(data) else 18
    if data[at] & _HOPS == _HOPS:
        return None
    return data[:at] + bytes([data[at] + 1]) + data[at + 1 :]


def seal(key: bytes, own: Secret, to: str, verb: int, payload: bytes, aes: bool = False) -> tuple[bytes, bytes]:
    """A sealed packet and its number, as the other end has it."""
    number, names = os.urandom(8), bytes.fromhex(to) + bytes.fromhex(own.identity.address)
    if aes:
        names += bytes([_AES])
        block, body = siv_seal(siv_keys(key), number, names, bytes([verb]) + payload)
        return block[:8] + names + block[8:] + body, block[:8]
    head = number + names + bytes([_SEALED])
    stream = _stream(key, head, HEAD + len(payload), len(payload) + 1)
    body = xor(bytes([verb]) + payload, stream[64:])
    return head + _mac(stream, body) + body, number


def open_packet(key: bytes, data: bytes) -> Packet:
    """Open a packet that is sealed, or a HELLO, which is only signed. Raises ValueError for all else."""
    body, cipher = data[27:], data[18] & _CIPHER
    if cipher == _AES:
        names = data[8:18] + bytes([data[18] & ~_HOPS])
        return _opened(data, siv_open(siv_keys(key), data[:8] + data[19:27], names, body))
    if cipher not in (_SEALED, _PLAIN):
        raise ValueError("a cipher that is not spoken here")
    stream = _stream(key, data[:19], len(data), len(body))
    if not hmac.compare_digest(_mac(stream, body), data[19:27]):
        raise ValueError("not from where it says")
    if cipher == _SEALED:
        body = xor(body, stream[64:])
    elif body[0] & _VERB != HELLO:
        raise ValueError("not sealed")
    return _opened(data, body)


def _opened(data: bytes, body: bytes) -> Packet:
    payload = decompress(body[1:]) if body[0] & _COMPRESSED else body[1:]
    return Packet(data[:8], data[13:18].hex(), body[0] & _VERB, payload)


def _stream(key: bytes, head: bytes, size: int, body: int) -> bytes:
    """64 bytes, of which the first 32 are Poly1305's, and as many as the body has."""
    mixed = xor(key[:18], head[:18]) + bytes([key[18] ^ head[18] & ~_HOPS & 0xFF, key[19] ^ size & 0xFF, key[20] ^ size >> 8])
    return salsa12(mixed + key[21:32], head[:8], 64 + body)


def _mac(stream: bytes, body: bytes) -> bytes:
    return Poly1305.generate_tag(stream[:32], body)[:8]


def decompress(data: bytes) -> bytes:
    """One block of LZ4. Raises ValueError."""
    found, at = bytearray(), 0
    try:
        while True:
            token = data[at]
            literals, at = _count(data, at + 1, token >> 4)
            if at + literals > len(data):
                raise ValueError("a broken LZ4 block")
            found += data[at : at + literals]
            at += literals
            if at == len(data):
                return bytes(found)
            (back,) = struct.unpack_from("<H", data, at)
            length, at = _count(data, at + 2, token & 15)
            if not 0 < back <= len(found):
                raise ValueError("a broken LZ4 block")
            for _ in range(length + 4):
                found.append(found[-back])
    except (IndexError, struct.error):
        raise ValueError("a broken LZ4 block") from None


def _count(data: bytes, at: int, nibble: int) -> tuple[int, int]:
    total = nibble
    while nibble == 15:
        total += data[at]
        at += 1
        if data[at - 1] != 255:
            break
    return total, at


# -- what payloads are made of


def address(host: str, port: int) -> bytes:
    """An IPv4 socket address."""
    return b"\x04" + bytes(int(part) for part in host.split(".")) + struct.pack(">H", port)


_ESCAPES = {0: b"\\0", 13: b"\\r", 10: b"\\n", 92: b"\\\\", 61: b"\\e"}


def dictionary(entries: Mapping[str, bytes | int | str]) -> bytes:
    """Lines ``key=value``; numbers in hexadecimal digits."""
    lines = []
    for key, value in entries.items():
        raw = f"{value:x}".encode() if isinstance(value, int) else value.encode() if isinstance(value, str) else value
        lines.append(key.encode() + b"=" + b"".join(_ESCAPES.get(byte, bytes([byte])) for byte in raw) + b"\n")
    return b"".join(lines)
