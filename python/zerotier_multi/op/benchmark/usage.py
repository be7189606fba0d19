"""CPU time of a router and of its instances, read at one moment, and what was used between two."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from zerotier_multi.op.benchmark.decide import Use
from zerotier_multi.usage import cpu_seconds

N = TypeVar("N", int, float)
_TICK = 1 / os.sysconf("SC_CLK_TCK")
_MOST = 1 << 63  # of whatever the other end may say, so that all that is computed of it is a finite number


@dataclass(frozen=True)
class Look:
    """Seconds since some time before, or since a process has started; ``at`` is of a clock that no one sets."""

    at: float
    busy: Mapping[int, float]  # by CPU
    instances: Mapping[int, Mapping[int, float]]  # by instance and thread
    received: Mapping[int, int]  # bytes, by instance

    def to_json(self) -> dict[str, Any]:
        """For the wire, where keys are text."""
        return {
            "at": self.at,
            "busy": {str(k): v for k, v in self.busy.items()},
            "instances": {str(k): {str(t): s for t, s in v.items()} for k, v in self.instances.items()},
            "received": {str(k): v for k, v in self.received.items()},
        }


def from_json(data: Mapping[str, Any]) -> Look:
    """What the other end has sent. Raises ValueError, KeyError, TypeError or AttributeError for anything else."""
    return Look(
        _seconds(data["at"]),
        {whole(k): _seconds(v) for k, v in data["busy"].items()},
        {whole(k): {whole(t): _seconds(s) for t, s in v.items()} for k, v in data["instances"].items()},
        {whole(k): whole(v) for k, v in data["received"].items()},
    )


def whole(value: Any) -> int:
    """A number of something, as the other end has sent it. Raises ValueError or TypeError for anything else."""
    number = _number(int, value)
    if number < 0:
        raise ValueError("it is negative")
    return number


def _seconds(value: Any) -> float:
    return _number(float, value)


def _number(kind: Callable[[Any], N], value: Any) -> N:
    try:
        number = kind(value)
    except OverflowError as error:  # Infinity, which Python takes for JSON, as it does NaN
        raise ValueError(error) from None
    if not abs(number) <= _MOST:  # NaN is not, either
        raise ValueError("it is out of range")
    return number


def look(pids: Mapping[int, int], received: Mapping[int, int] | None = None, proc: Path = Path("/proc")) -> Look:
    """Look at instances by their processes; one that has ended is left out."""
    at = time.monotonic()
    return Look(
        at,
        busy((proc / "stat").read_text(), at),
        {number: _threads(proc / str(pid) / "task") for number, pid in pids.items()},
        dict(received or {}),
    )


def busy(stat: str, at: float) -> dict[int, float]:
    """CPU seconds by CPU: ``at`` (s, CLOCK_MONOTONIC) without idle, waiting and stolen time of the text of ``/proc/stat``.

    Only differences mean anything. The kernel measures idle time (``get_cpu_idle_time_us``), but samples user and system
    time at its ticks, and so misses work in step with them: 0.8 s of a machine whose processes used 2.7 s.
    """
    found = {}
    for line in stat.splitlines():
        name, *fields = line.split()
        if name.startswith("cpu") and name != "cpu":
            _user, _nice, _system, idle, waiting, _irq, _softirq, stolen = (int(word) for word in fields[:8])
            found[int(name[3:])] = at - (idle + waiting + stolen) * _TICK
    return found


def _threads(directory: Path) -> dict[int, float]:
    try:
        return {int(task.name): cpu_seconds(task) for task in directory.iterdir()}
    except OSError:
        return {}


def between(first: Look, last: Look) -> Use:
    """What was used between two looks, per second."""
    seconds = max(last.at - first.at, 1e-6)
    threads = {
        number: [spent - first.instances.get(number, {}).get(thread, spent) for thread, spent in now.items()]
        for number, now in last.instances.items()
    }
    return Use(
        busy={cpu: min(1.0, max(0.0, now - first.busy.get(cpu, now)) / seconds) for cpu, now in last.busy.items()},
        instances={number: sum(spent) / seconds for number, spent in threads.items()},
        threads={number: max(spent, default=0.0) / seconds for number, spent in threads.items()},
    )
