"""The event loop of zerotier-pathd: level-triggered, so that any event just means "look again".

It may be killed at any point: what is in the kernel carries traffic without it, and the next daemon takes over what it
finds. Stopping it changes nothing either; only a plan that goes away takes state away, and one that cannot be read does not.
"""

from __future__ import annotations

import logging
import signal
import time
from asyncio import AbstractEventLoop
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from systemd import daemon as sd

from zerotier_multi import names
from zerotier_multi.listener import crowd
from zerotier_multi.netlink.state import KernelState
from zerotier_multi.pathd.balance.weights import Weights
from zerotier_multi.pathd.control_socket import ControlSocket
from zerotier_multi.pathd.decide import Decision, Drain, Inputs, decide, path_states, probing, standing, still_drained
from zerotier_multi.pathd.instances import recovery
from zerotier_multi.pathd.instances.controllers import Controllers
from zerotier_multi.pathd.instances.endpoints import Endpoints
from zerotier_multi.pathd.instances.hangs import Door, Hangs
from zerotier_multi.pathd.instances.keeper import Keeper, Paths
from zerotier_multi.pathd.instances.members import Members
from zerotier_multi.pathd.kernel.desired import Share
from zerotier_multi.pathd.loop import Alarm, run
from zerotier_multi.pathd.plans import Plans
from zerotier_multi.pathd.probe.prober import Prober
from zerotier_multi.pathd.probe.quiet import wait_until_quiet
from zerotier_multi.pathd.router import RETRY, Router, state_directory
from zerotier_multi.pathd.status import Look, Status
from zerotier_multi.pathd.tell import events, journal
from zerotier_multi.pathd.tell.chronicle import Chronicle
from zerotier_multi.pathd.tell.events import Seen
from zerotier_multi.pathd.tell.hooks import Hooks
from zerotier_multi.pathd.tell.metrics import MetricsFile
from zerotier_multi.pathd.tell.moment import Moment
from zerotier_multi.pathd.tell.since import Since
from zerotier_multi.plan import Plan
from zerotier_multi.states import NetworkState, PathState

log = logging.getLogger("pathd")

AUDIT = 60.0  # seconds between looks without an event, for what has no event
WATCHDOG = AUDIT / 4  # seconds between two signs of life; WatchdogSec= of the unit is longer than two of them
LEISURE = 1.0  # seconds between two looks because of routes of others, whose tables may change all the time
DRAIN_PATIENCE = 0.5  # seconds that the remotes get to leave a path that is drained
QUIET_PATIENCE = 0.2  # seconds that sockets of the routers themselves get to leave it
DRAIN_LIMIT = 60.0  # seconds that a path stays drained while its device is the same: the restart did not come about
MAX_PASSES = 8  # every pass brings the state nearer; more would be a fight with somebody


