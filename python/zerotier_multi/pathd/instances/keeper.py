"""Looks after the processes of the instances: starts those again that are gone, and restarts those that cannot follow.

What is due and when is said by :mod:`revive`, :mod:`squatted` and :mod:`recovery`; this reads what they need and does it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from zerotier_multi import systemd
from zerotier_multi.netlink.state import KernelState
from zerotier_multi.pathd.instances import healing, recovery
from zerotier_multi.pathd.instances.members import Members
from zerotier_multi.pathd.instances.revive import Revival
from zerotier_multi.pathd.instances.squatted import Squatted
from zerotier_multi.pathd.probe.prober import Silence
from zerotier_multi.pathd.tell import events
from zerotier_multi.pathd.tell.events import Event
from zerotier_multi.plan import InstancePlan, Plan
from zerotier_multi.ports import in_the_way
from zerotier_multi.states import PathState

log = logging.getLogger("pathd")

LOSS = 3.0  # seconds after which an instance that runs and has lost its device is started again

Instances = Mapping[str, tuple[Plan, InstancePlan]]  # by device


@dataclass(frozen=True)
class Paths:
    """What has to be known of paths, by the ids of their next hops."""

    up: Collection[int] = ()
    silent: Mapping[int, Silence] = field(default_factory=dict)
    empty: Collection[str] = ()  # drained devices over which nothing comes any more
    drained: Collection[str] = ()  # devices
    told: Mapping[str, frozenset[str]] = field(default_factory=dict)  # addresses of names in the files of an instance, by device


class Keeper:
    """Times are seconds of one monotonic clock."""

    def __init__(self, members: Members, tell: Callable[[Event], None]) -> None:
        self._members, self._tell = members, tell
        self._plans: Sequence[Plan] = ()
        self._seen: set[str] = set()  # devices that have been there in this daemon's life, or an earlier one's
        self._been_up: set[int] = set()  # paths that have been up at any time
        self._nameless: set[str] = set()  # units without an identity, told once
        self._revival = Revival()
        self._losses = Revival(first=LOSS)
        self._squatted = Squatted(systemd.failed, in_the_way, lambda unit, by: self._tell(events.blocked(*self.instance(unit), by)))
        self._recovery = recovery.Recovery()

    def configure(self, plans: Sequence[Plan], known: Mapping[int, PathState]) -> None:
        """Look after the instances of these plans; ``known`` are the states of the paths at the look before."""
        self._plans = plans
        self._been_up |= {path for path, state in known.items() if state.works}
        paths = [path for plan in plans for path in plan.paths]
        self._seen |= {path.device for path in paths if known.get(path.nexthop_id, PathState.NO_DEVICE) != PathState.NO_DEVICE}

    def instance(self, unit: str) -> tuple[str, InstancePlan]:
        """Bundle and instance of a unit."""
        return next((plan.bundle, i) for plan in self._plans for i in plan.instances if i.unit == unit)

    @property
    def revival_wake(self) -> float | None:
        """When :meth:`revive` has something to do."""
        return min(filter(None, (self._revival.wake, self._losses.wake, self._squatted.wake)), default=None)

    @property
    def recovery_wake(self) -> float | None:
        """When :meth:`recover` has something to do."""
        return self._recovery.wake

    # -- devices that are missing

    def revive(self, have: KernelState, up: Collection[int], now: float) -> None:
        """Start instances again whose device is missing.

        One whose device has been there has lost it, and a process that still runs does not make it again; one whose
        device has not come yet may be waiting for its controller, where it has one.
        """
        instances = self._by_device()
        self._seen = (self._seen | set(have.links)) & set(instances)
        missing = healing.missing(instances, have.links, up)
        for unit in self._squatted.due({i.unit: i for d, (_plan, i) in instances.items() if d in missing}, now):
            bundle, instance = self.instance(unit)
            self._start_again([instance], [events.freed(bundle, instance)])
        for device in self._losses.due(missing & self._seen, now):
            # Dead ones are systemd's to start again, as long as it does; and one that has just been started makes its device.
            if _runs(instances[device][1].unit, LOSS):
                self._heal(*instances[device])
        for device in self._revival.due(missing, now):
            plan, instance = instances[device]
            without = device in self._seen or self._members.left(device, now)
            if without or plan.controller_free or not _runs(instance.unit):
                self._heal(plan, instance)

    def _heal(self, plan: Plan, instance: InstancePlan) -> None:
        if plan.controller_free and not healing.has_identity(instance):
            # Op mode may be making it, and starts it then; the engine would make another one.
            if instance.unit not in self._nameless:
                log.warning(
                    "%s/%d has no identity; restore it from an archive, or commit a change of the bundle to have a new one",
                    plan.bundle,
                    instance.number,
                )
            self._nameless.add(instance.unit)
            return
        self._nameless.discard(instance.unit)
        written = healing.heal(plan, instance)
        self._start_again([instance], [events.revival(plan.bundle, instance, healing.cause(instance, written))])

    # -- addresses that move

    def recover(self, have: KernelState, paths: Paths, now: float) -> tuple[str, ...]:
        """Restart what does not follow moved addresses by itself; devices that are to be drained. Nothing is waited for."""
        instances = self._by_device()
        self._been_up |= set(paths.up)
        there = recovery.underlay(have.links, have.local)
        found = recovery.situations(self._plans, have.links, there, paths.silent, paths.up, self._been_up, paths.told)
        looked = {device: seen for device, seen in found.items() if not self._members.refused(device)}
        orders = self._recovery.work(looked, now, paths.empty)
        if orders.restart:
            chosen = [(*instances[device], cause) for device, cause in orders.restart]
            idle = [instance.unit for _plan, instance, _cause in chosen if instance.device not in paths.drained]
            if idle:  # zerotier-one takes a second to end in order, and nothing is under way over these
                systemd.systemctl("kill", "--signal=KILL", *idle, check=False)
            told = [events.recovery(plan.bundle, instance, cause) for plan, instance, cause in chosen]
            self._start_again([instance for _plan, instance, _cause in chosen], told)
        return orders.drain

    # -- instances that hang

    def kill(self, unit: str) -> None:
        """End a process that does not answer: it may not end in order either. systemd starts it again."""
        self._tell(events.hang(*self.instance(unit)))
        try:
            systemd.systemctl("kill", "--signal=KILL", unit)
        except systemd.SystemdError as error:
            log.warning("%s", error)

    def _start_again(self, instances: Sequence[InstancePlan], told: Iterable[Event]) -> None:
        for event in told:
            self._tell(event)
        units = [instance.unit for instance in instances]
        try:
            systemd.systemctl("reset-failed", *units, check=False)  # else systemd refuses too many starts in a row
            systemd.systemctl("restart", "--no-block", *units)
        except systemd.SystemdError as error:
            log.warning("%s", error)

    def _by_device(self) -> Instances:
        return {i.device: (plan, i) for plan in self._plans for i in plan.instances}


def _runs(unit: str, seconds: float = 0.0) -> bool:
    """Whether it has run for so long."""
    try:
        state = systemd.unit_states([unit])[unit]
    except systemd.SystemdError:
        return False
    return state.active == "active" and (state.uptime or 0.0) >= seconds
