"""How busy the instances are: what their processes use of their CPUs, what they carry, what they let fall."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from zerotier_multi import systemd
from zerotier_multi.usage import SYSFS, cpu_seconds, device_counters


@dataclass(frozen=True)
class Instance:
    """What is looked at: a unit, its TAP, its UDP port."""

    unit: str
    device: str
    port: int


@dataclass(frozen=True)
class Load:
    """One window of one instance.

    ``use`` is the share of the time in which its busiest thread ran or waited for a CPU (1: all of the time),
    ``rate`` in bytes per second, both directions, ``drops`` the packets that it could not take, ``sent`` the bytes per
    second to the remotes, ``waited`` the part of ``use`` in which it only waited.
    """

    use: float
    rate: float
    drops: int
    sent: float = 0.0
    waited: float = 0.0


@dataclass(frozen=True)
class Counters:
    """Counters at one moment: seconds run and waited per thread, bytes over the device, packets dropped before the process."""

    at: float
    threads: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    bytes: int = 0
    drops: int = 0
    sent: int = 0


def load(before: Counters, after: Counters) -> Load | None:
    """What has happened between two moments; None where the process or its device is another one than before."""
    seconds = after.at - before.at
    common = before.threads.keys() & after.threads.keys()
    if seconds <= 0 or not common or after.bytes < before.bytes:
        return None
    shares = [[(now - then) / seconds for then, now in zip(before.threads[t], after.threads[t], strict=True)] for t in common]
    ran, waited = max(shares, key=sum)
    sent = max(0, after.sent - before.sent) / seconds
    use = min(1.0, max(0.0, ran + waited))
    return Load(use, (after.bytes - before.bytes) / seconds, max(0, after.drops - before.drops), sent, min(use, waited))


def thread_seconds(task: Path) -> tuple[float, float]:
    """Seconds in which a thread ran, and in which it waited for a CPU, of its directory in /proc. Raises OSError when it has ended.

    ``schedstat`` (Documentation/scheduler/sched-stats.rst) knows both in nanoseconds; a kernel without it knows only
    the time that it ran.
    """
    try:
        ran, waited, _slices = (task / "schedstat").read_text().split()
        return int(ran) / 1e9, int(waited) / 1e9
    except FileNotFoundError:
        return cpu_seconds(task), 0.0


def socket_drops(tables: Iterable[str]) -> dict[int, int]:
    """Packets dropped at UDP sockets, by local port, from the texts of /proc/net/udp and udp6."""
    found: dict[int, int] = {}
    for text in tables:
        for line in text.splitlines()[1:]:
            words = line.split()
            if len(words) >= 13 and words[-1].isdigit():
                port = int(words[1].rpartition(":")[2], 16)
                found[port] = found.get(port, 0) + int(words[-1])
    return found


class Loads:
    """Reads the loads of instances, from one look to the next."""

    def __init__(
        self,
        proc: Path = Path("/proc"),
        sysfs: Path = SYSFS,
        states: Callable[[list[str]], Mapping[str, systemd.UnitState]] = systemd.unit_states,
    ) -> None:
        self._proc, self._sysfs, self._states = proc, sysfs, states
        self._pids: dict[str, int] = {}
        self._before: dict[str, Counters] = {}

    def read(self, instances: Iterable[Instance], now: float) -> dict[str, Load]:
        """Loads since the last reading by unit, ``now`` in seconds; what was not there then or is not now has none."""
        wanted = {instance.unit: instance for instance in instances}
        self._find([unit for unit in wanted if not self._tasks(unit)])
        drops = socket_drops(self._tables())
        after = {unit: self._counters(instance, drops, now) for unit, instance in wanted.items()}
        found = {unit: load(self._before[unit], counters) for unit, counters in after.items() if unit in self._before}
        self._before = after
        return {unit: value for unit, value in found.items() if value}

    def _find(self, units: list[str]) -> None:
        """Ask systemd for processes that are not known, or have ended."""
        try:
            states = self._states(units) if units else {}
        except systemd.SystemdError:
            return
        self._pids.update({unit: state.pid for unit, state in states.items()})

    def _tasks(self, unit: str) -> list[Path]:
        pid = self._pids.get(unit)
        try:
            return list((self._proc / str(pid) / "task").iterdir()) if pid else []
        except OSError:
            return []

    def _tables(self) -> Iterable[str]:
        for name in ("udp", "udp6"):
            try:
                yield (self._proc / "net" / name).read_text()
            except OSError:  # no IPv6 on this box
                continue

    def _counters(self, instance: Instance, drops: Mapping[int, int], now: float) -> Counters:
        threads = {}
        for task in self._tasks(instance.unit):
            try:
                threads[task.name] = thread_seconds(task)
            except (OSError, ValueError, IndexError):
                continue
        seen = device_counters(instance.device, ("rx_bytes", "tx_bytes", "tx_dropped"), self._sysfs)
        if seen is None:
            return Counters(now)
        dropped = seen["tx_dropped"] + drops.get(instance.port, 0)
        return Counters(now, threads, seen["rx_bytes"] + seen["tx_bytes"], dropped, seen["tx_bytes"])
