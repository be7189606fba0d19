"""A moment that is told in seconds since 1970 and stays right when the clock is set: a router without one boots in 1970.

It is kept in seconds of the clock that runs from boot, and converted when it is asked for.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from zerotier_multi.pathd.tell.since import since_boot

SET = 1.0  # seconds by which the clock must have moved; what is read of two clocks in turn is never quite the same


class Moment:
    """Now, when it is made."""

    def __init__(self, clock: Callable[[], float] = since_boot) -> None:
        self._clock, self._at, self._told = clock, clock(), 0

    def unix(self, wall: float | None = None) -> int:
        """Seconds since 1970; ``wall`` is that clock's time now."""
        exact = (time.time() if wall is None else wall) - (self._clock() - self._at)
        if abs(exact - self._told) > SET:
            self._told = round(exact)
        return self._told
