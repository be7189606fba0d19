"""Probing: what is on the wire, and when a path is up or down."""

from __future__ import annotations

import asyncio
import itertools
import random
import socket
import time
import zlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from zerotier_multi.pathd.probe import prober as prober_module
from zerotier_multi.pathd.probe import wire
from zerotier_multi.pathd.probe.health import FREE_FALLS, HISTORY, Health, Peer
from zerotier_multi.pathd.probe.spared import Spared
from zerotier_multi.pathd.probe.trust import Trust
from zerotier_multi.pathd.probe.prober import COPIES, STALE, Prober, Target
from zerotier_multi.pathd.probe.width import Width
from zerotier_multi.states import PathState

I, M = 0.2, 3  # noqa: E741


def path(up: bool = False, interval: float = I, multiplier: int = M) -> Health:
    return Health(interval, multiplier, up, 0.0)


def play(health: Health, answered: str, begin: float = 0.0, rtt: float = 0.001) -> tuple[list[tuple[float, bool]], float]:
    """Send a probe per interval; "x" is answered, "." is not. Returns (when, up) of every change, and the end."""
    changes, now = [], begin
    for sign in answered:
        number = health.sent(now)
        if sign == "x":
            health.answered(number % 65536, now + rtt)
        for moment in (now, now + health._margin + 1e-9, now + health.interval * 0.999):
            if health.judge(moment):
                changes.append((round(moment - begin, 3), health.up))
        now += health.interval
    return changes, now


@pytest.mark.parametrize(
    ("up", "answers", "changes"),
    [
        (False, "xx", []),
        (False, "xxx", [(0.4, True)]),
        (False, "x.xxx", [(0.8, True)]),  # as many in a row
        (True, "xxxxx", []),
        (True, "x..x..x", []),  # two lost in a row are not three
        (True, "x...", [(0.65, False)]),
        (True, "x...xx", [(0.65, False)]),
        (True, "x...xxx", [(0.65, False), (1.2, True)]),
        (True, "...", [(0.45, False)]),
    ],
)
def test_up_and_down(up: bool, answers: str, changes: list[tuple[float, bool]]) -> None:
    assert play(path(up), answers)[0] == changes


@pytest.mark.parametrize(("interval", "multiplier"), [(0.05, 2), (0.2, 3), (1.0, 10)])
def test_a_death_is_noticed_within_multiplier_intervals_and_a_bit(interval: float, multiplier: int) -> None:
    health = path(True, interval, multiplier)
    changes, _ = play(health, "xxxx" + "." * (multiplier + 2))
    ((when, up),) = changes
    last_answer = 3 * interval
    assert not up and when - last_answer <= interval * multiplier + max(interval / 4, 0.02) + 1e-6


def test_a_daemon_that_could_not_run_learns_nothing_from_that() -> None:
    health = path(True)
    _changes, now = play(health, "xxx")
    assert not health.judge(now + 30.0) and health.up
    health.sent(now + 30.0)
    assert not health.judge(now + 60.0), "one probe is no evidence"


def test_answers_that_take_longer_than_the_interval() -> None:
    health = path(True)
    health.rtt = 0.5
    for number in range(1, 40):
        health.sent(number * I)
        if number > 3:
            health.answered(number - 3, number * I - 3 * I + 0.5)
        assert not health.judge(number * I + 0.1)
    assert health.up and health.loss() == 0.0


def test_a_path_that_keeps_falling_is_held_down_longer_each_time() -> None:
    health, now, downs = path(True), 0.0, []
    for _ in range(FREE_FALLS + 4):
        changes, end = play(health, "...", now)
        fell = now + changes[0][0]
        count = 0
        while not health.up:
            _, end = play(health, "x", end)
            count += 1
            assert count < 1000
        downs.append(end - fell)
        now = end
    assert max(downs[:FREE_FALLS]) < 1.5
    assert [round(b / a) for a, b in zip(downs[FREE_FALLS:], downs[FREE_FALLS + 1 :], strict=False)] == [2, 2, 2]


def test_loss_counts_what_is_due_and_only_since_the_path_was_first_up() -> None:
    health = path()
    _, now = play(health, "....")
    assert health.up is False
    _, now = play(health, "xxx", now)
    assert health.up and health.loss() in (None, 0.0)
    play(health, "x.x." * HISTORY, now)
    assert health.loss() == pytest.approx(0.5, abs=0.02)


