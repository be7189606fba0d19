"""Routers whose kernel is told to ignore echo requests: zerotier-pathd answers the probes that have a proof."""

from __future__ import annotations

import asyncio
import ctypes
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.test_decide import QUIET, seen
from tests.unit.test_pathd import PLAN, SIX
from zerotier_multi.pathd.decide import decide
from zerotier_multi.pathd.kernel.sysctls import MUTE, Sysctls
from zerotier_multi.pathd.probe import wire
from zerotier_multi.pathd.probe.health import HISTORY, Health
from zerotier_multi.pathd.probe.prober import COPIES, HOPS, Prober, Target
from zerotier_multi.states import PathState

NAMESPACE = f"mute-{os.getpid()}"
LOOPBACK = {4: "127.0.0.1", 6: "::1"}
INTERVAL = 0.05
PATIENCE = 10.0


class Mute:
    """A prober that is both ends of two paths over ``lo``, one of each family, where the kernel answers no echo request."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.prober = Prober(self.loop, lambda: None)
        targets = [Target(f, "zt0", "R2", 1, f, 1, LOOPBACK[f], LOOPBACK[f], INTERVAL, 3) for f in LOOPBACK]
        self.prober.configure(targets, set(), set())
        self.sent = dict.fromkeys(LOOPBACK, 0)
        for family in LOOPBACK:
            self._count(family)

    def _count(self, family: int) -> None:
        state = self.prober._states[family]
        send = state.send

        def counted(packet: bytes) -> None:
            self.sent[family] += 1
            send(packet)

        state.send = counted

    def wait(self, until: Callable[[], bool]) -> None:
        async def look() -> None:
            async with asyncio.timeout(PATIENCE):
                while not until():
                    await asyncio.sleep(INTERVAL / 5)

        self.loop.run_until_complete(look())

    def heard(self, family: int) -> bool:
        silence = self.prober.silence(family)
        return silence is not None and silence.heard_since is not None

    def copies(self, family: int, probes: int) -> float:
        """Packets that go out for each of the next probes."""
        health = self.prober._states[family].health
        first, before = health._sent, self.sent[family]
        self.wait(lambda: health._sent >= first + probes)
        return (self.sent[family] - before) / (health._sent - first)


@pytest.fixture
def mute() -> Iterator[Mute]:
    subprocess.run(["ip", "netns", "add", NAMESPACE], check=True)
    for command in ("ip link set lo up", *(f"sysctl -qw {name}=1" for name in MUTE.values())):
        subprocess.run(["ip", "netns", "exec", NAMESPACE, *command.split()], check=True)
    made: list[Mute] = []

    def make() -> None:
        with open(f"/run/netns/{NAMESPACE}") as namespace:
            assert ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), 0) == 0
        made.append(Mute())

    thread = threading.Thread(target=make)  # a socket stays in the namespace that it was made in
    thread.start()
    thread.join()
    yield made[0]
    made[0].loop.close()
    subprocess.run(["ip", "netns", "del", NAMESPACE], check=True)


@pytest.mark.parametrize("family", [4, 6])
def test_probes_are_answered_where_the_kernel_does_not(mute: Mute, family: int) -> None:
    other = 10 - family
    mute.wait(lambda: mute.heard(family) and mute.heard(other))
    assert mute.prober.verdict(family) == PathState.DOWN, "nobody answers"
    mute.prober.answer({family})
    mute.wait(lambda: mute.prober.verdict(family) == PathState.UP)
    assert mute.copies(family, 20) <= 2.2, "a probe and an answer each"
    rtt, _loss = mute.prober.measures(family)
    assert rtt is not None and rtt < INTERVAL / 2
    assert mute.prober.verdict(other) == PathState.DOWN
    mute.prober.answer({other})
    mute.wait(lambda: mute.prober.verdict(other) == PathState.UP)


def test_who_has_no_proof_gets_no_answer(mute: Mute) -> None:
    mute.prober.answer({4, 6})
    mute.wait(lambda: mute.prober.verdict(4) == PathState.UP)
    state = mute.prober._states[4]
    sent = int(mute.loop.time() * 1e9)
    good = wire.Probe(1, False, 1, 800, sent, 1, 1, 1, token=state.trust.token, echo=state.trust.token)
    assert mute.prober._take((False, 0, good), 1, "127.0.0.1", HOPS, mute.loop.time()) is state
    for probe, source, hops in (
        (good._replace(echo=7), "127.0.0.1", HOPS),
        (good._replace(echo=0), "127.0.0.1", HOPS),
        (good, "127.0.0.2", HOPS),
        (good, "127.0.0.1", HOPS - 1),
    ):
        assert mute.prober._take((False, 0, probe), 1, source, hops, mute.loop.time()) is None
    assert mute.prober._take((True, state.identifier, good), 1, "127.0.0.1", HOPS, mute.loop.time()) is None, "it is an answer"


@pytest.mark.parametrize("family", [4, 6])
def test_an_answer_is_what_a_kernel_sends(family: int) -> None:
    probe = wire.Probe(7, True, 3, 800, 12345, 5, 6, 7, 40, 8, 9, 10)
    head = bytes([0x46]) + bytes(23) if family == 4 else b""
    answer = wire.reply(head + wire.encode(probe, family, 99) + b"of a later version", family)
    assert answer.endswith(b"of a later version")
    assert wire.decode((bytes([0x45]) + bytes(19) if family == 4 else b"") + answer, family) == (True, 99, probe)
    assert family == 6 or wire.checksum(answer) == 0


def test_a_path_that_the_remote_alone_vouches_for_costs_no_copies_for_ever() -> None:
    """As where a firewall drops the answers."""
    health, now, copies = Health(0.2, 3, True, 0.0), 0.0, []
    for _ in range(3 * HISTORY):
        copies.append(COPIES[min(health.missing(now), 2)])
        health.sent(now)
        health.vouch(now + 0.1)
        assert not health.judge(now + 0.199)
        now += 0.2
    assert copies[-HISTORY:] == [1] * HISTORY and max(copies) == COPIES[2]
    copies.clear()
    while health.up:
        copies.append(COPIES[min(health.missing(now), 2)])
        health.sent(now)
        health.judge(now + 0.199)
        now += 0.2
    assert copies[-1] == COPIES[2], "but where the remote says nothing any more, all is tried"


# -- a queue that is full


def test_a_queue_that_is_full_for_moments_takes_no_path_down(mute: Mute) -> None:
    """Only what goes out in 10 of 50 ms gets through, and no probe is due in these; copies are spread, so one of them is."""
    mute.prober.answer({4, 6})
    mute.wait(lambda: mute.prober.verdict(4) == PathState.UP)
    state = mute.prober._states[4]
    send = state.send

    def queue(packet: bytes) -> None:
        if 0.02 <= mute.loop.time() % INTERVAL < 0.03:
            send(packet)

    state.send = queue
    first = state.health._sent
    mute.wait(lambda: state.health._sent >= first + 60)
    assert state.health.up and not state.health._flaps._falls


# -- what is said


def test_it_is_said_once_for_each_family_that_is_probed() -> None:
    assert not decide(seen()).want.notes
    (note,) = decide(seen(mute={4, 6})).want.notes
    assert note.startswith("sysctl net.ipv4.icmp_echo_ignore_all is 1: ") and "delete firewall global-options all-ping" in note
    assert not decide(seen(plans=[QUIET], mute={4, 6})).want.notes, "nobody probes"
    four, six = decide(seen(plans=[SIX, replace(PLAN, bundle="zt1")], mute={4, 6})).want.notes
    assert "net.ipv4.icmp_echo_ignore_all" in four and "net.ipv6.icmp.echo_ignore_all is 1" in six and "VyOS" not in six


def test_a_kernel_without_the_setting_answers(tmp_path: Path) -> None:
    settings = Sysctls(tmp_path / "sysctls.json", tmp_path)
    assert not settings.mute()
    for value, mute in (("0", set()), ("1", {4})):
        (tmp_path / MUTE[4]).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / MUTE[4]).write_text(f"{value}\n")
        assert settings.mute() == mute
