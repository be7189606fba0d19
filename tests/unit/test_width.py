"""Whether packets of full size come over a path: what is sent when, and what follows from the answers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest
from zerotier_multi.pathd.probe import width
from zerotier_multi.pathd.probe.prober import Prober, Target
from zerotier_multi.pathd.probe.width import AGAIN, LASTING, LATER, LEAST, PAUSE, RETRIES, TRIES, Width

FULL = 1394
INTERVAL = 0.2


def run(path: Width, seconds: float, line: int, begin: float = 0.0, sound: bool = True) -> list[tuple[float, int]]:
    """Let a line that passes packets of up to ``line`` bytes answer for a while; what was sent when."""
    sent = []
    for n in range(round(seconds / INTERVAL)):
        now = begin + n * INTERVAL
        size = path.due(now, sound)
        if size is not None:
            number = path.sent(now)
            sent.append((now, size))
            if size <= line:
                path.answered(number, now + 0.01)
    return sent


def test_a_wide_path_costs_one_packet_now_and_then() -> None:
    path = Width(FULL)
    sent = run(path, 10 * PAUSE, line=FULL)
    assert {size for _, size in sent} == {FULL}
    assert 7 <= len(sent) <= 15
    assert not path.narrow and path.passes is None


@pytest.mark.parametrize("line", [LEAST, LEAST + 1, 1337, FULL - 2, FULL - 1])
def test_a_narrow_path_is_found_and_so_is_what_passes(line: int) -> None:
    path = Width(FULL)
    run(path, TRIES * AGAIN + 2, line)
    assert path.narrow
    run(path, 30, line, begin=10)
    assert (path.narrow, path.passes) == (True, line)
    # And again later, as the line may be another one by then.
    run(path, RETRIES * LATER, LEAST + 5, begin=100)
    run(path, 30, LEAST + 5, begin=200)
    assert (path.narrow, path.passes) == (True, LEAST + 5)


@pytest.mark.parametrize("full", [FULL, LEAST, LEAST - 100, 9890])
def test_not_even_the_least_passes(full: int) -> None:
    path = Width(full)
    run(path, 30, line=200)
    assert (path.narrow, path.passes) == (True, 0)


def test_a_line_that_is_mended_is_wide_again() -> None:
    path = Width(FULL)
    run(path, 30, line=1300)
    assert path.narrow
    run(path, LATER + 1, FULL, begin=30)
    assert not path.narrow and path.passes is None


def test_a_few_that_are_lost_say_nothing() -> None:
    path = Width(FULL)
    lost = iter([False, True, True, True, True] * 40)
    for n in range(round(100 / INTERVAL)):
        now = n * INTERVAL
        if path.due(now, True) is not None:
            number = path.sent(now)
            if not next(lost):
                path.answered(number, now + 0.01)
        assert not path.narrow


def test_nothing_is_learned_while_small_packets_are_lost_too() -> None:
    path = Width(FULL)
    assert run(path, 60, line=0, sound=False) == []
    for n in range(300):  # a short lull again and again
        run(path, (TRIES - 1) * AGAIN, line=0, begin=100 + 10 * n)
        run(path, 1, line=0, begin=105 + 10 * n, sound=False)
    assert not path.narrow


def test_only_a_path_over_which_full_packets_came_lately_is_wide() -> None:
    path = Width(FULL)
    assert not path.wide(0.0)
    run(path, 2, FULL)
    assert path.wide(2.0) and path.wide(LASTING) and not path.wide(LASTING + 1)
    run(path, 30, line=FULL - 200, begin=20)
    assert not path.wide(50.0)


def test_bad_luck_with_full_packets_alone_is_found_out() -> None:
    """All sizes but the first pass: the run of lost ones was chance."""
    path = Width(FULL)
    for n in range(round(20 / INTERVAL)):
        now = n * INTERVAL
        if path.due(now, True) is not None:
            number = path.sent(now)
            if number > TRIES:
                path.answered(number, now + 0.01)
    assert not path.narrow and path.wide(20.0)


def test_a_late_answer_counts_and_one_that_was_never_asked_for_does_not() -> None:
    path = Width(FULL)
    numbers = []
    for n in range(TRIES):
        assert path.due(n * AGAIN, True) == FULL
        numbers.append(path.sent(n * AGAIN))
    path.answered(numbers[-1] + 1, TRIES * AGAIN)
    path.answered(numbers[0], TRIES * AGAIN)
    assert path.due(TRIES * AGAIN, True) is None and not path.narrow


def test_a_narrow_path_is_left_while_another_one_is_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prober that is both ends of two paths over ``lo``."""
    for name, seconds in (("AGAIN", 0.05), ("PAUSE", 1.0), ("LATER", 0.1)):
        monkeypatch.setattr(width, name, seconds)
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
