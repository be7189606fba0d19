"""Which CPUs the instances of a bundle run on; pure, fed with a topology that :mod:`box` has read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Cpu:
    """One online logical CPU.

    ``core`` is the lowest online CPU among its SMT siblings, itself included; ``efficiency`` marks an E core
    (or a LITTLE one).
    """

    number: int
    core: int
    efficiency: bool = False

    @property
    def first_thread(self) -> bool:
        """Whether it is the thread of its core that is used first."""
        return self.number == self.core


Topology = tuple[Cpu, ...]


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """CPU numbers of a kernel-style list such as ``0-3,8``, ascending and unique.

    Raises ValueError for anything else.
    """
    numbers: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", part.strip())
        if not match or int(match[2] or match[1]) < int(match[1]):
            raise ValueError(f"{text}: not a CPU list such as 2-5,8")
        numbers.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return tuple(sorted(numbers))


def format_cpu_list(cpus: Iterable[int]) -> str:
    """The shortest kernel-style list of CPU numbers, the inverse of :func:`parse_cpu_list`."""
    ranges: list[list[int]] = []
    for number in sorted(set(cpus)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(f"{low}" if low == high else f"{low}-{high}" for low, high in ranges)


def performance_cores(topology: Topology) -> int:
    """Number of physical performance cores, at least 1: what ``instances auto`` means."""
    return max(1, len({cpu.core for cpu in topology if not cpu.efficiency}))


def placement_order(topology: Topology) -> tuple[int, ...]:
    """CPUs in the order in which instances take them.

    One thread of every performance core first, then the efficiency cores, then the SMT siblings. Within a
    class the core of CPU 0 comes last, because the kernel leaves most interrupts and housekeeping there.
    """

    def rank(cpu: Cpu) -> tuple[int, bool, int]:
        group = 2 if not cpu.first_thread else 1 if cpu.efficiency else 0
        return group, cpu.core == 0, cpu.number

    return tuple(cpu.number for cpu in sorted(topology, key=rank))


def place(order: Sequence[int], instances: int, offset: int = 0) -> tuple[int, ...]:
    """One CPU for each of ``instances``, ``offset`` places further along, wrapping when they run out."""
    return tuple(order[(offset + k) % len(order)] for k in range(instances))


def split_classes(strength: dict[int, int]) -> set[int]:
    """CPUs that are efficiency cores, judged by a figure per CPU (capacity or highest frequency).

    Less than 80 % of the strongest counts as an efficiency core: turbo bins of equal cores differ by some
    per cent, E cores and LITTLE cores by a quarter or more.
    """
    strongest = max(strength.values(), default=0)
    return {number for number, value in strength.items() if value * 5 < strongest * 4}
