"""What the two ends of a run say to each other: a control connection with a line of JSON for each message, and data.

Everything goes through member devices alone: sockets are bound to one, so that nothing is reached from a WAN.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Mapping
from typing import Any

from zerotier_multi.plan import PathPlan, Plan

PORT = 29993  # of the end that receives; below the kernel's range for unbound sockets
VERSION = 1
LINE = 1 << 20  # bytes of a message at most
PATIENCE = 5.0  # seconds for a message
BLOCK = 1 << 18  # bytes that are sent or received at once

# struct tcp_info of Linux 4.6 and later: total_retrans is 100 bytes in, segs_out 136.
_RETRANSMITTED, _SENT, _TCP_INFO = 100, 136, 144


class WireError(Exception):
    """The other end does not answer, or not as it should; the text is a clause."""


def own_address(plan: Plan, path: PathPlan) -> str | None:
    """This router's transit address on a path; None where it has none of that family."""
    instance = plan.instance(path.instance)
    addresses = [word.partition("/")[0] for word in instance.transit] if instance else []
    return next((address for address in addresses if (":" in address) == (path.family == 6)), None)


def _socket(family: int, device: str) -> socket.socket:
    made = socket.socket(socket.AF_INET6 if family == 6 else socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode() + b"\0")
    return made


def listener(device: str, address: str, port: int = PORT) -> socket.socket:
    """A socket that listens on one address of one device alone. Raises OSError."""
    made = _socket(6 if ":" in address else 4, device)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((address, port))
        made.listen(64)
    except OSError:
        made.close()
        raise
    return made


def connect(device: str, source: str, target: str, port: int = PORT, patience: float = PATIENCE) -> socket.socket:
    """A connection through a device. Raises OSError."""
    made = _socket(6 if ":" in target else 4, device)
    try:
        made.settimeout(patience)
        made.bind((source, 0))
        made.connect((target, port))
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError:
        made.close()
        raise
    return made


def say(connection: socket.socket, message: Mapping[str, Any]) -> None:
    """Send a message. Raises :class:`WireError`."""
    try:
        connection.sendall(json.dumps(message).encode() + b"\n")
    except OSError as error:
        raise WireError(f"the connection broke ({error.strerror or error})") from None


def hear(connection: socket.socket) -> dict[str, Any]:
    """The next message; nothing behind its end is taken. Raises :class:`WireError`."""
    text = bytearray()
    try:
        while not text.endswith(b"\n"):
            ahead = connection.recv(LINE, socket.MSG_PEEK)
            size = ahead.find(b"\n") + 1 or len(ahead)
            if not ahead or len(text) + size > LINE:
                raise WireError("the connection ended")
            text += connection.recv(size)
        found = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise WireError(f"there was no answer ({error})") from None
    if not isinstance(found, dict):
        raise WireError("the answer is of another program")
    return found


def segments(connection: socket.socket) -> tuple[int, int]:
    """Segments that a connection has sent, and how many of them again."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO)
    if len(info) < _TCP_INFO - 4:
        return 0, 0
    return struct.unpack_from("=I", info, _SENT)[0], struct.unpack_from("=I", info, _RETRANSMITTED)[0]


def send_until_closed(connection: socket.socket) -> None:
    """Send as fast as the connection takes it, until somebody shuts it down."""
    block = os.urandom(BLOCK)  # which no engine can compress
    try:
        connection.settimeout(None)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 30, 0))
        while True:
            connection.send(block)
    except OSError:
        return
