"""How many hash buckets each path of a resilient group gets, from how hard its instances work; pure.

A bucket is what moves: idle ones follow the weights by themselves (the kernel's idle timer), and one that big flows keep
busy is moved on purpose, by itself, when it shares a full path with others while another path has room. Many flows are
laid evenly before that, by what the paths send, so that none is full first. Nothing is lost by a move: the bucket's flows
go over another living path from one packet to the next.
"""

from __future__ import annotations

import itertools
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
LATE = 0.3  # seconds that a look at the buckets may be old
PACE = 4.0  # seconds between two steps, so that the effect of one is seen before the next
PURGE = 1.0  # the same after a step that no flow notices
STEP = 0.1  # share of its buckets that a full path gives away in one step
WORK = 0.05  # pressure of the busiest path from which it matters whether the others do as much
LEVEL = 1.04  # of what it would send if all did alike, from which a path sends too much
ALIKE = 1.6  # bases of paths that differ by less are taken for the same: they are measured
GAIN = 1 / 6  # of what a bucket sends on average, by which a move must make the paths more even
SAME = 0.1  # difference of a traffic that makes it another one, of which a move says nothing
DEEPEST = 4  # busy buckets that go along for the sake of the last of them
TRIES = 3  # moves in vain until the flows are taken for unequal ones: a bucket may have had several
MANY = 3  # flows on a path from which they are taken for equal ones
SEVERAL = 1.5  # flows more than another path has are not one that fills any path
SHORT_REST = 10.0  # seconds until flows are looked at again where nothing helps
FIRST_REST, LONGEST_REST = 30.0, 600.0  # seconds in which no busy bucket moves, after moves that were in vain
SPREAD = 4.0  # bases of two paths differ no more than so many times
MAX_WEIGHT = 256  # of a member, so only up to as many buckets are weights exactly numbers of buckets
_LATENCY = 0.002  # seconds of round-trip time that make no difference
_OURS = 0.1  # share of what a path carries that must go to the remote, or moving our flows is no relief to it
_KNOWN = 0.7  # use of an instance at which its rate tells its capacity
_QUIET = 0.2  # part of its use in which an instance of no such use may have waited, or others use its CPU
_SMOOTH = 0.2
_DOUBT = 0.99  # of the trust in what a line is thought to carry, per second in which it carries that without a queue
_FADE = 0.999  # of what a line has carried, per second
_IN_VAIN = 3  # windows with half the traffic or less after which what is still waited is no queue of ours
_REST = 300  # windows until that may be so again: where others fill the line, flows would come and go all the time
_OVERRATED = 2.0  # times the use that it has, in which an instance would do its work by what it is thought to carry
_DOUBTED, _LEAST_TRUST = 0.95, 0.01  # of the trust in what such an instance carries, per second
_A_FLOW = 0.9  # of one, by what it sends: beside two flows, a path that carries probes alone is not one flow short


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
class Capacity:
    """What an instance carries at most, in bytes per second: None while that is not known.

    A window in which others had its CPU says too little, and where the instance is never that busy again no later one
    says more. So what is known is trusted less while the instance does its work with much less of its CPU.
    """

    known: float | None = None
    trust: float = 1.0

    def window(self, load: Load) -> None:
        """Take one more window in."""
        self.known = capacity(self.known, load)
        if load.use >= _KNOWN:
            self.trust += _SMOOTH * (1 - self.trust)
        elif self.known is not None and load.rate > _OVERRATED * load.use * self.known:
            self.trust = max(_LEAST_TRUST, self.trust * _DOUBTED)

    def among(self, best: float) -> float | None:
        """What it may carry: no more than the best path does."""
        return None if self.known is None else max(self.known, min(best, self.known / self.trust))


