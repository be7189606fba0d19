"""What asyncio's event loop lacks for a daemon: a timer that moves, and an end at the first error.

The daemon uses callbacks of the loop for what happens often (probes, notices of the kernel), because a task for each would
cost more than the work itself, and coroutines where a sequence has to wait (a request).
"""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import Any


class Alarm:
    """Calls ``work`` with the loop's time when it is due. Its owner sets it after everything that may move it."""

    def __init__(self, loop: AbstractEventLoop, work: Callable[[float], object]) -> None:
        self._loop, self._work = loop, work
        self._timer: asyncio.TimerHandle | None = None

    def set(self, at: float | None) -> None:
        """Be due ``at`` that time of the loop (seconds), immediately if it has passed, and never with None."""
        if self._timer is not None:
            if self._timer.when() == at:
                return
            self._timer.cancel()
        self._timer = None if at is None else self._loop.call_at(at, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._work(self._loop.time())


def run(loop: AbstractEventLoop) -> None:
    """Run until the loop is stopped. The first error of a callback or task stops it, and is raised here.

    A daemon that goes on after an error of its own is in an unknown state; systemd starts a new one.
    """
    failed: list[BaseException] = []

    def fail(_loop: AbstractEventLoop, context: dict[str, Any]) -> None:
        failed.append(context.get("exception") or RuntimeError(str(context["message"])))
        loop.stop()

    loop.set_exception_handler(fail)
    loop.run_forever()
    if failed:
        raise failed[0]
