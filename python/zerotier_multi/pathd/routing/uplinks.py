"""Source routing of the instances that are kept to an uplink: by it they leave, whatever the main table prefers.

An instance gets a table with the default route of its uplink, and a rule for each address of that: what its UDP port sends
from there is looked up in that table. Nothing else of the router matches. ztnode's sockets are bound to the device, so before
that the kernel may look through the main table without its default route: it finds there nothing but other routes over the
device. Those of zerotier-one are bound to an address alone; so what is on the link is in its table too, and its other
routes are not looked at. What shall stand is pure; :class:`Gateways` reads what the kernel and DHCP clients know.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from zerotier_multi import names
from zerotier_multi.cpu import format_cpu_list
from zerotier_multi.engine_choice import follows_addresses
from zerotier_multi.netlink.sockets import KernelError
from zerotier_multi.pathd.kernel.desired import Desired
from zerotier_multi.netlink.state import KernelState
from zerotier_multi.pathd.routing.leases import router_of_lease
from zerotier_multi.plan import InstancePlan, Plan
from zerotier_multi.netlink.links import Address, Link
from zerotier_multi.netlink.routes import RT_TABLE_MAIN, Route
from zerotier_multi.netlink.rtnl import Rtnl
from zerotier_multi.netlink.rules import Rule

AGE = 30.0  # seconds
ANYWHERE = {4: "0.0.0.0/0", 6: "::/0"}
# Gateways by (device, family); None stands for a device that needs none, as one of PPP.
Known = Mapping[tuple[str, int], str | None]


@dataclass(frozen=True)
class _Use:
    """An address that an instance sends from, on a device."""

    bundle: str
    instance: InstancePlan
    device: str
    own: Address

    @property
    def address(self) -> str:
        return str(ipaddress.ip_interface(self.own.interface).ip)

    @property
    def link(self) -> str:
        """What is reached on the link itself."""
        return str(ipaddress.ip_interface(self.own.interface).network)

    @property
    def family(self) -> int:
        return _family(self.address)

    @property
    def bound(self) -> bool:
        """Whether its sockets are bound to the device."""
        return follows_addresses(self.instance.engine)


def _family(address: str) -> int:
    return 6 if ":" in address else 4


def devices(plans: Iterable[Plan], have: KernelState) -> set[str]:
    """Devices that are the uplink of some instance."""
    return {use.device for use in _uses(plans, have)}


def _uses(plans: Iterable[Plan], have: KernelState) -> Iterator[_Use]:
    names_of = {link.index: name for name, link in have.links.items()}
    owned = [(names_of[own.index], own) for own in sorted(have.local, key=str) if own.index in names_of]
    for plan in plans:
        for instance in plan.instances:
            if instance.source_interface is None and not instance.listen:
                continue
            for device, own in owned:
                use = _Use(plan.bundle, instance, device, own)
                if instance.source_interface in (None, device) and (not instance.listen or use.address in instance.listen):
                    yield use


def add(want: Desired, plans: Sequence[Plan], have: KernelState, gateways: Known) -> None:
    """Put the rules and default routes of all uplinks among what shall stand, and say which have no gateway."""
    slots: dict[tuple[str, int], list[str]] = {}  # the devices of an instance, in order
    uses = [use for use in _uses(plans, have) if have.links[use.device].up]
    for use in uses:
        via = _gateway(use, gateways)
        if via is None:
            continue
        known = slots.setdefault((use.bundle, use.instance.number), [])
        if use.device not in known:
            known.append(use.device)
        table = names.uplink_table(use.bundle, use.instance.number, known.index(use.device))
        link = have.links[use.device]
        prefix = ANYWHERE[use.family]
        want.routes.add(Route(prefix, 0, None, table, names.route_metric(prefix), link.index, via or None))
        if use.bound:
            want.rules.add(Rule(use.family, names.RULE_PRIORITY, use.address, use.instance.port, _main(link, have), True))
        elif use.link != f"{use.address}/{ipaddress.ip_address(use.address).max_prefixlen}":
            want.routes.add(Route(use.link, 0, None, table, names.route_metric(use.link), link.index))
        want.rules.add(Rule(use.family, names.RULE_PRIORITY + 1, use.address, use.instance.port, table))
    want.notes += _waiting(plans, have)
    want.notes += _without_gateway(plans, uses, gateways)
    want.notes += dict.fromkeys(_in_vrfs(uses, have))  # an uplink may have several addresses


def _waiting(plans: Iterable[Plan], have: KernelState) -> Iterator[str]:
    """Sentences about instances whose uplink is not there yet, or no more, or was mistyped."""
    for plan in plans:
        waiting: dict[str, list[int]] = {}
        for instance in plan.instances:
            if instance.source_interface is not None:
                waiting.setdefault(instance.source_interface, []).append(instance.number)
        for device, numbers in waiting.items():
            link = have.links.get(device)
            if link is None:
                lack = "does not exist"
            elif not link.up:
                lack = "is down"
            elif not any(own.index == link.index and own.is_global for own in have.local):
                lack = "has no address"
            else:
                continue
            which = f"instance {numbers[0]} waits" if len(numbers) == 1 else f"instances {format_cpu_list(numbers)} wait"
            setting = f"interfaces zerotier {plan.bundle} instance {numbers[0]} source-interface"
            yield f"{plan.bundle}: {which} for {device}, which {lack}; bring it up, or change {setting}"


def _without_gateway(plans: Iterable[Plan], uses: Iterable[_Use], gateways: Known) -> Iterator[str]:
    """Sentences about instances that are kept to a device of which no gateway is known, in either family.

    Nothing is said where an endpoint of a remote is on the link itself, as on a line between two sites.
    """
    found: dict[tuple[str, str], dict[int, list[_Use]]] = {}
    for use in uses:
        if use.instance.source_interface == use.device and use.own.is_global:
            found.setdefault((use.bundle, use.device), {}).setdefault(use.instance.number, []).append(use)
    endpoints: dict[tuple[str, int], list[str]] = {}
    for plan in plans:
        for peer in plan.peers:
            endpoints.setdefault((plan.bundle, peer.instance), []).extend(peer.endpoints)
    for (bundle, device), instances in found.items():
        numbers = [
            number for number, own in instances.items()
            if all(_gateway(use, gateways) is None for use in own) and not _on_link(endpoints.get((bundle, number), ()), own)
        ]  # fmt: skip
        if numbers:
            yield (
                f"{bundle}: no gateway of {device} is known, so instance {format_cpu_list(numbers)} reaches only what is on the "
                f"link or has another route over {device}; set interfaces zerotier {bundle} instance {numbers[0]} gateway"
            )


def _in_vrfs(uses: Iterable[_Use], have: KernelState) -> Iterator[str]:
    """Sentences about gateways that are not asked: the kernel's rule for VRFs (l3mdev, 1000) comes before all of ours."""
    vrfs = {link.index: name for name, link in have.links.items() if link.kind == "vrf"}
    for use in uses:
        vrf, via = vrfs.get(have.links[use.device].master or 0), _configured(use)
        if vrf and via:
            route = f"{'route' if use.family == 4 else 'route6'} {ANYWHERE[use.family]} next-hop {via}"
            yield (
                f"{use.bundle}: gateway {via} of instance {use.instance.number} has no effect, because {use.device} is in VRF {vrf}; "
                f"set the default route there, on VyOS by set vrf name {vrf} protocols static {route}"
            )


