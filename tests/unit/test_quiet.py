"""A device that is drained is waited for until nothing goes over it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from zerotier_multi.pathd.probe.quiet import QUIET, wait_until_quiet


def waited(patience: float, devices: dict[str, Callable[[float], int]]) -> tuple[bool, float]:
    """Whether they fell quiet, and after how many seconds; of each device its count of packets by the time."""
    now = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    good = asyncio.run(wait_until_quiet(devices, patience, lambda device: devices[device](now), lambda: now, sleep))
    return good, now


def test_nothing_goes_over_it() -> None:
    good, seconds = waited(0.2, {"zt0p1": lambda _now: 7})
    assert good and seconds == pytest.approx(QUIET, abs=0.003)


def test_the_last_packets_are_waited_for() -> None:
    good, seconds = waited(0.2, {"zt0p1": lambda now: int(min(now, 0.05) * 1000)})
    assert good and seconds == pytest.approx(0.05 + QUIET, abs=0.005)


def test_each_may_have_a_probe_of_its_own_now_and_then() -> None:
    """Together they are never quiet."""
    devices = {f"zt0p{k}": (lambda now, k=k: int((now + k * 0.012) / 0.1)) for k in range(8)}
    good, seconds = waited(0.2, devices)
    assert good and seconds < 0.1


def test_one_that_goes_on_is_given_up() -> None:
    good, seconds = waited(0.2, {"zt0p1": lambda _now: 7, "zt0p2": lambda now: int(now * 1000)})
    assert not good and seconds == pytest.approx(0.2, abs=0.003)
