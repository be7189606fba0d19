"""What was seen of the box at one moment, as plain values; everything that op mode shows is made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from zerotier_multi.netlink.state import KernelState
from zerotier_multi.plan import InstancePlan, Plan
from zerotier_multi.systemd import UnitState


@dataclass(frozen=True)
class Process:
    """A running engine: CPU time in seconds, resident memory in bytes, the CPUs that it may run on."""

    cpu_seconds: float
    memory: int
    cpus: str
    replaced: bool = False  # its program is not that of the file any more


@dataclass(frozen=True)
class Counters:
    """What has passed a device since it was made."""

    rx_bytes: int = 0
    rx_packets: int = 0
    rx_errors: int = 0
    rx_dropped: int = 0
    tx_bytes: int = 0
    tx_packets: int = 0
    tx_errors: int = 0
    tx_dropped: int = 0


@dataclass(frozen=True)
class Sample:
    """Everything that rates are made of, read at one moment ``at`` (seconds of a clock that no one sets)."""

    at: float
    processes: Mapping[str, Process] = field(default_factory=dict)  # by unit
    counters: Mapping[str, Counters] = field(default_factory=dict)  # by device


@dataclass(frozen=True)
class Answer:
    """What the API of an instance said; all None when it did not answer."""

    status: Mapping[str, Any] | None = None
    peers: tuple[Mapping[str, Any], ...] | None = None
    networks: tuple[Mapping[str, Any], ...] | None = None


@dataclass(frozen=True)
class Snapshot:
    """The box at one moment; ``now`` is in seconds since 1970."""

    now: float
    plans: tuple[Plan, ...] = ()
    pathd: Mapping[str, Any] | None = None
    pathd_fault: str | None = None  # why there is no answer of the daemon, as a sentence
    units: Mapping[str, UnitState] = field(default_factory=dict)
    answers: Mapping[str, Answer] = field(default_factory=dict)  # by unit
    nodes: Mapping[str, str] = field(default_factory=dict)  # unit -> node address of the identity on disk
    broken_identities: tuple[str, ...] = ()  # units
    obstacles: Mapping[str, str] = field(default_factory=dict)  # unit -> what others do that keeps it from working
    sunk: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # bundle -> prefixes that others route into its device
    kernel: KernelState = field(default_factory=KernelState)
    hash_policy: int | None = None  # of the kernel
    first: Sample = field(default_factory=lambda: Sample(0.0))
    last: Sample = field(default_factory=lambda: Sample(0.0))

    @property
    def window(self) -> float:
        """Seconds that rates are measured over."""
        return self.last.at - self.first.at

    def unit(self, instance: InstancePlan) -> UnitState:
        """State of an instance's unit."""
        return self.units.get(instance.unit, UnitState("unknown"))

    def answer(self, instance: InstancePlan) -> Answer:
        """What an instance said."""
        return self.answers.get(instance.unit, Answer())

    def rate(self, device: str, counter: str) -> float | None:
        """Growth of a counter of a device per second; None where there are not two readings of one device."""
        before, after = self.first.counters.get(device), self.last.counters.get(device)
        if before is None or after is None or self.window <= 0:
            return None
        grown = getattr(after, counter) - getattr(before, counter)
        return grown / self.window if grown >= 0 else None

    def cpu_percent(self, instance: InstancePlan) -> float | None:
        """CPU time that an instance uses, 100 being one CPU in full; None where it was not seen twice."""
        before, after = (sample.processes.get(instance.unit) for sample in (self.first, self.last))
        if before is None or after is None or self.window <= 0:
            return None
        return max(0.0, after.cpu_seconds - before.cpu_seconds) / self.window * 100
