"""Which instances are started anew because their engine cannot follow addresses that move; pure.

zerotier-one 1.14 looks for changed addresses of its own every 30 s, and holds on to a path that is dead for up to 20 s
(measured: a NAT's new port was followed after that time). A process that is new knows what there is, and calls the others
at once.

An instance that has a silent path is restarted as soon as that may help: at once where addresses have changed since it
was started; soon where the remote's probes come while nothing comes back, because then it is this end that sends to where
nobody is; else after a while, and the two ends not at the same time, because one that is just being restarted cannot be
called. Then less and less often. One that still carries other paths is drained first, and those of a bundle go one after
the other. It is restarted a few times only, since whoever routes over it sees every one; then not before its addresses or
what it was told of names change, the remote is heard again, or somebody else starts it anew.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from zerotier_multi.engine_choice import follows_addresses
from zerotier_multi.local_conf import TUNNEL_PREFIXES
from zerotier_multi.names import is_our_device
from zerotier_multi.pathd.probe.prober import Silence
from zerotier_multi.plan import InstancePlan, Plan
from zerotier_multi.netlink.links import Address, Link

HEARD = 0.4  # seconds in which the remote is heard, but does not answer, before the first restart
DEAF, PATIENT = 3.5, 8.0  # the same where it is not heard, for one router of the two and for the other
LONGER = 2.0  # so many times as long as that, heard or not, lies between two more
LONGEST = 300.0  # seconds between two
FEW = 5  # restarts for a path that brought nothing, after which an instance that carries others is left alone
LISTEN = 0.2  # seconds between two looks whether the remote of a silent path is heard
UNSEEN = 30.0  # seconds more before the first one for a path that has never been up: its remote may not be there yet
PAUSE = 2.0  # seconds between two restarts because of addresses; also between two looks whether one given up is heard
GOOD = 10.0  # seconds without a silent path after which the next one is a first one again
NOTICED = 40.0  # seconds after which an engine has seen a change of addresses by itself; and has come back from a restart
DRAIN = 0.7  # seconds that a drained instance is waited for
ALONE = 10.0  # seconds that one waits which carries the only path to another remote, perhaps while its like is restarted there
STEP = 0.05  # seconds between two looks whether it is empty
TURN = 10.0  # seconds that the others of a bundle wait for one that was restarted


@dataclass(frozen=True)
class Situation:
    """One instance at one look. ``index`` is the ifindex of its device, None where there is none."""

    bundle: str
    index: int | None
    addresses: frozenset[str]  # of the underlay that it could be bound to
    silent: Mapping[int, Silence]  # paths without answers
    carrying: frozenset[int]  # paths that are up
    names: Mapping[int, str] = field(default_factory=dict)  # path -> its remote
    told: frozenset[str] = frozenset()  # addresses of endpoints that are names, as they stand in its files

    @property
    def facts(self) -> frozenset[str]:
        """What a process that begins now knows."""
        return self.addresses | self.told


@dataclass(frozen=True)
class Orders:
    """What is to be done now: devices to drain, and devices to restart with the reason for each."""

    drain: tuple[str, ...] = ()
    restart: tuple[tuple[str, str], ...] = ()


@dataclass
class _Tried:
    """What was done for a path since it was up last."""

    remote: str | None  # another one may get the number of its path
    restarts: int = 0  # in vain, since anything has changed
    deaf_since: float | None = None  # when the remote was no longer heard; None while it is


@dataclass
class _Record:
    index: int | None
    known: frozenset[str]  # facts that its process is taken to know
    current: frozenset[str]
    changed_at: float
    restarted_at: float
    tries: int = 0  # restarts without a change of addresses, in a row
    good_since: float | None = None
    tried: dict[int, _Tried] = field(default_factory=dict)  # by silent path
    carried_at: float = -math.inf  # when it was last seen to carry anything
    ordered: bool = False  # the next process will be of our restart


@dataclass
class _Turn:
    device: str
    index: int | None  # of the device before
    cause: str
    carried: frozenset[int]
    began: float
    draining: bool = True


def underlay(links: Mapping[str, Link], addresses: Iterable[Address]) -> dict[str, frozenset[str]]:
    """Addresses by device that an engine binds to: none of ours, of tunnels or of the router itself."""
    found = {}
    for name, link in links.items():
        if name != "lo" and not is_our_device(name) and not name.startswith(TUNNEL_PREFIXES):
            found[name] = frozenset(a.interface.partition("/")[0] for a in addresses if a.index == link.index)
    return found


def bindable(instance: InstancePlan, addresses: Mapping[str, Collection[str]]) -> frozenset[str]:
    """Those of the underlay's addresses that an instance may use."""
    devices = addresses if instance.source_interface is None else [instance.source_interface]
    every = {address for device in devices for address in addresses.get(device, ())}
    return frozenset(every & set(instance.listen) if instance.listen else every)