def test_loss_counts_nothing_from_before_the_path_was_up_when_old_answers_come_with_the_first_ones() -> None:
    # An engine that looks for its peer queues what it can, drops the rest, and delivers the queue when it has found it.
    health, now = path(), 0.0
    for _ in range(60):
        health.sent(now)
        assert not health.judge(now + 0.04)
        now += 0.05
    for number in range(1, 31):
        health.answered(number, now)
    for _ in range(3):
        health.answered(health.sent(now), now + 0.001)
        health.judge(now + 0.002)
        now += I
    assert health.up
    play(health, "x" * 20, now)
    assert health.loss() == 0.0


def test_loss_goes_on_counting_when_a_path_comes_up_again() -> None:
    health = path()
    _, now = play(health, "xxxxxxxxxx")
    _, now = play(health, "....", now)
    assert not health.up
    _, now = play(health, "xxxxxxxx", now)
    assert health.up and health.loss() == pytest.approx(4 / 19)


def test_a_duplicate_and_an_old_answer_count_for_nothing() -> None:
    health = path()
    number = health.sent(0.0)
    for _ in range(5):
        health.answered(number, 0.001)
    assert health.rtt == pytest.approx(0.001) and not health.judge(0.1)
    for at in range(HISTORY + 5):
        health.sent(at * I)
    health.answered(number, 100.0)
    assert not health.up and health.rtt == pytest.approx(0.001)


def test_numbers_wrap_as_icmp_has_them() -> None:
    health = path(True)
    for at in range(65_600):
        number = health.sent(at * I)
        health.answered(number % 65536, at * I + 0.001)
        assert not health.judge(at * I + 0.1)
    assert health.loss() == 0.0


def test_what_a_peer_says_counts_as_long_as_it_says_it() -> None:
    peer = Peer()
    peer.hear(0b1011, 0b0001, 5, 10.0)
    assert [peer.refuses(k, 9.0) for k in (1, 2, 3, 4)] == [False, False, True, False]
    assert [peer.uses(k, 9.0) for k in (1, 2)] == [True, False]
    assert not peer.refuses(3, 10.0) and peer.uses(1, 10.0) is None


def test_a_word_that_comes_late_does_not_replace_a_newer_one() -> None:
    peer, second = Peer(), 10**9
    peer.hear(0b1, 0b1, 100 * second, 10.0)
    peer.hear(0b0, 0b0, 99 * second, 10.1)
    assert not peer.refuses(1, 9.0)
    peer.hear(0b0, 0b0, 101 * second, 10.2)
    assert peer.refuses(1, 9.0)
    peer.hear(0b1, 0b1, 3 * second, 10.3)
    assert peer.refuses(1, 9.0)
    peer.hear(0b1, 0b1, 3 * second, 10.3, renewed=True)  # it has booted
    assert not peer.refuses(1, 9.0)


def test_lost_answers_are_no_death_while_the_remote_vouches_for_the_path() -> None:
    health, now = path(True), 0.0
    for _ in range(50):
        health.sent(now)
        health.vouch(now + 0.1)
        assert not health.judge(now + 0.199)
        now += I
    assert health.up and health.loss() == pytest.approx(1.0)
    died, changes = now - 0.1, []
    for _ in range(6):
        health.sent(now)
        for moment in (now + health._margin + 1e-9, now + 0.199):
            if health.judge(moment):
                changes.append(moment - died)
        now += I
    assert not health.up and len(changes) == 1 and changes[0] <= M * I + health._margin
    for _ in range(10):
        health.sent(now)
        health.vouch(now + 0.1)
        health.judge(now + 0.15)
        now += I
    assert not health.up, "it brings no path up"


