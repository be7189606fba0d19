"""Whether packets of full size come over a path: what is sent when, and what follows from the answers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest
from zerotier_multi.pathd.probe.prober import Prober, Target
from zerotier_multi.pathd.probe.width import AGAIN, LEAST, NARROW_PAUSE, PAUSE, TRIES, Width

FULL = 1394
INTERVAL = 0.2


def run(width: Width, seconds: float, line: int, begin: float = 0.0, sound: bool = True) -> list[tuple[float, int]]:
    """Let a line that passes packets of up to ``line`` bytes answer for a while; what was sent when."""
    sent = []
    for n in range(round(seconds / INTERVAL)):
        now = begin + n * INTERVAL
        size = width.due(now, sound)
        if size is not None:
            number = width.sent(now)
            sent.append((now, size))
            if size <= line:
                width.answered(number, now + 0.01)
    return sent


def test_a_wide_path_costs_one_packet_now_and_then() -> None:
    width = Width(FULL)
    sent = run(width, 10 * PAUSE, line=FULL)
    assert {size for _, size in sent} == {FULL}
    assert 9 <= len(sent) <= 11
    assert not width.narrow and width.passes is None


@pytest.mark.parametrize("line", [LEAST, LEAST + 1, 1337, FULL - 2, FULL - 1])
def test_a_narrow_path_is_found_and_so_is_what_passes(line: int) -> None:
    width = Width(FULL)
    run(width, TRIES * AGAIN + 2, line)
    assert width.narrow
    run(width, 30, line, begin=10)
    assert (width.narrow, width.passes) == (True, line)
    # And again later, as the line may be another one by then.
    run(width, NARROW_PAUSE, LEAST + 5, begin=100)
    run(width, 30, LEAST + 5, begin=200)
    assert (width.narrow, width.passes) == (True, LEAST + 5)


@pytest.mark.parametrize("full", [FULL, LEAST, LEAST - 100, 9890])
def test_not_even_the_least_passes(full: int) -> None:
    width = Width(full)
    run(width, 30, line=200)
    assert (width.narrow, width.passes) == (True, 0)


def test_a_line_that_is_mended_is_wide_again() -> None:
    width = Width(FULL)
    run(width, 30, line=1300)
    assert width.narrow
    run(width, NARROW_PAUSE + 1, FULL, begin=30)
    assert not width.narrow and width.passes is None


def test_a_few_that_are_lost_say_nothing() -> None:
    width = Width(FULL)
    lost = iter([False, True, True, True, True] * 40)
    for n in range(round(100 / INTERVAL)):
        now = n * INTERVAL
        if width.due(now, True) is not None:
            number = width.sent(now)
            if not next(lost):
                width.answered(number, now + 0.01)
        assert not width.narrow


def test_nothing_is_learned_while_small_packets_are_lost_too() -> None:
    width = Width(FULL)
    assert run(width, 60, line=0, sound=False) == []
    for n in range(300):  # a short lull again and again
        run(width, (TRIES - 1) * AGAIN, line=0, begin=100 + 10 * n)
        run(width, 1, line=0, begin=105 + 10 * n, sound=False)
    assert not width.narrow


def test_a_late_answer_counts_and_one_that_was_never_asked_for_does_not() -> None:
    width = Width(FULL)
    numbers = []
    for n in range(TRIES):
        assert width.due(n * AGAIN, True) == FULL
        numbers.append(width.sent(n * AGAIN))
    width.answered(numbers[-1] + 1, TRIES * AGAIN)
    width.answered(numbers[0], TRIES * AGAIN)
    assert width.due(TRIES * AGAIN, True) is None and not width.narrow


def test_a_narrow_path_is_left_while_another_one_is_wide() -> None:
    """A prober that is both ends of two paths over ``lo``."""
    loop = asyncio.new_event_loop()
    prober = Prober(loop, lambda: None)
    index, paths = socket.if_nametoindex("lo"), {1: "127.0.0.1", 2: "127.0.0.2"}
    prober.configure([Target(n, "zt0", "R2", n, 4, index, via, via, 0.05, 3, mtu=FULL) for n, via in paths.items()], set(), set())
    lines = dict.fromkeys(paths, FULL)

    def over(path: int, send: Callable[[bytes], None]) -> Callable[[bytes], None]:
        return lambda packet: send(packet) if len(packet) + 20 <= lines[path] else None

    for path in paths:
        state = prober._states[path]
        state.send = over(path, state.send)

    def wait(words: list[str], passes: list[int | None]) -> None:
        async def look() -> None:
            async with asyncio.timeout(60):
                while ([prober.verdict(p) for p in paths], [prober.passes(p) for p in paths]) != (words, passes):
                    await asyncio.sleep(0.02)

        loop.run_until_complete(look())

    wait(["up", "up"], [None, None])
    lines[1] = LEAST + 1
    wait(["narrow", "up"], [LEAST + 1, None])
    lines[2] = 1000
    wait(["up", "up"], [LEAST + 1, 0])
    loop.close()
