"""Probes over every path, and what they say: sockets and timers around :mod:`health` and :mod:`wire`.

One pair of raw sockets per address family serves all paths. What is urgent wakes the daemon; everything else
waits in its socket until the next probes go out, and carries the kernel's time of arrival. So 32 paths cost a
few wake-ups per second. Where the kernel shall answer no echo requests, every one of a remote wakes the daemon, which
answers those with a proof: a raw socket gets them all the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import math
import os
import socket
import time
from asyncio import AbstractEventLoop
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from zerotier_multi.pathd.loop import Alarm
from zerotier_multi.pathd.probe import wire
from zerotier_multi.pathd.probe.delay import Delay
from zerotier_multi.pathd.probe.health import Flaps, Health, Peer
from zerotier_multi.pathd.probe.spared import Spared
from zerotier_multi.pathd.probe.sockets import HOPS, attach, opened, received, sender, told_by_kernel
from zerotier_multi.pathd.probe.trust import Trust
from zerotier_multi.pathd.probe.width import LOSSY, Width
from zerotier_multi.states import PathState

FRESH = 5.0  # seconds in which a new path is probed faster, so that it is in use soon
FRESH_INTERVAL = 0.05
STALE = 30.0  # seconds after which what a remote said of its load says nothing more
LARGE = 1 << 16  # bytes of large probes that go out at once
APART = 0.02  # seconds behind the small ones, or an engine sends both as one packet of two segments, which is dropped as one
REFUSALS = 30  # of a path by the remote within health.FLAP_WINDOW that are free: each restart of an instance there is one
# Seconds between the probes of a backup while others carry the traffic: its line may be paid by the byte. After five without a
# packet, ztnode would send more than that (RECOVERY_IDLE).
REST = 4.0
REST_LARGE = 600.0  # the same, between two large ones
COPIES = (1, 24, 64)  # of a probe, by how many answers are missing: on a path that is full, one of many gets through


@dataclass(frozen=True, slots=True)
class Target:
    """A path to probe; ``interval`` in seconds, ``source`` the own address on the device."""

    path: int  # id of its next hop
    bundle: str
    remote: str
    instance: int
    family: int
    index: int
    via: str
    source: str
    interval: float
    multiplier: int
    vrf: int = 0  # ifindex of the VRF that the device is in
    mtu: int = field(default=0, compare=False)  # of the device, bytes; 0: not known
    backup: bool = field(default=False, compare=False)  # it is used while no other path to the remote works


@dataclass(frozen=True, slots=True)
class Silence:
    """A path that is down without any answer: since when, and since when the remote's probes come over it all the same."""

    since: float
    heard_since: float | None = None
    refused: bool = False  # the remote says that it hears nothing over it
    patient: bool = False  # of two routers that both hear nothing, the one that lets the other try first


@dataclass(slots=True)
class _State:
    target: Target
    group: tuple[str, str, int]  # (bundle, remote, family): what one remote tells about all its instances
    identifier: int
    health: Health
    fresh_until: float
    next_send: float
    send: Callable[[bytes], None]
    good_ms: int  # for which what a probe tells is good
    backup: bool = False  # for us
    remote: Spared = field(default_factory=Spared)  # for the remote
    rests: bool = False  # it is probed rarely
    large_at: float = -math.inf  # when the last large probe went out
    drained: bool = False
    refused: bool = False  # the remote says that it does not hear us over it
    refusals: Flaps = field(default_factory=lambda: Flaps(REFUSALS))  # that it began to say so
    seen_at: float = -math.inf  # when a probe of the remote last came over this path
    remote_use: int | None = None  # percent
    came_at: float = -math.inf  # when anything that looks like a probe of the remote's last came over this path
    came_since: float = -math.inf  # since when such have come, one soon after the other
    remote_wait: int = 0  # ms that our probes wait on their way, as the remote tells
    inbound: Delay = field(default_factory=Delay)  # of the remote's probes
    round_trip: Delay = field(default_factory=Delay)  # of ours and their answers
    trust: Trust = field(default_factory=Trust)
    width: Width = field(default_factory=lambda: Width(0))
    twin_at: float = -math.inf  # when the remote last said that it hears another router with our identity

    @property
    def is_backup(self) -> bool:
        """Whether one of the two routers wants it to be a backup: what the one spares, the other shall not send."""
        return self.backup or self.remote.spared