class Ends:
    """Both ends of a path, as the prober plays them, in a simulated time of steps of 5 ms.

    ``lost`` are the shares of packets lost on the way from each end; the other's probes begin ``phase`` seconds later.
    """

    STEP, DELAY = 0.005, 0.01

    def __init__(self, phase: float, intervals: tuple[float, float] = (I, I), speaks: bool = True, seed: int = 7) -> None:
        self.ends = [path(True, interval) for interval in intervals]
        self.due, self.seen = [0.0, phase], [-9.0, -9.0]
        self.speaks = speaks  # whether the second one has our daemon, not only a kernel that answers
        self.lost = [0.0, 0.0]
        self.now, self.chance = 0.0, random.Random(seed)
        self.arrivals: list[tuple[float, int, Callable[[], None]]] = []
        self.sent = [0, 0]  # packets
        self.fell: list[tuple[float, int]] = []

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            for at, number, what in sorted(self.arrivals, key=lambda entry: entry[:2]):
                if at <= self.now:
                    self.arrivals.remove((at, number, what))
                    what()
            for which, health in enumerate(self.ends if self.speaks else self.ends[:1]):
                if health.judge(self.now) and not health.up:
                    self.fell.append((self.now, which))
                if self.due[which] <= self.now:
                    self.due[which] += health.interval
                    self._probe(which, health)
            self.now += self.STEP

    def _probe(self, which: int, health: Health) -> None:
        copies = COPIES[min(health.missing(self.now), 2)] if health.up else 1
        number = health.sent(self.now)
        vouches = self.now - self.seen[which] < health.interval * health.multiplier
        self.sent[which] += copies
        for _ in range(copies):
            self._carry(which, lambda at: self._arrived(which, number, vouches, at))

    def _arrived(self, which: int, number: int, vouches: bool, at: float) -> None:
        other = 1 - which
        self.seen[other] = at
        if vouches:
            self.ends[other].vouch(at)
        self._carry(other, lambda back: self.ends[which].answered(number % 65536, back))

    def _carry(self, sender: int, arrived: Callable[[float], None]) -> None:
        if self.chance.random() >= self.lost[sender]:
            at = self.now + self.DELAY * (1 + self.chance.random())
            self.arrivals.append((at, len(self.arrivals), lambda: arrived(at)))


@pytest.mark.parametrize("phase", [0.0, 0.05, 0.1, 0.15])
@pytest.mark.parametrize("dead", [(1.0, 1.0), (1.0, 0.0), (0.0, 1.0)])
def test_a_death_is_noticed_as_soon_by_the_word_as_by_the_answer(phase: float, dead: tuple[float, float]) -> None:
    ends = Ends(phase)
    ends.run(20.0)
    died, ends.lost = ends.now, list(dead)
    ends.run(3.0)
    first = min(at for at, _which in ends.fell)  # it tells the other one
    assert first - died <= I * M + I / 4 + 2 * 0.04


def test_no_path_falls_where_the_remote_says_nothing_or_less_often() -> None:
    for ends in (Ends(0.1, speaks=False), Ends(0.1, intervals=(0.2, 1.0))):
        ends.run(60.0)
        assert ends.sent[0] == pytest.approx(300, abs=1), "no copies"
        assert not ends.fell
        assert ends.ends[0].loss() == 0.0 and ends.ends[0].rtt == pytest.approx(0.03, abs=0.01)


def test_a_daemon_that_falls_silent_costs_one_burst_and_no_path() -> None:
    ends = Ends(0.1)
    ends.run(20.0)
    ends.speaks = False
    ends.sent[0] = 0
    ends.run(60.0)
    assert not ends.fell and ends.ends[0].up
    assert ends.sent[0] <= 300 + sum(COPIES)


@pytest.mark.parametrize("lost", [(0.55, 0.55), (0.8, 0.0), (0.0, 0.8)])
def test_a_path_that_is_full_stays_up_between_two_that_speak(lost: tuple[float, float]) -> None:
    ends = Ends(0.07)
    ends.run(9.0)
    ends.lost = list(lost)
    ends.run(600.0)
    assert not ends.fell


def test_an_answer_is_missing_once_it_should_have_come() -> None:
    health = path(True)
    assert not health.missing(5.0)
    number = health.sent(10.0)
    assert not health.missing(10.05) and health.missing(10.0 + I) == 1
    health.answered(number, 10.001)
    assert not health.missing(10.0 + I)
    health.rtt = 0.5
    health.sent(20.0)
    assert not health.missing(20.0 + I), "it takes longer than the interval on this path"
    assert health.missing(21.0)