def _on_link(endpoints: Iterable[str], uses: Iterable[_Use]) -> bool:
    links = [ipaddress.ip_network(use.link) for use in uses]
    for endpoint in endpoints:
        with suppress(ValueError):  # a name
            address = ipaddress.ip_address(endpoint.rpartition(":")[0].strip("[]"))
            if any(address in link for link in links):
                return True
    return False


def _gateway(use: _Use, gateways: Known) -> str | None:
    """The gateway of an uplink, "" where the device needs none, None where it is not known."""
    if configured := _configured(use):
        return configured
    key = (use.device, use.family)
    return (gateways[key] or "") if key in gateways else None


def _configured(use: _Use) -> str | None:
    return next((via for via in use.instance.gateways if _family(via) == use.family), None)


def _main(link: Link, have: KernelState) -> int:
    """The table in which a device has its routes: that of its VRF, if any."""
    vrf = next((other.table for other in have.links.values() if other.index == link.master), None)
    return vrf or RT_TABLE_MAIN


def loose(used: Collection[str], rp_filters: Mapping[str, str | None], rp_filter_all: str) -> dict[str, str]:
    """Settings by which a device takes packets from everywhere, although the main table would answer over another one.

    ``rp_filters`` are those of the devices. The kernel takes the greater of ``all`` and the device's, and 2 is loose.
    """
    strict = [device for device in used if "1" in (rp_filter_all, rp_filters.get(device)) or rp_filters.get(device) == "2"]
    return {f"net/ipv4/conf/{device}/rp_filter": "2" for device in sorted(strict)}


@dataclass
class Gateways:
    """Gateways of devices, read again when :attr:`stale` has been set: a main table may be very long.

    Leases have no events; they are read with the rest, every :data:`AGE` seconds at least (:meth:`wake`).
    """

    stale: bool = True
    _read_at: float = 0.0
    _known: dict[tuple[str, int], str | None] = field(default_factory=dict)
    _of: frozenset[str] = frozenset()

    def read(self, rtnl: Rtnl, used: Collection[str], have: KernelState, now: float) -> Known:
        """What is known of the devices ``used`` at ``now`` (s). Raises OSError."""
        if self.stale or self._of != frozenset(used) or now - self._read_at >= AGE:
            self._known, self._read_at = {}, now
            for device in used:
                self._look(rtnl, have.links[device], have)
            self._of, self.stale = frozenset(used), False
        return self._known

    def wake(self, looked_at: float) -> float | None:
        """When they have to be read again (s), a second after the last look at least: it may have failed. None: none is used."""
        return max(self._read_at + AGE, looked_at + 1.0) if self._of else None

    def _look(self, rtnl: Rtnl, link: Link, have: KernelState) -> None:
        for family in (4, 6):
            try:
                found = rtnl.default_gateways(family, link.index, _main(link, have))
            except KernelError:  # the family, or the table, is not there
                found = []
            if found:
                self._known[link.name, family] = found[0]
            elif link.point_to_point:
                self._known[link.name, family] = None
        if (link.name, 4) not in self._known and (router := router_of_lease(link.name, link.index)):
            self._known[link.name, 4] = router