class _Verdict(NamedTuple):
    """What the daemon hears of when it changes."""

    up: bool  # answers come
    held: bool  # the remote has refused the path too often; whether it does now is no change then
    refused: bool  # the remote refuses the path
    outdone: bool  # it is narrow, and another one is not
    backup: bool
    passes: int | None


@dataclass(slots=True)
class _Copies:
    """Copies of a probe that are still to go out, one by one so many seconds apart."""

    state: _State
    packet: bytes
    number: int
    left: int
    gap: float


class Prober:
    """Keeps the verdicts. ``changed`` is called, from the loop, when one has changed."""

    def __init__(
        self, loop: AbstractEventLoop, changed: Callable[[], None], use: Callable[[str, int], float | None] | None = None
    ) -> None:
        """``use`` gives the share of the time, 0 to 1, in which an instance of a bundle works: the remotes are told."""
        self._loop, self._changed = loop, changed
        self._use = use or (lambda _bundle, _instance: None)
        self._states: dict[int, _State] = {}
        self._by_identifier: dict[int, _State] = {}
        self._by_source: dict[tuple[int, str], _State] = {}
        self._peers: dict[tuple[str, str, int], Peer] = {}  # (bundle, remote, family)
        self._told: dict[tuple[str, str, int], tuple[int, int]] = {}
        self._verdicts: dict[int, _Verdict] = {}  # as reported
        self._remotes: dict[tuple[int, tuple[str, str, int]], Spared] = {}  # what remotes have said of paths that had no device
        self._wide: set[tuple[str, str, int]] = set()  # groups with a path that takes full packets, where another one does not
        self._in_use: set[int] = set()  # paths that are in the kernel's groups
        self._devices: set[int] = set()  # ifindexes that probes are taken from
        self._mute: set[int] = set()  # address families in which the kernel answers no probe
        self._identifier = int.from_bytes(os.urandom(2), "big")
        self._read_at = time.monotonic()
        self._alarm = Alarm(loop, self._work)
        self._heard = asyncio.Event()  # a remote has said something since it was cleared
        self._urgent = {family: opened(family, True) for family in (4, 6)}
        self._calm = {family: opened(family, False) for family in (4, 6)}
        for family, sock in self._urgent.items():
            if sock:
                loop.add_reader(sock, self._on_urgent, family)

    # -- what is probed

    def configure(self, targets: Iterable[Target], drained: set[int], in_use: set[int], spared: Collection[int] = ()) -> None:
        """Probe exactly these paths.

        A path that is new, or has a new device, begins down; one that the kernel uses already (``in_use``), when
        this daemon is new itself, begins up, and one that was a backup (``spared``) is one until the remote says more.
        ``drained`` are ids of paths that shall carry nothing new.
        """
        now = time.monotonic()
        wanted = {target.path: target for target in targets}
        widths = {path: state.width for path, state in self._states.items()}  # a device that is made anew leads over the same line
        for path in [p for p, s in self._states.items() if wanted.get(p) != s.target]:
            self._forget(path)
        for path, target in wanted.items():
            if path not in self._states:
                self._begin(target, now, path in in_use)
                state = self._states[path]
                state.remote = self._remotes.get((path, state.group), Spared(path in spared))
            state = self._states[path]
            state.drained, state.backup = path in drained, target.backup
            known = widths.get(path, state.width)
            state.width = known if known.full == target.mtu else Width(target.mtu)
        self._listen({index for s in self._states.values() for index in (s.target.index, s.target.vrf) if index})
        self._announce(now)
        self._set_wake()

    def answer(self, families: Collection[int]) -> None:
        """Answer the probes of remotes in these address families, because the kernel does not."""
        for family in self._mute.symmetric_difference(families):
            sock = self._calm[family]
            if sock and family in families:
                self._loop.add_reader(sock, self._on_calm, family)
            elif sock:
                self._loop.remove_reader(sock)
        self._mute = set(families)

    def _listen(self, devices: set[int]) -> None:
        """Take probes from these devices only; anybody can send something that looks like one to any other."""
        if devices == self._devices:
            return
        self._devices = devices
        for urgent, sockets in ((True, self._urgent), (False, self._calm)):
            for family, sock in sockets.items():
                if sock:
                    attach(sock, wire.packet_filter(family, urgent, sorted(devices)))

    def _begin(self, target: Target, now: float, up: bool) -> None:
        self._identifier = (self._identifier + 1) % 65536
        while self._identifier in self._by_identifier:
            self._identifier = (self._identifier + 1) % 65536
        health = Health(target.interval, target.multiplier, up, now)
        group = (target.bundle, target.remote, target.family)
        send = sender(self._calm[target.family], target.family, target.index, target.source, target.via)
        good_ms = min(65535, int(target.interval * (target.multiplier + 1) * 1000))
        state = _State(target, group, self._identifier, health, now if up else now + FRESH, now, send, good_ms)
        self._states[target.path] = self._by_identifier[self._identifier] = state
        self._by_source[target.index, target.via] = state

    def _forget(self, path: int) -> None:
        state = self._states.pop(path)
        self._remotes[path, state.group] = state.remote
        self._verdicts.pop(path, None)
        self._by_identifier.pop(state.identifier, None)
        if self._by_source.get((state.target.index, state.target.via)) is state:
            del self._by_source[state.target.index, state.target.via]
        if not any(s.group == state.group for s in self._states.values()):
            self._peers.pop(state.group, None)
            self._told.pop(state.group, None)

    def applied(self, in_use: set[int]) -> None:
        """These paths are what the kernel's groups hold now; the remotes are told."""
        self._in_use = in_use
        self._announce(time.monotonic())

    # -- verdicts

    def verdict(self, path: int) -> PathState:
        """What is known of a path.

        ``UP``, ``DOWN``, ``HELD``, ``REMOTE_DOWN``, ``NARROW``, or ``WAITING`` for one that is not probed.
        """
        state = self._states.get(path)
        if state is None:
            return PathState.WAITING
        if not state.health.up:
            return PathState.HELD if state.health.held else PathState.DOWN
        now = time.monotonic()
        if state.refusals.until > now:
            return PathState.HELD
        if self._refused(state, now):
            return PathState.REMOTE_DOWN
        return PathState.NARROW if self._outdone(state) else PathState.UP

    def _outdone(self, state: _State) -> bool:
        """Whether packets of full size are lost on a path, and come over another one to the same remote."""
        return state.width.narrow and state.group in self._wide

    def _compare_widths(self, now: float) -> None:
        """Note where a path is better than one that is narrow."""
        states = self._states.values()
        groups = {state.group for state in states if state.width.narrow}
        self._wide = {
            state.group for state in states
            if state.group in groups and state.health.up and not state.drained and state.width.wide(now)
            and not self._refused(state, now)
        }  # fmt: skip

    def is_backup(self, path: int) -> bool:
        """Whether this router or the remote wants a path to be a backup; False for one that is not probed."""
        state = self._states.get(path)
        return bool(state and state.is_backup)

    def _rest(self, verdicts: Mapping[int, _Verdict], now: float) -> None:
        """Probe backups rarely while another path to their remote works, and as all others while none does or they are in use."""
        served = {
            state.group for path, state in self._states.items()
            if (said := verdicts[path]).up and not (said.held or said.refused or said.backup or state.width.narrow or state.drained)
        }  # fmt: skip
        for state in self._states.values():
            own = state.target.interval
            state.rests = (
                state.is_backup and state.group in served and now >= state.fresh_until and state.target.path not in self._in_use
            )
            pace = max(own, REST) if state.rests else own
            if pace != state.health.interval:
                state.health.pace(pace)
                state.next_send = now

    def _refused(self, state: _State, now: float) -> bool:
        peer = self._peers.get(state.group)
        return peer is not None and peer.refuses(state.target.instance, now)

    def measures(self, path: int) -> tuple[float | None, float | None]:
        """(round-trip time in seconds, share of probes lost) of a path."""
        state = self._states.get(path)
        return (state.health.rtt, state.health.loss()) if state else (None, None)

    def passes(self, path: int) -> int | None:
        """The largest IP packet that a path on which full ones are lost lets pass, bytes; 0: none that a bundle may have.

        None where full ones are not lost, or it is not known yet.
        """
        state = self._states.get(path)
        return state.width.passes if state and state.width.narrow else None

    def is_wide(self, path: int) -> bool:
        """Whether full packets have come over a path lately."""
        state = self._states.get(path)
        return bool(state and state.width.wide(time.monotonic()))

    def silence(self, path: int) -> Silence | None:
        """How a path is silent (times are monotonic); None where it is not down, answers come again, or it is not probed."""
        state = self._states.get(path)
        since = state.health.silent_since if state else None
        if state is None or since is None:
            return None
        now = time.monotonic()
        heard = now - state.came_at <= state.health.interval * state.target.multiplier
        patient = _number(state.target.source) > _number(state.target.via)
        return Silence(since, state.came_since if heard else None, self._refused(state, now), patient)

    def empty(self, paths: Iterable[int]) -> bool:
        """Whether the peers that speak to us send nothing more over these paths."""
        return self._peers_have_left(paths)

    def remote_use(self, path: int) -> float | None:
        """Share of the time, 0 to 1, in which the instance at the other end of a path works; None where it does not tell."""
        state = self._states.get(path)
        if state is None or state.remote_use is None or time.monotonic() - state.seen_at > STALE:
            return None
        return state.remote_use / 100

    def wait(self, path: int) -> float:
        """Seconds that packets to the remote wait on their way; 0 where it does not tell.

        The remote's word tells the direction, and the round trip, which needs no second clock, that it is so: two clocks
        may drift apart.
        """
        state = self._states.get(path)
        if state is None or time.monotonic() - state.seen_at > STALE:
            return 0.0
        return min(state.remote_wait / 1000, state.round_trip.mean)

    def twin(self, path: int) -> str | None:
        """Whose identity two routers have, by what comes over a path: ``remote``, ``own``, or None."""
        state, now = self._states.get(path), time.monotonic()
        if state is None:
            return None
        told = state.trust.own_twin.seen(now) or now - state.twin_at <= FRESH
        return "remote" if state.trust.remote_twin.seen(now) else "own" if told else None

    async def wait_for_peers(self, paths: Iterable[int], patience: float) -> None:
        """Wait until the peers that speak to us send nothing more over these paths and what was under way is here.

        ``patience`` in seconds; peers that do not speak to us are not waited for.
        """
        ids = list(paths)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                while not self._peers_have_left(ids):
                    self._heard.clear()
                    await self._heard.wait()
        under_way = [state.health.rtt for path in ids if (state := self._states.get(path)) and state.health.rtt]
        if under_way:
            await asyncio.sleep(min(max(under_way), patience))

    def _peers_have_left(self, paths: Iterable[int]) -> bool:
        now = time.monotonic()
        for path in paths:
            state = self._states.get(path)
            peer = self._peers.get(state.group) if state else None
            if state and peer and peer.uses(state.target.instance, now):
                return False
        return True

    # -- time

    def _set_wake(self) -> None:
        moments = [s.next_send for s in self._states.values()]
        moments += [at for s in self._states.values() if (at := s.health.wake) is not None]
        # A remote that refuses a path and then falls silent refuses nothing any more.
        moments += [self._peers[self._states[path].group].good_until for path, said in self._verdicts.items() if said.refused]
        moments += [self._states[path].refusals.until for path, said in self._verdicts.items() if said.held]
        self._alarm.set(min(moments, default=None))

    def _work(self, now: float) -> None:
        """Read what has come, judge, and send what is due."""
        self._read(self._calm, now)
        self._judge(now)
        due: list[_State] = []
        for state in self._states.values():
            if state.next_send <= now:
                due.append(state)
                pace = FRESH_INTERVAL if now < state.fresh_until and not state.health.up else state.health.interval
                pace = min(pace, state.health.interval)
                # On multiples of the pace, so that all paths go in one wake-up.
                state.next_send = (math.floor(now / pace) + 1) * pace
        self._send(due, now, urgent=False)
        if large := self._due_large(due, now):
            self._loop.call_later(APART, self._send_large, large)
        self._set_wake()

    def _judge(self, now: float) -> None:
        """Take in what has been read; remotes hear of it before the kernel's routes are changed."""
        if any([state.health.judge(now) for state in self._states.values()]):
            self._announce(now)
        self._compare(now)

    def _compare(self, now: float) -> None:
        """Report when any verdict is another than last time."""
        self._compare_widths(now)
        for state in self._states.values():
            if state.health.up:
                state.remote.works(now, state.health.since)
            was, state.refused = state.refused, self._refused(state, now)
            if state.refused and not was:
                state.refusals.fell(now)
        verdicts = {
            path: _Verdict(
                state.health.up,
                held := state.refusals.until > now,
                state.refused and not held,
                self._outdone(state),
                state.is_backup,
                self.passes(path),
            )
            for path, state in self._states.items()
        }
        self._rest(verdicts, now)
        if verdicts != self._verdicts:
            self._verdicts = verdicts
            self._changed()

    # -- what is told

    def _masks(self, group: tuple[str, str, int]) -> tuple[int, int]:
        """(instances over which the remote is heard, instances that are used for it)."""
        heard = used = 0
        for state in self._states.values():
            if state.group == group:
                bit = 1 << (state.target.instance - 1)
                heard |= bit if state.health.up and not state.drained else 0
                used |= bit if state.target.path in self._in_use else 0
        return heard, used

    def _seen(self, now: float) -> dict[tuple[str, str, int], int]:
        """By remote, the mask of the instances over which its probes have come lately."""
        seen: dict[tuple[str, str, int], int] = {}
        for state in self._states.values():
            seen.setdefault(state.group, 0)
            if now - state.seen_at < state.health.interval * state.target.multiplier:
                seen[state.group] |= 1 << (state.target.instance - 1)
        return seen

    def _announce(self, now: float) -> None:
        """Tell the remotes at once what has changed, over every path."""
        for group in {s.group for s in self._states.values()}:
            masks = self._masks(group)
            if self._told.get(group) != masks:
                self._told[group] = masks
                self._send([s for s in self._states.values() if s.group == group], now, urgent=True)

    def _send(self, states: Collection[_State], now: float, urgent: bool) -> None:
        seen = self._seen(now) if states else {}
        uses: dict[tuple[str, int], int | None] = {}
        for state in states:
            target, health = state.target, state.health
            at = time.monotonic()
            copies = COPIES[min(health.missing(now), len(COPIES) - 1)] if health.up else 1
            number = health.sent(at)
            packet = wire.encode(self._probe(state, number, at, seen, uses, urgent=urgent), target.family, state.identifier)
            state.send(packet)
            if copies > 1:
                gap = health.patience(at) / copies
                self._loop.call_later(gap, self._send_copy, _Copies(state, packet, number, copies - 1, gap))

    def _probe(
        self, state: _State, number: int, at: float, seen: Mapping[tuple[str, str, int], int],
        uses: dict[tuple[str, int], int | None], *, urgent: bool = False, large: bool = False,
    ) -> wire.Probe:  # fmt: skip
        """What is told over a path. ``uses`` keeps what was asked of instances: several paths have the same."""
        target = state.target
        instance = (target.bundle, target.instance)
        if instance not in uses:
            use = self._use(*instance)
            uses[instance] = None if use is None else round(100 * use)
        return wire.Probe(
            number, urgent, target.instance, state.good_ms, int(at * 1e9), *self._told.get(state.group, (0, 0)),
            seen[state.group], uses[instance], state.trust.token, state.trust.echo,
            round(1000 * state.inbound.least), state.trust.remote_twin.seen(at), large, state.backup,
        )  # fmt: skip

    @staticmethod
    def _due_large(states: Iterable[_State], now: float) -> list[tuple[_State, int]]:
        """Those paths that get a large probe now, and its size."""
        due: list[tuple[_State, int]] = []
        room = LARGE
        for state in states:
            sound = state.health.up and not state.drained and (state.health.loss() or 0.0) <= LOSSY
            if state.rests and now - state.large_at < REST_LARGE:
                continue
            size = state.width.due(now, sound) if state.width.full else None
            if size is not None and room > 0:
                due.append((state, size))
                state.large_at = now
                room -= size
        return due

    def _send_large(self, due: Iterable[tuple[_State, int]]) -> None:
        seen = self._seen(time.monotonic())
        uses: dict[tuple[str, int], int | None] = {}
        for state, size in due:
            if self._states.get(state.target.path) is state:
                at = time.monotonic()
                probe = self._probe(state, state.width.sent(at), at, seen, uses, large=True)
                state.send(wire.encode(probe, state.target.family, state.identifier, size))

    def _send_copy(self, copies: _Copies) -> None:
        """One more copy of a probe, unless its answer has come.

        They are spread over the time that is left: a queue that is full is so for milliseconds, in which all are lost that
        go out together.
        """
        state, now = copies.state, time.monotonic()
        if now - self._read_at >= copies.gap / 2:
            self._read(self._calm, now)
        known = self._states.get(state.target.path) is state
        if not (known and state.health.up and state.health.awaits(copies.number)):
            return
        state.send(copies.packet)
        copies.left -= 1
        if copies.left:
            self._loop.call_later(copies.gap, self._send_copy, copies)

    # -- what comes

    def _on_urgent(self, family: int) -> None:
        now = time.monotonic()
        self._read({family: self._urgent[family]}, now)
        self._compare(now)
        self._set_wake()

    def _on_calm(self, family: int) -> None:
        self._read({family: self._calm[family]}, time.monotonic())

    def _read(self, sockets: Mapping[int, socket.socket | None], now: float) -> None:
        wall = time.clock_gettime(time.CLOCK_REALTIME)
        for family, sock in sockets.items():
            for packet, ancillary, _flags, source in received(sock) if sock else ():
                if (found := wire.decode(packet, family)) is None:
                    continue
                index, stamp, hops = told_by_kernel(ancillary, packet, family)
                # The wall clock may have been set in between; an arrival is never older than the last reading.
                age = min(max(0.0, wall - stamp), now - self._read_at) if stamp else 0.0
                asking = self._take(found, index, source[0], hops, now - age)
                if asking and family in self._mute:
                    asking.send(wire.reply(packet, family))
        if sockets is self._calm:
            self._read_at = now
        self._heard.set()

    def _take(self, found: tuple[bool, int, wire.Probe], index: int, source: str, hops: int, arrival: float) -> _State | None:
        """Take in what has come. Returns the path over which the remote, with a proof that it is, wants an answer."""
        reply, identifier, probe = found
        if reply:
            state = self._by_identifier.get(identifier)
            known = state and (state.target.index, state.target.via) == (index, source)
            if state and known and state.trust.mine(probe.token):
                if probe.large:
                    state.width.answered(probe.sequence, arrival)
                else:
                    state.health.answered(probe.sequence, arrival)
                    state.round_trip.came(probe.sent / 1e9, arrival)
            return None
        state = self._by_source.get((index, source))
        if state and hops == HOPS:
            if arrival - state.came_at > state.health.interval * state.target.multiplier:
                state.came_since = arrival
            state.came_at = max(state.came_at, arrival)
        if state and hops == HOPS and state.trust.hear(probe.token, probe.echo, probe.sent, arrival):
            state.seen_at = max(state.seen_at, arrival)
            state.twin_at = arrival if probe.twin else state.twin_at
            state.remote.hear(probe.backup, probe.sent, arrival, state.trust.renewed)
            state.remote_use, state.remote_wait = probe.use, probe.wait_ms
            state.inbound.came(probe.sent / 1e9, arrival)
            if probe.seen >> (state.target.instance - 1) & 1:
                state.health.vouch(arrival)
            peer = self._peers.get(state.group)
            if peer is None:
                peer = self._peers[state.group] = Peer()
            peer.hear(probe.heard, probe.used, probe.sent, arrival + probe.good_ms / 1000, state.trust.renewed)
            return state
        return None


def _number(address: str) -> int:
    return int(ipaddress.ip_address(address))
