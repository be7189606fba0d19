"""``balance weights auto``: looks at the loads now and then and keeps the spread of every group.

Decisions are in :mod:`spread`, readings in :mod:`load`; this is their clock.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from zerotier_multi.pathd.balance.load import Instance, Load, Loads
from zerotier_multi.pathd.balance.spread import FULL, PRESSED, Capacity, Line, Member, Spread, Step, bases, sizes, uneven
from zerotier_multi.pathd.loop import Alarm
from zerotier_multi.plan import GroupPlan, InstancePlan, PathPlan, Plan
from zerotier_multi.netlink.nexthops import NextHopGroup
from zerotier_multi.netlink.nexthops import Bucket

WINDOW = 1.0  # seconds of one reading
WINDOWS = 3  # readings that a pressure is the mean of
LOOK = 0.2  # seconds between two looks at the buckets while a path is under pressure, or has more work than others
LOOK_REST = 5.0  # seconds without looks after some by which no flow was to be moved, while no path is under pressure
LOOK_MOST = 0.02  # seconds for each group that there are no fewer, because a look takes about one thousandth of a second
LOOKS = 10  # looks that say which buckets are busy
BUSY = 0.05  # seconds without a packet that a bucket full of big flows hardly ever sees
UNKNOWN = 0.6  # pressure of an instance that has not been measured long enough: neither full nor with room
CALM_RTTS = 60  # readings of the round-trip time of which the shortest counts: the others have waited behind traffic
FORCED = 0.6  # seconds in which the kernel moves by force: its upkeep waits for half a second (NH_RES_UPKEEP_MIN_INTERVAL)
AGAIN = 0.1  # seconds until the next look at the buckets when it has not
LONGEST_FORCED = 3.0  # seconds until that is given up


class Paths(Protocol):
    """What the prober knows of paths."""

    def measures(self, path: int) -> tuple[float | None, float | None]:
        """(round-trip time in seconds, share of probes lost)."""

    def remote_use(self, path: int) -> float | None:
        """Use of the remote's instance at the other end, 0 to 1; None where it does not tell."""

    def wait(self, path: int) -> float:
        """Seconds that packets to the remote wait on their way."""


@dataclass
class _Group:
    plan: Plan
    group: GroupPlan
    spread: Spread
    looks: deque[list[Bucket]] = field(default_factory=lambda: deque(maxlen=LOOKS))
    beyond: dict[int, deque[float]] = field(default_factory=dict)  # pressure of the line and at the other end, by path
    remotes: dict[int, float] = field(default_factory=dict)  # use at the other end in the last window, by path
    lines: dict[int, Line] = field(default_factory=dict)
    rtts: dict[int, deque[float]] = field(default_factory=dict)  # seconds, by path
    uneven: bool = False  # a path had more work than others in the last windows
    rest_until: float = 0.0  # no looks for that


@dataclass
class _Instance:
    plan: InstancePlan
    loads: deque[Load] = field(default_factory=lambda: deque(maxlen=WINDOWS))
    capacity: Capacity = field(default_factory=Capacity)

    @property
    def uses(self) -> list[float]:
        """Its pressure in each window. One that lets packets fall is full, whatever its CPU says."""
        return [1.0 if load.drops else load.use for load in self.loads]

    @property
    def sent(self) -> float:
        """Bytes per second to the remotes."""
        return _mean(load.sent for load in self.loads) if self.loads else 0.0

    @property
    def ours(self) -> float:
        """Their share of all that it carries."""
        rate = sum(load.rate for load in self.loads)
        return sum(load.sent for load in self.loads) / rate if rate else 0.0


@dataclass
class _Forced:
    """Busy buckets of a group that are being moved: when to look whether they are, and when not to wait any more."""

    look_at: float
    until: float


