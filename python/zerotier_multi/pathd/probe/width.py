"""Whether packets of full size come over a path; pure.

Probes are small, and small packets pass where full ones do not: an IPv6 line with an MTU below 1480, such as LTE often has,
drops them without a word that could be believed, and TCP stalls on a path that is up. So now and then a probe has the
size of the device's MTU. Where several in a row stay without an answer and the small ones do not, the path is narrow, and
smaller sizes are tried until it is known what passes. On a path that loses packets of any size nothing is learned.
"""

from __future__ import annotations

import math
import random
from collections import deque
from dataclasses import dataclass, field

PAUSE = 10.0  # seconds between two looks at a path that is wide, about: so that paths do not go in step
LASTING = 60.0  # seconds after which an answer to a full probe says nothing more
TRIES, AGAIN = 5, 0.5  # of one size in a row, so many seconds apart
RETRIES, LATER = 15, 2.0  # of a full one where it is known what passes; then everything is tried again
LEAST = 1280  # bytes: the smallest MTU that a bundle may have
LOSSY = 0.05  # share of the small probes


@dataclass(slots=True)
class Width:
    """One path. Sizes are bytes of an IP packet, times seconds of one monotonic clock."""

    full: int
    narrow: bool = False
    wide_at: float = -math.inf  # when a full probe was last answered
    passes: int | None = None  # the largest packet that does, once that is known; 0 where not even LEAST does
    _size: int = 0  # what is tried; 0: full
    _tries: int = 0
    _next: float = 0.0
    _low: int = 0  # the largest that was answered since full packets were not
    _high: int = 0  # the smallest that was not
    _known: bool = False  # what passes is known
    _sure: bool = False  # all but the last byte pass, and a full packet was tried once more
    _number: int = 0
    _sent: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=TRIES))  # (number, size)

    def wide(self, now: float) -> bool:
        """Whether full packets have come over it lately."""
        return not self.narrow and now - self.wide_at <= LASTING

    def due(self, now: float, sound: bool) -> int | None:
        """The size of a probe that is to go out now, None where none is. ``sound``: small probes are answered."""
        if not sound:
            self._tries = 0
            return None
        if now < self._next:
            return None
        if self._tries == (RETRIES if self._known else TRIES):
            self._lost(now)
        return None if now < self._next else self._size or self.full

    def sent(self, now: float) -> int:
        """It goes out; its number."""
        self._number = (self._number + 1) % 65536
        self._sent.append((self._number, self._size or self.full))
        self._tries += 1
        self._next = now + (LATER if self._known else AGAIN)
        return self._number

    def answered(self, number: int, now: float) -> None:
        """An answer to the probe of that number has come."""
        size = next((size for sent, size in self._sent if sent == number), None)
        if size == self.full:
            self.narrow, self.passes, self.wide_at = False, None, now
            self._known = self._sure = False
            self._begin(now + PAUSE * random.uniform(0.7, 1.3))
        elif size is not None and size > self._low:
            self._low = size
            self._choose(now)

    def _lost(self, now: float) -> None:
        size = self._size or self.full
        if size == self.full and not self._sure:
            self.narrow, self._known = True, False
            self._low, self._high = 0, size
        else:
            self._high = size
        self._choose(now)

    def _choose(self, now: float) -> None:
        """What is tried next: halves of what is not known, from the least on."""
        self._tries, self._next = 0, now
        if not self._low and self._high > LEAST:
            self._size = LEAST
        elif self._low and self._high - self._low > 1:
            self._size = (self._low + self._high) // 2
        elif self._low and self._high == self.full and not self._sure:
            # A line that is one byte short is rarer than a run of bad luck at the first size.
            self._size, self._sure = 0, True
        else:
            self.passes, self._known, self._sure = self._low, True, False
            self._begin(now + LATER)

    def _begin(self, at: float) -> None:
        self._size, self._tries, self._next = 0, 0, at
        self._sent.clear()
