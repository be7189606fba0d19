"""Raw sockets that probes leave and arrive by: their options, their filter, what the kernel tells of a packet."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator

from zerotier_multi.pathd.probe import wire

_MANY = 4096  # packets of one reading, so that a flood holds nobody up
_LARGEST = 16384  # bytes of a packet: more than any device of a bundle takes

_IP_PKTINFO, _IP_TOS, _IP_TTL = 8, 1, 2
_IPV6_PKTINFO, _IPV6_RECVPKTINFO, _IPV6_UNICAST_HOPS = 50, 49, 16
_IPV6_RECVHOPLIMIT, _IPV6_HOPLIMIT, _IPV6_TCLASS = 51, 52, 67
_SO_TIMESTAMPNS, _SO_ATTACH_FILTER = 35, 26
_SO_PRIORITY, _CONTROL = 12, 7
_SO_RCVBUFFORCE, _ROOM = 33, 1 << 22  # bytes: 64-fold probes over many paths come back within one interval
HOPS = 255  # what comes from further away has fewer left (RFC 5082)
_CS6 = 0xC0


def received(sock: socket.socket) -> Iterator[tuple[bytes, list[tuple[int, int, bytes]], int, tuple[str, int]]]:
    """What :meth:`socket.socket.recvmsg` gives until nothing is there, or very much was."""
    receive = sock.recvmsg
    try:
        for _ in range(_MANY):
            yield receive(_LARGEST, 256)
    except OSError:
        return


def opened(family: int, urgent: bool) -> socket.socket | None:
    """A raw ICMP socket that gets nothing but probes; None where the kernel has no such family."""
    kind = socket.AF_INET if family == 4 else socket.AF_INET6
    protocol = socket.IPPROTO_ICMP if family == 4 else socket.IPPROTO_ICMPV6
    try:
        sock = socket.socket(kind, socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, protocol)
    except OSError:
        return None
    attach(sock, wire.packet_filter(family, urgent, ()))
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _ROOM)
    except OSError:  # wants CAP_NET_ADMIN in the first user namespace
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _ROOM)
    sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    sock.setsockopt(socket.SOL_SOCKET, _SO_PRIORITY, _CONTROL)
    if family == 4:
        for option, setting in ((_IP_PKTINFO, 1), (_IP_TTL, HOPS), (_IP_TOS, _CS6)):
            sock.setsockopt(socket.IPPROTO_IP, option, setting)
    else:
        options = ((_IPV6_RECVPKTINFO, 1), (_IPV6_RECVHOPLIMIT, 1), (_IPV6_UNICAST_HOPS, HOPS), (_IPV6_TCLASS, _CS6))
        for option, setting in options:
            sock.setsockopt(socket.IPPROTO_IPV6, option, setting)
    return sock


def attach(sock: socket.socket, program: list[tuple[int, int, int, int]]) -> None:
    """Let the socket receive only what the filter program accepts."""
    value, alive = wire.sock_fprog(program)
    sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, value)
    del alive


def sender(sock: socket.socket | None, family: int, index: int, source: str, via: str) -> Callable[[bytes], None]:
    """What sends a packet over a path: out of its device, from its address."""
    if sock is None:
        return lambda _packet: None
    address: tuple[str | int, ...]
    if family == 4:
        own = struct.pack("=i4s4x", index, socket.inet_pton(socket.AF_INET, source))
        ancillary, address = [(socket.IPPROTO_IP, _IP_PKTINFO, own)], (via, 0)
    else:
        own = struct.pack("=16sI", socket.inet_pton(socket.AF_INET6, source), index)
        ancillary, address = [(socket.IPPROTO_IPV6, _IPV6_PKTINFO, own)], (via, 0, 0, 0)

    def send(packet: bytes) -> None:
        try:
            sock.sendmsg((packet,), ancillary, 0, address)
        except OSError:
            return  # a path that takes no packet gives no answer either

    return send


def told_by_kernel(messages: list[tuple[int, int, bytes]], packet: bytes, family: int) -> tuple[int, float, int]:
    """(ifindex, time of arrival by the wall clock or 0, hops left) of a packet."""
    index, stamp, hops = 0, 0.0, packet[8] if family == 4 else 0
    for level, kind, data in messages:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS:
            seconds, nanoseconds = struct.unpack_from("=qq", data)
            stamp = seconds + nanoseconds / 1e9
        elif level == socket.IPPROTO_IP and kind == _IP_PKTINFO:
            index = struct.unpack_from("=i", data)[0]
        elif level == socket.IPPROTO_IPV6 and kind == _IPV6_PKTINFO:
            index = struct.unpack_from("=I", data, 16)[0]
        elif level == socket.IPPROTO_IPV6 and kind == _IPV6_HOPLIMIT:
            hops = struct.unpack_from("=i", data)[0]
    return index, stamp, hops
