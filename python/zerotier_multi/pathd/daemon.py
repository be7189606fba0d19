"""The event loop of zerotier-pathd: level-triggered, so that any event just means "look again".

It may be killed at any point: what stands in the kernel carries traffic without it, and started again it
takes over what it finds. Stopping it changes nothing either; only a plan that goes away takes state away.
"""

from __future__ import annotations

import logging
import selectors
import signal
import socket
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from systemd import daemon as sd

from zerotier_multi import names, systemd
from zerotier_multi.netlink.rtnl import Rtnl
from zerotier_multi.listener import crowd
from zerotier_multi.netlink.sockets import EventSocket
from zerotier_multi.pathd.instances import healing, recovery
from zerotier_multi.pathd.kernel import forwarding
from zerotier_multi.pathd.nftables import mss, spoofed, table as nft
from zerotier_multi.pathd.routing import full_tunnel, uplinks
from zerotier_multi.pathd.tell import events, journal
from zerotier_multi.pathd.kernel.actions import actions
from zerotier_multi.pathd.tell.chronicle import Chronicle
from zerotier_multi.pathd.control import ControlSocket
from zerotier_multi.pathd.kernel.desired import Desired, Share, desired_state, group_id
from zerotier_multi.netlink.state import KernelState
from zerotier_multi.pathd.instances.endpoints import Endpoints
from zerotier_multi.pathd.tell.events import Event, Seen, hang, revival
from zerotier_multi.pathd.instances.hangs import Door, Hangs
from zerotier_multi.pathd.tell.hooks import Hooks
from zerotier_multi.pathd.kernel.inotify import FileWatch
from zerotier_multi.pathd.kernel.apply import carry_out, supports_resilient_groups
from zerotier_multi.netlink.state import observe
from zerotier_multi.pathd.instances.members import Members
from zerotier_multi.pathd.tell.metrics import MetricsFile
from zerotier_multi.pathd.kernel.notices import GROUPS, Prefixes, concerns_us
from zerotier_multi.pathd.plans import Plans
from zerotier_multi.pathd.probe.prober import Prober
from zerotier_multi.pathd.probe.quiet import wait_until_quiet
from zerotier_multi.pathd.kernel.repairs import Repairs
from zerotier_multi.pathd.instances.revive import Revival
from zerotier_multi.pathd.tell.since import Since
from zerotier_multi.pathd.instances.squatted import Squatted
from zerotier_multi.pathd.kernel.sysctls import GLOBAL, RP_FILTER_ALL, Sysctls, router_wide
from zerotier_multi.pathd.probe.targets import targets
from zerotier_multi.pathd.balance.weights import Weights
from zerotier_multi.pathd.nftables.zones import Zones
from zerotier_multi.plan import InstancePlan, PathPlan, Plan
from zerotier_multi.ports import in_the_way
from zerotier_multi.states import PathState, bundle_state

log = logging.getLogger("pathd")

AUDIT = 60.0  # seconds between looks without an event, for what has no event
WATCHDOG = AUDIT / 4  # seconds between two signs of life; WatchdogSec= of the unit is longer than two of them
RETRY = 1.0  # seconds until a refused action is tried again
LEISURE = 1.0  # seconds between two looks because of routes of others, whose tables may change all the time
LOSS = 3.0  # seconds after which an instance that runs and has lost its device is started anew
DRAIN_PATIENCE = 0.5  # seconds that the remotes get to leave a path that is drained
QUIET_PATIENCE = 0.2  # seconds that sockets of the routers themselves get to leave it
DRAIN_LIMIT = 60.0  # seconds that a path stays drained while its device is the same: the restart did not come about
MAX_PASSES = 8  # every pass brings the state nearer; more would be a fight with somebody