def test_a_path_that_is_full_stays_up() -> None:
    """Four of five packets are lost, both probes and answers come through the full queue; copies get through."""
    chance = random.Random(7)
    health, now = path(True), 0.0
    for _ in range(5 * 3600):
        copies = COPIES[min(health.missing(now), 2)]
        number = health.sent(now)
        if any(chance.random() < 1 / 5 for _ in range(copies)):
            health.answered(number % 65536, now + 0.02)
        assert not health.judge(now + health._margin + 1e-9), now
        assert not health.judge(now + 0.999 * I), now
        now += I


probes = st.builds(
    wire.Probe, st.integers(0, 65535), st.booleans(), st.integers(1, 32), st.integers(0, 65535), st.integers(0, 2**64 - 1),
    st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.none() | st.integers(0, 100),
    st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 255), st.booleans(),
)  # fmt: skip


@given(probes, st.sampled_from([4, 6]), st.integers(0, 65535))
def test_what_is_sent_is_read(probe: wire.Probe, family: int, identifier: int) -> None:
    packet = wire.encode(probe, family, identifier)
    if family == 4:
        assert wire.checksum(packet) == 0
        packet = bytes([0x45]) + bytes(19) + packet
    assert wire.decode(packet, family) == (False, identifier, probe)
    # Those of earlier versions end where the masks do, or the load.
    begin = wire.SIZE + (20 if family == 4 else 0)
    plain = probe._replace(token=0, echo=0)
    assert wire.decode(packet[:begin], family) == (False, identifier, plain._replace(use=None, wait_ms=0))
    assert wire.decode(packet[: begin + 2], family) == (False, identifier, plain)


@given(st.binary(max_size=100), st.sampled_from([4, 6]))
def test_anything_else_is_left_alone(packet: bytes, family: int) -> None:
    found = wire.decode(packet, family)
    assert found is None or wire.MAGIC.to_bytes(4, "big") in packet


