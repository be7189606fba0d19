"""Looks up the DNS names of endpoints, while a path that needs them is down; the daemon's loop waits for none.

Each lookup is a program of its own (getent, so the router's own resolver with all its settings), which can be ended. A name
keeps the addresses that it had last when it cannot be looked up.
"""

from __future__ import annotations

import ipaddress
import os
import subprocess
from asyncio import AbstractEventLoop
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from zerotier_multi.pathd.loop import Alarm

FIRST, LONGEST = 2.0, 60.0  # seconds between two lookups of a name
PATIENCE = 10.0  # seconds that one may take
AT_ONCE = 8  # lookups under way
MOST = 8  # addresses of a name

Start = Callable[[str], "subprocess.Popen[bytes]"]


def _start(name: str) -> subprocess.Popen[bytes]:
    # Both families whatever this router has at the moment: its own addresses may be what has just gone.
    command = ["getent", "--no-addrconfig", "ahosts", name]
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)


def addresses(output: str) -> tuple[str, ...]:
    """What getent found that an underlay can have, in an order that does not depend on the name server's."""
    found = set()
    for line in output.splitlines():
        try:
            address = ipaddress.ip_address(line.split()[0])
        except (IndexError, ValueError):
            continue
        if not (address.is_unspecified or address.is_multicast or address.is_loopback or address.is_link_local):
            found.add(address)
    return tuple(str(a) for a in sorted(found, key=lambda a: (a.version, a))[:MOST])


@dataclass
class _Lookup:
    process: subprocess.Popen[bytes]
    descriptor: int
    deadline: float


@dataclass
class _Name:
    addresses: tuple[str, ...]
    needed: bool
    next_at: float | None
    delay: float = FIRST
    asked_at: float = field(default=-LONGEST)
    fault: str | None = None
    lookup: _Lookup | None = None


class Resolver:
    """Keeps names and their addresses; times are seconds of one monotonic clock.

    ``told`` is called with a name whose addresses or whose fault have changed, from the loop or from :meth:`work`.
    """

    def __init__(
        self, loop: AbstractEventLoop, told: Callable[[str], None], known: Mapping[str, tuple[str, ...]],
        start: Start = _start,
    ) -> None:  # fmt: skip
        self._loop, self._told, self._start = loop, told, start
        self._alarm = Alarm(loop, self.work)
        self._known = dict(known)  # what an earlier daemon has found, as long as no plan has asked for it
        self._names: dict[str, _Name] = {}

    def configure(self, needed: Mapping[str, bool], now: float) -> None:
        """Look after exactly these names; each with whether a path that may need it is down."""
        for name in self._names.keys() - needed.keys():
            self._end(self._names.pop(name))
        for name, down in needed.items():
            if (entry := self._names.get(name)) is None:
                known = self._known.pop(name, ())
                self._names[name] = _Name(known, down, now if down or not known else None)
            elif down and not entry.needed:
                entry.needed, entry.delay = True, FIRST
                entry.next_at = max(now, entry.asked_at + FIRST)
            elif not down and entry.needed:
                entry.needed = False
                if entry.addresses:
                    entry.next_at = None
        self._alarm.set(self.wake)

    def hurry(self, now: float) -> None:
        """Another address may reach other name servers: what could not be looked up, or leads nowhere, is looked up at once."""
        for entry in self._names.values():
            entry.delay = FIRST  # also of a lookup that is under way, and may ask nobody
            if entry.next_at is not None:
                entry.next_at = min(entry.next_at, max(now, entry.asked_at + FIRST))
        self._alarm.set(self.wake)

    def hosts(self) -> dict[str, tuple[str, ...]]:
        """Addresses of every name that has some. At a boot, plans come one after the other: what is known stays until its own."""
        return self._known | {name: entry.addresses for name, entry in self._names.items() if entry.addresses}

    def fault(self, name: str) -> str | None:
        """Why a name could not be looked up the last time, as a sentence; None where it could, or is not known yet."""
        entry = self._names.get(name)
        return entry.fault if entry else None

    @property
    def wake(self) -> float | None:
        """When :meth:`work` has something to do."""
        under_way = [e.lookup.deadline for e in self._names.values() if e.lookup]
        if len(under_way) >= AT_ONCE:
            return min(under_way)
        waiting = [e.next_at for e in self._names.values() if e.next_at is not None and not e.lookup]
        return min([*under_way, *waiting], default=None)

    def work(self, now: float) -> None:
        """End lookups that take too long, and begin those that are due."""
        for name, entry in list(self._names.items()):
            if entry.lookup and now >= entry.lookup.deadline:
                self._end(entry)
                self._settle(name, entry, now, None, f"the name servers do not answer for {name} within {PATIENCE:g} s")
        for name, entry in list(self._names.items()):
            under_way = sum(e.lookup is not None for e in self._names.values())
            if entry.next_at is not None and entry.next_at <= now and not entry.lookup and under_way < AT_ONCE:
                self._ask(name, entry, now)
        self._alarm.set(self.wake)

    def _ask(self, name: str, entry: _Name, now: float) -> None:
        entry.asked_at, entry.next_at = now, None
        try:
            process = self._start(name)
            descriptor = os.pidfd_open(process.pid)
        except OSError as error:
            self._settle(name, entry, now, None, f"{name} cannot be looked up ({error.strerror})")
            return
        entry.lookup = _Lookup(process, descriptor, now + PATIENCE)
        self._loop.add_reader(descriptor, self._ended, name, entry)

    def _ended(self, name: str, entry: _Name) -> None:
        assert entry.lookup and entry.lookup.process.stdout
        output = entry.lookup.process.stdout.read().decode(errors="replace")  # it has ended, and wrote less than a pipe holds
        self._end(entry)
        found = addresses(output)
        self._settle(name, entry, entry.asked_at, found or None, None if found else f"{name} does not resolve to an address")
        self._alarm.set(self.wake)

    def _settle(self, name: str, entry: _Name, now: float, found: tuple[str, ...] | None, fault: str | None) -> None:
        if entry.needed or not (found or entry.addresses):
            entry.next_at = now + entry.delay
            entry.delay = min(entry.delay * 2, LONGEST)
        changed = fault != entry.fault or (found is not None and found != entry.addresses)
        entry.fault, entry.addresses = fault, found or entry.addresses
        if changed:
            self._told(name)

    def _end(self, entry: _Name) -> None:
        if entry.lookup:
            self._loop.remove_reader(entry.lookup.descriptor)
            os.close(entry.lookup.descriptor)
            entry.lookup.process.kill()
            entry.lookup.process.communicate()
            entry.lookup = None
