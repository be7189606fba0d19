"""A probe on the wire: an ICMP echo request whose payload also tells the other router what we know; pure.

The kernel of any remote answers it, so nothing of ours is needed there, unless it shall not answer: then a daemon of
ours does (:func:`reply`). A remote that runs our daemon reads the
payload as well: masks of the instances whose paths work for us, of those that we use, and of those over which its own
probes have come lately. So both learn of a death that only one can see, as with BFD (RFC 5880), and a lost answer
alone is no sign of one.
"""

from __future__ import annotations

import ctypes
import random
import struct
from collections.abc import Sequence
from typing import NamedTuple

MAGIC = 0x7A746D31  # "ztm1"; another format gets another one
URGENT = 1  # flag: something has changed, read this at once
TWIN = 4  # flag: two routers with the identity of the one that reads this are heard
LARGE = 8  # flag: it has the size of a large packet, and a count of its own
BACKUP = 16  # flag: for the sender this path is a backup
# Flag 2 is not free: earlier versions set it where they do not read the reply.

ECHO_REQUEST = {4: 8, 6: 128}
ECHO_REPLY = {4: 0, 6: 129}

_IP_HEADER = {4: 20, 6: 40}
_ICMP = struct.Struct("!BBHHH")
# magic, flags, instance, ms for which the masks are good, time of sending (ns), heard, used, seen
_PAYLOAD = struct.Struct("!IBBHQIII")
SIZE = _ICMP.size + _PAYLOAD.size
# Behind that the load: use of the instance in percent, wait in ms (an earlier version says 0). Then the sender's token of
# this path, and the one that it has last had from the remote.
_LOAD = struct.Struct("!BB")
_TOKENS = struct.Struct("!QQ")
_PADDING = random.Random(MAGIC).randbytes(16384)  # engines compress what they can
_UNKNOWN = 255
_LONGEST = 255  # ms of a wait that is told


class Probe(NamedTuple):
    """One probe. Bit K-1 of a mask stands for instance K; ``sent`` in ns of the sender's own clock.

    ``use`` in percent is how hard the sending instance works; None where that is not measured. ``token`` is
    the sender's secret of this path, ``echo`` the remote's, 0 while there is none: see
    :class:`zerotier_multi.pathd.probe.trust.Trust`. (A tuple, because hundreds are made in a second.)
    """

    sequence: int
    urgent: bool
    instance: int
    good_ms: int
    sent: int
    heard: int
    used: int
    seen: int
    use: int | None = None
    token: int = 0
    echo: int = 0
    wait_ms: int = 0  # how much longer than at best the remote's probes take to the sender; more than a quarter of a second is 255
    twin: bool = False  # the sender hears another router with the reader's identity
    large: bool = False  # it shows whether packets of its size arrive, and ``sequence`` counts such
    backup: bool = False  # the sender uses the path only while no other one to the reader works


def checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071): a sum in ones' complement is the remainder of a division by 65535."""
    if len(data) % 2:
        data += b"\0"
    number = int.from_bytes(data, "big")
    return ~(number % 0xFFFF or (number and 0xFFFF)) & 0xFFFF


def encode(probe: Probe, family: int, identifier: int, size: int = 0) -> bytes:
    """An echo request, of an IP packet with ``size`` bytes at least; the kernel itself puts the checksum of ICMPv6 in."""
    sequence, urgent, instance, good_ms, sent, heard, used, seen, use, token, echo, wait_ms, twin, large, backup = probe
    flags = (URGENT * urgent) | (TWIN * twin) | (LARGE * large) | (BACKUP * backup)
    # The rest at the end, where an earlier version of the daemon does not look.
    payload = _PAYLOAD.pack(MAGIC, flags, instance, good_ms, sent, heard, used, seen)
    payload += _LOAD.pack(_UNKNOWN if use is None else use, min(wait_ms, _LONGEST)) + _TOKENS.pack(token, echo)
    payload += _PADDING[: max(0, size - _IP_HEADER[family] - _ICMP.size - len(payload))]
    kind = ECHO_REQUEST[family]
    packet = _ICMP.pack(kind, 0, 0, identifier, sequence & 0xFFFF) + payload
    return packet if family == 6 else _ICMP.pack(kind, 0, checksum(packet), identifier, sequence & 0xFFFF) + payload