@pytest.mark.parametrize("family", [4, 6])
def test_a_large_probe_has_its_size_on_the_wire_and_cannot_be_compressed(family: int) -> None:
    small, large = (wire.Probe(1, False, 1, 800, 1, 1, 1, 1, token=7, echo=8, large=large) for large in (False, True))
    packet = wire.encode(large, family, 9, 1394)
    assert len(packet) + (20 if family == 4 else 40) == 1394
    assert len(zlib.compress(packet)) > 1300
    assert len(wire.encode(large, family, 9, 40)) == len(wire.encode(small, family, 9))
    head = bytes([0x45]) + bytes(19) if family == 4 else b""
    assert wire.decode(head + packet, family) == (False, 9, large)


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("header", [20, 24])
def test_the_filters_part_what_is_urgent_from_the_rest(family: int, header: int) -> None:
    begin = bytes([0x40 | header // 4]) + bytes(header - 1) if family == 4 else b""
    flags = 8 + 4
    for urgent, earlier in itertools.product((True, False), repeat=2):
        probe = wire.encode(wire.Probe(1, urgent, 1, 800, 1, 1, 1, 1), family, 7)
        if earlier:  # an earlier version does not read the reply to this one
            probe = probe[:flags] + bytes([probe[flags] | 2]) + probe[flags + 1 :]
        reply = bytes([wire.ECHO_REPLY[family]]) + probe[1:]
        other = probe[:8] + b"\0\0\0\0" + probe[12:]
        for device in (7, 8, 9):
            wakes, waits = (wire.packet_filter(family, kind, (7, 8, 9)) for kind in (True, False))
            assert bpf(wakes, begin + probe, device) is urgent
            assert bpf(waits, begin + probe, device) is not urgent
            assert bpf(wakes, begin + reply, device) is False
            assert bpf(waits, begin + reply, device)
            assert not any(bpf(program, begin + other, device) for program in (wakes, waits))
        for devices in ((7, 8, 9), ()):
            assert not any(bpf(wire.packet_filter(family, kind, devices), begin + probe, 10) for kind in (True, False))


def test_more_devices_than_a_jump_can_pass_are_not_told_apart() -> None:
    probe = bytes([0x45]) + bytes(19) + wire.encode(wire.Probe(1, True, 1, 800, 1, 1, 1, 1), 4, 7)
    assert bpf(wire.packet_filter(4, True, range(1, 251)), probe, 1) and bpf(wire.packet_filter(4, True, range(1, 400)), probe, 500)


def bpf(program: list[tuple[int, int, int, int]], packet: bytes, device: int) -> bool:
    """Runs a classic BPF program as the kernel does, as far as the filters use it."""
    assert all(true < 256 and false < 256 for _code, true, false, _k in program)
    a = x = at = 0
    while True:
        code, true, false, k = program[at]
        at += 1
        match code:
            case 0xB1:
                x = (packet[k] & 0xF) * 4
            case 0x20 if k == 0xFFFFF008:
                a = device
            case 0x20:
                a = int.from_bytes(packet[k : k + 4], "big")
            case 0x30:
                a = packet[k]
            case 0x40:
                a = int.from_bytes(packet[x + k : x + k + 4], "big")
            case 0x50:
                a = packet[x + k]
            case 0x15:
                at += true if a == k else false
            case 0x45:
                at += true if a & k else false
            case 0x06:
                return k > 0
            case _:
                raise AssertionError(hex(code))


def test_two_ends_believe_each_other_after_a_probe_each_way() -> None:
    here, there = Trust(), Trust()
    assert not there.hear(here.token, here.echo, 1)
    assert here.hear(there.token, there.echo, 1)
    assert there.hear(here.token, here.echo, 1) and here.hear(there.token, there.echo, 1)


def test_a_third_one_is_not_believed_and_cannot_come_between() -> None:
    here, there = Trust(), Trust()
    for token, echo in ((1, 0), (1, 1), (0, 0), (1, 2**64 - 1)):
        assert not here.hear(token, echo, 1), "before the remote has spoken"
    there.hear(here.token, here.echo, 1)
    assert here.hear(there.token, there.echo, 1) and there.hear(here.token, here.echo, 1)
    for token, echo in ((1, 0), (1, 1), (there.token, 7), (7, there.token)):
        assert not here.hear(token, echo, 1)
    assert there.hear(here.token, here.echo, 1), "our echo is still the remote's"


@pytest.mark.parametrize("forged", [False, True])
def test_a_remote_that_starts_again_is_believed_soon(forged: bool) -> None:
    here, there = Trust(), Trust()
    for _ in range(2):
        there.hear(here.token, here.echo, 1)
        here.hear(there.token, there.echo, 1)
    there = Trust()
    if forged:
        there.hear(99, 0, 1)
    assert not here.hear(there.token, there.echo, 1)
    there.hear(here.token, here.echo, 1)
    assert here.hear(there.token, there.echo, 1) and there.hear(here.token, here.echo, 1)


def test_a_probe_that_is_repeated_is_not_believed() -> None:
    here, there = Trust(), Trust()
    second = 10**9
    there.hear(here.token, here.echo, 1)
    assert here.hear(there.token, there.echo, 100 * second) and here.renewed
    assert here.hear(there.token, there.echo, 120 * second) and not here.renewed
    assert here.hear(there.token, there.echo, 119_500_000_000), "two sockets bring them"
    assert not here.hear(there.token, there.echo, 100 * second), "repeated"
    before, there = there, Trust()
    there.hear(here.token, here.echo, 1)
    assert here.hear(there.token, there.echo, 3 * second) and here.renewed, "it has booted, and its clock with it"
    assert not here.hear(before.token, before.echo, 121 * second), "of the start before"
    assert here.echo == there.token


# -- what the prober knows of its paths


LO = socket.if_nametoindex("lo")
BOTH = [Target(n, "zt0", "R2", n, 4, LO, f"127.0.0.{n}", f"127.0.0.{n}", 60.0, 3) for n in (1, 2)]


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    yield made
    made.close()


@pytest.fixture
def prober(loop: asyncio.AbstractEventLoop) -> Iterator[Prober]:
    """With two paths to one remote, which says nothing by itself."""
    made = Prober(loop, lambda: None)
    made.configure(BOTH, set(), {1, 2})
    yield made
    made.configure([], set(), set())


def says(prober: Prober, used: int = 0, heard: int = 3, seconds: float = 60.0) -> None:
    """Have the remote say over which instances it sends and hears."""
    prober._peers["zt0", "R2", 4] = Peer(heard, used, time.monotonic() + seconds)
    prober._heard.set()


def test_what_a_remote_tells_of_itself_is_not_believed_for_ever(prober: Prober) -> None:
    state = prober._states[1]
    assert (prober.remote_use(1), prober.wait(1)) == (None, 0.0), "it has not told yet"
    state.seen_at = time.monotonic()
    assert prober.remote_use(1) is None, "nor need it ever"
    state.remote_use, state.remote_wait = 40, 500
    for mean, wait in ((0.2, 0.2), (0.9, 0.5)):  # its clock may go wrong, and the round trip has another way, too
        state.round_trip = SimpleNamespace(mean=mean)  # type: ignore[assignment]
        assert (prober.remote_use(1), prober.wait(1)) == (0.4, wait)
    assert (prober.remote_use(2), prober.wait(2)) == (None, 0.0) == (prober.remote_use(9), prober.wait(9))
    state.seen_at -= STALE + 0.1
    assert (prober.remote_use(1), prober.wait(1)) == (None, 0.0)


def test_whose_identity_two_routers_have_is_told_by_path(prober: Prober) -> None:
    assert prober.twin(1) is None is prober.twin(9)
    state = prober._states[1]
    state.twin_at = time.monotonic()
    assert prober.twin(1) == "own" and prober.twin(2) is None, "the remote says so"
    state.twin_at -= 60.0
    assert prober.twin(1) is None
    state.trust.own_twin = SimpleNamespace(seen=lambda _now: True)  # type: ignore[assignment]
    assert prober.twin(1) == "own"
    state.trust.remote_twin = SimpleNamespace(seen=lambda _now: True)  # type: ignore[assignment]
    assert prober.twin(1) == "remote"


def test_nothing_stays_of_a_path_that_is_gone(prober: Prober) -> None:
    says(prober, heard=2)
    prober._judge(time.monotonic())
    assert prober.verdict(1) == PathState.REMOTE_DOWN and prober.verdict(2) == PathState.UP
    prober.configure(BOTH[1:], set(), set())
    assert prober.verdict(1) == PathState.WAITING
    assert list(prober._by_identifier.values()) == list(prober._by_source.values()) == [prober._states[2]]
    prober.configure(BOTH, set(), {1})
    assert prober.verdict(1) == PathState.REMOTE_DOWN, "the remote has said so, and is the same"
    prober.configure([], set(), set())
    prober.configure(BOTH, set(), {1})
    assert prober.verdict(1) == PathState.UP, "it has not said anything yet"


def waited(loop: asyncio.AbstractEventLoop, prober: Prober, *paths: int, patience: float = 10.0) -> float:
    began = time.monotonic()
    loop.run_until_complete(prober.wait_for_peers(paths, patience))
    return time.monotonic() - began


def test_who_sends_over_a_path_that_is_to_go_is_waited_for(loop: asyncio.AbstractEventLoop, prober: Prober) -> None:
    assert prober.empty([1, 2, 9]) and waited(loop, prober, 1, 2, 9) < 9, "nobody speaks to us"
    says(prober, used=2)
    assert prober.empty([1]) and not prober.empty([1, 2]) and waited(loop, prober, 1) < 9
    assert waited(loop, prober, 1, 2, patience=0.05) >= 0.05, "no longer than that"
    loop.call_later(0.05, says, prober, 2)
    loop.call_later(0.1, says, prober)
    assert 0.1 <= waited(loop, prober, 1, 2) < 9, "until it has left"
    says(prober, used=2, seconds=-1.0)
    assert waited(loop, prober, 1, 2) < 9, "what it said is long ago"


def test_what_is_under_way_over_a_path_that_is_to_go_is_waited_for(
    loop: asyncio.AbstractEventLoop, prober: Prober, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    waited(loop, prober, 1, 2, 9)
    prober._states[1].health.rtt, prober._states[2].health.rtt = 0.01, 0.06
    waited(loop, prober, 1, 2, 9)
    waited(loop, prober, 1)
    prober._states[2].health.rtt = 100.0
    waited(loop, prober, 2)
    assert slept == [0.06, 0.01, 10.0]


def test_a_backup_says_so_on_the_wire() -> None:
    probe = wire.Probe(1, False, 4, 800, 5, 1, 2, 3, backup=True)
    found = wire.decode(wire.encode(probe, 6, 7), 6)
    assert found and found[2].backup and not found[2].large and not found[2].twin


def test_probes_at_another_pace_are_judged_by_it() -> None:
    health = path(up=True)
    assert health.sent(0.0) and health.sent(I)
    health.pace(5.0)
    for n in range(M - 1):
        health.sent(10.0 + 5.0 * n)
        assert not health.judge(10.0 + 5.0 * n + 4.9)
    health.sent(20.0)
    assert not health.judge(20.9) and health.judge(21.3) and not health.up


def test_a_word_that_is_older_does_not_count() -> None:
    remote = Spared()
    remote.hear(True, 20, 1.0)
    remote.hear(False, 10, 1.1)
    assert remote.spared
    remote.hear(False, 5, 1.2, renewed=True)
    assert not remote.spared, "a remote that starts again counts its time anew"


def test_a_remote_that_changes_its_mind_all_the_time_has_a_backup() -> None:
    remote, changes = Spared(), 0
    for number in range(1000):
        was = remote.spared
        remote.hear(number % 2 == 0, number, 0.02 * number)
        changes += was != remote.spared
    assert changes < 30
    remote.hear(False, 2000, 200.0)
    assert not remote.spared


def test_a_remote_that_probes_no_more_has_no_backup() -> None:
    remote = Spared(True)
    remote.works(50.0, 0.0)
    assert remote.spared
    remote.hear(True, 1, 50.0)
    remote.works(110.0, 100.0)
    assert remote.spared
    remote.works(170.0, 100.0)
    assert not remote.spared


def test_a_backup_at_rest_gets_few_large_probes_also_where_they_are_lost() -> None:
    health = SimpleNamespace(up=True, loss=lambda: 0.0)
    for rests, most in ((True, 7), (False, 1000)):
        state = SimpleNamespace(health=health, drained=False, width=Width(1394), rests=rests, large_at=-1e9)
        sent = 0
        for moment in range(0, 3600, 4):
            for due, _size in Prober._due_large([state], float(moment)):
                due.width.sent(float(moment))
                sent += 1
        assert 5 <= sent <= most and rests == (sent < 100)


def test_a_backup_is_probed_rarely_while_another_path_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prober that is both ends of two paths over ``lo``."""
    monkeypatch.setattr(prober_module, "FRESH", 0.3)
    monkeypatch.setattr(prober_module, "REST", 0.6)
    loop = asyncio.new_event_loop()
    prober = Prober(loop, lambda: None)
    index, ways = socket.if_nametoindex("lo"), {1: "127.0.0.1", 2: "127.0.0.2"}
    interval = 0.05
    prober.configure(
        [Target(n, "zt0", "R2", n, 4, index, via, via, interval, M, backup=n == 2) for n, via in ways.items()], set(), set()
    )
    sent: dict[int, list[float]] = {1: [], 2: []}
    lost: set[int] = set()

    def noted(number: int, send: Callable[[bytes], None]) -> Callable[[bytes], None]:
        def note(packet: bytes) -> None:
            sent[number].append(time.monotonic())
            if number not in lost:
                send(packet)

        return note

    for number in ways:
        prober._states[number].send = noted(number, prober._states[number].send)

    def wait(done: Callable[[], bool]) -> None:
        async def look() -> None:
            async with asyncio.timeout(30):
                while not done():
                    await asyncio.sleep(0.01)

        loop.run_until_complete(look())

    wait(lambda: prober.verdict(1) == prober.verdict(2) == PathState.UP and prober._states[2].rests)
    assert prober.is_backup(2) and not prober.is_backup(1) and not prober._states[1].rests
    many = len(sent[1]) + 60
    few = len(sent[2])
    wait(lambda: len(sent[1]) >= many)
    assert len(sent[2]) - few < 60 * interval / 0.6 + 4 and prober.verdict(2) == PathState.UP
    lost.add(1)
    wait(lambda: prober.verdict(1) == PathState.DOWN)
    few = len(sent[2])
    wait(lambda: len(sent[2]) >= few + 5)
    assert not prober._states[2].rests and prober.verdict(2) == PathState.UP
    lost.clear()
    wait(lambda: prober.verdict(1) == PathState.UP and prober._states[2].rests)
