"""Brings the addresses of endpoints that are names to the instances: what the daemon does with a :class:`Resolver`."""

from __future__ import annotations

import logging
import math
from asyncio import AbstractEventLoop
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from zerotier_multi.facts import device_addresses
from zerotier_multi.homes import own_identity, sync_home
from zerotier_multi.hosts import current_files, named_peers, read_hosts, store_hosts
from zerotier_multi.pathd.tell import events
from zerotier_multi.pathd.instances.resolver import Resolver
from zerotier_multi.plan import InstancePlan, PathPlan, Plan

log = logging.getLogger("pathd")

FIRST, LONGEST = 1.0, 60.0  # seconds between two tries to write addresses


class Endpoints:
    """``changed`` is called when an instance has been given other addresses, ``tell`` with events."""

    def __init__(self, loop: AbstractEventLoop, tell: Callable[[events.Event], None], changed: Callable[[], None]) -> None:
        self._loop, self._tell, self._changed = loop, tell, changed
        self._plans: Sequence[Plan] = ()
        self._users: dict[str, set[tuple[str, str, int]]] = {}  # name -> (bundle, remote, instance)
        self._written = read_hosts()
        self._resolver = Resolver(loop, self._told, self._written)
        self._late: dict[tuple[str, int], str] = {}  # instances that could not be given what is known, and why
        self._unstored: list[str] = []  # why what is known could not be written down
        self._delay, self._next = FIRST, math.inf  # seconds until the next try, and when that is
        self._underlay: Mapping[str, Collection[str]] | None = None

    def configure(self, plans: Sequence[Plan]) -> None:
        """Take over the names in these plans."""
        self._plans, self._users = plans, {}
        for plan, peer, name in named_peers(plans):
            self._users.setdefault(name, set()).add((plan.bundle, peer.remote, peer.instance))
        if self.wake is not None:  # a commit may have written meanwhile
            self._delay, self._next = FIRST, -math.inf

    def look(self, silent: Collection[int], underlay: Mapping[str, Collection[str]], now: float) -> None:
        """Look names up for these paths, known by their next hops, which are not up; ``underlay`` are this router's addresses."""
        if not self._users and not self._written and self.wake is None:
            return
        down = {
            (plan.bundle, path.remote, path.instance)
            for plan in self._plans for path in plan.paths if path.nexthop_id in silent
        }  # fmt: skip
        self._resolver.configure({name: bool(users & down) for name, users in self._users.items()}, now)
        underlay = {device: own for device, own in underlay.items() if own}
        if self._underlay is not None and underlay != self._underlay:
            self._resolver.hurry(now)
        self._underlay = underlay
        self._resolver.work(now)
        self._write(now)

    @property
    def wake(self) -> float | None:
        """When :meth:`look` tries again to write addresses down, or to give them to an instance; None where that is done."""
        return self._next if self._late or self._unstored else None

    def faults(self, plan: Plan, path: PathPlan | None = None) -> list[str]:
        """Sentences on names of a bundle, or of one of its paths: that one could not be looked up, or addresses not be written."""
        mine = [i.number for i in plan.instances if path is None or i.number == path.instance]
        found = [why for (bundle, instance), why in self._late.items() if bundle == plan.bundle and instance in mine]
        if path is None and any(b == plan.bundle for users in self._users.values() for b, _remote, _instance in users):
            found += self._unstored
        for name, users in self._users.items():
            fault = self._resolver.fault(name)
            if fault and any(b == plan.bundle and (path is None or (r, k) == (path.remote, path.instance)) for b, r, k in users):
                found.append(fault)
        return found

    def known(self, plan: Plan, instance: InstancePlan) -> frozenset[str]:
        """What an instance has been told of names, as ``name is address``."""
        users = self._users.items()
        names = [name for name, us in users if any(b == plan.bundle and k == instance.number for b, _remote, k in us)]
        return frozenset(f"{name} is {address}" for name in names for address in self._written.get(name, ()))

    def _told(self, name: str) -> None:
        fault, was, now = self._resolver.fault(name), self._written.get(name, ()), self._resolver.hosts().get(name, ())
        for bundle, remote in sorted({(bundle, remote) for bundle, remote, _instance in self._users.get(name, ())}):
            if fault:
                self._tell(events.unresolved(bundle, remote, fault))
            elif was != now:
                self._tell(events.endpoint_moved(bundle, remote, name, was, now))
        self._write(self._loop.time())

    def _write(self, now: float) -> None:
        """Write down what is known, and give it to the instances that it concerns; again, ever less often, what failed."""
        hosts = self._resolver.hosts()
        moved = {name for name in hosts.keys() | self._written.keys() if hosts.get(name) != self._written.get(name)}
        if not moved and now < self._next:
            return
        due = self._late.keys() | {(b, k) for name in moved for b, _remote, k in self._users.get(name, ())}
        self._written = hosts
        if moved or self._unstored:
            problems = store_hosts(hosts)
            for sentence in problems if not self._unstored else ():
                log.warning("%s", sentence)
            self._unstored = problems
        self._late = {
            (plan.bundle, instance.number): fault
            for plan in self._plans for instance in plan.instances
            if (plan.bundle, instance.number) in due and (fault := self._refresh(plan, instance))
        }  # fmt: skip
        self._delay = FIRST if moved or not (self._late or self._unstored) else min(2 * self._delay, LONGEST)
        self._next = now + self._delay if self._late or self._unstored else math.inf
        if moved & self._users.keys():
            self._changed()

    def _refresh(self, plan: Plan, instance: InstancePlan) -> str | None:
        """Write the files of an instance; a sentence when that cannot be done."""
        home = Path(instance.home)
        try:
            devices = device_addresses() if instance.source_interface else {}
            sync_home(home, current_files(plan, instance, own_identity(home), self._written, devices))
        except (OSError, ValueError) as error:
            why = f"{error.filename} cannot be written ({error.strerror})" if isinstance(error, OSError) else str(error)
            fault = f"addresses of remotes cannot be given to instance {instance.number}: {why}; zerotier-pathd tries again"
            if (plan.bundle, instance.number) not in self._late:
                log.warning("%s: %s", plan.bundle, fault)
            return fault
        return None
