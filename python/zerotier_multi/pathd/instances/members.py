"""Where instances stand on the network of a controller: asked of their APIs while not all their paths are up.

Nothing here waits: the answers come through the daemon's loop. A question may bring the token of the home, so it is
put to root's programs alone.
"""

from __future__ import annotations

import json
import re
import socket
from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zerotier_multi import apiway, membership
from zerotier_multi.listener import is_root_at
from zerotier_multi.membership import Member
from zerotier_multi.pathd.loop import Alarm
from zerotier_multi.plan import InstancePlan, Plan
from zerotier_multi.states import NetworkState, PathState

PERIOD, SLOW = 2.0, 10.0  # seconds between two questions to an instance: after a change, and later on
SETTLED = 60.0  # seconds without a change after which it is asked less often
PATIENCE = 1.0  # seconds for both answers
GRACE = 10.0  # seconds in which an instance may look for a root and ask its controller before that is told
_LIMIT = 1 << 18  # bytes of an answer
_QUESTIONS = ("/status", "/network")


@dataclass(frozen=True)
class Told:
    """What an instance has told."""

    status: str | None  # ZeroTier's word for its network
    online: bool
    node: str | None


@dataclass
class Record:
    """One instance that is asked; times are seconds of one clock."""

    instance: InstancePlan
    next_ask: float
    changed_at: float
    told: Told | None = None
    shown: Member | None = None  # what was made of it last
    hushed: bool = False  # what it tells now is not shown yet
    asked_at: float | None = None
    answers: list[Any] = field(default_factory=list)
    received: bytes = b""
    connection: socket.socket | None = field(default=None, repr=False)


