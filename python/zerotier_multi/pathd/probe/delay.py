"""How long packets wait on their way, told by how much longer than at best they take; pure.

What waits is what a line before the remote cannot carry at once. A line that is full has a queue that does not end, while
bursts, a busy router or radio make single packets wait; so the least of some waits counts, as with CoDel (RFC 8289). Where
one of two clocks says when a packet left and the other when it came, the difference of the clocks is in both times and
falls out.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

MEMORY = 300.0  # seconds; the best of the last one or two of these spans counts
ANOTHER = 10.0  # seconds that no packet waits: the other clock has been set, or its router booted anew
SPAN = 1.0  # seconds whose packets count, at least the last five
_LEAST = 5


@dataclass(slots=True)
class Delay:
    """One direction of a path, or both. Times are seconds."""

    _best: float = math.inf  # of this span
    _before: float = math.inf  # of the one before
    _since: float = -math.inf
    _last: float = -math.inf  # when the last packet that counts left
    _recent: deque[tuple[float, float]] = field(default_factory=deque)  # when it came, how long it took

    def came(self, left: float, at: float) -> None:
        """A packet that ``left`` by the one clock has come ``at`` by the other. A copy, or one that was overtaken, says nothing."""
        took = at - left
        if abs(took - min(self._best, self._before)) > ANOTHER:
            self._best = self._before = took
            self._since, self._last = at, -math.inf
            self._recent.clear()
        if left <= self._last:
            return
        if at - self._since > MEMORY:
            self._before, self._best, self._since = self._best, took, at
        self._best, self._last = min(self._best, took), left
        self._recent.append((at, took))
        while len(self._recent) > _LEAST and at - self._recent[0][0] > SPAN:
            self._recent.popleft()

    @property
    def least(self) -> float:
        """How much longer than at best every packet takes now; 0 before there were enough."""
        if len(self._recent) < _LEAST:
            return 0.0
        return max(0.0, min(took for _at, took in self._recent) - min(self._best, self._before))

    @property
    def mean(self) -> float:
        """How much longer than at best a packet takes now."""
        if not self._recent:
            return 0.0
        return max(0.0, sum(took for _at, took in self._recent) / len(self._recent) - min(self._best, self._before))
