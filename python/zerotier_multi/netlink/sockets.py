"""Netlink sockets: requests, dumps, errors and notifications. What they mean is :mod:`rtnl`.

Own code, because Debian 12's pyroute2 (0.7.2) knows no next-hop objects and costs the daemon 27 MB.
Formats: linux/netlink.h, rtnetlink(7).
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Self

from zerotier_multi.netlink.messages import HEADER, NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, Message, attributes, split

NETLINK_ROUTE, NETLINK_NETFILTER = 0, 12  # linux/netlink.h

_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_NLM_F_DUMP_INTR, _NLM_F_CAPPED, _NLM_F_ACK_TLVS = 0x10, 0x100, 0x200
_SOL_NETLINK = 270
_NETLINK_ADD_MEMBERSHIP, _NETLINK_EXT_ACK, _NETLINK_GET_STRICT_CHK = 1, 11, 12
_NLMSGERR_ATTR_MSG = 1
_RECEIVE = 1 << 18
MANY = 1000  # notifications of one reading: the loop has other things to do


class KernelError(OSError):
    """The kernel refused a request; the text is its own explanation where it gives one."""


class DumpInterrupted(Exception):
    """The kernel's tables changed while they were read: read again."""


def _open(protocol: int = NETLINK_ROUTE) -> socket.socket:
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
    sock.bind((0, 0))
    return sock


class Closable(ABC):
    """What is closed at the end of a ``with``."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Close it."""


class RouteSocket(Closable):
    """Requests to the kernel, one at a time, each with its answer."""

    def __init__(self) -> None:
        self._socket = _open()
        self._socket.settimeout(10)
        for option in (_NETLINK_EXT_ACK, _NETLINK_GET_STRICT_CHK):
            self._socket.setsockopt(_SOL_NETLINK, option, 1)
        self._sequence = 0

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def request(self, kind: int, body: bytes, flags: int = 0) -> None:
        """Send a request and wait for its acknowledgement. Raises :class:`KernelError`."""
        for _ in self._exchange(kind, body, flags | NLM_F_ACK):
            pass

    def answer(self, kind: int, body: bytes) -> bytes | None:
        """Body of the one message that answers a question. Raises :class:`KernelError`."""
        found = list(self._exchange(kind, body, NLM_F_ACK))
        return found[0] if found else None

    def dump(self, kind: int, body: bytes, keep: Callable[[bytes], bool] = bool) -> list[bytes]:
        """Bodies of those messages of a dump to ``keep``, read again when the tables changed meanwhile.

        Raises :class:`KernelError`.
        """
        for _attempt in range(10):
            try:
                return list(filter(keep, self._exchange(kind, body, NLM_F_DUMP)))
            except DumpInterrupted:
                continue
        raise KernelError(11, "the kernel's tables change too fast to be read; try again")

    def _exchange(self, kind: int, body: bytes, flags: int) -> Iterator[bytes]:
        self._sequence += 1
        header = HEADER.pack(HEADER.size + len(body), kind, flags | NLM_F_REQUEST, self._sequence, 0)
        self._socket.send(header + body)
        interrupted = False
        while True:
            for answer, answer_flags, sequence, content in split(self._socket.recv(_RECEIVE)):
                if sequence != self._sequence:
                    continue
                interrupted |= bool(answer_flags & _NLM_F_DUMP_INTR)
                if answer in (_NLMSG_ERROR, _NLMSG_DONE):
                    _raise_for(content, answer_flags)
                    if interrupted:
                        raise DumpInterrupted
                    return
                yield content


def _raise_for(content: bytes, flags: int) -> None:
    code = -struct.unpack_from("=i", content)[0] if len(content) >= 4 else 0
    if code <= 0:
        return
    text = os.strerror(code)
    if flags & _NLM_F_ACK_TLVS:
        echoed = struct.unpack_from("=I", content, 4)[0]
        start = 20 if flags & _NLM_F_CAPPED else 4 + echoed
        explanation = attributes(content[start:]).get(_NLMSGERR_ATTR_MSG)
        if explanation:
            text = explanation.rstrip(b"\0").decode("utf-8", "replace")
    raise KernelError(code, text)


class EventSocket(Closable):
    """Notifications of the kernel for a set of multicast groups; non-blocking, for an event loop."""

    def __init__(self, groups: list[int], protocol: int = NETLINK_ROUTE) -> None:
        self._socket = _open(protocol)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        for group in groups:
            self._socket.setsockopt(_SOL_NETLINK, _NETLINK_ADD_MEMBERSHIP, group)
        self._lost = False  # and the queue was not empty since

    def fileno(self) -> int:
        """For the event loop."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def read(self, keep: Callable[[Message], bool]) -> list[Message] | None:
        """Those messages to ``keep`` of the next ones that have arrived, :data:`MANY` at most; the rest stays readable.

        None where some were lost, so that everything must be read anew. The kernel then queues nothing more, and tells of
        no other loss, until the queue is empty. So the answer is None until it was.
        """
        found: list[Message] = []
        lost = self._lost
        for _ in range(MANY):
            try:
                datagram = self._socket.recv(_RECEIVE)
            except BlockingIOError:
                self._lost = False
                break
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                lost = self._lost = True
                continue
            if not lost:
                messages = (Message(kind, body) for kind, _flags, _sequence, body in split(datagram))
                found += filter(keep, messages)
        return None if lost else found