class Members:
    """Asks who has paths that are not up; ``changed`` is called when an answer is another one than before."""

    def __init__(
        self, loop: AbstractEventLoop, changed: Callable[[], None], trusted: Callable[[socket.socket], bool] = is_root_at
    ) -> None:
        self._loop, self._changed, self._trusted = loop, changed, trusted
        self._alarm = Alarm(loop, self.work)
        self._records: dict[str, Record] = {}  # by unit
        self._found: dict[str, Member] = {}  # by device
        self._nodes: dict[str, str] = {}  # by unit, as told last

    def look(self, plans: Iterable[Plan], known: Mapping[int, PathState], now: float) -> dict[str, Member]:
        """Where each instance stands, by device, as far as it is known; from now on the others are asked.

        ``known`` are the states of the paths, by their next hops.
        """
        wanted: dict[str, InstancePlan] = {}
        self._found = {}
        for plan in plans:
            for instance in plan.instances if not plan.controller_free else ():
                states = [(path.remote, known[path.nexthop_id]) for path in plan.paths if path.instance == instance.number]
                if states and all(word == PathState.UP for _remote, word in states):
                    node = self._nodes.get(instance.unit)
                    member = membership.member(plan, instance, "OK", True, node, states)
                else:
                    wanted[instance.unit] = instance
                    member = self._stands(plan, instance, states, now)
                if member:
                    self._found[instance.device] = member
        self._configure(wanted, now)
        return self._found

    def _stands(self, plan: Plan, instance: InstancePlan, states: Sequence[tuple[str, PathState]], now: float) -> Member | None:
        """Where an instance stands that is asked. One that has just been started is about to find its root."""
        record = self._records.get(instance.unit)
        if record is None or record.instance != instance or record.told is None:
            return None
        told = record.told
        member = membership.member(plan, instance, told.status, told.online, told.node, states)
        early = now < record.changed_at + GRACE
        record.hushed = early and member is not None and member.word in (NetworkState.NO_ROOT, NetworkState.REQUESTING)
        if not record.hushed:
            record.shown = member
        return record.shown

    def word(self, device: str) -> str | None:
        """The word for the instance of a device, as of the last look."""
        member = self._found.get(device)
        return member.word if member else None

    def refused(self, device: str) -> bool:
        """Whether the instance of a device reaches a root and the network is what it waits for: no restart helps."""
        member = self._found.get(device)
        return member is not None and member.waits and member.word != NetworkState.NO_ROOT

    def left(self, device: str, now: float) -> bool:
        """Whether an instance has said for a while that it is on no such network as the plan's."""
        record = next((r for r in self._records.values() if r.instance.device == device), None)
        told = record.told if record else None
        return bool(record and told and told.node and told.status is None and now >= record.changed_at + GRACE)

    def _configure(self, wanted: dict[str, InstancePlan], now: float) -> None:
        for unit in [u for u, record in self._records.items() if wanted.get(u) != record.instance]:
            self._drop(self._records.pop(unit))
        for unit, instance in wanted.items():
            if unit not in self._records:
                self._records[unit] = Record(instance, now, now)
        self._alarm.set(self.wake)

    @property
    def wake(self) -> float | None:
        """When :meth:`work` has something to do."""
        return min((r.next_ask if r.asked_at is None else r.asked_at + PATIENCE for r in self._records.values()), default=None)

    def work(self, now: float) -> None:
        """Ask who is due, and give up on who has not answered in time."""
        for record in list(self._records.values()):
            if record.asked_at is not None and now >= record.asked_at + PATIENCE:
                self._settle(record)
            if record.asked_at is None and now >= record.next_ask:
                self._ask(record, now)
        self._alarm.set(self.wake)

    def _ask(self, record: Record, now: float) -> None:
        record.asked_at = now
        try:
            connection = apiway.begin(Path(record.instance.home), record.instance.port)
        except OSError:
            self._settle(record)
            return
        record.connection = connection
        self._loop.add_writer(connection, self._send, record, connection)

    def _send(self, record: Record, connection: socket.socket) -> None:
        """The connection stands: put the next question."""
        try:
            if not self._trusted(connection):
                raise OSError
            head = {"Host": "127.0.0.1", **apiway.headers(Path(record.instance.home), connection), "Connection": "keep-alive"}
            lines = [f"GET {_QUESTIONS[len(record.answers)]} HTTP/1.1", *(f"{name}: {value}" for name, value in head.items())]
            connection.send("\r\n".join([*lines, "", ""]).encode())
        except (OSError, ValueError):
            self._settle(record)  # it does not run yet, or any more
            return
        record.received = b""
        self._loop.remove_writer(connection)
        self._loop.add_reader(connection, self._receive, record, connection)

    def _receive(self, record: Record, connection: socket.socket) -> None:
        try:
            part = connection.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        record.received += part
        try:
            answer = decode(record.received)
        except ValueError:
            self._settle(record)
            return
        if answer is None:
            if not part or len(record.received) > _LIMIT:
                self._settle(record)
            return
        record.answers.append(answer)
        if len(record.answers) < len(_QUESTIONS):
            self._send(record, connection)
            return
        told = _told(record.answers, record.instance.network_id)
        changed, before = told != record.told, record.told
        due = record.hushed and record.asked_at is not None and record.asked_at >= record.changed_at + GRACE
        record.told = told
        if told.node:
            self._nodes[record.instance.unit] = told.node
        if changed and record.asked_at is not None:
            record.changed_at = record.asked_at
        self._settle(record)
        if due or (changed and (before is not None or told.status is not None)):
            self._changed()

    def _settle(self, record: Record) -> None:
        asked = record.asked_at or 0.0
        record.next_ask = asked + (PERIOD if asked < record.changed_at + SETTLED else SLOW)
        record.asked_at, record.answers, record.received = None, [], b""
        self._drop(record)
        self._alarm.set(self.wake)

    def _drop(self, record: Record) -> None:
        """We close first: a server that does keeps its port busy over its restart."""
        if record.connection is not None:
            self._loop.remove_writer(record.connection)
            self._loop.remove_reader(record.connection)
            record.connection.close()
            record.connection = None


def _told(answers: list[Any], network_id: str) -> Told:
    status = answers[0] if isinstance(answers[0], dict) else {}
    networks = [entry for entry in answers[1] if isinstance(entry, dict)] if isinstance(answers[1], list) else []
    node = status.get("address")
    return Told(
        membership.network_status(networks, network_id), bool(status.get("online")), node if isinstance(node, str) else None
    )


def decode(received: bytes) -> Any | None:
    """The JSON of an HTTP answer; None as long as it is not complete. Raises ValueError for what is no good answer."""
    head, blank, body = received.partition(b"\r\n\r\n")
    if not blank:
        return None
    first, *lines = head.decode("ascii", "replace").split("\r\n")
    fields = {name.strip().lower(): value.strip() for name, _colon, value in (line.partition(":") for line in lines)}
    if first.split(" ")[1:2] != ["200"]:
        raise ValueError("refused")
    told = fields.get("content-length", "")
    length = int(told) if re.fullmatch("[0-9]{1,9}", told) else -1
    if not 0 <= length <= _LIMIT:
        raise ValueError("no length")
    try:
        return json.loads(body[:length]) if len(body) >= length else None
    except RecursionError:
        raise ValueError("too deep") from None
