"""A remote says over which paths it hears us, and may take that back as often as it likes."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest
from zerotier_multi.pathd.probe import health
from zerotier_multi.pathd.probe.health import FIRST_HOLD, FLAP_WINDOW, FREE_FALLS, LONGEST_HOLD, Flaps
from zerotier_multi.pathd.probe.prober import REFUSALS, Prober, Silence, Target
from zerotier_multi.pathd.status import unanswered
from zerotier_multi.states import PathState

PATIENCE = 20.0


def test_who_falls_often_is_held_down_for_longer_each_time() -> None:
    flaps, holds = Flaps(), []
    for n in range(FREE_FALLS + 8):
        flaps.fell(float(n))
        holds.append(flaps.until - n)
    assert holds == [0.0] * FREE_FALLS + [min(FIRST_HOLD * 2**n, LONGEST_HOLD) for n in range(8)]
    for n in range(5000):  # as often as a remote likes
        flaps.fell(100 + n / 100)
    assert flaps.until == pytest.approx(100 + 4999 / 100 + LONGEST_HOLD)
    flaps.fell(1000.0 + FLAP_WINDOW)
    assert flaps.until == 1000.0 + FLAP_WINDOW, "the others are long ago"


def test_a_remote_that_refuses_a_path_again_and_again_does_not_get_it_back_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prober that is both ends of a path over ``lo``: what it tells the remote it hears itself."""
    monkeypatch.setattr(health, "FIRST_HOLD", 1.0)
    monkeypatch.setattr(health, "LONGEST_HOLD", 3.0)
    loop, changes = asyncio.new_event_loop(), list[float]()
    prober = Prober(loop, lambda: changes.append(time.monotonic()))
    hears = True
    monkeypatch.setattr(prober, "_masks", lambda _group: (int(hears), 1))
    prober.configure([Target(1, "zt0", "R2", 1, 4, socket.if_nametoindex("lo"), "127.0.0.1", "127.0.0.1", 0.05, 3)], set(), set())

    def say(it_hears: bool) -> None:
        nonlocal hears
        hears = it_hears
        prober._announce(time.monotonic())

    def wait(*words: PathState) -> None:
        async def look() -> None:
            async with asyncio.timeout(PATIENCE):
                while prober.verdict(1) not in words:
                    await asyncio.sleep(0.005)

        loop.run_until_complete(look())

    def heard() -> None:
        """Wait until what it says has come."""

        async def look() -> None:
            async with asyncio.timeout(PATIENCE):
                while prober._states[1].refused is hears:
                    await asyncio.sleep(0.001)

        loop.run_until_complete(look())

    wait(PathState.UP)
    for _ in range(REFUSALS):
        say(False)
        wait(PathState.REMOTE_DOWN)
        say(True)
        wait(PathState.UP)
    say(False)
    wait(PathState.HELD)
    del changes[:]
    for _ in range(50):
        say(True)
        heard()
        began = time.monotonic()
        say(False)
        heard()
        assert prober.verdict(1) == PathState.HELD
    assert changes == [], "nothing that it says meanwhile is a change"
    say(True)
    wait(PathState.UP)
    assert changes[-1] - began >= 2.9, "each time it is held longer"
    loop.close()


def test_a_silence_in_which_the_remote_hears_nothing_has_another_cause() -> None:
    assert unanswered(None) == unanswered(Silence(0.0)) == []
    (mute,) = unanswered(Silence(0.0, heard_since=1.0))
    (deaf,) = unanswered(Silence(0.0, heard_since=1.0, refused=True))
    assert "echo requests or replies" in mute and "UDP to its port may be blocked" in deaf