def decode(packet: bytes, family: int) -> tuple[bool, int, Probe] | None:
    """(whether it is a reply, ICMP identifier, probe) of what a raw socket gave; None for anything else.

    A raw socket gives an IPv4 packet with its header, an IPv6 one without.
    """
    offset = (packet[0] & 0x0F) * 4 if family == 4 and packet else 0
    if len(packet) < offset + SIZE:
        return None
    kind, code, _sum, identifier, sequence = _ICMP.unpack_from(packet, offset)
    reply = kind == ECHO_REPLY[family]
    if code or not (reply or kind == ECHO_REQUEST[family]):
        return None
    magic, flags, instance, good_ms, sent, heard, used, seen = _PAYLOAD.unpack_from(packet, offset + _ICMP.size)
    if magic != MAGIC:
        return None
    tokens = offset + SIZE + _LOAD.size
    use, wait_ms = _LOAD.unpack_from(packet, offset + SIZE) if len(packet) >= tokens else (_UNKNOWN, 0)
    known = use if use <= 100 else None
    token, echo = _TOKENS.unpack_from(packet, tokens) if len(packet) >= tokens + _TOKENS.size else (0, 0)
    urgent = bool(flags & URGENT)
    return (
        reply,
        identifier,
        Probe(
            sequence,
            urgent,
            instance,
            good_ms,
            sent,
            heard,
            used,
            seen,
            known,
            token,
            echo,
            wait_ms,
            bool(flags & TWIN),
            bool(flags & LARGE),
            bool(flags & BACKUP),
        ),  # fmt: skip
    )


def reply(request: bytes, family: int) -> bytes:
    """The echo reply to a request that a raw socket gave, as a kernel makes it."""
    offset = (request[0] & 0x0F) * 4 if family == 4 else 0
    packet = bytes([ECHO_REPLY[family], 0, 0, 0]) + request[offset + 4 :]
    return packet if family == 6 else packet[:2] + checksum(packet).to_bytes(2, "big") + packet[4:]


# -- classic BPF, so that only what is ours wakes the daemon (linux/filter.h)

_LDX_MSH, _LD_W_IND, _LD_B_IND, _LD_W_ABS, _LD_B_ABS = 0xB1, 0x40, 0x50, 0x20, 0x30
_JEQ, _JSET, _RET = 0x15, 0x45, 0x06
_ALL, _NONE = 0x40000, 0
_IFINDEX = 0xFFFFF008  # SKF_AD_OFF + SKF_AD_IFINDEX: not in the packet
_MOST_DEVICES = 250  # a jump goes no further


def packet_filter(family: int, urgent: bool, devices: Sequence[int]) -> list[tuple[int, int, int, int]]:
    """A filter for a raw socket: urgent requests only, or every other request and all replies.

    Only of ``devices``, by ifindex (in a VRF the kernel may name that one instead); of none when there are none.
    """
    return [*_from(devices), *_probes(family, urgent)]


def _from(devices: Sequence[int]) -> list[tuple[int, int, int, int]]:
    count = len(devices)
    if count > _MOST_DEVICES:
        return []
    tests = [(_JEQ, count - n, 0, device) for n, device in enumerate(devices)]
    return [(_LD_W_ABS, 0, 0, _IFINDEX), *tests, (_RET, 0, 0, _NONE)]


def _probes(family: int, urgent: bool) -> list[tuple[int, int, int, int]]:
    word, byte = (_LD_W_IND, _LD_B_IND) if family == 4 else (_LD_W_ABS, _LD_B_ABS)
    begin = [(_LDX_MSH, 0, 0, 0)] if family == 4 else []
    magic, flags = _ICMP.size, _ICMP.size + 4
    if urgent:
        return [
            *begin,
            (word, 0, 0, magic), (_JEQ, 0, 5, MAGIC),
            (byte, 0, 0, 0), (_JEQ, 0, 3, ECHO_REQUEST[family]),
            (byte, 0, 0, flags), (_JSET, 0, 1, URGENT),
            (_RET, 0, 0, _ALL), (_RET, 0, 0, _NONE),
        ]  # fmt: skip
    return [
        *begin,
        (word, 0, 0, magic), (_JEQ, 0, 5, MAGIC),
        (byte, 0, 0, 0), (_JEQ, 2, 0, ECHO_REPLY[family]),
        (byte, 0, 0, flags), (_JSET, 1, 0, URGENT),
        (_RET, 0, 0, _ALL), (_RET, 0, 0, _NONE),
    ]  # fmt: skip


class _Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint16), ("jt", ctypes.c_uint8), ("jf", ctypes.c_uint8), ("k", ctypes.c_uint32)]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Instruction))]


def sock_fprog(program: list[tuple[int, int, int, int]]) -> tuple[bytes, object]:
    """The value of SO_ATTACH_FILTER, and what must be kept alive until it is set."""
    instructions = (_Instruction * len(program))(*(_Instruction(*line) for line in program))
    return bytes(_Program(len(program), instructions)), instructions
