"""How many hash buckets each path of a resilient group gets, from how hard its instances work; pure.

A bucket is what moves: idle ones follow the weights by themselves (the kernel's idle timer), and one that big flows keep
busy is moved on purpose, by itself, when it shares a full path with others while another path has room. Nothing is
lost by that: the bucket's flows go over another living path from one packet to the next.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from zerotier_multi.netlink.nexthops import Bucket
from zerotier_multi.pathd.balance.load import Load

FULL, ROOM = 0.85, 0.55  # pressure of a path that takes no more, and of one that takes any flow
PRESSED = 0.6  # pressure from which many flows are laid evenly, before a path is full
UNEVEN = 0.1  # difference of pressures that is worth a step
QUEUE = 0.005  # seconds that packets wait where a line is full; less is the jitter of a busy path
DEEP = 0.02  # seconds that are too many for busy routers: every line is full
LEAST = 125_000.0  # bytes per second without which we are not who fills a line
NEARLY = 0.8  # pressure of a line that carries as much as when it was full, and has no queue
CALM = 0.7  # below it no path is near its limit
CALM_TIME = 30.0  # seconds of calm before the spread goes back to its base
PACE = 5.0  # seconds between two steps, so that the effect of one is seen before the next
PURGE = 1.0  # the same after a step that no flow notices
STEP = 0.1  # share of its buckets that a full path gives away in one step
SEVERAL = 1.5  # flows more than another path has are not one that fills any path
FIRST_REST, LONGEST_REST = 30.0, 600.0  # seconds in which no busy bucket moves, after one that only turned the tables
SPREAD = 4.0  # bases of two paths differ no more than so many times
MAX_WEIGHT = 256  # of a member, so only up to as many buckets are weights exactly numbers of buckets
_LATENCY = 0.002  # seconds of round-trip time that make no difference
_OURS = 0.1  # share of what a path carries that must go to the remote, or moving our flows is no relief to it
_KNOWN = 0.7  # use of an instance at which its rate tells its capacity
_QUIET = 0.2  # part of its use in which an instance of no such use may have waited, or others use its CPU
_SMOOTH = 0.2
_DOUBT = 0.99  # of the trust in what a line is thought to carry, per second in which it carries that without a queue
_FADE = 0.999  # of what a line has carried, per second


@dataclass(frozen=True)
class Member:
    """A path that is in the group. ``pressure`` from 0 to 1 (it is full), ``base`` its share when all are calm.

    ``sent`` in bytes per second to the remotes, ``ours`` its share of all that the path carries, both directions.
    """

    path: int
    pressure: float
    base: float = 1.0
    shared: int = 0  # busy buckets of other groups on the same instance
    size: float = 1.0  # what it carries at most, in a unit of all members: a flow fills a small one more than a big one
    sent: float = 0.0
    ours: float = 1.0

    def gives(self, least: float) -> bool:
        """Whether it is under such a pressure by traffic that is ours to move."""
        return self.pressure >= least and self.ours >= _OURS


@dataclass(frozen=True)
class Step:
    """New weights of a group: buckets by path. ``force`` moves buckets that are busy."""

    weights: Mapping[int, int]
    force: bool = False
    purge: bool = False  # only idle buckets, so that busy ones come next


def capacity(known: float | None, load: Load) -> float | None:
    """What an instance carries at most, in bytes per second, after one more window.

    Near its limit a window says it; before that it only says that it is no less (batches grow with the load, so the
    rate per second of CPU is smaller there), and nothing where it waits for its CPU, which grows faster than the load.
    """
    use = load.use
    if use < _KNOWN / 2 or not load.rate or (use < _KNOWN and load.waited > _QUIET * use):
        return known
    sample = load.rate / use
    if known is None:
        return sample
    return known + _SMOOTH * (sample - known) if use >= _KNOWN or sample > known else known


@dataclass
class Line:
    """The lines of the underlay under one path, in the direction to the remote: told by the wait of its packets.

    ``capacity`` in bytes per second is what went over it when it was full. Where several paths share a line, it is the
    part of it that this one had.
    """

    capacity: float | None = None
    most: float = 0.0  # that has gone over it
    trust: float = 1.0  # in its capacity

    def window(self, sent: float, wait: float, common: float = 0.0) -> float:
        """Pressure of one more window, in which ``sent`` bytes per second went out and waited so many seconds.

        ``common`` seconds is what they wait on every path to the remote: as much is the work of busy routers at either end.
        """
        self.most = max(sent, self.most * _FADE)
        if sent >= LEAST and (wait - common >= QUEUE or wait >= DEEP):
            self.capacity = sent if self.capacity is None else self.capacity + _SMOOTH * (sent - self.capacity)
            self.trust = 1.0
            return 1.0
        if self.capacity is None:
            return 0.0
        self.capacity = max(self.capacity, sent)
        if sent >= ROOM * self.capacity:
            self.trust = max(ROOM, self.trust * _DOUBT)
        return min(NEARLY, sent / self.capacity * self.trust)


def sizes(capacities: Mapping[int, float | None], lines: Mapping[int, Line]) -> dict[int, float]:
    """What each path carries at most: its instance or its line, whichever is less; the best known where neither is."""
    known = {path: [c for c in (capacity, lines[path].capacity) if c] for path, capacity in capacities.items()}
    top = max((*(min(found) for found in known.values() if found), *(line.most for line in lines.values())), default=0.0)
    return {path: min(found) if found else top or 1.0 for path, found in known.items()}


def bases(
    capacities: Mapping[int, float | None], rtts: Mapping[int, float | None], losses: Mapping[int, float | None]
) -> dict[int, float]:
    """Share of each path when all are calm, in any unit: by its capacity, less where it is slow or loses packets.

    Capacities in bytes per second (None: not known, taken for the best known), round-trip times in seconds, losses
    from 0 to 1.
    """
    top = max((c for c in capacities.values() if c), default=1.0)
    quickest = min((r for r in rtts.values() if r is not None), default=0.0)
    found = {}
    for path, measured in capacities.items():
        rtt, lost = rtts.get(path), losses.get(path) or 0.0
        slow = 1.0 if rtt is None else (quickest + _LATENCY) / (rtt + _LATENCY)
        found[path] = (measured or top) * min(1.0, slow) * (1 - lost) ** 2
    best = max(found.values(), default=1.0)
    return {path: max(value, best / SPREAD) for path, value in found.items()}


def apportion(shares: Mapping[int, float], buckets: int) -> dict[int, int]:
    """Whole buckets in proportion to the shares, at least one each, by the largest remainder."""
    total = sum(shares.values())
    exact = {path: share * buckets / total for path, share in shares.items()}
    whole = {path: max(1, math.floor(value)) for path, value in exact.items()}
    for path in sorted(exact, key=lambda p: (whole[p] - exact[p], p))[: max(0, buckets - sum(whole.values()))]:
        whole[path] += 1
    while sum(whole.values()) > buckets and max(whole.values()) > 1:
        whole[max(whole, key=lambda p: (whole[p], p))] -= 1
    return whole


def _evens(giver: Member, taker: Member, flows: Mapping[int, int]) -> tuple[float, float]:
    """How many of the giver's flows make the two even, each for its size: by their number, and by what they send.

    The first is wrong where some are big, the second where a full path holds them back.
    """
    sizes = giver.size + taker.size
    by_number = (flows[giver.path] * taker.size - flows[taker.path] * giver.size) / sizes
    one = giver.sent / flows[giver.path]
    return by_number, (giver.sent * taker.size - taker.sent * giver.size) / sizes / one if one else by_number


@dataclass
class Spread:
    """One group. Times are seconds of one clock, ``idle_timer`` is the group's own, in seconds too."""

    buckets: int
    idle_timer: int
    weights: dict[int, int] = field(default_factory=dict)  # empty: all the same
    _next: float = 0.0
    _calm_since: float | None = None
    _emptied: bool = False  # a path has lost its idle buckets, so new flows would go to the others
    _rest: float = FIRST_REST
    _rest_until: float = 0.0
    _forced: tuple[int, int] | None = None  # (from, to) of the last busy bucket that was moved

    def look(self, members: Sequence[Member], table: Sequence[Bucket], busy: Iterable[int] | None, now: float) -> Step | None:
        """The next step, or None.

        ``table`` are the buckets as they stand, ``busy`` the numbers of those that big flows keep busy; None where that
        is not known yet.
        """
        if len(members) < 2:
            return None
        taker = min(members, key=lambda m: (round(m.pressure, 1), m.sent / m.size))
        if max(m.pressure for m in members) >= CALM:
            self._calm_since = None
        elif self._calm_since is None:
            self._calm_since = now
        if now < self._next:
            return None
        step = None
        giver = max((m for m in members if m.gives(PRESSED)), key=lambda m: m.pressure, default=None)
        if giver and giver.pressure - taker.pressure >= UNEVEN:
            full = giver.pressure >= FULL
            if busy is not None:
                step = self._part(taker, members, table, set(busy), now, FULL if full else PRESSED)
                if full and not step and not self._emptied:
                    step = self._shift(giver, taker, members, table)
        elif self._calm_since is not None and now - self._calm_since >= CALM_TIME:
            step = self._go_back(members)
        if step is None and self._emptied:
            step, self._emptied = Step(self._base(members)), False
        if step:
            self._next = now + (PURGE if step.purge else PACE)
            self.weights = {**self.weights, **step.weights}
        return step

    def _shift(self, giver: Member, taker: Member, members: Sequence[Member], table: Sequence[Bucket]) -> Step | None:
        """Idle buckets of a full path go to the one that has most room, some at a time."""
        weights = self._current(members)
        if sum(bucket.path == giver.path for bucket in table) > weights[giver.path]:
            return None  # it has not got rid of the last ones yet
        give = min(max(1, round(weights[giver.path] * STEP)), weights[giver.path] - 1)
        if not give:
            return None
        return Step({**weights, giver.path: weights[giver.path] - give, taker.path: weights[taker.path] + give})

    def _part(
        self, taker: Member, members: Sequence[Member], table: Sequence[Bucket], busy: set[int], now: float, least: float
    ) -> Step | None:
        """Move as many busy buckets off a path under pressure that has several as make it and the taker even, at least one.

        Before a path is full (``least``), that is done only where its flows outnumber the taker's and send more.
        The kernel moves idle buckets first, and then busy ones in their order. So the idle ones of the full path go in a
        step before, and those that are in front of a busy one go along with it. They come back when all is done.
        """
        own = {m.path: [b.index for b in table if b.path == m.path and b.index in busy] for m in members}
        limit = max(least, max(m.pressure for m in members if m.gives(least)) - UNEVEN / 2)
        full = [m for m in members if m.gives(limit) and own[m.path] and len(own[m.path]) + m.shared > 1]
        if not full or not self.idle_timer or self.buckets > MAX_WEIGHT or now < self._rest_until:
            return None
        giver = max(full, key=lambda m: (len(own[m.path]) + m.shared) / m.size)
        flows = {m.path: len(own[m.path]) + m.shared for m in members}
        if self._turned(giver, members, flows):
            self._back_off(now)
            return None
        each = giver.pressure / flows[giver.path]
        there = each * giver.size / taker.size  # what one of its flows is to the taker
        evens = _evens(giver, taker, flows)
        even = max(evens)
        if taker.pressure > ROOM and (taker.pressure + there > giver.pressure or even < 0.5):
            return None
        if giver.pressure < FULL and min(evens) < 1:
            return None
        held = [bucket for bucket in table if bucket.path == giver.path]
        idle = sum(bucket.idle >= self.idle_timer for bucket in held)
        counts = {m.path: sum(b.path == m.path for b in table) for m in members}
        self._emptied = True
        if idle:
            others = {path: float(count) for path, count in counts.items() if path != giver.path}
            kept = max(1, counts[giver.path] - idle)
            return Step({giver.path: kept, **apportion(others, sum(counts.values()) - kept)}, purge=True)
        # Pressure says who has room, but it rises late and then steeply: all of its difference would be too much.
        many = max(1, min(int((giver.pressure - taker.pressure) / (each + there)), int(even), len(own[giver.path])))
        moved = [bucket.index for bucket in held].index(own[giver.path][many - 1]) + 1
        if moved >= counts[giver.path]:
            return None
        self._forced = (giver.path, taker.path)
        # The others are wanted as they stand, so that nothing of theirs is moved by force.
        return Step({**counts, giver.path: counts[giver.path] - moved, taker.path: counts[taker.path] + moved}, force=True)

    def _turned(self, giver: Member, members: Sequence[Member], flows: Mapping[int, int]) -> bool:
        """Whether the last move has only filled another path and left the first one empty: one flow fills any path."""
        if not self._forced or self._forced[1] != giver.path:
            return False
        first = next((m for m in members if m.path == self._forced[0]), None)
        return first is not None and first.pressure <= ROOM and min(_evens(giver, first, flows)) < SEVERAL

    def _back_off(self, now: float) -> None:
        """No more of this for a while, longer each time that it does not end."""
        self._rest = FIRST_REST if now - self._rest_until > LONGEST_REST else min(LONGEST_REST, 2 * self._rest)
        self._rest_until, self._forced = now + self._rest, None

    def of(self, paths: Iterable[int]) -> dict[int, int]:
        """Weights of these paths; one that was away when they were measured gets the mean of the others. Empty: all the same."""
        if not self.weights:
            return {}
        mean = max(1, round(sum(self.weights.values()) / len(self.weights)))
        return {path: self.weights.get(path, mean) for path in paths}

    def _current(self, members: Sequence[Member]) -> dict[int, int]:
        paths = [m.path for m in members]
        return apportion(self.of(paths) or dict.fromkeys(paths, 1), self.buckets)

    def _base(self, members: Sequence[Member]) -> dict[int, int]:
        return apportion({m.path: m.base for m in members}, self.buckets)

    def _go_back(self, members: Sequence[Member]) -> Step | None:
        """Half of the way to the base; None where it is near."""
        now, target = self._current(members), self._base(members)
        if all(abs(target[path] - now[path]) <= max(2, target[path] // 10) for path in now):
            return None
        return Step(apportion({path: (now[path] + target[path]) / 2 for path in now}, self.buckets))
