"""Where instances stand on the networks of controllers: asked of their APIs, seldom while all their paths are up.

A controller may put out an instance whose paths stay up for a while, or for good where nothing probes them. Nothing here
waits: the answers come through the daemon's loop. A question may bring the token of the home, so it is put to root's
programs alone.
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
from zerotier_multi.netlink.state import KernelState
from zerotier_multi.pathd.kernel.desired import ready
from zerotier_multi.pathd.loop import Alarm
from zerotier_multi.plan import InstancePlan, Plan
from zerotier_multi.states import NetworkState, PathState

PERIOD, SLOW = 2.0, 10.0  # seconds between two questions to an instance: after a change, and later on
SETTLED = 60.0  # seconds without a change after which it is asked less often
CALM = 60.0  # seconds between two questions to an instance whose paths are all up and that waits for no network
PATIENCE = 1.0  # seconds for both answers
GRACE = 10.0  # seconds in which an instance may look for a root and ask its controller before that is told
_LIMIT = 1 << 18  # bytes of an answer
_QUESTIONS = ("/status", "/network")
_EARLY = (NetworkState.NO_ROOT, NetworkState.REQUESTING)  # what all begin with


@dataclass(frozen=True)
class Told:
    """What an instance has told."""

    status: str | None  # ZeroTier's word for its network
    online: bool
    node: str | None
    further: Mapping[str, str | None] = field(default_factory=dict)  # the words for its further networks

    @property
    def waits(self) -> bool:
        """Whether paths that are up are no reason to leave it alone."""
        return membership.is_failure(self.status) or any(word not in (None, "OK") for word in self.further.values())


@dataclass
class Record:
    """One instance that is asked; times are seconds of one clock."""

    instance: InstancePlan
    next_ask: float
    changed_at: float
    calm: bool = False  # all its paths are up
    told: Told | None = None
    shown: dict[str, Member] = field(default_factory=dict)  # what was made of it last, by device
    hushed: bool = False  # something of what it tells now is not shown yet
    asked_at: float | None = None
    answers: list[Any] = field(default_factory=list)
    received: bytes = b""
    connection: socket.socket | None = field(default=None, repr=False)

    def turn(self, calm: bool, now: float) -> None:
        """All its paths are up now, or no longer. What it has told before says little about that, except that it waits."""
        waits = self.told is not None and self.told.waits
        if not calm:
            self.changed_at = now
            if not waits:
                self.told, self.shown = None, {}
        self.calm = calm
        self.next_ask = now + CALM if calm and self.told and not waits else now

    def settle(self) -> None:
        """The question is answered, or never will be: when to put the next one."""
        asked = self.asked_at or 0.0
        often = PERIOD if asked < self.changed_at + SETTLED else SLOW
        self.next_ask = asked + (CALM if self.calm and not (self.told and self.told.waits) else often)
        self.asked_at, self.answers, self.received = None, [], b""


class Members:
    """Asks all instances that have controllers; ``changed`` is called when an answer is another one than before."""

    def __init__(
        self, loop: AbstractEventLoop, changed: Callable[[], None], trusted: Callable[[socket.socket], bool] = is_root_at
    ) -> None:
        self._loop, self._changed, self._trusted = loop, changed, trusted
        self._alarm = Alarm(loop, self.work)
        self._records: dict[str, Record] = {}  # by unit
        self._found: dict[str, Member] = {}  # by device
        self._nodes: dict[str, str] = {}  # by unit, as told last

    def look(self, plans: Iterable[Plan], known: Mapping[int, PathState], now: float) -> dict[str, Member]:
        """Where each instance stands on each of its networks, by device, as far as it is known; from now on these are asked.

        ``known`` are the states of the paths, by their next hops.
        """
        seen = [
            (plan, instance, [(path.remote, known[path.nexthop_id]) for path in plan.paths if path.instance == instance.number])
            for plan in plans if not plan.controller_free
            for instance in plan.instances
        ]  # fmt: skip
        self._configure({instance.unit: (instance, _all_up(states)) for _plan, instance, states in seen}, now)
        self._found = {}
        for plan, instance, states in seen:
            self._found |= self._stands(plan, instance, states, now)
        return self._found

    def _stands(self, plan: Plan, instance: InstancePlan, states: Sequence[tuple[str, PathState]], now: float) -> dict[str, Member]:
        """Where an instance stands, by device. One that has just been started is about to find its root.

        Paths that are all up say by themselves that it is a member, unless it tells what is the matter.
        """
        record = self._records[instance.unit]
        told = record.told or (Told("OK", True, None) if record.calm else None)
        if told is None:
            return {}
        vouched = record.calm and not membership.is_failure(told.status)
        node = told.node or self._nodes.get(instance.unit)
        status = "OK" if vouched else told.status
        found = {instance.device: membership.member(plan, instance, status, vouched or told.online, node, states)}
        waits = set()  # for a root, which a further network does not tell
        for network in instance.joined[1:]:
            status = told.further.get(network.network_id)
            found[network.device] = membership.further_member(plan, instance, network.network_id, status, told.online, node)
            waits |= {network.device} if status is not None else set()
        early = now < record.changed_at + GRACE
        hushed = {device for device, m in found.items() if early and (m.word in _EARLY if m else device in waits)}
        record.hushed = bool(hushed)
        fresh = {device: member for device, member in found.items() if member and device not in hushed}
        # One that waits for a root is not heard of its further networks: what was last said of them stands.
        silent = {device for device in waits if found[device] is None}
        kept = {device: member for device, member in record.shown.items() if device in hushed | silent}
        record.shown = {**kept, **fresh}
        return record.shown

    def kept_out(self, plans: Iterable[Plan], have: KernelState) -> dict[int, str]:
        """Paths that nothing probes, over instances that the controller has put out, and why: they carry nothing.

        That is as of the last look, and only where another path to the same remote is left: other members may not know it yet.
        """
        out = {}
        for plan in plans:
            paths = () if plan.health.enabled else plan.paths
            waits = {path.device: m for path in paths if (m := self._found.get(path.device)) and m.waits}
            left = {
                (path.remote, path.family) for path in paths
                if path.device not in waits and ready(plan, path, plan.instance(path.instance), have)
            }  # fmt: skip
            for path in paths:
                if path.device in waits and (path.remote, path.family) in left:
                    out[path.nexthop_id] = membership.cause(waits[path.device])
        return out

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

    def _configure(self, wanted: Mapping[str, tuple[InstancePlan, bool]], now: float) -> None:
        """Ask exactly these, by unit; with each whether all its paths are up."""
        for unit in [u for u, record in self._records.items() if u not in wanted or wanted[u][0] != record.instance]:
            self._drop(self._records.pop(unit))
        for unit, (instance, calm) in wanted.items():
            record = self._records.setdefault(unit, Record(instance, now, now, calm))
            if record.calm != calm:
                record.turn(calm, now)
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
        told = _told(record.answers, record.instance)
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
        record.settle()
        self._drop(record)
        self._alarm.set(self.wake)

    def _drop(self, record: Record) -> None:
        """We close first: a server that does keeps its port busy over its restart."""
        if record.connection is not None:
            self._loop.remove_writer(record.connection)
            self._loop.remove_reader(record.connection)
            record.connection.close()
            record.connection = None


def _all_up(states: Sequence[tuple[str, PathState]]) -> bool:
    return bool(states) and all(word.works for _remote, word in states)


def _told(answers: list[Any], instance: InstancePlan) -> Told:
    status = answers[0] if isinstance(answers[0], dict) else {}
    networks = [entry for entry in answers[1] if isinstance(entry, dict)] if isinstance(answers[1], list) else []
    node = status.get("address")
    further = {n.network_id: membership.network_status(networks, n.network_id) for n in instance.joined[1:]}
    own = membership.network_status(networks, instance.network_id)
    return Told(own, bool(status.get("online")), node if isinstance(node, str) else None, further)


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
