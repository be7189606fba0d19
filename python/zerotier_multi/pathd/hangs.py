"""Instances that run but do not work: their API is asked now and then, and one that stays silent is killed.

systemd starts it again at once. Any answer counts, also a refusal, so no token is needed. Nothing here waits: the
answers come through the daemon's selector.
"""

from __future__ import annotations

import selectors
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

PERIOD = 10.0  # seconds between two questions to an instance
PATIENCE = 5.0  # seconds for an answer
STRIKES = 3  # questions in a row without an answer
_QUESTION = b"GET /status HTTP/1.0\r\n\r\n"


@dataclass
class Record:
    """What is known of one instance; times are seconds of one clock."""

    next_ask: float
    silent: int = 0  # questions in a row without an answer
    asked_at: float | None = None
    connection: socket.socket | None = field(default=None, repr=False)


class Hangs:
    """Asks instances, known by their units, and tells which ones hang.

    ``hung`` is called with a unit that has not answered :data:`STRIKES` times in a row.
    """

    def __init__(self, selector: selectors.BaseSelector, hung: Callable[[str], None]) -> None:
        self._selector, self._hung = selector, hung
        self._records: dict[str, Record] = {}
        self._ports: dict[str, int] = {}

    def configure(self, ports: Mapping[str, int], now: float) -> None:
        """Look after exactly these units; ``ports`` are those of their APIs.

        A unit that is new gets a whole period to start.
        """
        for unit in [u for u in self._records if ports.get(u) != self._ports.get(u)]:
            self._drop(self._records.pop(unit))
        self._ports = dict(ports)
        for unit in ports:
            self._records.setdefault(unit, Record(now + PERIOD))

    @property
    def wake(self) -> float | None:
        """When :meth:`work` has something to do."""
        return min((r.next_ask if r.asked_at is None else r.asked_at + PATIENCE for r in self._records.values()), default=None)

    def work(self, now: float) -> None:
        """Ask who is due, and count who has not answered in time."""
        for unit, record in list(self._records.items()):
            if record.asked_at is not None and now >= record.asked_at + PATIENCE:
                self._silent(unit, record, now)
            if record.asked_at is None and now >= record.next_ask:
                self._ask(unit, record, now)

    def _ask(self, unit: str, record: Record, now: float) -> None:
        record.asked_at = now
        try:
            connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        except OSError:  # our own trouble says nothing about the instance
            self._settle(record, silent=record.silent)
            return
        record.connection = connection
        connection.connect_ex(("127.0.0.1", self._ports[unit]))
        self._selector.register(
            connection, selectors.EVENT_WRITE, lambda: self._connected(unit, record, connection)
        )

    def _connected(self, unit: str, record: Record, connection: socket.socket) -> None:
        self._selector.modify(connection, selectors.EVENT_READ, lambda: self._answered(record, connection))
        try:
            connection.send(_QUESTION)
        except OSError:
            # Nobody listens. A process that has just begun or ended is systemd's business, so no answer is awaited.
            self._settle(record, silent=record.silent)

    def _answered(self, record: Record, connection: socket.socket) -> None:
        try:
            alive = bool(connection.recv(64))
        except BlockingIOError:
            return
        except OSError:
            alive = False
        self._settle(record, silent=0 if alive else record.silent)

    def _settle(self, record: Record, silent: int) -> None:
        record.silent = silent
        record.next_ask = (record.asked_at or 0.0) + PERIOD
        record.asked_at = None
        self._drop(record)

    def _silent(self, unit: str, record: Record, now: float) -> None:
        self._settle(record, silent=record.silent + 1)
        if record.silent >= STRIKES:
            record.silent = 0
            record.next_ask = now + PERIOD
            self._hung(unit)

    def _drop(self, record: Record) -> None:
        if record.connection is not None:
            self._selector.unregister(record.connection)
            record.connection.close()
            record.connection = None
