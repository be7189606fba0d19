"""Whether a path carries traffic, told by the answers to its probes; pure.

A path goes down when ``multiplier`` probes in a row stay without an answer, and up again after as many answers in a
row. What counts are the probes that went out, not the time that passed: a daemon that could not run for a while has
sent none, and learns nothing from that. A path that keeps falling is held down longer each time, so that flows do
not follow it to and fro.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

FLAP_WINDOW, FREE_FALLS = 120.0, 3  # so many falls in so many seconds go without a penalty
FIRST_HOLD, LONGEST_HOLD = 2.0, 60.0  # seconds
_STEPS = 6  # falls beyond the free ones after which the longest hold is reached, so more need not be remembered
HISTORY = 100  # probes of which the loss is computed


class _Open(NamedTuple):
    """A probe without an answer."""

    number: int
    at: float


@dataclass(slots=True)
class Flaps:
    """Falls of a path, of which so many are free, and until when they keep it out of use (monotonic seconds)."""

    free: int = FREE_FALLS
    until: float = 0.0
    _falls: tuple[float, ...] = ()

    def fell(self, now: float) -> None:
        """It falls."""
        self._falls = (*(at for at in self._falls if at > now - FLAP_WINDOW), now)[-self.free - _STEPS :]
        extra = len(self._falls) - self.free
        self.until = now + min(FIRST_HOLD * 2.0 ** (extra - 1), LONGEST_HOLD) if extra > 0 else now


@dataclass(slots=True)
class Health:
    """One path. Times are seconds of one monotonic clock, ``interval`` too."""

    interval: float
    multiplier: int
    up: bool
    since: float
    rtt: float | None = None
    _row: int = 0  # answers in a row
    _flaps: Flaps = field(default_factory=Flaps)
    _sent: int = 0
    _open: deque[_Open] = field(default_factory=lambda: deque(maxlen=HISTORY))
    _vouched: float = -math.inf  # when the remote last reported that ours arrive
    _times: deque[float] = field(default_factory=lambda: deque(maxlen=HISTORY))  # when the last probes were sent
    _answers: int = 0  # bit n: the n-th of them from the last was answered
    _counted_from: int | None = None  # those before this one do not count as lost: the path was not there yet

    @property
    def _margin(self) -> float:
        """Seconds that the answer to the last of the probes is waited for."""
        return max(self.interval / 4, 0.02, 2 * (self.rtt or 0.0))

    @property
    def deadline(self) -> float | None:
        """When the probes that are under way count as lost, unless one of them is answered."""
        if not self._open:
            return None
        return max(self._open[0].at, self._vouched) + (self.multiplier - 1) * self.interval + self._margin

    def pace(self, interval: float) -> None:
        """Probes go out so many seconds apart from now on. Those under way had another time for their answers."""
        self.interval = interval
        self._open.clear()

    def missing(self, now: float) -> int:
        """How many answers should have come by now, in a row up to the last.

        Where none has come for very long, the path is not full: something lets no answer pass, and what counts is the
        time since the remote's last word.
        """
        # A probe goes out a little after it is due, so the one before is not quite an interval old.
        age = max(0.9 * self.interval, self._margin)
        word = self._vouched if len(self._times) == HISTORY and not self._answers else -math.inf
        return sum(now - max(probe.at, word) >= age for probe in self._open)

    def patience(self, now: float) -> float:
        """Seconds until the next probe or, if that is sooner, until those under way count as lost."""
        deadline = self.deadline if len(self._open) >= self.multiplier else None
        return self.interval if deadline is None else min(self.interval, max(self._margin, deadline - now))

    def awaits(self, number: int) -> bool:
        """Whether the answer to the probe of that number is still waited for."""
        return any(probe.number == number for probe in self._open)

    def sent(self, now: float) -> int:
        """A probe goes out; its number."""
        self._sent += 1
        self._open.append(_Open(self._sent, now))
        self._times.append(now)
        self._answers = self._answers << 1 & (1 << HISTORY) - 1
        return self._sent

    def answered(self, number: int, arrival: float) -> None:
        """An answer to the probe of that number (modulo 65536) came at ``arrival``."""
        back = (self._sent - number) % 65536
        if back >= len(self._times):
            return  # too old, or never sent
        if self._answers >> back & 1:
            return  # a duplicate
        self._answers |= 1 << back
        answered = self._sent - back
        if self._open and self._open[0].number < answered:
            self._row = 0  # an earlier one is lost
        while self._open and self._open[0].number <= answered:
            self._open.popleft()
        self._row += 1
        rtt = max(0.0, arrival - self._times[-1 - back])
        self.rtt = rtt if self.rtt is None else self.rtt + (rtt - self.rtt) / 8

    def vouch(self, arrival: float) -> None:
        """A probe of the remote has come over the path, and says that ours have come there lately.

        So both directions work, whatever became of an answer. It keeps a path up, but brings none up.
        """
        self._vouched = max(self._vouched, arrival)

    def judge(self, now: float) -> bool:
        """Take up or down what the answers say; whether that changed anything."""
        if len(self._open) >= self.multiplier and (deadline := self.deadline) is not None and now >= deadline:
            self._open.clear()
            self._row = 0
            if self.up:
                self._fall(now)
                return True
        if not self.up and self._row >= self.multiplier and now >= self._flaps.until:
            self.up, self.since = True, now
            if self._counted_from is None:
                self._counted_from = self._first_of_the_last_row()
            return True
        return False

    def _first_of_the_last_row(self) -> int:
        """How many probes went out before those whose answers, without a gap, came last.

        Answers in a row are more: an engine that finds its peer after a while first delivers what it has queued, and
        between those and the fresh ones lies all that it had no room for.
        """
        under_way = (self._answers & -self._answers).bit_length() - 1 if self._answers else 0
        row = self._answers >> under_way
        return self._sent - under_way - ((row ^ (row + 1)).bit_length() - 1)

    def _fall(self, now: float) -> None:
        self._flaps.fell(now)
        self.up, self.since = False, now

    @property
    def held(self) -> bool:
        """Whether only the damping of flaps keeps a path down."""
        return not self.up and self._row >= self.multiplier

    @property
    def silent_since(self) -> float | None:
        """Since when a path is down, as long as no answer comes over it again; else None."""
        return self.since if not self.up and self._row == 0 else None

    @property
    def wake(self) -> float | None:
        """When :meth:`judge` may say something new without another answer."""
        if self.held:
            return self._flaps.until
        return self.deadline if len(self._open) >= self.multiplier else None

    def loss(self) -> float | None:
        """Share of probes without an answer, of those whose answer is due; None before there are any."""
        due = min(self._sent - (self._counted_from or 0), HISTORY) - self.multiplier
        if due <= 0:
            return None
        answers = (self._answers >> self.multiplier) & ((1 << due) - 1)
        return 1.0 - answers.bit_count() / due


@dataclass(slots=True)
class Peer:
    """What the other router last said over one address family; masks have bit K-1 for instance K."""

    heard: int = 0
    used: int = 0
    good_until: float = 0.0
    said: int = 0  # when it said so, in ns of its own clock

    def hear(self, heard: int, used: int, said: int, good_until: float, renewed: bool = False) -> None:
        """Take over what it says, unless it has said something newer: words may overtake each other on their way.

        One that has booted counts its time from the beginning; ``renewed`` says that it has started again.
        """
        if said < self.said and not renewed:
            return
        self.heard, self.used, self.said, self.good_until = heard, used, said, good_until

    def refuses(self, instance: int, now: float) -> bool:
        """Whether it says that it does not hear us over an instance, and said so lately."""
        return now < self.good_until and not self.heard >> (instance - 1) & 1

    def uses(self, instance: int, now: float) -> bool | None:
        """Whether it sends over an instance; None when it has not said so lately."""
        return bool(self.used >> (instance - 1) & 1) if now < self.good_until else None
