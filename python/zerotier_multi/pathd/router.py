"""The router at the daemon's hands: reads what a decision depends on, and brings about what was decided."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from zerotier_multi import names
from zerotier_multi.netlink.messages import Message
from zerotier_multi.netlink.rtnl import Rtnl
from zerotier_multi.netlink.sockets import EventSocket
from zerotier_multi.netlink.state import KernelState, observe
from zerotier_multi.pathd.decide import Decision
from zerotier_multi.pathd.kernel import forwarding
from zerotier_multi.pathd.kernel.apply import carry_out, supports_resilient_groups
from zerotier_multi.pathd.kernel.inotify import FileWatch
from zerotier_multi.pathd.kernel.notices import GROUPS, Neighbours, Prefixes, concerns_us
from zerotier_multi.pathd.kernel.repairs import Repairs
from zerotier_multi.pathd.kernel.sysctls import GLOBAL, MUTE, RP_FILTER_ALL, Sysctls
from zerotier_multi.pathd.nftables import mirror
from zerotier_multi.pathd.nftables.table import Table
from zerotier_multi.pathd.nftables.zones import Zones
from zerotier_multi.pathd.routing import full_tunnel, uplinks
from zerotier_multi.pathd.tell import events
from zerotier_multi.pathd.tell.events import Event
from zerotier_multi.plan import Plan

log = logging.getLogger("pathd")

RETRY = 1.0  # seconds until a refused action is tried again


class Router:
    """Kernel, settings and nftables. Times are seconds of one monotonic clock."""

    def __init__(self, directory: Path, tell: Callable[[Event], None]) -> None:
        """``directory`` keeps what the daemon after this one has to know; ``tell`` is called with what others have changed."""
        self._tell = tell
        self.rtnl = Rtnl()
        self.resilient = supports_resilient_groups(self.rtnl)
        self.notices = EventSocket(GROUPS)
        self._sysctls = Sysctls(directory / "sysctls.json")
        self.settings = FileWatch([self._sysctls.path(name) for name in (*GLOBAL, *MUTE.values())])
        self._nftables, self._mirrors = Table(), Table(family=mirror.FAMILY, missing=mirror.MISSING)
        self.tables = (self._nftables, self._mirrors)
        self._zones = Zones()
        self._gateways = uplinks.Gateways()
        self._repairs = Repairs()
        self._refused: dict[int, float] = {}  # next hops that the kernel has not taken, and until when they are not tried
        self._prefixes = Prefixes()
        self._neighbours = Neighbours()

    def configure(self, plans: Sequence[Plan]) -> None:
        """Other plans are in force."""
        self._prefixes = Prefixes(route.prefix for plan in plans for route in plan.routes)
        self._repairs.forget()

    def configured(self, settings: Mapping[str, str]) -> None:
        """The router's own configuration wants these values of router-wide settings."""
        self._sysctls.configured(settings)

    # -- what happens

    def noticed(self) -> bool | None:
        """Read the next of the kernel's notices: True where our state may have drifted, else False.

        None where other programs' routes may take packets, or notices were lost: both may go on and on.
        """
        ignored = self._repairs.ignored(time.monotonic())

        def concerns(message: Message) -> bool:
            return concerns_us(message, self._neighbours, ignored)

        messages = self.notices.read(lambda message: concerns(message) or self._prefixes.touched_by(message))
        drifted = any(map(concerns, messages or ()))
        self._gateways.stale |= drifted or messages is None
        if drifted:
            return True
        return None if messages is None or messages else False

    def settings_written(self) -> None:
        """Somebody has written router-wide settings, perhaps this daemon."""
        self._sysctls.written(self.settings.written())

    # -- what is

    def look(self, plans: Sequence[Plan]) -> KernelState:
        """The kernel's state. Raises OSError."""
        have = observe(self.rtnl)
        if full_tunnel.families(plans):
            have.uplinks = self.rtnl.uplinks()
        return have

    def gateways(self, plans: Sequence[Plan], have: KernelState, now: float) -> uplinks.Known:
        """Gateways of the uplinks. Raises OSError."""
        return self._gateways.read(self.rtnl, uplinks.devices(plans, have), have, now)

    def rp_filters(self, plans: Sequence[Plan], have: KernelState) -> dict[str, str | None]:
        """The reverse-path filters of ``all`` and of the uplinks."""
        used = {device: self._sysctls.read(f"net/ipv4/conf/{device}/rp_filter") for device in uplinks.devices(plans, have)}
        return {**used, "all": self._sysctls.read(RP_FILTER_ALL)}

    def mute(self) -> frozenset[int]:
        """Address families in which the kernel answers no echo requests."""
        return self._sysctls.mute()

    def refused(self, now: float) -> set[int]:
        """Next hops and groups that cannot be made at present."""
        self._refused = {number: until for number, until in self._refused.items() if until > now}
        return self._refused.keys() | self._repairs.refused(now)

    # -- what is done

    def bring_about(self, decision: Decision, have: KernelState, now: float) -> tuple[bool, list[str], list[str]]:
        """Do what was decided: whether the kernel was changed, what went wrong, and what cannot be helped."""
        want, keep = decision.want, bool(decision.unread)
        self._neighbours = Neighbours(decision.managed, want.neighbours)
        problems = [*want.problems, *self._sysctls.apply(want.sysctls)]
        refused, drifted = self._sysctls.hold(decision.settings, keep=keep)
        refused_table, changed = self._nftables.hold(decision.nftables, now, keep=keep)
        refused_mirrors, changed_mirrors = self._mirrors.hold(decision.mirrors, now, keep=keep)
        for sentence in (*drifted, *changed, *changed_mirrors):
            log.warning("%s", sentence)
        problems += refused + refused_table + refused_mirrors
        problems += self._zones.hold(want.zones, decision.vrfs, now, decision.unread)
        outcome = self._repairs.look(want, have, now)
        for event in (*events.repaired(outcome.repaired), *events.contested(outcome.contested)):
            self._tell(event)
        done = carry_out(self.rtnl, decision.todo, have, self._repairs.left_alone(now))
        self._refused |= dict.fromkeys(done.refused, now + RETRY)
        return done.anything, problems + done.problems, want.notes + done.notes

    def blocked(self, plans: Sequence[Plan], decision: Decision, have: KernelState) -> forwarding.Blocked:
        """What packets do not take although it stands. Raises OSError."""
        found = forwarding.blocked(plans, decision.want, have, forwarding.ask(self.rtnl, plans, decision.want, have))
        found.paths |= dict.fromkeys(self._refused, "the kernel rejects its next hop")
        contested = self._repairs.refused(time.monotonic())
        found.paths |= dict.fromkeys(contested, "another program keeps changing its next hop")
        return found

    def notes(self, now: float) -> list[str]:
        """Sentences about what others keep changing."""
        return self._repairs.notes(now)

    def wakes(self, looked_at: float) -> list[float | None]:
        """When to look again; ``looked_at`` is when that was done last."""
        return [min(self._refused.values(), default=None), self._repairs.wake(looked_at), self._gateways.wake(looked_at)]

    def indexes(self) -> Mapping[str, int]:
        """ifindexes of all devices by name. Raises OSError."""
        return {name: link.index for name, link in self.rtnl.links().items()}


def state_directory() -> Path:
    """The daemon's own directory, made where it is missing."""
    directory = names.STATE_FILE.parent
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    return directory
