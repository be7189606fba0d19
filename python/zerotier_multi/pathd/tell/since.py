"""What was seen last: each path's state and since when, and prefixes that go elsewhere; kept in a file for the next daemon.

Times are seconds of the clock that runs from boot, which no time server moves; the file is in /run, which a
boot empties too.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from zerotier_multi import memory, names
from zerotier_multi.states import PathState

Unrouted = Mapping[str, Mapping[str, str]]  # bundle -> prefix -> why its packets do not go over the bundle


def since_boot() -> float:
    """Seconds since boot, suspended ones included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Since:
    """Remembers for every path, known by the id of its next hop, its state and when that began.

    And of each bundle the prefixes that do not go over it, with the reason: its word depends on them too.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = since_boot) -> None:
        self._path, self._clock = path, clock
        self._known, self._unrouted = self._load()
        self._unsaved = False  # the file is not what is known, because it could not be written

    def note(self, states: Mapping[int, PathState], unrouted: Unrouted = MappingProxyType({})) -> list[str]:
        """Take the states of all paths and the prefixes that go elsewhere; what is not named any more is forgotten.

        Returns a sentence when the memory cannot be written, at each look until it can.
        """
        now = self._clock()
        known = {
            path: old if (old := self._known.get(path)) and old[0] == state else (state, now) for path, state in states.items()
        }
        elsewhere = {bundle: dict(prefixes) for bundle, prefixes in unrouted.items() if prefixes}
        if (known, elsewhere) == (self._known, self._unrouted) and not self._unsaved:
            return []
        self._known, self._unrouted = known, elsewhere
        problems = memory.store(self._path, {**{str(path): entry for path, entry in known.items()}, **elsewhere})
        self._unsaved = bool(problems)
        return problems

    def states(self) -> dict[int, PathState]:
        """The states of all paths as they were taken last."""
        return {path: state for path, (state, _began) in self._known.items()}

    def unrouted(self) -> Unrouted:
        """The prefixes of each bundle that go elsewhere as they were taken last."""
        return self._unrouted

    def unix(self, path: int, wall: float) -> int | None:
        """When the state of a path began, in seconds since 1970; ``wall`` is that clock's time now."""
        entry = self._known.get(path)
        return None if entry is None else round(wall - (self._clock() - entry[1]))

    def _load(self) -> tuple[dict[int, tuple[PathState, float]], dict[str, dict[str, str]]]:
        written = memory.load(self._path)
        elsewhere = {name: written.pop(name) for name in [*written] if names.BUNDLE_RE.fullmatch(name)}
        try:
            known = {int(path): (PathState(state), float(began)) for path, (state, began) in written.items()}
            unrouted = {bundle: {prefix: str(why) for prefix, why in found.items()} for bundle, found in elsewhere.items()}
        except (ValueError, TypeError, OverflowError, AttributeError):
            return {}, {}
        return (known, unrouted) if all(math.isfinite(began) for _state, began in known.values()) else ({}, {})
