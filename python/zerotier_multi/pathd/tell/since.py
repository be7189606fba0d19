"""Since when each path has been in its state; kept in a file, so that a daemon started anew still knows it.

Times are seconds of the clock that runs from boot, which no time server moves; the file is in /run, which a
boot empties too.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from zerotier_multi import memory
from zerotier_multi.states import PathState


def since_boot() -> float:
    """Seconds since boot, suspended ones included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Since:
    """Remembers for every path, known by the id of its next hop, its state and when that began."""

    def __init__(self, path: Path, clock: Callable[[], float] = since_boot) -> None:
        self._path, self._clock = path, clock
        self._known = self._load()
        self._unsaved = False  # the file is not what is known, because it could not be written

    def note(self, states: Mapping[int, PathState]) -> list[str]:
        """Take the states of all paths; those that are not named any more are forgotten.

        Returns a sentence when the memory cannot be written, at each look until it can.
        """
        now = self._clock()
        known = {
            path: old if (old := self._known.get(path)) and old[0] == state else (state, now) for path, state in states.items()
        }
        if known == self._known and not self._unsaved:
            return []
        self._known = known
        problems = memory.store(self._path, {str(path): entry for path, entry in known.items()})
        self._unsaved = bool(problems)
        return problems

    def states(self) -> dict[int, PathState]:
        """The states of all paths as they were taken last."""
        return {path: state for path, (state, _began) in self._known.items()}

    def unix(self, path: int, wall: float) -> int | None:
        """When the state of a path began, in seconds since 1970; ``wall`` is that clock's time now."""
        entry = self._known.get(path)
        return None if entry is None else round(wall - (self._clock() - entry[1]))

    def _load(self) -> dict[int, tuple[PathState, float]]:
        try:
            known = {int(path): (PathState(state), float(began)) for path, (state, began) in memory.load(self._path).items()}
        except (ValueError, TypeError, OverflowError):
            return {}
        return known if all(math.isfinite(began) for _state, began in known.values()) else {}
