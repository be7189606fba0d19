"""Instances that cannot start because another program has their port: started again as soon as it is free.

systemd tries five times within seconds and then gives up. What is tried less and less often (:mod:`revive`) would leave a
bundle down for minutes after the port is free.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from zerotier_multi.plan import InstancePlan
from zerotier_multi.ports import Holder

PERIOD, LONGEST = 1.0, 60.0  # seconds between two looks at a port that is taken; at units that have not failed at the most


class Squatted:
    """Looks at the ports of instances that systemd has given up."""

    def __init__(
        self,
        failed: Callable[[list[str]], set[str]],
        holder: Callable[[InstancePlan, bool], Holder | None],
        told: Callable[[str, Holder], None],
    ):
        """``failed`` says which of some units have failed, ``told`` is called once for each whose port is taken.

        ``holder`` says who has the port of an instance, and names the program only when asked to: that is costly.
        """
        self._failed, self._holder, self._told = failed, holder, told
        self._taken: set[str] = set()
        self._missing: frozenset[str] = frozenset()
        self._pause = PERIOD
        self.wake: float | None = None  # when to look again

    def due(self, missing: Mapping[str, InstancePlan], now: float) -> list[str]:
        """Units that have failed and whose port has become free.

        ``missing`` are the units without a device; each of the others is forgotten.
        """
        self._taken &= missing.keys()
        if self._missing != missing.keys():
            self._missing, self._pause, self.wake = frozenset(missing), PERIOD, now
        if not missing:
            self.wake = None
        if self.wake is None or now < self.wake:
            return []
        failed, free = self._failed(sorted(missing)), []
        self._pause = PERIOD if failed else min(2 * self._pause, LONGEST)
        self.wake = now + self._pause
        for unit in sorted(failed):
            found = self._holder(missing[unit], unit not in self._taken)
            if found and unit not in self._taken:
                self._taken.add(unit)
                self._told(unit, found)
            elif found is None and unit in self._taken:
                self._taken.remove(unit)
                free.append(unit)
        return free