class Weights:
    """Weights of the groups of bundles that want them measured.

    ``layout`` gives the buckets of a group, ``changed`` is called with a sentence when there are new weights.
    """

    def __init__(
        self,
        loop: AbstractEventLoop,
        paths: Paths,
        layout: Callable[[int], list[Bucket]],
        changed: Callable[[str], None],
        loads: Loads | None = None,
    ) -> None:
        self._alarm = Alarm(loop, self.work)
        self._paths, self._layout, self._changed = paths, layout, changed
        self._loads = loads or Loads()
        self._groups: dict[int, _Group] = {}  # by the id in the plan
        self._instances: dict[str, _Instance] = {}  # by unit
        self._standing: dict[int, NextHopGroup] = {}  # by the id in the plan
        self._forced: dict[int, _Forced] = {}  # by the id in the plan
        self._read_at = self._look_at = 0.0
        self._inherits = True  # until there were plans: what stands may be what an earlier daemon has measured

    def configure(self, plans: Sequence[Plan], resilient: bool) -> None:
        """Look after the groups of exactly these plans, as far as they want it."""
        wanted = [plan for plan in plans if plan.auto_weights and resilient]
        groups = {group.group_id: (plan, group) for plan in wanted for group in plan.groups}
        kept = {n: g for n, g in self._groups.items() if n in groups and groups[n][1] == g.group}
        for number, (plan, group) in groups.items():
            spread = Spread(group.buckets, group.idle_timer, inherited=self._inherits)
            kept.setdefault(number, _Group(plan, group, spread)).plan = plan
        self._groups = kept
        self._inherits = self._inherits and not plans
        instances = {i.unit: i for plan in wanted for i in plan.instances}
        known = self._instances
        self._instances = {
            unit: known[unit] if unit in known and known[unit].plan == i else _Instance(i) for unit, i in instances.items()
        }
        self._alarm.set(self.wake)

    def standing(self, groups: Mapping[int, NextHopGroup]) -> None:
        """What stands in the kernel, by the ids of the plans. Weights of an earlier daemon are taken over."""
        self._standing = {number: group for number, group in groups.items() if number in self._groups}
        for number, group in self._standing.items():
            spread = self._groups[number].spread
            if not spread.weights and group.weights:
                spread.weights = dict(zip(group.members, group.weights, strict=True))
            spread.inherited = spread.inherited and bool(spread.weights)

    def of(self, group: int) -> Mapping[int, int] | None:
        """Weights by path of a group, by its id in the plan; None where it has those of the configuration."""
        found = self._groups.get(group)
        return found.spread.of(found.group.members) or None if found else None

    def forced(self, group: int) -> bool:
        """Whether buckets of the group are being moved although they are busy."""
        return group in self._forced

    def use(self, unit: str) -> float | None:
        """Share of the time, 0 to 1, in which an instance works; None where it is not measured."""
        instance = self._instances.get(unit)
        return _mean(load.use for load in instance.loads) if instance and instance.loads else None

    def pressure(self, unit: str) -> float | None:
        """The same, but 1 while it lets packets fall: what the remotes are told."""
        instance = self._instances.get(unit)
        return _mean(instance.uses) if instance and instance.uses else None

    # -- time

    @property
    def wake(self) -> float | None:
        """When :meth:`work` has something to do."""
        if not self._groups:
            return None
        moments = [self._read_at + WINDOW, *(forced.look_at for forced in self._forced.values())]
        return min([*moments, self._look_at + self._pause] if self._watched() else moments)

    def work(self, now: float) -> None:
        """Read what is due and take the steps that follow."""
        done = [number for number, forced in self._forced.items() if forced.look_at <= now and self._moved(number, now)]
        for number in done:
            del self._forced[number]
        if self._watched() and now >= self._look_at + self._pause:
            self._look_at = now
            for number, group in self._groups.items():
                if number in self._standing:
                    group.looks.append(self._buckets(self._standing[number].id))
        if now >= self._read_at + WINDOW:
            self._read_at = now
            self._read(now)
            self._look_at = max(self._look_at, now + LOOK - self._pause)
            self._step(now)
        elif done:
            self._changed("")
        self._alarm.set(self.wake)

    def _moved(self, number: int, now: float) -> bool:
        """Whether the kernel has moved what it was told to move by force, or will not."""
        forced, group, standing = self._forced[number], self._groups.get(number), self._standing.get(number)
        if not group or not standing or now >= forced.until:
            return True
        counts = Counter(bucket.path for bucket in self._buckets(standing.id))
        if all(counts[path] == weight for path, weight in group.spread.of(standing.members).items()):
            return True
        forced.look_at = now + AGAIN
        return False

    def _buckets(self, group: int) -> list[Bucket]:
        try:
            return self._layout(group)
        except OSError:  # it has just gone
            return []

    @property
    def _pause(self) -> float:
        """Seconds between two looks at the buckets of all groups."""
        return max(LOOK, LOOK_MOST * len(self._groups))

    def _watched(self) -> bool:
        """Whether buckets may have to be moved, so that it matters which are busy."""
        return self._pressed() or any(group.uneven for group in self._groups.values())

    def _pressed(self) -> bool:
        beyond = (uses for group in self._groups.values() for uses in group.beyond.values())
        return any(uses and uses[-1] >= PRESSED for uses in (*(i.uses for i in self._instances.values()), *beyond))

    def _read(self, now: float) -> None:
        watched = [Instance(unit, i.plan.device, i.plan.port) for unit, i in self._instances.items()]
        found = self._loads.read(watched, now)
        for unit, instance in self._instances.items():
            seen = found.get(unit)
            if seen is None:
                instance.loads.clear()
                continue
            instance.loads.append(seen)
            instance.capacity.window(seen)
        for number, group in self._groups.items():
            self._read_lines(group, self._standing.get(number), found)

    def _read_lines(self, group: _Group, standing: NextHopGroup | None, loads: Mapping[str, Load]) -> None:
        """What lies under the paths and at their other ends in this window; ``loads`` by unit."""
        known = self._paths_of(group)
        lines = {path.nexthop_id: group.lines.setdefault(path.nexthop_id, Line()) for path, _instance in known}
        waits = {number: line.queue(self._paths.wait(number)) for number, line in lines.items()}
        # Of a path that is down, nothing is known to wait.
        common = min((waits[member] for member in standing.members if member in waits), default=0.0) if standing else 0.0
        for path, instance in known:
            number = path.nexthop_id
            rtt, _loss = self._paths.measures(number)
            if rtt is not None:
                group.rtts.setdefault(number, deque(maxlen=CALM_RTTS)).append(rtt)
            seen, remote = loads.get(instance.plan.unit), self._paths.remote_use(number) or 0.0
            # Behind a full instance packets wait as before a full line, and a little longer, which says nothing of the line.
            full = max(remote, group.remotes.get(number, 0.0), *instance.uses[-2:], 0.0) >= FULL
            group.remotes[number], wait = remote, 0.0 if full else waits[number]
            pressure = max(lines[number].window(seen.sent if seen else 0.0, wait, common), remote)
            group.beyond.setdefault(number, deque(maxlen=WINDOWS)).append(pressure)

    def _paths_of(self, group: _Group) -> list[tuple[PathPlan, _Instance]]:
        found = [(path, group.plan.instance(path.instance)) for path in group.plan.paths if path.nexthop_id in group.group.members]
        return [(path, self._instances[i.unit]) for path, i in found if i and i.unit in self._instances]

    def _step(self, now: float) -> None:
        known = {number: _busy(group.looks) if self._watched() else None for number, group in self._groups.items()}
        busy = {number: buckets or [] for number, buckets in known.items()}
        counts: dict[str, int] = {}  # busy buckets on each instance
        for number, group in self._groups.items():
            units = {path.nexthop_id: i.plan.unit for path, i in self._paths_of(group)}
            for bucket in busy[number]:
                if bucket.path in units:
                    counts[units[bucket.path]] = counts.get(units[bucket.path], 0) + 1
        taken: set[str] = set()  # bundles of which a busy bucket is being moved: one at a time
        for number, group in self._groups.items():
            standing = self._standing.get(number)
            if standing is None or number in self._forced or group.plan.bundle in taken:
                continue
            members = self._members(group, standing, counts, busy[number])
            measured = all(len(i.loads) == WINDOWS for _path, i in self._paths_of(group))
            group.uneven = measured and now >= group.rest_until and uneven(members)
            table = group.looks[-1] if group.looks else []
            numbers = None if known[number] is None else [bucket.index for bucket in busy[number]]
            step = group.spread.look(members, table, numbers, now)
            if step:
                if step.force:
                    taken.add(group.plan.bundle)
                    self._forced[number] = _Forced(now + FORCED, now + LONGEST_FORCED)
                    group.looks.clear()
                self._changed(_sentence(group, step))
            elif group.uneven and numbers is not None and not self._pressed() and not group.spread.waits(now):
                group.uneven, group.rest_until = False, now + LOOK_REST
                group.looks.clear()

    def _members(self, group: _Group, standing: NextHopGroup, counts: Mapping[str, int], busy: list[Bucket]) -> list[Member]:
        found = {path.nexthop_id: i for path, i in self._paths_of(group) if path.nexthop_id in standing.members}
        size = sizes({path: i.capacity for path, i in found.items()}, {path: group.lines.get(path, Line()) for path in found})
        base = bases(
            size,
            {path: min(group.rtts.get(path, ()), default=None) for path in found},
            {path: self._paths.measures(path)[1] for path in found},
        )
        return [
            Member(
                path,
                _mean(map(max, i.uses, group.beyond.get(path, i.uses))) if len(i.uses) == WINDOWS else UNKNOWN,
                base[path],
                counts.get(i.plan.unit, 0) - sum(b.path == path for b in busy),
                size[path],
                i.sent,
                i.ours,
            )
            for path, i in found.items()
        ]


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


def _busy(looks: deque[list[Bucket]]) -> list[Bucket] | None:
    """Buckets that have had packets at (nearly) every look; None before there were enough looks."""
    if len(looks) < LOOKS:
        return None
    seen: dict[int, int] = {}
    for look in looks:
        for bucket in look:
            seen[bucket.index] = seen.get(bucket.index, 0) + (bucket.idle <= BUSY)
    return [bucket for bucket in looks[-1] if seen[bucket.index] >= LOOKS - 1]


def _sentence(group: _Group, step: Step) -> str:
    by_path = {path.nexthop_id: path for path in group.plan.paths}
    shares = " ".join(f"{by_path[path].device} {weight}" for path, weight in sorted(step.weights.items()))
    moved = ", a busy bucket is moved" if step.force else ""
    return f"{group.plan.bundle}: buckets to {group.group.remote} (IPv{group.group.family}): {shares}{moved}"
