"""The event loop of zerotier-pathd: level-triggered, so that any event just means "look again".

It may be killed at any point: what stands in the kernel carries traffic without it, and started again it
takes over what it finds. Stopping it changes nothing either; only a plan that goes away takes state away.
"""

from __future__ import annotations

import logging
import selectors
import signal
import socket
import sys
import time
from typing import Any

from systemd import daemon as sd

from zerotier_multi import names, rtnl, systemd
from zerotier_multi.netlink import EventSocket, Message
from zerotier_multi.pathd.actions import actions
from zerotier_multi.pathd.control import ControlSocket
from zerotier_multi.pathd.desired import Observed, desired_state
from zerotier_multi.pathd.inotify import FileWatch
from zerotier_multi.pathd.kernel import describe, observe, perform, supports_resilient_groups
from zerotier_multi.pathd.plans import Plans
from zerotier_multi.pathd.revive import Revival
from zerotier_multi.pathd.since import Since
from zerotier_multi.pathd.sysctls import GLOBAL, RP_FILTER_ALL, Sysctls, router_wide
from zerotier_multi.plan import PathPlan, Plan

log = logging.getLogger("pathd")

AUDIT = 60.0  # seconds between looks without an event, for what has no event
RETRY = 1.0  # seconds until a refused action is tried again
MAX_PASSES = 8  # every pass brings the state nearer; more would be a fight with somebody

_GROUPS = [
    rtnl.GROUP_LINK,
    rtnl.GROUP_NEIGH,
    rtnl.GROUP_IPV4_ADDR,
    rtnl.GROUP_IPV6_ADDR,
    rtnl.GROUP_IPV4_ROUTE,
    rtnl.GROUP_IPV6_ROUTE,
    rtnl.GROUP_NEXTHOP,
]
_ROUTES = (rtnl.RTM_NEWROUTE, rtnl.RTM_DELROUTE)
_NEIGHBOURS = (rtnl.RTM_NEWNEIGH, rtnl.RTM_DELNEIGH)


def concerns_us(message: Message, devices: set[int]) -> bool:
    """Whether an event can mean that our state has drifted; ``devices`` are the ifindexes we manage.

    Of routes only ours count (a router's table changes all the time), of neighbours those on our devices.
    """
    if message.type in _ROUTES:
        return len(message.body) > 5 and message.body[5] == names.RT_PROTO
    if message.type in _NEIGHBOURS:
        return len(message.body) > 7 and int.from_bytes(message.body[4:8], sys.byteorder) in devices
    return True


