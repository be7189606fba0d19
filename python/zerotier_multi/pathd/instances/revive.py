"""When to start an instance again whose device does not appear; pure.

systemd restarts a crashed process a few times in a row and then gives up; from then on the daemon tries,
less and less often. A device that comes and soon goes again has not ended that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

FIRST, LONGEST = 15.0, 300.0


@dataclass
class _Try:
    when: float  # of the next try
    delay: float  # before the one after it
    back: float | None = None  # since when the device is there again


@dataclass
class Revival:
    """Keeps for every missing device when its unit is tried next; times in seconds of one clock."""

    first: float = FIRST  # seconds until the first try
    _tries: dict[str, _Try] = field(default_factory=dict)  # by device

    def due(self, missing: Iterable[str], now: float) -> list[str]:
        """Devices whose units shall be started now; call it with all devices that are missing."""
        gone = set(missing)
        for device, entry in list(self._tries.items()):
            if device not in gone and entry.back is None:
                entry.back = now
            if entry.back is not None and (entry.delay == self.first or now - entry.back >= entry.delay):
                del self._tries[device]
        found = []
        for device in sorted(gone):
            entry = self._tries.setdefault(device, _Try(now + self.first, self.first))
            if entry.back is not None:
                entry.when, entry.back = now + entry.delay, None
            if entry.when <= now:
                found.append(device)
                entry.delay = min(entry.delay * 2, LONGEST)
                entry.when = now + entry.delay
        return found

    @property
    def wake(self) -> float | None:
        """When something becomes due, or None."""
        return min((entry.when for entry in self._tries.values() if entry.back is None), default=None)
