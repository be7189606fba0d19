"""The daemon's loop: timers that move, and the end at the first error."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.loop import Loop
from zerotier_multi.pathd.loop import Alarm, run


@pytest.fixture
def loop():
    made = Loop(100.0)
    yield made
    made.close()


def test_an_alarm_rings_once_at_the_moment_it_was_set_to_last(loop: Loop) -> None:
    rung: list[float] = []
    alarm = Alarm(loop, rung.append)
    for at in (105.0, 103.0, 103.0, 110.0):
        alarm.set(at)
    for loop.now in (104.0, 109.0, 110.0, 120.0):
        loop.turn()
    assert rung == [110.0]
    alarm.set(130.0)
    alarm.set(None)
    alarm.set(None)
    loop.now = 140.0
    loop.turn()
    assert rung == [110.0]


def test_an_alarm_may_be_set_while_it_rings_and_for_a_moment_that_has_passed(loop: Loop) -> None:
    rung: list[float] = []

    def work(now: float) -> None:
        rung.append(now)
        alarm.set(now + 1.0 if len(rung) < 3 else None)

    alarm = Alarm(loop, work)
    alarm.set(50.0)
    for loop.now in (100.0, 101.5, 102.0, 102.5, 110.0):
        loop.turn()
    assert rung == [100.0, 101.5, 102.5]


def test_the_first_error_ends_the_loop() -> None:
    loop = asyncio.new_event_loop()
    loop.call_soon(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        run(loop)

    async def fail() -> None:
        raise KeyError("a task")

    task = loop.create_task(fail())
    loop.call_later(5, loop.stop)
    task.add_done_callback(lambda done: loop.call_exception_handler({"message": "it has failed", "exception": done.exception()}))
    with pytest.raises(KeyError):
        run(loop)
    loop.call_soon(loop.stop)
    run(loop)
    loop.close()