@dataclass
class Line:
    """The lines of the underlay under one path, in the direction to the remote: told by the wait of its packets.

    ``capacity`` in bytes per second is what went over it when it was full. Where several paths share a line, it is the
    part of it that this one had.
    """

    capacity: float | None = None
    most: float = 0.0  # that has gone over it
    trust: float = 1.0  # in its capacity
    lasting: float = 0.0  # seconds that packets wait whatever goes over it: they take a longer way, or others fill it
    _first: float = 0.0  # what went over it when it became full
    _before: float | None = None  # its capacity until then
    _in_vain: int = 0  # windows, one after the other, in which it was full although much less went over it
    _rest: int = 0  # windows in which a wait is a queue, whatever goes over it

    def queue(self, wait: float) -> float:
        """Seconds of a wait that are more than :attr:`lasting`, which is never more than packets wait."""
        self.lasting = min(self.lasting, wait)
        return wait - self.lasting

    def window(self, sent: float, wait: float, common: float = 0.0) -> float:
        """Pressure of one more window, in which ``sent`` bytes per second went out and waited so many seconds.

        ``common`` seconds is what they wait on every path to the remote: as much is the work of busy routers at either end.
        Both are what :meth:`queue` gives. A queue of ours ends when much less goes over the line; what does not is none.
        """
        self.most = max(sent, self.most * _FADE)
        self._rest = max(0, self._rest - 1)
        if sent >= LEAST and (wait - common >= QUEUE or wait >= DEEP):
            if not self._first:
                self._first, self._before = sent, self.capacity
            self._in_vain = self._in_vain + 1 if sent < self._first / 2 else 0
            if self._in_vain < _IN_VAIN or self._rest:
                self.capacity = sent if self.capacity is None else self.capacity + _SMOOTH * (sent - self.capacity)
                self.trust = 1.0
                return 1.0
            self.lasting += wait
            self.capacity, self._rest = self._before, _REST
        self._first, self._in_vain = 0.0, 0
        if self.capacity is None:
            return 0.0
        self.capacity = max(self.capacity, sent)
        if sent >= ROOM * self.capacity:
            self.trust = max(ROOM, self.trust * _DOUBT)
        return min(NEARLY, sent / self.capacity * self.trust)


def sizes(capacities: Mapping[int, Capacity], lines: Mapping[int, Line]) -> dict[int, float]:
    """What each path carries at most: its instance or its line, whichever is less; the best known where neither is."""
    best = max((*(c.known or 0.0 for c in capacities.values()), *(line.most for line in lines.values())), default=0.0)
    known = {path: [c for c in (own.among(best), lines[path].capacity) if c] for path, own in capacities.items()}
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
    best = max(found.values(), default=0.0) or 1.0  # 0 where none of them brings a probe back
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


def _evenly(members: Sequence[Member]) -> dict[int, float]:
    """What each path would send if all did alike for what they are worth, bytes per second."""
    alike = max(m.base for m in members) <= ALIKE * min(m.base for m in members)
    shares = {m.path: 1.0 if alike else m.base for m in members}
    return {path: sum(m.sent for m in members) * share / sum(shares.values()) for path, share in shares.items()}


def uneven(members: Sequence[Member]) -> bool:
    """Whether paths have work worth mentioning, and one of them more than the others."""
    if len(members) < 2 or max(m.pressure for m in members) < WORK or sum(m.sent for m in members) < LEAST:
        return False
    even = _evenly(members)
    return any(m.sent > LEVEL * even[m.path] and m.gives(0.0) for m in members)


def _many(sizes: Sequence[float], excess: float, lacks: Sequence[float], one: float) -> tuple[int, float]:
    """How many of a path's buckets, in their order, to move to the paths that lack most; and how much more even that is.

    Everything in bytes per second: ``sizes`` is what the buckets send, ``one`` what one sends on average, ``excess`` what
    is too much for the path. The kernel moves buckets in their order only. So where the first one is too big, and a later
    one is not, all up to that one go, which is no more even yet (0.0): the path that gets them gives others back in the
    next step. (0, 0.0) where nothing helps.
    """

    def better(sent: float, takers: int) -> float:
        return excess - max(0.0, excess - sent) - max(0.0, sent - sum(lacks[:takers]))

    sums = list(itertools.accumulate(sizes))
    gains = [better(sent, number) for number, sent in enumerate(sums, start=1)]
    best = max(gains, default=0.0)
    if best > GAIN * one:
        return gains.index(best) + 1, best
    return next(((n, 0.0) for n, size in enumerate(sizes[:DEEPEST], start=1) if better(size, 1) > GAIN * one), (0, 0.0))


