"""Instances that run but do not work: their API is asked now and then, and one that stays silent is killed.

systemd starts it again at once. Any answer of a program of root's counts, also a refusal, so no token is needed. Nothing
here waits: the answers come through the daemon's loop.

Silence at the socket in the home means a hang, because nobody but root can take its places. Over TCP anybody can keep an
engine busy, so there it counts only when others cannot be the cause (:meth:`Hangs._verdict` says when).
"""

from __future__ import annotations

import socket
from asyncio import AbstractEventLoop
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from zerotier_multi import apiway
from zerotier_multi.listener import ESTABLISHED, Sock, is_root_at, look, others, rows
from zerotier_multi.pathd.instances.progress import progress
from zerotier_multi.pathd.loop import Alarm

PERIOD = 10.0  # seconds between two questions to an instance
PATIENCE = 5.0  # seconds for an answer
GRACE = 3.0  # seconds more when nobody else is there, for questions that others put before ours
STRIKES = 3  # questions in a row without an answer
_QUESTION = b"GET /status HTTP/1.0\r\n\r\n"


@dataclass(frozen=True)
class Door:
    """Where an instance is asked."""

    home: Path
    port: int


@dataclass
class Record:
    """What is known of one instance; times are seconds of one clock."""

    next_ask: float
    silent: int = 0  # questions in a row without an answer
    asked_at: float | None = None
    until: float = 0.0  # when the answer has to be there
    graced: bool = False
    done: int | None = None  # what its main thread had done when it was silent in a crowd last
    crowded: bool = False
    connection: socket.socket | None = field(default=None, repr=False)


class Hangs:
    """Asks instances, known by their units, and tells which ones hang.

    ``hung`` is called with a unit that has not answered :data:`STRIKES` times in a row, ``busy`` with a unit and who else
    holds how many connections to its API when these keep it from answering, once until it answers again.
    """

    def __init__(
        self,
        loop: AbstractEventLoop,
        hung: Callable[[str], None],
        busy: Callable[[str, Counter[str]], None],
        done: Callable[[str], int | None] = progress,
        sockets: Callable[[], list[Sock]] = rows,
    ) -> None:
        self._loop, self._hung, self._busy, self._done, self._sockets = loop, hung, busy, done, sockets
        self._alarm = Alarm(loop, self.work)
        self._records: dict[str, Record] = {}
        self._doors: dict[str, Door] = {}

    def configure(self, doors: Mapping[str, Door], now: float) -> None:
        """Look after exactly these units.

        A unit that is new gets a whole period to start.
        """
        for unit in [u for u in self._records if doors.get(u) != self._doors.get(u)]:
            self._drop(self._records.pop(unit))
        self._doors = dict(doors)
        for unit in doors:
            self._records.setdefault(unit, Record(now + PERIOD))
        self._alarm.set(self.wake)

    @property
    def wake(self) -> float | None:
        """When :meth:`work` has something to do."""
        return min((r.next_ask if r.asked_at is None else r.until for r in self._records.values()), default=None)

    def work(self, now: float) -> None:
        """Ask who is due, and judge who has not answered in time."""
        sockets: list[Sock] | None = None  # read once for all, as it costs what others make of it
        for unit, record in list(self._records.items()):
            if record.asked_at is not None and now >= record.until:
                if sockets is None and record.connection is not None and record.connection.family == socket.AF_INET:
                    sockets = self._sockets()
                self._verdict(unit, record, now, sockets or [])
            if record.asked_at is None and now >= record.next_ask:
                self._ask(unit, record, now)
        self._alarm.set(self.wake)

    def _ask(self, unit: str, record: Record, now: float) -> None:
        record.asked_at, record.until, record.graced = now, now + PATIENCE, False
        door = self._doors[unit]
        try:
            record.connection = connection = apiway.begin(door.home, door.port)
        except BlockingIOError:  # nobody has taken a connection at its socket for long
            return
        except OSError:  # our own trouble says nothing about the instance
            self._settle(record, silent=record.silent)
            return
        self._loop.add_writer(connection, self._connected, record, connection)

    def _connected(self, record: Record, connection: socket.socket) -> None:
        self._loop.remove_writer(connection)
        self._loop.add_reader(connection, self._answered, record, connection)
        try:
            connection.send(_QUESTION)
        except OSError:
            # Nobody listens. A process that has just begun or ended is systemd's business, so no answer is awaited.
            self._settle(record, silent=record.silent)

    def _answered(self, record: Record, connection: socket.socket) -> None:
        believed = is_root_at(connection)
        try:
            alive = bool(connection.recv(64)) and believed
        except BlockingIOError:
            return
        except OSError:
            alive = False
        if alive:
            record.crowded, record.done = False, None
        self._settle(record, silent=0 if alive else record.silent)

    def _settle(self, record: Record, silent: int) -> None:
        record.silent = silent
        record.next_ask = (record.asked_at or 0.0) + PERIOD
        record.asked_at = None
        self._drop(record)
        self._alarm.set(self.wake)

    # -- silence

    def _verdict(self, unit: str, record: Record, now: float, sockets: list[Sock]) -> None:
        """What silence means.

        At the socket in the home: a hang. Over TCP engines serve in turn. So when the connection is made and nobody else
        has one, ours comes next, whatever comes after it; then silence is a hang too. Otherwise only an instance whose
        main thread, which carries its packets, has done nothing since the last silence hangs.
        """
        connection = record.connection
        if record.graced or connection is None or connection.family == socket.AF_UNIX:
            self._strike(unit, record, now)
            return
        port = self._doors[unit].port
        listening = look(("127.0.0.1", port))
        if listening is None or listening.user:  # not ours, so it says nothing about the instance
            self._settle(record, silent=record.silent)
            return
        crowd = others(port, sockets)
        if not crowd and _is_in_turn(connection, port):
            record.graced, record.until = True, now + GRACE
            return
        before, record.done = record.done, self._done(unit)
        if before is not None and before == record.done:
            self._strike(unit, record, now)
            return
        self._settle(record, silent=record.silent)
        if crowd and not record.crowded:
            record.crowded = True
            self._busy(unit, crowd)

    def _strike(self, unit: str, record: Record, now: float) -> None:
        self._settle(record, silent=record.silent + 1)
        if record.silent >= STRIKES:
            record.silent, record.done = 0, None
            record.next_ask = now + PERIOD
            self._alarm.set(self.wake)
            self._hung(unit)

    def _drop(self, record: Record) -> None:
        if record.connection is not None:
            self._loop.remove_writer(record.connection)
            self._loop.remove_reader(record.connection)
            record.connection.close()
            record.connection = None


def _is_in_turn(connection: socket.socket, port: int) -> bool:
    """Whether the kernel has handed our connection to the instance, which takes them one after the other."""
    try:
        there = look(("127.0.0.1", port), connection.getsockname()[:2])
    except OSError:
        return False
    return there is not None and there.state == ESTABLISHED
