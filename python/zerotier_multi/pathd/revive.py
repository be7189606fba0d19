"""When to start an instance again whose device does not appear; pure.

systemd restarts a crashed process a few times in a row and then gives up; from then on the daemon tries,
less and less often.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

FIRST, LONGEST = 15.0, 300.0


@dataclass
class Revival:
    """Keeps for every missing device when its unit is tried next; times in seconds of one clock."""

    first: float = FIRST  # seconds until the first try
    _next: dict[str, tuple[float, float]] = field(default_factory=dict)  # device -> (when, delay)

    def due(self, missing: Iterable[str], now: float) -> list[str]:
        """Devices whose units shall be started now; call it with all devices that are missing."""
        gone = set(missing)
        self._next = {device: entry for device, entry in self._next.items() if device in gone}
        found = []
        for device in sorted(gone):
            when, delay = self._next.setdefault(device, (now + self.first, self.first))
            if when <= now:
                found.append(device)
                delay = min(delay * 2, LONGEST)
                self._next[device] = (now + delay, delay)
        return found

    @property
    def wake(self) -> float | None:
        """When something becomes due, or None."""
        return min((when for when, _delay in self._next.values()), default=None)