class Daemon:
    """Waits for something to happen, gathers what a decision depends on, and has it carried out."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        directory = state_directory()
        self._loop = loop
        self._since = Since(directory / "since.json")
        self._plans = Plans(known=filter(None, map(names.bundle_of_nexthop, self._since.states())))
        self._metrics = MetricsFile(loop, self.status)
        hooks = Hooks(loop)
        self._chronicle = Chronicle([journal.tell, hooks.tell, self._metrics.change])
        self._router = Router(directory, self._chronicle.tell)
        self._prober = Prober(loop, self.reconcile, lambda bundle, n: self._weights.pressure(names.unit_name(bundle, n)))
        self._weights = Weights(loop, self._prober, self._router.rtnl.buckets, self._respread)
        self._members = Members(loop, self.reconcile)
        self._keeper = Keeper(self._members, self._chronicle.tell)
        self._hangs = Hangs(loop, self._keeper.kill, self._api_busy)
        self._endpoints = Endpoints(loop, self._chronicle.tell, self.reconcile)
        self._controllers = Controllers(loop, lambda sentence: log.info("%s", sentence))
        self._status = Status(
            self._router.resilient, self._prober, self._weights, self._members, self._controllers, self._endpoints,
            self._chronicle, self._since, self._plans, Moment(),
        )  # fmt: skip
        self._drains: dict[str, Drain] = {}
        self._decision = Decision.nothing()
        self._look = Look()
        self._retry: float | None = None
        self._next_look = Alarm(loop, lambda _now: self.reconcile())
        self._next_recovery = Alarm(loop, self._recover)
        self._doors = [
            ControlSocket(loop, self._request, names.CONTROL_SOCKET, privileged=True),
            ControlSocket(loop, self._request, names.STATUS_SOCKET, privileged=False),
        ]
        self._listen()

    def run(self) -> None:
        """Work until TERM or INT."""
        self.sync()
        sd.notify("READY=1")
        self._live()
        run(self._loop)
        sd.notify("STOPPING=1")
        for door in self._doors:
            self._loop.run_until_complete(door.close())

    def _live(self) -> None:
        sd.notify("WATCHDOG=1")
        self._loop.call_later(WATCHDOG, self._live)

    # -- what happens

    def _listen(self) -> None:
        self._loop.add_reader(self._router.notices, self._kernel_event)
        self._loop.add_reader(self._router.settings, self._sysctl_event)
        for table in self._router.tables:
            if table.events:
                self._loop.add_reader(table.events, self._nft_event)
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._loop.stop)
        self._loop.add_signal_handler(signal.SIGHUP, self.sync)

    def _kernel_event(self) -> None:
        drifted = self._router.noticed()
        if drifted:
            self.reconcile()
        elif drifted is None:
            self._next_look.set(min(self._look.at + LEISURE, self._due()))

    def _sysctl_event(self) -> None:
        self._router.settings_written()
        self.reconcile()

    def _nft_event(self) -> None:
        if any([table.touched() for table in self._router.tables]):  # each reads its own events
            self.reconcile()

    async def _request(self, request: dict[str, Any], privileged: bool) -> dict[str, Any]:
        match request.get("op"):
            case "status":
                return self.status()
            case _ if not privileged:
                return {"error": "only root may change what zerotier-pathd does"}
            case "sync":
                settings = request.get("settings", {})
                if not isinstance(settings, dict) or not all(isinstance(value, str) for value in settings.values()):
                    return {"error": "sync needs settings with their values"}
                self._router.configured(settings)
                self.sync()
                return {"ok": True, "problems": list(self._look.problems)}
            case "drain":
                devices = request.get("devices")
                if not isinstance(devices, list) or not all(isinstance(d, str) for d in devices):
                    return {"error": "drain needs a list of devices"}
                await self._drain(devices)
                return {"ok": True}
        return {"error": "unknown request"}

    def _respread(self, sentence: str) -> None:
        if sentence:
            log.info("%s", sentence)
        self.reconcile()

    def _api_busy(self, unit: str, others: Counter[str]) -> None:
        self._chronicle.tell(events.busy(*self._keeper.instance(unit), crowd(others)))

    # -- what is done

    def sync(self) -> None:
        """Read the plans and bring the kernel to them."""
        plans = self._plans.load()
        self._look = replace(self._look, plans=plans)
        self._router.configure(plans)
        self._keeper.configure(plans, self._since.states())
        self._metrics.change()
        self._endpoints.configure(plans)
        self._controllers.configure(plans, time.monotonic())
        self._weights.configure(plans, self._router.resilient)
        doors = {i.unit: Door(Path(i.home), i.port) for plan in plans for i in plan.instances}
        self._hangs.configure(doors, time.monotonic())
        self.reconcile()
        if not plans:  # a commit that deletes the last bundle ends this daemon next
            self._metrics.write()

    async def _drain(self, devices: Sequence[str]) -> None:
        indexes, until = self._router.indexes(), time.monotonic() + DRAIN_LIMIT
        self._drains |= {d: Drain(indexes[d], until) for d in devices if d in indexes}
        self.reconcile()
        await self._prober.wait_for_peers(self._paths_over(devices), DRAIN_PATIENCE)
        await wait_until_quiet(devices, QUIET_PATIENCE)

    def reconcile(self) -> None:
        """Look at the kernel and change what differs, until nothing does or nothing helps."""
        plans, have, blocked = self._look.plans, self._look.have, self._look.blocked
        problems: list[str] = []
        notes: list[str] = []
        kept_out: Mapping[int, str] | None = None
        try:
            for _ in range(MAX_PASSES):
                before = problems
                have = self._router.look(plans)
                kept_out = self._members.kept_out(plans, have)
                done, problems, notes = self._pass(plans, have, kept_out)
                # What was refused once may be a thing that has gone meanwhile, or is left out from now on.
                if not done or (problems and problems == before):
                    break
            if done:
                have = self._router.look(plans)
            blocked = self._router.blocked(plans, self._decision, have)
            blocked.paths |= kept_out or {}
        except OSError as error:
            problems = [f"the kernel's state cannot be read ({error.strerror})"]
            if not self._look.at:  # systemd starts another daemon, which takes over what stands; this one would take it for gone
                raise SystemExit(problems[0]) from error
        self._prober.applied(set(self._decision.used))
        self._look = Look(plans, have, {}, self._decision.up, blocked, self._look.problems)
        self._tell([*problems], notes)
        now = self._look.at
        if kept_out is not None and self._members.kept_out(plans, have).keys() != kept_out.keys():
            self._loop.call_soon(self.reconcile)  # where instances stand became known after that was done
        carrying = self._carrying()
        self._keeper.revive(have, carrying, now)
        underlay = recovery.underlay(have.links, have.local)
        silent = {path for path, state in self._look.states.items() if state != PathState.NARROW} - carrying
        self._endpoints.look(silent, underlay, now)
        self._next_look.set(self._due())
        self._recover(now)

    def _pass(self, plans: Sequence[Plan], have: KernelState, kept_out: Collection[int]) -> tuple[bool, list[str], list[str]]:
        """One look and what follows from it: whether the kernel was changed, what went wrong, and what cannot be helped."""
        now = time.monotonic()
        self._drains = still_drained(self._drains, have, now)
        probes = probing(plans, have, self._drains.keys(), self._since.states())
        self._prober.configure(probes.targets, set(probes.drained), set(probes.in_use), probes.spared)
        self._weights.standing(standing(plans, have, self._router.resilient))
        seen = Inputs(
            now,
            plans,
            have,
            self._router.resilient,
            self._verdicts(),
            self._backups(),
            self._drains,
            self._decision.waiting_since,
            self._shares(),
            self._router.refused(now) | set(kept_out),
            self._router.gateways(plans, have, now),
            self._router.rp_filters(plans, have),
            self._router.mute(),
            self._plans.unread,
        )
        self._prober.answer(seen.mute)
        self._decision = decide(seen)
        done, problems, notes = self._router.bring_about(self._decision, have, now)
        return done, [*self._plans.problems, *problems], notes

    def _verdicts(self) -> dict[int, PathState]:
        return {path.nexthop_id: self._prober.verdict(path.nexthop_id) for plan in self._look.plans for path in plan.paths}

    def _backups(self) -> frozenset[int]:
        paths = (path.nexthop_id for plan in self._look.plans for path in plan.paths)
        return frozenset(path for path in paths if self._prober.is_backup(path))

    def _shares(self) -> dict[int, Share]:
        groups = [group.group_id for plan in self._look.plans for group in plan.groups]
        return {n: Share(weights, self._weights.forced(n)) for n in groups if (weights := self._weights.of(n))}

    def _states(self) -> dict[int, PathState]:
        look = self._look
        verdicts, backups = self._verdicts(), self._backups()
        return path_states(look.plans, look.have, look.up, verdicts, self._drains.keys(), look.blocked.paths.keys(), backups)

    def _carrying(self) -> set[int]:
        """Paths that carry traffic, or would."""
        return set(self._look.up) | {path for path, state in self._look.states.items() if state.works}

    def _paths_over(self, devices: Sequence[str]) -> list[int]:
        return [path.nexthop_id for plan in self._look.plans for path in plan.paths if path.device in devices]

    def _recover(self, now: float) -> None:
        look = self._look
        silent = {path: silence for path in look.states if (silence := self._prober.silence(path))}
        empty = [device for device in self._drains if self._prober.empty(self._paths_over([device]))]
        told = {i.device: self._endpoints.known(plan, i) for plan in look.plans for i in plan.instances}
        drain = self._keeper.recover(look.have, Paths(self._carrying(), silent, empty, self._drains.keys(), told), now)
        if drain:
            self._drains |= {d: Drain(look.have.links[d].index, now + DRAIN_LIMIT) for d in drain}
            self.reconcile()
        self._next_recovery.set(self._keeper.recovery_wake)

    def _due(self) -> float:
        """When to look again, whatever happens until then."""
        found = [self._retry, self._decision.wake, self._keeper.revival_wake, *self._router.wakes(self._look.at)]
        found += [self._endpoints.wake, self._look.at + AUDIT, *(drain.until for drain in self._drains.values())]
        return min(at for at in found if at is not None)

    # -- what is told

    def _tell(self, problems: list[str], notes: list[str]) -> None:
        """Tell what has come of a look: events, and problems that are new."""
        look = self._look
        states, memory, unrouted = self._states(), self._since.states(), self._since.unrouted()
        problems += self._since.note(states, look.blocked.prefixes)
        member = [i.device for plan in look.plans for i in plan.instances]
        devices = {name: look.have.links[name].index if name in look.have.links else 0 for name in member}
        members = self._members.look(look.plans, states, time.monotonic())
        self._controllers.look({m.bundle for m in members.values() if m.word == NetworkState.UNAUTHORIZED}, time.monotonic())
        ready = frozenset(self._decision.want.ready)
        passes = {path: size for path in states if (size := self._prober.passes(path)) is not None}
        wide = frozenset(filter(self._prober.is_wide, states))
        seen = Seen(states, devices, ready, members, look.blocked.paths, look.blocked.prefixes, passes, wide)
        self._chronicle.look(look.plans, seen, memory, unrouted)
        now = time.monotonic()
        self._retry = now + RETRY if problems else None
        problems = list(dict.fromkeys([*problems, *notes, *self._router.notes(now)]))
        for problem in problems:
            if problem not in look.problems:
                log.warning("%s", problem)
        if problems != look.problems:
            self._metrics.change()
        self._look = replace(look, states=states, problems=problems, at=now)

    def status(self) -> dict[str, Any]:
        """State for op mode; nothing in it is secret."""
        return self._status.of(replace(self._look, states=self._states()))