class Recovery:
    """Keeps what is known of each instance; times are seconds of one clock."""

    def __init__(self) -> None:
        self._records: dict[str, _Record] = {}
        self._turns: dict[str, _Turn] = {}  # by bundle
        self.wake: float | None = None  # when :meth:`work` may say something new without a change

    def work(self, situations: Mapping[str, Situation], now: float, empty: Collection[str]) -> Orders:
        """Orders of this moment, by the situations of all instances that it is asked for, known by their devices.

        ``empty`` are the drained devices over which nothing comes any more. What is ordered is taken for done.
        """
        for gone in self._records.keys() - situations.keys():
            del self._records[gone]
        drain: list[str] = []
        restart: list[tuple[str, str]] = []
        moments: list[float] = []
        for device, seen in situations.items():
            record = self._look(device, seen, now)
            due, cause = self._due(record, seen, now)
            if due is None:
                if seen.index is not None and seen.addresses and _deaf(seen):  # given up, but the remote may be heard again
                    moments.append(now + PAUSE)
                continue
            if due > now:
                moments.append(min(due, now + LISTEN) if _deaf(seen) else due)
            elif (turn := self._turns.get(seen.bundle)) and turn.device == device:
                continue
            elif not seen.carrying:
                restart.append((device, cause))
                self._restarted(record, seen, now)
            elif turn is None and now < due + ALONE and not _spared(device, seen, situations):
                moments.append(now + LISTEN)
            elif turn is None:
                self._turns[seen.bundle] = _Turn(device, seen.index, cause, seen.carrying, now)
                drain.append(device)
        for bundle, turn in list(self._turns.items()):
            moments.append(self._turn(bundle, turn, situations.get(turn.device), now, empty, restart))
        self.wake = min(moments, default=None)
        return Orders(tuple(drain), tuple(restart))

    def _look(self, device: str, seen: Situation, now: float) -> _Record:
        fresh = _Record(seen.index, seen.facts, seen.facts, now - NOTICED, now - LONGEST)
        record = self._records.setdefault(device, fresh)
        if seen.index is not None and seen.index != record.index:
            # Another process, whoever has started it.
            record.index, record.known = seen.index, seen.facts
            if not record.ordered:
                record.tried.clear()
            record.ordered = False
        if seen.facts != record.current:
            record.current, record.changed_at = seen.facts, now
            record.tried.clear()
        _listen(record, seen, now)
        if seen.silent:
            record.good_since = None
        elif record.good_since is None:
            record.good_since = now
        if record.good_since is not None:
            if now - max(record.good_since, record.changed_at) >= NOTICED:
                record.known = record.current
            if now - record.good_since >= GOOD:
                record.tries = 0
        return record

    @staticmethod
    def _due(record: _Record, seen: Situation, now: float) -> tuple[float | None, str]:
        """When an instance is to be restarted as things are, and why; None where that would bring nothing."""
        if not seen.silent or not seen.addresses or seen.index is None:
            return None, ""
        if seen.facts != record.known:
            return record.restarted_at + PAUSE, _changes(record.known, seen.facts)
        moments = {path: _moment(silence, record) for path, silence in seen.silent.items()}
        for path in [path for path in moments if record.tried[path].restarts >= FEW]:
            if seen.carrying:
                del moments[path]
            else:
                moments[path] = max(moments[path], record.carried_at + LONGEST)
        if not moments:
            return None, ""
        path = min(moments, key=lambda path: moments[path])
        heard = "is heard but does not answer" if seen.silent[path].heard_since is not None else "does not answer"
        return moments[path], f"{seen.names.get(path, 'the remote')} {heard}"

    @staticmethod
    def _restarted(record: _Record, seen: Situation, now: float) -> None:
        if seen.facts == record.known:
            record.tries += 1
            for path in seen.silent:
                record.tried[path].restarts += 1
        record.known, record.restarted_at, record.ordered = seen.facts, now, True

    def _turn(
        self, bundle: str, turn: _Turn, seen: Situation | None, now: float, empty: Collection[str],
        restart: list[tuple[str, str]],
    ) -> float:  # fmt: skip
        """Go on with the instance of a bundle whose turn it is; when to look again."""
        if seen is None:
            del self._turns[bundle]
            return now
        if turn.draining:
            if now < turn.began + DRAIN and not (now >= turn.began + STEP and turn.device in empty):
                return now + STEP
            turn.draining = False
            restart.append((turn.device, turn.cause))
            self._restarted(self._records[turn.device], seen, now)
        back = seen.index not in (None, turn.index) and turn.carried <= seen.carrying
        if back or now >= turn.began + TURN:
            del self._turns[bundle]
            return now
        return turn.began + TURN


