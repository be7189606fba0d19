"""What the kernel counts of processes and devices."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_TICK = 1 / os.sysconf("SC_CLK_TCK")
SYSFS = Path("/sys/class/net")


def cpu_seconds(directory: Path) -> float:
    """Seconds that a process or thread ran, of its directory in /proc; the 14th and 15th field of ``stat`` (proc(5)).

    Raises OSError when it has ended.
    """
    fields = (directory / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK


def device_counters(device: str, names: Iterable[str], sysfs: Path = SYSFS) -> dict[str, int] | None:
    """Counters of a device under the names that the kernel gives them, or None while it is not there."""
    directory = sysfs / device / "statistics"
    try:
        return {name: int((directory / name).read_text()) for name in names}
    except (OSError, ValueError):
        return None
