"""Whether the remote wants a path to be a backup, as its probes tell; pure.

Words may overtake each other on their way, and a remote that takes its word back again and again would have the kernel's
groups changed each time: it is a backup the longer, the more often.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from zerotier_multi.pathd.probe.health import Flaps

FREE = 10  # times within health.FLAP_WINDOW that it may begin to say so
FORGOTTEN = 60.0  # seconds of a path that works without a probe that is believed: the remote probes no more


@dataclass(slots=True)
class Spared:
    """One path. Times are monotonic seconds."""

    spared: bool = False
    _said: int = 0  # when the remote said so, in ns of its own clock
    _heard: float = -math.inf
    _flaps: Flaps = field(default_factory=lambda: Flaps(FREE))

    def hear(self, backup: bool, said: int, now: float, renewed: bool = False) -> None:
        """A probe that is believed says so; ``renewed``: the first since the remote has started again, and counts time anew."""
        if said < self._said and not renewed:
            return
        self._said, self._heard = said, now
        if backup and not self.spared:
            self._flaps.fell(now)
        self.spared = backup or (self.spared and now < self._flaps.until)

    def works(self, now: float, since: float) -> None:
        """Probes have been answered since then."""
        if now - max(self._heard, since) > FORGOTTEN:
            self.spared = False
