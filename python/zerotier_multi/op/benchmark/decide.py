"""From what a short run has measured to what is full and how many instances are of use; pure.

Shares are of one CPU: 1.0 is one CPU in full.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from zerotier_multi.cpu import format_cpu_list

NEAR_BEST = 0.95  # of the highest throughput: fewer instances that reach it are enough
FULL = 0.90  # of what a CPU or a thread can do
SPARE = 0.50  # busy less than this, a CPU has room for one more instance
FOREIGN = 0.20  # of a CPU used by others than instances: an instance is better off elsewhere
MAX_INSTANCES = 32


class Limit(StrEnum):
    """What keeps a step from carrying more."""

    INSTANCE = "instance"  # an instance, or a thread of it, uses all of a CPU
    CPU = "cpu"  # the CPU of an instance is full, and others have a part of it
    MACHINE = "machine"  # all CPUs of a router are full
    LINK = "link"  # no CPU is full


@dataclass(frozen=True)
class Use:
    """CPU time at one end in one step, each a share of one CPU."""

    busy: Mapping[int, float]  # by CPU
    instances: Mapping[int, float]  # by instance, all its threads
    threads: Mapping[int, float] = field(default_factory=dict)  # by instance, its busiest thread


@dataclass(frozen=True)
class Step:
    """What the paths of some instances carried together, as the receiver has counted it."""

    instances: tuple[int, ...]
    seconds: float
    mbit: float
    lost: float  # share of the segments that were sent again
    near: Use
    far: Use


@dataclass(frozen=True)
class End:
    """A router: its name, where each instance may run (empty: anywhere), and its CPUs in the order in which instances take them.

    ``bundle`` is what it calls the link, ``cores`` the core of each CPU; empty where that is not known.
    """

    name: str
    cpus: Mapping[int, tuple[int, ...]]
    order: tuple[int, ...]
    bundle: str = ""
    cores: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Full:
    """What is full in a step; ``router`` and ``what`` name it, and are empty where nothing is."""

    limit: Limit
    router: str = ""
    what: str = ""


@dataclass(frozen=True)
class Verdict:
    """How many instances are of use, why, and lines for each router (without those that change nothing)."""

    instances: int
    full: Full
    sentences: tuple[str, ...]
    near: tuple[str, ...]
    far: tuple[str, ...]


def numbers(available: int) -> list[int]:
    """How many instances are measured together, of so many: few steps, closer where one more matters most."""
    return [n for n in (1, 2, 3, 4, 6, 8, 12, 16, 24, MAX_INSTANCES) if n < available] + [available]


def full(step: Step, near: End, far: End) -> Full:
    """What is full in a step: an instance before its CPU, a CPU before the machine, since it is what can be changed."""
    for end, use in ((near, step.near), (far, step.far)):
        number = max(step.instances, key=lambda k: use.threads.get(k, 0.0))
        if use.threads.get(number, 0.0) >= FULL:
            return Full(Limit.INSTANCE, end.name, f"instance {number}")
        foreign = foreign_load(end, use)
        for number, cpu in _pinned(step, end):  # its threads share the CPU, so none of them has all of it
            alone = [other for _, other in _pinned(step, end)].count(cpu) == 1
            if alone and use.busy.get(cpu, 0.0) >= FULL and foreign.get(cpu, 0.0) < FOREIGN:
                return Full(Limit.INSTANCE, end.name, f"instance {number}")
    crowded = [(end, use) for end, use in ((near, step.near), (far, step.far)) if _machine_is_full(use)]
    if crowded:
        return Full(Limit.MACHINE, crowded[0][0].name, "every CPU")
    for end, use in ((near, step.near), (far, step.far)):
        for _, cpu in _pinned(step, end):
            if use.busy.get(cpu, 0.0) >= FULL:
                return Full(Limit.CPU, end.name, f"CPU {cpu}")
    return Full(Limit.LINK)


def _pinned(step: Step, end: End) -> list[tuple[int, int]]:
    """The instances of a step that have one CPU, with that."""
    return [(k, cpus[0]) for k in step.instances if len(cpus := end.cpus.get(k, ())) == 1]


def _machine_is_full(use: Use) -> bool:
    return bool(use.busy) and sum(use.busy.values()) >= FULL * len(use.busy)


def enough(steps: Sequence[Step]) -> int:
    """The smallest number of instances that carries nearly the most."""
    best = max(step.mbit for step in steps)
    return min(len(step.instances) for step in steps if step.mbit >= NEAR_BEST * best)


def decide(bundle: str, configured: int, steps: Sequence[Step], near: End, far: End) -> Verdict:
    """What to configure; ``steps`` must not be empty. ``configured`` is the number of instances of the bundle here.

    An end that does not tell its name of the link has the one that it has here, ``bundle``.
    """
    ordered = sorted(steps, key=lambda step: len(step.instances))
    last, wanted = ordered[-1], enough(ordered)
    at = next(step for step in ordered if len(step.instances) == wanted)
    found = full(at, near, far)
    left_out = sorted(near.cpus.keys() - last.instances)
    spoken = [_carried(at, wanted), _why(found, wanted)]
    if wanted < len(last.instances):
        count = len(last.instances)
        spoken.append(f"All {count} carried {last.mbit:.0f} Mbit/s, so more than {wanted} bring nothing here.")
    elif found.limit is Limit.CPU and any(
        better_cpus(end, use, len(end.cpus) if left_out else wanted) for end, use in ((near, last.near), (far, last.far))
    ):
        spoken.append("Other CPUs have less of that work: change the affinity, then run this again.")
    elif found.limit in (Limit.INSTANCE, Limit.CPU) and (more := _room(last, near, far)) > 0:
        wanted = configured + more
        spoken.append(f"Both routers have CPUs with room for {more} more: configure {wanted}, then run this again.")
    if left_out:
        spoken.append(_not_measured(left_out, bundle, far.name))
    stays = left_out and wanted == len(last.instances)  # nothing was measured that speaks against the others
    lines = []
    for end, use in ((near, last.near), (far, last.far)):
        count = configured if end is near else len(end.cpus)
        base = f"set interfaces zerotier {end.bundle or bundle}"
        then = count if stays else wanted
        own = [f"{base} instances {then}"] if count != then else []
        if cpus := better_cpus(end, use, then):
            own.append(f"{base} cpu affinity {format_cpu_list(cpus)}")
        lines.append(tuple(own))
    return Verdict(configured if stays else wanted, found, tuple(spoken), lines[0], lines[1])


def _carried(step: Step, wanted: int) -> str:
    word = "instance carries" if wanted == 1 else "instances carry"
    return f"{wanted} {word} {step.mbit:.0f} Mbit/s."


def _why(found: Full, wanted: int) -> str:
    match found.limit:
        case Limit.INSTANCE:
            return f"The limit is {found.what} of {found.router}: it uses all of a CPU."
        case Limit.CPU:
            return f"The limit is {found.what} of {found.router}, which is full: an instance shares it with other work."
        case Limit.MACHINE:
            return f"The limit is {found.router}: all its CPUs are full."
        case _:
            return "No CPU is full at either router, so the limit is the network between them or its latency."


def _not_measured(instances: Sequence[int], bundle: str, remote: str) -> str:
    numbers = ", ".join(map(str, instances))
    subject, them = (f"Instances {numbers} were", "them") if len(instances) > 1 else (f"Instance {numbers} was", "it")
    return f"{subject} not measured, because no path of {them} to {remote} is up (show zerotier {bundle} paths)."


def _room(step: Step, near: End, far: End) -> int:
    """For how many more instances than the near end has both routers have CPUs."""
    room = [len(end.cpus) + _free_cores(end, use) for end, use in ((near, step.near), (far, step.far))]
    return min(MAX_INSTANCES, *room) - len(near.cpus)


def _free_cores(end: End, use: Use) -> int:
    """Cores with neither a pinned instance nor a busy CPU; where the cores are not known, each CPU counts as one."""
    held = {cpus[0] for cpus in end.cpus.values() if len(cpus) == 1} | {cpu for cpu, share in use.busy.items() if share >= SPARE}
    return len({end.cores.get(cpu, cpu) for cpu in use.busy} - {end.cores.get(cpu, cpu) for cpu in held})


def better_cpus(end: End, use: Use, count: int) -> tuple[int, ...]:
    """CPUs for ``count`` instances where those that they have are worse; none where there is nothing to change.

    Worse is a full CPU that instances share, or that others than instances use, while there are CPUs with less of that.
    """
    if not end.order or count > len(end.order):
        return ()
    pinned = {k: cpus[0] for k, cpus in end.cpus.items() if len(cpus) == 1 and k <= count}
    if len(pinned) < min(count, len(end.cpus)):
        return ()  # the scheduler chooses, or somebody has: nothing was measured that speaks against it
    foreign = foreign_load(end, use)
    taken = list(pinned.values())
    bad = [c for c in taken if use.busy.get(c, 0.0) >= FULL and (taken.count(c) > 1 or foreign.get(c, 0.0) >= FOREIGN)]
    if not bad:
        return ()
    least = sorted(end.order, key=lambda cpu: (round(foreign.get(cpu, 0.0), 1), end.order.index(cpu)))
    chosen = tuple(sorted(least[:count]))
    better = sum(foreign.get(cpu, 0.0) for cpu in chosen) < sum(foreign.get(cpu, 0.0) for cpu in set(taken)) - FOREIGN / 2
    return chosen if len(set(taken)) < len(taken) or better else ()


def foreign_load(end: End, use: Use) -> dict[int, float]:
    """By CPU, the share that is used by others than instances."""
    rest = dict(use.busy)
    for number, share in use.instances.items():
        for cpu in (own := end.cpus.get(number, ())):
            if cpu in rest:
                rest[cpu] -= share / len(own)
    return {cpu: max(0.0, share) for cpu, share in rest.items()}
