"""Whose sockets these are, as the kernel knows it: a token is told, and an answer believed, of root's programs alone.

While an instance does not run anybody may take its port, and would be told its token.
"""

from __future__ import annotations

import pwd
import socket
import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

ESTABLISHED, LISTENING = 1, 10  # net/tcp_states.h
TABLES = (Path("/proc/self/net/tcp"), Path("/proc/self/net/tcp6"))
UDP_TABLES = (Path("/proc/self/net/udp"), Path("/proc/self/net/udp6"))

_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST = 4, 20, 1
_ANY, _NO_COOKIE = ("0.0.0.0", 0), 0xFFFFFFFF
_HEADER = struct.Struct("=IHHII")
_MESSAGE = struct.Struct("=BBBB HH16s16sI8s IIIII")  # struct inet_diag_msg; the ports are in network order

Place = tuple[str, int]  # address and port


@dataclass(frozen=True)
class Sock:
    """A TCP or UDP socket. One without an inode belongs to no process: not accepted yet, or closed; its user means nothing."""

    own: Place
    other: Place
    state: int
    user: int
    inode: int


def is_root_at(connection: socket.socket) -> bool:
    """Whether a program of root is at the other end of a connection to this machine, Unix or TCP.

    The order of the questions about TCP matters. Who has not accepted the connection yet still listens, so his socket is
    among those that listen while it is not; and who has accepted it is known by that.
    """
    try:
        if connection.family == socket.AF_UNIX:
            credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            return struct.unpack("3i", credentials)[1] == 0
        here, there = connection.getsockname()[:2], connection.getpeername()[:2]
        listening = look(there)
        if listening is None or listening.user:
            return False
        accepted = look(there, here)
    except OSError:
        return False
    return accepted is not None and (not accepted.inode or accepted.user == 0)


def look(own: Place, other: Place = _ANY) -> Sock | None:
    """The IPv4 TCP socket at ``own`` that is connected to ``other``, or the one that listens there. Raises OSError."""
    try:
        found = _ask_kernel(own, other)
    except OSError:  # a kernel without sock_diag
        found = _find(rows(TABLES[:1]), own, other)
    # The kernel names the listener where there is no such connection.
    return found if found and (found.state == LISTENING) == (other == _ANY) else None


def _ask_kernel(own: Place, other: Place) -> Sock | None:
    """One question of NETLINK_SOCK_DIAG (sock_diag(7)); its cost does not grow with the sockets of others."""
    question = struct.pack("=BBBBI", socket.AF_INET, socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF)
    question += struct.pack("!HH", own[1], other[1])
    question += socket.inet_aton(own[0]).ljust(16, b"\0") + socket.inet_aton(other[0]).ljust(16, b"\0")
    question += struct.pack("=III", 0, _NO_COOKIE, _NO_COOKIE)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(1)
        kernel.send(_HEADER.pack(_HEADER.size + len(question), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0) + question)
        answer = kernel.recv(8192)
    if _HEADER.unpack_from(answer)[1] != _SOCK_DIAG_BY_FAMILY:
        raise OSError("no answer")  # no such socket, or a kernel that cannot tell: the table says which
    _family, state, _timer, _retrans, _port, port, _own, _other, _if, _cookie, *numbers = _MESSAGE.unpack_from(answer, _HEADER.size)
    user, inode = numbers[3:]
    connected = state == LISTENING or socket.ntohs(port) == other[1]
    return Sock(own, other, state, user, inode) if connected else None


def _find(sockets: Iterable[Sock], own: Place, other: Place) -> Sock | None:
    for one in sockets:
        if other == _ANY and one.state == LISTENING and one.own in (own, ("0.0.0.0", own[1])):
            return one
        if one.own == own and one.other == other:
            return one
    return None


def rows(tables: Sequence[Path] = TABLES) -> list[Sock]:
    """All sockets of this machine, as ``/proc/net/tcp`` and its like have them. A table that is not there has none."""
    found = []
    for table in tables:
        try:
            lines = table.read_text().splitlines()[1:]
        except OSError:
            continue
        for words in map(str.split, lines):
            if len(words) > 9:
                found.append(Sock(_place(words[1]), _place(words[2]), int(words[3], 16), int(words[7]), int(words[9])))
    return found


def _place(text: str) -> Place:
    """``0100007F:2709``: the kernel writes an address as numbers of 32 bits in the machine's order."""
    address, _colon, port = text.partition(":")
    packed = b"".join(struct.pack("=I", int(address[i : i + 8], 16)) for i in range(0, len(address), 8))
    made = IPv4Address(packed) if len(packed) == 4 else IPv6Address(packed)
    mapped = made.ipv4_mapped if isinstance(made, IPv6Address) else None
    return str(mapped or made), int(port, 16)


def others(port: int, sockets: Sequence[Sock]) -> Counter[str]:
    """Who else than root holds connections to a port of this machine, with how many: users, and hosts outside.

    ``sockets`` is what :func:`rows` has found. Connections that their caller has closed hold nobody up.
    """
    callers = {(one.own, one.other): one for one in sockets if one.state == ESTABLISHED and one.other[1] == port}
    here = {one.own[0] for one in sockets}
    found: Counter[str] = Counter()
    for one in sockets:
        if one.own[1] != port or one.state != ESTABLISHED:
            continue
        caller = callers.get((one.other, one.own))
        if caller is None:
            if one.other[0] not in here:
                found[f"host {one.other[0]}"] += 1
        elif caller.inode and caller.user:
            found[f"user {user_name(caller.user)}"] += 1
    return found


def user_name(user: int) -> str:
    """The name of a user, or the number of one without."""
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


def crowd(found: Counter[str]) -> str:
    """``40 connections of user nobody and 3 of host 203.0.113.9``; the three that have most."""
    told = [f"{count} connection{'s' if count > 1 and not i else ''} of {who}" if not i else f"{count} of {who}"
            for i, (who, count) in enumerate(found.most_common(3))]  # fmt: skip
    return " and ".join(told)