def _spared(device: str, seen: Situation, situations: Mapping[str, Situation]) -> bool:
    """Whether all remotes that an instance carries are carried by others of its bundle too, if it has others."""
    others = [s for other, s in situations.items() if other != device and s.bundle == seen.bundle]
    if not others:
        return True
    elsewhere = {s.names.get(path) for s in others for path in s.carrying}
    return {seen.names.get(path) for path in seen.carrying} <= elsewhere


def _listen(record: _Record, seen: Situation, now: float) -> None:
    """Note which silent paths are heard, and forget what was tried for those that are up or are heard again.

    The silence of a remote that is only being restarted is shorter than what counts as one.
    """
    if seen.carrying:
        record.carried_at = now
    for path in [p for p, tried in record.tried.items() if p in seen.carrying or seen.names.get(p) != tried.remote]:
        del record.tried[path]
    for path, silence in seen.silent.items():
        tried = record.tried.setdefault(path, _Tried(seen.names.get(path)))
        if silence.heard_since is None:
            tried.deaf_since = now if tried.deaf_since is None else tried.deaf_since
        elif tried.deaf_since is not None:
            if now - tried.deaf_since >= NOTICED:
                tried.restarts = 0
            tried.deaf_since = None


def _deaf(seen: Situation) -> bool:
    return any(silence.heard_since is None for silence in seen.silent.values())


def _moment(silence: Silence, record: _Record) -> float:
    """When a silent path is reason enough for a restart."""
    deaf = PATIENT if silence.patient else DEAF
    if silence.heard_since is None:
        first = silence.since + deaf
    else:
        first = max(silence.since, silence.heard_since) + HEARD
    return max(first, record.restarted_at + min(deaf * LONGER ** min(max(record.tries - 1, 0), 32), LONGEST))


def _changes(before: frozenset[str], after: frozenset[str]) -> str:
    gone, come = sorted(before - after), sorted(after - before)
    parts = [f"{word}: {', '.join(some)}" for some, word in ((gone, "gone"), (come, "new")) if some]
    return f"addresses have changed ({'; '.join(parts)}) and a path has no answer"


def situations(
    plans: Iterable[Plan],
    links: Mapping[str, Link],
    addresses: Mapping[str, Collection[str]],
    silence: Mapping[int, Silence],
    up: Collection[int],
    been_up: Collection[int],
    told: Mapping[str, frozenset[str]],
) -> dict[str, Situation]:
    """Every instance whose engine needs a restart to follow addresses, by its device."""
    found = {}
    for plan in plans:
        for instance in plan.instances:
            if follows_addresses(instance.engine):
                continue
            paths = [p for p in plan.paths if p.instance == instance.number]
            silent = {}
            for path in paths:
                if found_silent := silence.get(path.nexthop_id):
                    # Of one that has never been up, nobody may be there yet.
                    unseen = path.nexthop_id not in been_up and found_silent.heard_since is None
                    since = found_silent.since + (UNSEEN if unseen else 0.0)
                    silent[path.nexthop_id] = replace(found_silent, since=since)
            link = links.get(instance.device)
            found[instance.device] = Situation(
                plan.bundle,
                link.index if link else None,
                bindable(instance, addresses),
                silent,
                frozenset(p.nexthop_id for p in paths if p.nexthop_id in up),
                {p.nexthop_id: p.remote for p in paths},
                told.get(instance.device, frozenset()),
            )
    return found