@dataclass(frozen=True)
class _Moved:
    """Busy buckets that were moved off a path, what it sent before, and all paths together; bytes per second."""

    path: int
    buckets: tuple[int, ...]
    sent: float
    total: float
    at: float


@dataclass
class _Rest:
    """No more of what was in vain for a while, longer each time that it does not end."""

    until: float = 0.0
    length: float = FIRST_REST
    vain_until: float = 0.0  # end of the last one after moves in vain
    traffic: float | None = None  # bytes per second when it began; None where other traffic does not end it

    def begin(self, now: float, traffic: float | None = None) -> None:
        self.length = FIRST_REST if now - self.vain_until > LONGEST_REST else min(LONGEST_REST, 2 * self.length)
        self.until = self.vain_until = now + self.length
        self.traffic = traffic

    def short(self, now: float, traffic: float) -> None:
        """Readings differ a little: looked at each second, with one of them something would seem to help."""
        self.until, self.traffic = now + SHORT_REST, traffic

    def outlived(self, traffic: float) -> bool:
        """Whether the traffic is no more what it was: it has doubled or halved."""
        return self.traffic is not None and not self.traffic / 2 < traffic < self.traffic * 2


@dataclass
class Spread:
    """One group. Times are seconds of one clock, ``idle_timer`` is the group's own, in seconds too."""

    buckets: int
    idle_timer: int
    weights: dict[int, int] = field(default_factory=dict)  # empty: all the same
    inherited: bool = False  # they are of an earlier daemon, and no path was full since: that one knew what paths carry
    _next: float = 0.0
    _calm_since: float | None = None
    _places: dict[int, tuple[int, float]] = field(default_factory=dict)  # path of each bucket, and since when it was seen there
    _emptied: bool = False  # a path has lost its idle buckets, so new flows would go to the others
    _rest: _Rest = field(default_factory=_Rest)  # of parting
    _level_rest: _Rest = field(default_factory=_Rest)
    _forced: tuple[int, int] | None = None  # (from, to) of the last busy bucket that was moved
    _vain: int = 0  # moves for that, one after the other, that brought less than half of what was hoped for
    _moved: _Moved | None = None  # by the last step for that
    _sizes: dict[int, float] = field(default_factory=dict)  # bytes per second of buckets that were moved
    _hoped: tuple[float, float] | None = None  # most of a traffic that may still be too much for its path after a move for that

    def look(self, members: Sequence[Member], table: Sequence[Bucket], busy: Iterable[int] | None, now: float) -> Step | None:
        """The next step, or None.

        ``table`` are the buckets as they stand, ``busy`` the numbers of those that big flows keep busy; None where that
        is not known yet.
        """
        if len(members) < 2:
            return None
        for bucket in table:
            path, _since = self._places.setdefault(bucket.index, (bucket.path, -math.inf))
            if path != bucket.path:
                self._places[bucket.index] = bucket.path, now
        if self._level_rest.outlived(sum(m.sent for m in members)):
            self._level_rest = _Rest()
        taker = min(members, key=lambda m: (round(m.pressure, 1), m.sent / m.size))
        if max(m.pressure for m in members) >= CALM:
            self._calm_since = None
        elif self._calm_since is None:
            self._calm_since = now
        self.inherited = self.inherited and max(m.pressure for m in members) < FULL
        if self.waits(now):
            return None
        step = None
        giver = max((m for m in members if m.gives(PRESSED)), key=lambda m: m.pressure, default=None)
        if giver and giver.pressure - taker.pressure >= UNEVEN:
            full = giver.pressure >= FULL
            if busy is not None:
                step = self._part(taker, members, table, set(busy), now, FULL if full else PRESSED)
                if full and not step and not self._emptied:
                    step = self._shift(giver, taker, members, table)
        if step is None and busy is not None and max(m.pressure for m in members) < FULL:
            step = self._level(members, table, set(busy), now)
        if step is None and not self.inherited and self._calm_since is not None and now - self._calm_since >= CALM_TIME:
            step = self._go_back(members)
        if step is None and self._emptied:
            step, self._emptied = Step(self._base(members)), False
        if step:
            self._next = now + (PURGE if step.purge else PACE)
            self.weights = {**self.weights, **step.weights}
        return step

    def waits(self, now: float) -> bool:
        """Whether the effect of the last step is to be seen first."""
        return now < self._next

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
        """
        own = {m.path: [b.index for b in table if b.path == m.path and b.index in busy] for m in members}
        limit = max(least, max(m.pressure for m in members if m.gives(least)) - UNEVEN / 2)
        several = [m for m in members if m.gives(limit) and own[m.path] and len(own[m.path]) + m.shared > 1]
        full = [m for m in several if least == FULL or len(own[m.path]) < MANY]
        if not full or not self.idle_timer or self.buckets > MAX_WEIGHT or now < self._rest.until:
            return None
        giver = max(full, key=lambda m: (len(own[m.path]) + m.shared) / m.size)
        flows = {m.path: len(own[m.path]) + m.shared for m in members}
        if self._turned(giver, members, flows):
            self._rest.begin(now)
            self._forced = None
            return None
        each = giver.pressure / flows[giver.path]
        there = each * giver.size / taker.size  # what one of its flows is to the taker
        evens = _evens(giver, taker, flows)
        even = max(evens)
        if taker.pressure > ROOM and (taker.pressure + there > giver.pressure or even < 0.5):
            return None
        if giver.pressure < FULL and min(evens) < _A_FLOW:
            return None
        # Pressure says who has room, but it rises late and then steeply: all of its difference would be too much.
        many = max(1, min(int((giver.pressure - taker.pressure) / (each + there)), int(even), len(own[giver.path])))
        step = self._move(giver, {taker.path: 1.0}, own[giver.path][:many], members, table, now)
        if step and step.force:
            self._forced, self._hoped = (giver.path, taker.path), None
        return step

    def _level(self, members: Sequence[Member], table: Sequence[Bucket], busy: set[int], now: float) -> Step | None:
        """Move busy buckets off the path that sends most for what it is worth, where it has many, to those that send least.

        A full path holds its flows back, so what it sends says nothing: this is for paths that are not. What a bucket sends
        is known once it was moved; before that, buckets are taken for equal ones. None is moved that would only make another
        path the one that sends most. Where that was wrong, as several moves brought less than half of what was hoped for,
        they rest.
        """
        self._learn(members, table, now)
        if not uneven(members):
            self._hoped, self._vain, self._sizes = None, 0, {}
            return None
        total = sum(m.sent for m in members)
        if not self.idle_timer or self.buckets > MAX_WEIGHT or now < self._level_rest.until:
            return None
        even = _evenly(members)
        giver = max((m for m in members if m.gives(0.0)), key=lambda m: m.sent / even[m.path])
        own = [b.index for b in table if b.path == giver.path and b.index in busy]
        one = giver.sent / (len(own) + giver.shared or 1)
        lacks = {m.path: even[m.path] - m.sent for m in members}
        if len(own) < MANY:
            return None
        wrong = sum(max(0.0, -lack) for lack in lacks.values())
        hoped, self._hoped = self._hoped, None
        if hoped and abs(total / hoped[1] - 1) < SAME:
            self._vain = self._vain + 1 if wrong > hoped[0] else 0
        if self._vain == TRIES:
            self._vain = 0
            self._level_rest.begin(now, total)
            return None
        takers = {path: lacks[path] for path in sorted(lacks, key=lambda path: -lacks[path]) if lacks[path] > 0}
        # One that is alone on a bucket is the smallest seen; where buckets have two on average, one of them may help yet.
        alone = min((size for size in self._sizes.values() if one / 3 < size < one), default=one)
        sizes = [self._sizes.get(b, one if n else alone) for n, b in enumerate(own[:-1])]
        many, better = _many(sizes, -lacks[giver.path], list(takers.values()), one)
        if not many:
            self._level_rest.short(now, total)
            return None
        least = list(takers)[: many if better else 1]
        step = self._move(giver, {path: takers[path] for path in least}, own[:many], members, table, now)
        if step and step.force:
            self._forced, self._moved = None, _Moved(giver.path, tuple(own[:many]), giver.sent, total, now)
            self._hoped = (wrong - better / 2, total) if better else None
        return step

    def _learn(self, members: Sequence[Member], table: Sequence[Bucket], now: float) -> None:
        """What the buckets of the last move send: as much as their path sends less, if the traffic is the same."""
        moved, self._moved = self._moved, None
        if not moved:
            return
        path = next((m for m in members if m.path == moved.path), None)
        if not path or abs(sum(m.sent for m in members) / moved.total - 1) > SAME or now - moved.at > 2 * PACE:
            self._sizes = {}
            return
        gone = [b.index for b in table if b.index in moved.buckets and b.path != moved.path]
        if len(gone) < len(moved.buckets):
            self._hoped = None  # the kernel has found others to move
        unknown = [bucket for bucket in gone if bucket not in self._sizes] or gone
        left = moved.sent - path.sent - sum(self._sizes[b] for b in gone if b not in unknown)
        self._sizes |= dict.fromkeys(unknown, max(0.0, left) / max(1, len(unknown)))

    def _is_idle(self, bucket: Bucket, now: float) -> bool:
        """Whether the kernel moves it without force: not used for the time of the timer, or not since it was moved.

        The kernel then tells the time since the move. Source: nh_res_bucket_idle_point() of Linux (net/ipv4/nexthop.c).
        """
        return bucket.idle >= min(self.idle_timer, now - self._places[bucket.index][1] - LATE)

    def _move(
        self, giver: Member, takers: Mapping[int, float], moving: Sequence[int], members: Sequence[Member],
        table: Sequence[Bucket], now: float,
    ) -> Step | None:  # fmt: skip
        """Move busy buckets of the giver, by their numbers, to other paths, in proportion to ``takers``.

        The kernel moves idle buckets first, and then busy ones in their order. So the idle ones of the giver go in a
        step before, and those that are in front of a busy one go along with it. They come back when all is done. A path
        that has just come back may hold no bucket yet; it is to have one at least, as every member of a group.
        """
        held = [bucket for bucket in table if bucket.path == giver.path]
        idle = sum(self._is_idle(bucket, now) for bucket in held)
        counts = {m.path: sum(b.path == m.path for b in table) for m in members}
        total = sum(counts.values())
        self._emptied = True
        if idle:
            others = {path: max(1.0, count) for path, count in counts.items() if path != giver.path}
            kept = max(1, min(counts[giver.path] - idle, total - len(others)))
            return Step({giver.path: kept, **apportion(others, total - kept)}, purge=True)
        moved = [bucket.index for bucket in held].index(moving[-1]) + 1
        more = apportion(takers, moved)
        # The others are wanted as they stand, so that nothing of theirs is moved by force.
        wanted = {path: max(1, count + more.get(path, 0)) for path, count in counts.items() if path != giver.path}
        kept = total - sum(wanted.values())
        return Step({**wanted, giver.path: kept}, force=True) if kept > 0 else None

    def _turned(self, giver: Member, members: Sequence[Member], flows: Mapping[int, int]) -> bool:
        """Whether the last move has only filled another path and left the first one empty: one flow fills any path."""
        if not self._forced or self._forced[1] != giver.path:
            return False
        first = next((m for m in members if m.path == self._forced[0]), None)
        return first is not None and first.pressure <= ROOM and min(_evens(giver, first, flows)) < SEVERAL

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