class Daemon:
    """Holds the doors open and brings the kernel to the plans whenever something happens."""

    def __init__(self) -> None:
        names.STATE_FILE.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._rtnl = Rtnl()
        self._events = EventSocket(GROUPS)
        self._sysctls = Sysctls(names.STATE_FILE.parent / "sysctls.json")
        self._zones = Zones()
        self._gateways = uplinks.Gateways()
        self._table = nft.Table()
        self._since = Since(names.STATE_FILE.parent / "since.json")
        self._plans = Plans()
        self._plan_list: list[Plan] = []
        self._resilient = supports_resilient_groups(self._rtnl)
        self._drained: dict[str, tuple[int, float]] = {}  # device -> (ifindex that carries no new traffic, until when)
        self._waiting_since: dict[int, float] = {}  # group -> when it began to wait for its members
        self._revival = Revival()
        self._losses = Revival(first=LOSS)
        self._squatted = Squatted(systemd.failed, in_the_way, lambda unit, by: self._chronicle.tell(events.blocked(*self._unit(unit), by)))
        self._recovery = recovery.Recovery()
        self._been_up = {path for path, word in self._since.states().items() if word == PathState.UP}  # at any time
        self._problems: list[str] = []
        self._observed = KernelState()
        self._want = Desired()
        self._repairs = Repairs()
        self._refused: dict[int, float] = {}  # next hops that the kernel has not taken, and until when they are not tried
        self._blocked = forwarding.Blocked()
        self._prefixes = Prefixes()
        self._looked_at = 0.0
        self._doubt: float | None = None  # when to look because a route of others may take what is ours
        self._used: set[int] = set()  # next hops that are in a group
        self._up: set[int] = set()  # those of them that work
        self._ready: frozenset[int] = frozenset()  # paths that could be in a group as far as the kernel is concerned
        self._managed: set[int] = set()  # ifindexes of our devices
        self._retry: float | None = None
        self._wake: float | None = None
        self._audit_at: float = 0.0
        self._told_at: float = 0.0  # when systemd was last told that we live
        self._running = True
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._events, selectors.EVENT_READ, self._kernel_event)
        self._watch = FileWatch([self._sysctls.path(name) for name in GLOBAL])
        self._selector.register(self._watch, selectors.EVENT_READ, self._sysctl_event)
        if self._table.events:
            self._selector.register(self._table.events, selectors.EVENT_READ, self._nft_event)
        self._prober = Prober(self._selector, self.reconcile, self._use)
        self._weights = Weights(self._prober, self._rtnl.buckets, self._respread)
        self._hangs = Hangs(self._selector, self._kill_hung, self._api_busy)
        self._members = Members(self._selector, self.reconcile)
        self._seen: set[str] = set()  # devices that have been there in this daemon's life
        self._metrics = MetricsFile()
        self._hooks = Hooks(self._selector)
        self._chronicle = Chronicle([journal.tell, self._hooks.tell, self._metrics.change])
        self._endpoints = Endpoints(self._selector, self._chronicle.tell, self.reconcile)
        self._doors = [
            ControlSocket(self._selector, self._request, names.CONTROL_SOCKET, privileged=True),
            ControlSocket(self._selector, self._request, names.STATUS_SOCKET, privileged=False),
        ]
        self._signals()

    def run(self) -> None:
        """Work until TERM or INT."""
        self.sync()
        sd.notify("READY=1")
        while self._running:
            for key, _mask in self._selector.select(self._timeout()):
                key.data()
            if (due := self._prober.wake) is not None and due <= time.monotonic():
                self._prober.work()
            now = time.monotonic()
            if (due := self._hangs.wake) is not None and due <= now:
                self._hangs.work(now)
            if (due := self._members.wake) is not None and due <= now:
                self._members.work(now)
            if (due := self._weights.wake) is not None and due <= now:
                self._weights.work(now)
            if (due := self._endpoints.wake) is not None and due <= now:
                self._endpoints.work(now)
            if any(at <= now for at in self._alarms()):
                self.reconcile()
            elif (due := self._recovery.wake) is not None and due <= now:
                self._recover(now)
            self._metrics.work(self.status)
            if now >= self._told_at + WATCHDOG:
                self._told_at = now
                sd.notify("WATCHDOG=1")
        sd.notify("STOPPING=1")
        for door in self._doors:
            door.close()

    # -- what happens

    def _kernel_event(self) -> None:
        messages = self._events.read()
        ignored = self._repairs.ignored(time.monotonic())
        if messages is None or any(concerns_us(m, self._managed, ignored) for m in messages):
            self._gateways.stale = True
            self.reconcile()
        elif any(self._prefixes.touched_by(m) for m in messages):
            self._doubt = self._looked_at + LEISURE

    def _sysctl_event(self) -> None:
        self._watch.drain()
        self.reconcile()

    def _nft_event(self) -> None:
        if self._table.touched():
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
        self._prefixes = Prefixes(route.prefix for plan in self._plan_list for route in plan.routes)
        self._repairs.forget()
        # What an earlier daemon has seen.
        known = self._since.states()
        paths = [path for plan in self._plan_list for path in plan.paths]
        self._seen |= {path.device for path in paths if known.get(path.nexthop_id, PathState.NO_DEVICE) != PathState.NO_DEVICE}
        self._metrics.change()
        self._endpoints.configure(self._plan_list)
        self._weights.configure(self._plan_list, self._resilient)
        doors = {i.unit: Door(Path(i.home), i.port) for plan in self._plan_list for i in plan.instances}
        self._hangs.configure(doors, time.monotonic())
        self.reconcile()

    def _drain(self, devices: list[str]) -> None:
        links, until = self._rtnl.links(), time.monotonic() + DRAIN_LIMIT
        self._drained.update({d: (links[d].index, until) for d in devices if d in links})
        self.reconcile()
        paths = (path for plan in self._plan_list for path in plan.paths)
        self._prober.wait_for_peers([p.nexthop_id for p in paths if p.device in devices], DRAIN_PATIENCE)
        wait_until_quiet(devices, QUIET_PATIENCE)

    def _usable(self, plan: Plan, path: PathPlan) -> bool:
        """Whether a path whose device is there may carry traffic."""
        if path.device in self._drained:
            return False
        return not plan.health.enabled or self._prober.verdict(path.nexthop_id) == PathState.UP

    def reconcile(self) -> None:
        """Look at the kernel and mend what differs, until nothing does or nothing helps."""
        problems: list[str] = []
        notes: list[str] = []
        self._doubt = None
        try:
            for _ in range(MAX_PASSES):
                before = problems
                done, problems, notes = self._pass()
                # What was refused once may be a thing that has gone meanwhile, or is left out from now on.
                if not done or (problems and problems == before):
                    break
            if done:
                self._observed = observe(self._rtnl)
            answers = forwarding.ask(self._rtnl, self._plan_list, self._want, self._observed)
            self._blocked = forwarding.blocked(self._plan_list, self._want, self._observed, answers)
            self._blocked.paths |= dict.fromkeys(self._refused, "the kernel does not take its next hop")
            contested = self._repairs.refused(time.monotonic())
            self._blocked.paths |= dict.fromkeys(contested, "another program keeps changing its next hop")
        except OSError as error:
            problems = [f"the kernel's state cannot be read ({error.strerror})"]
        self._prober.applied(self._used)
        states = {path.nexthop_id: self._path_state(plan, path) for plan in self._plan_list for path in plan.paths}
        memory = self._since.states()
        problems = [*problems, *self._since.note(states)]
        self._chronicle.look(self._plan_list, self._looked(states), memory)
        now = self._looked_at = time.monotonic()
        self._retry = now + RETRY if problems else None
        problems = list(dict.fromkeys([*problems, *notes, *self._repairs.notes(now)]))
        for problem in problems:
            if problem not in self._problems:
                log.warning("%s", problem)
        if problems != self._problems:
            self._metrics.change()
        self._problems = problems
        self._audit_at = now + AUDIT
        self._revive(now)
        self._endpoints.look(states.keys() - self._up, now)
        self._recover(now)

    def _pass(self) -> tuple[bool, list[str], list[str]]:
        """One look and what follows from it: whether anything was done, what went wrong, and what cannot be helped."""
        now = time.monotonic()
        have = self._observed = observe(self._rtnl)
        self._forget_drained(have, now)
        drained = {p.nexthop_id for plan in self._plan_list for p in plan.paths if p.device in self._drained}
        in_use = {member for group in have.groups.values() for member in group.members}
        # With "all-paths-down keep" a dead path is in its group too.
        known = self._since.states()
        in_use = {path for path in in_use if PathState(known.get(path, PathState.UP)).answered}
        self._prober.configure(targets(self._plan_list, have), drained, in_use)
        ids = {g.group_id: group_id(g, self._resilient, have) for plan in self._plan_list for g in plan.groups}
        self._weights.standing({number: have.groups[at] for number, at in ids.items() if at is not None and at in have.groups})
        shares = {n: Share(weights, self._weights.forced(n)) for n in ids if (weights := self._weights.of(n))}
        self._refused = {number: until for number, until in self._refused.items() if until > now}
        want = self._want = desired_state(
            self._plan_list,
            have,
            self._usable,
            self._resilient,
            self._waiting_since,
            now,
            self._sysctls.read(RP_FILTER_ALL) or "0",
            shares,
            self._refused.keys() | self._repairs.refused(now),
        )
        used = uplinks.devices(self._plan_list, have)
        if full_tunnel.families(self._plan_list):
            have.uplinks = self._rtnl.uplinks()
            full_tunnel.add(want, self._plan_list, have)
        uplinks.add(want, self._plan_list, have, self._gateways.read(self._rtnl, used, have, now))
        self._wake = want.wake
        self._waiting_since = {group: self._waiting_since.get(group, now) for group in want.waiting}
        self._managed = {have.links[name].index for name in want.devices if name in have.links}
        self._used = set(want.nexthops)
        self._up = self._used & want.carrying
        self._ready = frozenset(want.ready)
        problems = [*self._plans.problems, *want.problems, *self._sysctls.apply(want.sysctls)]
        filters = {device: self._sysctls.read(f"net/ipv4/conf/{device}/rp_filter") for device in used}
        loose = uplinks.loose(used, filters, self._sysctls.read(RP_FILTER_ALL) or "0")
        refused, drifted = self._sysctls.hold({**router_wide(self._plan_list), **loose})
        chains = (mss.chains(self._plan_list, want.devices), spoofed.chains(self._plan_list, have.local))
        refused_table, changed = self._table.hold(nft.script(*chains), now)
        for sentence in (*drifted, *changed):
            log.warning("%s", sentence)
        problems += refused + refused_table
        vrfs = {name for name, link in have.links.items() if link.table is not None}
        problems += self._zones.hold(want.zones, vrfs, now)
        outcome = self._repairs.look(want, have, now)
        for event in (*events.repaired(outcome.repaired), *events.contested(outcome.contested)):
            self._chronicle.tell(event)
        done = carry_out(self._rtnl, actions(want, have), have, self._repairs.left_alone(now))
        self._refused |= dict.fromkeys(done.refused, now + RETRY)
        return done.anything, problems + done.problems, want.notes + done.notes

    def _looked(self, states: dict[int, str]) -> Seen:
        links = self._observed.links
        member = [i.device for plan in self._plan_list for i in plan.instances]
        devices = {name: links[name].index if name in links else 0 for name in member}
        members = self._members.look(self._plan_list, self._path_state, time.monotonic())
        return Seen(states, devices, self._ready, members, self._blocked.paths, self._blocked.prefixes)

    def _forget_drained(self, have: KernelState, now: float) -> None:
        """A device that was made anew is no longer drained, nor one that nobody has restarted."""
        for device, (index, until) in list(self._drained.items()):
            if device not in have.links or have.links[device].index != index or until <= now:
                del self._drained[device]

    def _revive(self, now: float) -> None:
        """Start instances again whose device is missing.

        One whose device has been there has lost it, and a process that still runs does not make it anew; one whose
        device has not come yet may be waiting for its controller, where it has one.
        """
        instances = {i.device: (plan, i) for plan in self._plan_list for i in plan.instances}
        self._seen = (self._seen | set(self._observed.links)) & set(instances)
        missing = healing.missing(instances, self._observed.links, self._up)
        for unit in self._squatted.due({i.unit: i for d, (_plan, i) in instances.items() if d in missing}, now):
            bundle, instance = self._unit(unit)
            self._start_again([instance], events.freed(bundle, instance))
        for device in self._losses.due(missing & self._seen, now):
            # Dead ones are systemd's to start again, as long as it does.
            if self._runs(instances[device][1].unit):
                self._heal(*instances[device])
        for device in self._revival.due(missing, now):
            plan, instance = instances[device]
            without = device in self._seen or self._members.left(device, now)
            if without or plan.controller_free or not self._runs(instance.unit):
                self._heal(plan, instance)

    def _heal(self, plan: Plan, instance: InstancePlan) -> None:
        written = healing.heal(plan, instance)
        self._start_again([instance], revival(plan.bundle, instance, healing.cause(instance, written)))

    @staticmethod
    def _runs(unit: str) -> bool:
        try:
            return systemd.unit_states([unit])[unit].active == "active"
        except systemd.SystemdError:
            return False

    def _start_again(self, instances: Sequence[InstancePlan], *events: Event) -> None:
        for event in events:
            self._chronicle.tell(event)
        units = [instance.unit for instance in instances]
        try:
            systemd.systemctl("reset-failed", *units, check=False)  # else systemd refuses too many starts in a row
            systemd.systemctl("restart", "--no-block", *units)
        except systemd.SystemdError as error:
            log.warning("%s", error)

    def _recover(self, now: float) -> None:
        """Restart what does not follow moved addresses by itself; nothing is waited for here."""
        instances = {i.device: (plan, i) for plan in self._plan_list for i in plan.instances}
        self._been_up |= self._up
        there = recovery.underlay(self._observed.links, self._observed.local)
        looked = recovery.situations(
            self._plan_list, self._observed.links, there, self._prober.silence, self._up, self._been_up, self._endpoints.known
        )
        looked = {device: seen for device, seen in looked.items() if not self._members.refused(device)}
        orders = self._recovery.work(looked, now, self._empty)
        if orders.restart:
            chosen = [(*instances[device], cause) for device, cause in orders.restart]
            told = (events.recovery(plan.bundle, instance, cause) for plan, instance, cause in chosen)
            idle = [instance.unit for _plan, instance, _cause in chosen if instance.device not in self._drained]
            if idle:  # zerotier-one takes a second to end in order, and nothing is under way over these
                systemd.systemctl("kill", "--signal=KILL", *idle, check=False)
            self._start_again([instance for _plan, instance, _cause in chosen], *told)
        if orders.drain:
            self._drained.update({d: (self._observed.links[d].index, now + DRAIN_LIMIT) for d in orders.drain})
            self.reconcile()

    def _empty(self, device: str) -> bool:
        paths = [path.nexthop_id for plan in self._plan_list for path in plan.paths if path.device == device]
        return self._prober.empty(paths)

    def _use(self, bundle: str, instance: int) -> float | None:
        return self._weights.use(names.unit_name(bundle, instance))

    def _respread(self, sentence: str) -> None:
        if sentence:
            log.info("%s", sentence)
        self.reconcile()

    def _unit(self, unit: str) -> tuple[str, InstancePlan]:
        return next((plan.bundle, i) for plan in self._plan_list for i in plan.instances if i.unit == unit)

    def _api_busy(self, unit: str, others: Counter[str]) -> None:
        self._chronicle.tell(events.busy(*self._unit(unit), crowd(others)))

    def _kill_hung(self, unit: str) -> None:
        """A process that does not answer may not end in order either; systemd starts it again."""
        bundle, instance = self._unit(unit)
        self._chronicle.tell(hang(bundle, instance))
        try:
            systemd.systemctl("kill", "--signal=KILL", unit)
        except systemd.SystemdError as error:
            log.warning("%s", error)

    def _alarms(self) -> list[float]:
        """When to look again, whatever happens until then."""
        drains = (until for _index, until in self._drained.values())
        untried = min(self._refused.values(), default=None)
        contested = self._repairs.wake(self._looked_at)
        found = (self._retry, self._wake, self._doubt, untried, contested, self._revival.wake, self._losses.wake, self._squatted.wake)
        found += (self._audit_at, *drains)
        return [at for at in found if at is not None]

    def _timeout(self) -> float:
        now = time.monotonic()
        engines = (self._hangs, self._members, self._recovery, self._endpoints)
        helpers = (*engines, self._prober, self._weights, self._metrics)
        moments = [*self._alarms(), *(helper.wake for helper in helpers if helper.wake is not None)]
        return max(0.0, min([WATCHDOG, *(at - now for at in moments)]))

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
            "state": bundle_state((self._path_state(plan, path) for path in plan.paths), plan.bundle in self._blocked.prefixes),
            "instances": [self._instance_status(plan, instance) for instance in plan.instances],
            "paths": [self._path_status(plan, path) for path in plan.paths],
            "endpoint_faults": self._endpoints.faults(plan),
            "unrouted": [{"prefix": p, "why": why} for p, why in self._blocked.prefixes.get(plan.bundle, {}).items()],
            "routes": sorted(r.prefix for r in plan.routes if any(o.prefix == r.prefix and o.nexthop_id for o in self._observed.routes)),
        }

    def _instance_status(self, plan: Plan, instance: InstancePlan) -> dict[str, Any]:
        return {
            "instance": instance.number,
            "device": instance.device,
            "device_present": instance.device in self._observed.links,
            "network_state": self._members.word(instance.device),
            "load": None if (use := self._weights.use(instance.unit)) is None else round(use, 3),
            "revivals": self._chronicle.revivals(plan.bundle, instance.number),
        }

    def _path_status(self, plan: Plan, path: PathPlan) -> dict[str, Any]:
        rtt, loss = self._prober.measures(path.nexthop_id)
        return {
            "remote": path.remote,
            "instance": path.instance,
            "family": path.family,
            "device": path.device,
            "via": path.via,
            "state": self._path_state(plan, path),
            "since": self._since.unix(path.nexthop_id, time.time()),
            "changes": self._chronicle.changes(path.nexthop_id),
            "cause": self._path_cause(plan, path),
            "rtt_ms": None if rtt is None else round(rtt * 1000, 3),
            "loss": None if loss is None else round(loss, 4),
            "wait_ms": round(1000 * self._prober.wait(path.nexthop_id), 1),
            "weight": self._weight(plan, path),
        }

    def _path_cause(self, plan: Plan, path: PathPlan) -> str | None:
        faults = [] if path.nexthop_id in self._up else self._endpoints.faults(plan, path)
        return "; ".join(filter(None, [self._chronicle.cause(path.nexthop_id), *faults])) or None

    def _weight(self, plan: Plan, path: PathPlan) -> int:
        group = next((g.group_id for g in plan.groups if path.nexthop_id in g.members), 0)
        return (self._weights.of(group) or {}).get(path.nexthop_id, path.weight)

    def _path_state(self, plan: Plan, path: PathPlan) -> str:
        if path.nexthop_id in self._up:
            return PathState.NO_ROUTE if path.nexthop_id in self._blocked.paths else PathState.UP
        if path.device not in self._observed.links:
            return PathState.NO_DEVICE
        if path.device in self._drained:
            return PathState.DRAINED
        if path.nexthop_id in self._blocked.paths and self._usable(plan, path):
            return PathState.NO_ROUTE
        verdict = self._prober.verdict(path.nexthop_id)
        return PathState.WAITING if not plan.health.enabled or verdict == PathState.UP else verdict
