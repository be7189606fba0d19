"""Netlink messages and attributes as bytes; pure. Formats: linux/netlink.h, rtnetlink(7)."""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP = 0x01, 0x04, 0x300
NLM_F_REPLACE, NLM_F_EXCL, NLM_F_CREATE = 0x100, 0x200, 0x400
NLA_F_NESTED = 0x8000

RTM_NEWLINK, RTM_DELLINK, RTM_GETLINK, RTM_SETLINK = 16, 17, 18, 19
RTM_NEWADDR, RTM_DELADDR, RTM_GETADDR = 20, 21, 22
RTM_NEWROUTE, RTM_DELROUTE, RTM_GETROUTE = 24, 25, 26
RTM_NEWNEIGH, RTM_DELNEIGH, RTM_GETNEIGH = 28, 29, 30
RTM_NEWRULE, RTM_DELRULE, RTM_GETRULE = 32, 33, 34
RTM_NEWNEXTHOP, RTM_DELNEXTHOP, RTM_GETNEXTHOP = 104, 105, 106
RTM_NEWNEXTHOPBUCKET, RTM_DELNEXTHOPBUCKET, RTM_GETNEXTHOPBUCKET = 116, 117, 118

GROUP_LINK, GROUP_NEIGH, GROUP_IPV4_ADDR, GROUP_IPV4_ROUTE = 1, 3, 5, 7
GROUP_IPV4_RULE, GROUP_IPV6_RULE = 8, 19
GROUP_IPV6_ADDR, GROUP_IPV6_ROUTE, GROUP_NEXTHOP = 9, 11, 32

HEADER = struct.Struct("=IHHII")


@dataclass(frozen=True)
class Message:
    """One netlink message: its type and what follows the header."""

    type: int
    body: bytes


def attribute(kind: int, value: bytes | int | str) -> bytes:
    """One attribute; an int is a u32, a str is zero-terminated."""
    if isinstance(value, int):
        value = struct.pack("=I", value)
    elif isinstance(value, str):
        value = value.encode() + b"\0"
    return struct.pack("=HH", len(value) + 4, kind) + value + bytes(-len(value) % 4)


def nested(kind: int, *inner: bytes) -> bytes:
    """An attribute that holds attributes."""
    return attribute(kind | NLA_F_NESTED, b"".join(inner))


def attributes(data: bytes) -> dict[int, bytes]:
    """The attributes in a byte string; the last of a kind counts, a malformed rest is left out."""
    found, offset = {}, 0
    while offset + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, offset)
        if length < 4 or offset + length > len(data):
            break
        found[kind & 0x3FFF] = data[offset + 4 : offset + length]
        offset += length + 3 & ~3
    return found


def split(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """(type, flags, sequence, body) of each message in a datagram."""
    offset = 0
    while offset + HEADER.size <= len(data):
        length, kind, flags, sequence, _port = HEADER.unpack_from(data, offset)
        if length < HEADER.size or offset + length > len(data):
            return
        yield kind, flags, sequence, data[offset + HEADER.size : offset + length]
        offset += length + 3 & ~3


def u32(data: bytes) -> int:
    """An attribute that is a number of 32 bits."""
    return int(struct.unpack_from("=I", data)[0])


def packed(address: str) -> bytes:
    """An address as the kernel has it."""
    return ipaddress.ip_address(address).packed


def family_of(text: str) -> int:
    """AF_INET or AF_INET6, of an address or a prefix."""
    return socket.AF_INET6 if ":" in text else socket.AF_INET
