"""Has the members of each bundle named and authorized at its controller: when that is tried, and how it stands.

Each attempt is a program of its own (:mod:`zerotier_multi.controller`), which can be ended; neither a commit nor the daemon
waits for it. One that fails is repeated, at growing intervals.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from asyncio import AbstractEventLoop
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zerotier_multi import names
from zerotier_multi.pathd.loop import Alarm
from zerotier_multi.pathd.tell.moment import Moment
from zerotier_multi.plan import Plan

FIRST, LONGEST = 2.0, 300.0  # seconds between two attempts
PATIENCE = 60.0  # seconds that one may take
AT_ONCE = 2  # attempts under way: each takes up to 35 MB of the daemon's 128
AGAIN = 30.0  # seconds after a good one, when an instance waits for authorization all the same
_LIMIT = 1 << 18  # bytes of what one prints

Start = Callable[[str], "subprocess.Popen[bytes]"]


def _start(bundle: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-I", "-m", "zerotier_multi.controller", bundle]
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)


@dataclass(frozen=True)
class Outcome:
    """What an attempt has come to; ``fault`` None: all members are as configured."""

    done: int = 0
    fault: str | None = None  # goes on after "controller URL "


@dataclass
class _Bundle:
    plan: Plan
    stamps: list[tuple[int, int] | None]  # of the files with the key and the identities: change with them
    next_at: float | None
    delay: float = FIRST
    asked_at: float = 0.0
    outcome: Outcome | None = None
    checked: Moment | None = None
    process: subprocess.Popen[bytes] | None = None
    descriptor: int = -1


class Controllers:
    """Times are seconds of the loop's clock; ``told`` takes sentences for the log."""

    def __init__(self, loop: AbstractEventLoop, told: Callable[[str], None], start: Start = _start) -> None:
        self._loop, self._told, self._start = loop, told, start
        self._alarm = Alarm(loop, self.work)
        self._bundles: dict[str, _Bundle] = {}

    def configure(self, plans: Sequence[Plan], now: float) -> None:
        """Look after the controllers of these plans."""
        wanted = {plan.bundle: plan for plan in plans if plan.controller and plan.instances}
        for name in self._bundles.keys() - wanted.keys():
            self._end(self._bundles.pop(name))
        for name, plan in wanted.items():
            stamps, entry = _stamps(plan), self._bundles.get(name)
            if entry and _same(entry.plan, plan) and entry.stamps == stamps:
                entry.plan = plan
                continue
            if entry:
                self._end(entry)
            self._bundles[name] = _Bundle(plan, stamps, now)
        self._alarm.set(self.wake)

    def look(self, unauthorized: Collection[str], now: float) -> None:
        """Some bundles have instances that wait for authorization, although that was done once."""
        for name, entry in self._bundles.items():
            authorizes = entry.plan.controller is not None and entry.plan.controller.authorize
            if name in unauthorized and authorizes and entry.next_at is None and entry.process is None:
                entry.next_at = max(now, entry.asked_at + AGAIN)
        self._alarm.set(self.wake)

    def status(self, plan: Plan) -> dict[str, Any] | None:
        """How it stands with the controller of a bundle, for op mode; None where it has none."""
        entry = self._bundles.get(plan.bundle)
        if entry is None or plan.controller is None:
            return None
        outcome = entry.outcome
        return {
            "state": "working" if outcome is None else "failing" if outcome.fault else "done",
            "members_done": outcome.done if outcome else 0,
            "members_total": sum(len(instance.joined) for instance in plan.instances),
            "fault": outcome.fault if outcome else None,
            "checked": entry.checked.unix() if entry.checked else None,
        }

    @property
    def wake(self) -> float | None:
        """When :meth:`work` has something to do."""
        under_way = [e.asked_at + PATIENCE for e in self._bundles.values() if e.process]
        if len(under_way) >= AT_ONCE:
            return min(under_way)
        waiting = [e.next_at for e in self._bundles.values() if e.next_at is not None and not e.process]
        return min([*under_way, *waiting], default=None)

    def work(self, now: float) -> None:
        """Begin attempts that are due, and end those that take too long."""
        for entry in self._bundles.values():
            if entry.process and now >= entry.asked_at + PATIENCE:
                self._end(entry)
                self._settle(entry, now, Outcome(fault=f"has not done it within {PATIENCE:g} s"))
        # Those that have waited longest first, so that ones that fail again and again keep nobody from his turn.
        for entry in sorted(self._bundles.values(), key=lambda e: e.next_at or 0.0):
            under_way = sum(e.process is not None for e in self._bundles.values())
            if entry.process is None and entry.next_at is not None and now >= entry.next_at and under_way < AT_ONCE:
                self._begin(entry, now)
        self._alarm.set(self.wake)

    def _begin(self, entry: _Bundle, now: float) -> None:
        entry.asked_at, entry.next_at = now, None
        try:
            entry.process = self._start(entry.plan.bundle)
            entry.descriptor = os.pidfd_open(entry.process.pid)
        except OSError as error:
            self._end(entry)
            self._settle(entry, now, Outcome(fault=f"cannot be asked ({error.strerror})"))
            return
        self._loop.add_reader(entry.descriptor, self._ended, entry)

    def _ended(self, entry: _Bundle) -> None:
        assert entry.process and entry.process.stdout
        output = entry.process.stdout.read(_LIMIT)  # it has ended, and wrote less than a pipe holds
        self._end(entry)
        self._settle(entry, self._loop.time(), read_outcome(output))
        self._alarm.set(self.wake)  # also where another has waited for this one to end

    def _settle(self, entry: _Bundle, now: float, outcome: Outcome) -> None:
        if outcome.fault:
            entry.next_at = now + entry.delay
            entry.delay = min(entry.delay * 2, LONGEST)
        else:
            entry.delay = FIRST
        if outcome != entry.outcome:
            controller = entry.plan.controller
            assert controller is not None
            what = outcome.fault or f"has all members of {entry.plan.bundle} as configured ({outcome.done})"
            self._told(f"{entry.plan.bundle}: controller {controller.place} {what}")
        entry.outcome, entry.checked = outcome, Moment()

    def _end(self, entry: _Bundle) -> None:
        if entry.descriptor >= 0:
            self._loop.remove_reader(entry.descriptor)
            os.close(entry.descriptor)
            entry.descriptor = -1
        if entry.process:
            entry.process.kill()
            entry.process.wait()
            if entry.process.stdout:  # not read to its end, which a child of its own could put off
                entry.process.stdout.close()
            entry.process = None


def read_outcome(output: bytes) -> Outcome:
    """What an attempt has printed; pure."""
    try:
        told = json.loads(output)
        members = list(told["members"])
        good = [one for one in members if one["fault"] is None]
        faults = [told["fault"], *(f"{one['fault']} ({one['node']} on {one['network']})" for one in members if one["fault"])]
    except (ValueError, TypeError, KeyError):
        return Outcome(fault="cannot be asked (the program for it failed)")
    return Outcome(len(good), next((str(fault) for fault in faults if fault), None))


def _stamps(plan: Plan) -> list[tuple[int, int] | None]:
    """Which key of the controller, and which nodes: of an identity made anew no plan tells."""
    homes = (Path(instance.home) / "identity.secret" for instance in plan.instances)
    return [_stamp(path) for path in (names.controller_key(plan.bundle), *homes)]


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino


def _same(one: Plan, other: Plan) -> bool:
    """Whether a controller would be asked for the same."""

    def asked(plan: Plan) -> object:
        return plan.controller, [(i.number, i.transit, i.home, i.joined) for i in plan.instances]

    return asked(one) == asked(other)