class Daemon:
    """Holds the doors open and brings the kernel to the plans whenever something happens."""

    def __init__(self) -> None:
        names.STATE_FILE.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._rtnl = rtnl.Rtnl()
        self._events = EventSocket(_GROUPS)
        self._sysctls = Sysctls(names.STATE_FILE.parent / "sysctls.json")
        self._since = Since(names.STATE_FILE.parent / "since.json")
        self._plans = Plans()
        self._plan_list: list[Plan] = []
        self._resilient = supports_resilient_groups(self._rtnl)
        self._drained: dict[str, int] = {}  # device -> ifindex that carries no new traffic
        self._first_seen: dict[str, float] = {}
        self._revival = Revival()
        self._problems: list[str] = []
        self._observed = Observed()
        self._up: set[int] = set()
        self._managed: set[int] = set()  # ifindexes of our devices
        self._retry: float | None = None
        self._wake: float | None = None
        self._audit_at: float = 0.0
        self._running = True
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._events, selectors.EVENT_READ, self._kernel_event)
        self._watch = FileWatch([self._sysctls.path(name) for name in GLOBAL])
        self._selector.register(self._watch, selectors.EVENT_READ, self._sysctl_event)
        self._control = ControlSocket(self._selector, self._request)
        self._signals()

    def run(self) -> None:
        """Work until TERM or INT."""
        self.sync()
        sd.notify("READY=1")
        while self._running:
            for key, _mask in self._selector.select(self._timeout()):
                key.data()
            now = time.monotonic()
            if any(at is not None and at <= now for at in (self._retry, self._wake, self._revival.wake, self._audit_at)):
                self.reconcile()
            sd.notify("WATCHDOG=1")
        sd.notify("STOPPING=1")

    # -- what happens

    def _kernel_event(self) -> None:
        messages = self._events.read()
        if messages is None or any(concerns_us(m, self._managed) for m in messages):
            self.reconcile()

    def _sysctl_event(self) -> None:
        self._watch.drain()
        self.reconcile()

    def _signals(self) -> None:
        """Signals wake the selector through a socket pair, so that none is lost between two waits."""
        reader, writer = socket.socketpair()
        for end in (reader, writer):
            end.setblocking(False)
        signal.set_wakeup_fd(writer.fileno())
        self._signal_writer = writer

        def arrived() -> None:
            for number in reader.recv(64):
                if number in (signal.SIGTERM, signal.SIGINT):
                    self._running = False
                elif number == signal.SIGHUP:
                    self.sync()

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        self._selector.register(reader, selectors.EVENT_READ, arrived)

    def _request(self, request: dict[str, Any], privileged: bool) -> dict[str, Any]:
        match request.get("op"):
            case "status":
                return self.status()
            case _ if not privileged:
                return {"error": "only root may change what zerotier-pathd does"}
            case "sync":
                self.sync()
                return {"ok": True, "problems": self._problems}
            case "drain":
                devices = request.get("devices")
                if not isinstance(devices, list) or not all(isinstance(d, str) for d in devices):
                    return {"error": "drain needs a list of devices"}
                self._drain(devices)
                return {"ok": True}
        return {"error": "unknown request"}

    # -- what is done

    def sync(self) -> None:
        """Read the plans and bring the kernel to them."""
        self._plan_list = self._plans.load()
        self.reconcile()

    def _drain(self, devices: list[str]) -> None:
        links = self._rtnl.links()
        self._drained.update({d: links[d].index for d in devices if d in links})
        self.reconcile()

    def _usable(self, _plan: Plan, path: PathPlan, link: rtnl.Link) -> bool:
        """Whether a path whose device is there may carry traffic. Verdicts of probing belong here."""
        return self._drained.get(path.device) != link.index

    def reconcile(self) -> None:
        """Look at the kernel and mend what differs, until nothing does or nothing helps."""
        problems: list[str] = []
        for _ in range(MAX_PASSES):
            try:
                done, problems = self._pass()
            except OSError as error:
                problems = [f"the kernel's state cannot be read ({error.strerror})"]
                break
            if not done or problems:
                break
        paths = [path for plan in self._plan_list for path in plan.paths]
        problems = [*problems, *self._since.note({path.nexthop_id: self._path_state(path) for path in paths})]
        for problem in problems:
            if problem not in self._problems:
                log.warning("%s", problem)
        self._problems = problems
        now = time.monotonic()
        self._retry = now + RETRY if problems else None
        self._audit_at = now + AUDIT
        self._revive(now)

    def _pass(self) -> tuple[bool, list[str]]:
        """One look and what follows from it: whether anything was done, and what went wrong."""
        now = time.monotonic()
        have = self._observed = observe(self._rtnl)
        self._note_devices(have, now)
        want = desired_state(
            self._plan_list,
            have,
            self._usable,
            self._resilient,
            self._first_seen,
            now,
            self._sysctls.read(RP_FILTER_ALL) or "0",
        )
        self._wake = want.wake
        self._managed = {have.links[name].index for name in want.devices if name in have.links}
        self._up = {member for group in want.groups.values() for member in group.members}
        problems = [*self._plans.problems, *want.problems, *self._sysctls.apply(want.sysctls)]
        refused, drifted = self._sysctls.hold(router_wide(self._plan_list))
        for sentence in drifted:
            log.warning("%s", sentence)
        problems += refused
        todo = actions(want, have)
        for action in todo:
            problem = perform(self._rtnl, action)
            if problem:
                problems.append(problem)
            else:
                log.info("%s", describe(action))
        return bool(todo), problems

    def _note_devices(self, have: Observed, now: float) -> None:
        for plan in self._plan_list:
            if any(i.device in have.links for i in plan.instances):
                self._first_seen.setdefault(plan.bundle, now)
            else:
                self._first_seen.pop(plan.bundle, None)
        gone = [d for d, index in self._drained.items() if d not in have.links or have.links[d].index != index]
        for device in gone:
            del self._drained[device]

    def _revive(self, now: float) -> None:
        missing = {
            i.device: i.unit for plan in self._plan_list for i in plan.instances if i.device not in self._observed.links
        }
        for device in self._revival.due(missing, now):
            log.warning("device %s is missing; starting %s again", device, missing[device])
            try:
                systemd.systemctl("reset-failed", missing[device], check=False)
                systemd.systemctl("start", "--no-block", missing[device])
            except systemd.SystemdError as error:
                log.warning("%s", error)

    def _timeout(self) -> float:
        now = time.monotonic()
        moments = [at for at in (self._retry, self._wake, self._revival.wake, self._audit_at) if at is not None]
        watchdog = AUDIT / 4  # WatchdogSec= of the unit is longer
        return max(0.0, min([watchdog, *(at - now for at in moments)]))

    # -- what is told

    def status(self) -> dict[str, Any]:
        """State for op mode; nothing in it is secret."""
        return {
            "schema": 1,
            "resilient": self._resilient,
            "problems": self._problems,
            "bundles": {plan.bundle: self._bundle_status(plan) for plan in self._plan_list},
        }

    def _bundle_status(self, plan: Plan) -> dict[str, Any]:
        return {
            "paths": [
                {
                    "remote": path.remote,
                    "instance": path.instance,
                    "family": path.family,
                    "device": path.device,
                    "via": path.via,
                    "state": self._path_state(path),
                    "since": self._since.unix(path.nexthop_id, time.time()),
                }
                for path in plan.paths
            ],
            "routes": sorted(r.prefix for r in plan.routes if any(o.prefix == r.prefix for o in self._observed.routes)),
        }

    def _path_state(self, path: PathPlan) -> str:
        if path.nexthop_id in self._up:
            return "up"
        if path.device not in self._observed.links:
            return "no device"
        return "drained" if path.device in self._drained else "waiting"
