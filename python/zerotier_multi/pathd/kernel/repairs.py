"""What somebody else has changed of that which stood: how often it is put right, and what is told of it; pure.

A thing that stood as wanted, is wanted as before, and does not stand any more was changed from outside, whoever that was. It
is put right at once; but when that has happened too often, only now and then, so that no fight with another program takes
more than a share of a CPU.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from zerotier_multi import names
from zerotier_multi.pathd.kernel.actions import Action, AddDevice, Put, PutRoute, SetDevice, device_change
from zerotier_multi.pathd.kernel.desired import Desired
from zerotier_multi.pathd.kernel.unread import bundle_of_device
from zerotier_multi.netlink.state import KernelState
from zerotier_multi.netlink.nexthops import NextHop, NextHopGroup
from zerotier_multi.netlink.links import Address, Neighbour
from zerotier_multi.netlink.routes import Route
from zerotier_multi.netlink.rules import Rule

FREE, WINDOW = 10, 60.0  # so many repairs of a thing in so many seconds are made at once
PAUSE = 10.0  # seconds between two more

Key = tuple[Hashable, ...]


@dataclass(frozen=True)
class Change:
    """A thing of a bundle that was changed: what it is, and what was found in its place."""

    bundle: str
    what: str
    found: str

    def __str__(self) -> str:
        return f"{self.what} was {self.found}"


@dataclass(frozen=True)
class Outcome:
    """Of one look: what stands again, and what is left alone for a while from now on."""

    repaired: tuple[Change, ...] = ()
    contested: tuple[Change, ...] = ()


@dataclass
class Repairs:
    """Keeps in mind what stood at the look before. Times are seconds of one monotonic clock."""

    _stood: dict[Key, object] = field(default_factory=dict)
    _ids: dict[Key, int] = field(default_factory=dict)  # of groups
    _lost: dict[Key, tuple[object, Change]] = field(default_factory=dict)
    _times: dict[Key, deque[float]] = field(default_factory=dict)
    _held: dict[Key, tuple[float, Change]] = field(default_factory=dict)

    def look(self, want: Desired, have: KernelState, now: float) -> Outcome:
        """Compare with the look before; ``have`` is what stands before anything is done about it."""
        values = dict(_wanted(want, have))
        stands = {key: value for key, value in values.items() if _stands(key, value, want, have)}
        contested = []
        lost = {key: value for key, value in values.items() if key not in stands and self._stood.get(key) == value}
        hops = {key[1] for key in lost if key[0] == "nexthop"}
        for key, value in lost.items():
            if isinstance(value, NextHopGroup) and hops & set(value.members):
                continue  # the kernel takes a next hop out of its groups
            change = _change(key, value, self._ids.get(key, 0), have)
            if not _raised(key, want, have):
                self._lost[key] = (value, change)
            times = self._times.setdefault(key, deque(maxlen=FREE + 1))
            times.append(now)
            if len(times) > FREE and now - times[0] <= WINDOW:
                # It goes on to be told of as long as it lasts.
                if key not in self._held:
                    contested.append(change)
                self._held[key] = (now + PAUSE, change)
        repaired = [change for key, (value, change) in self._lost.items() if stands.get(key) == value]
        self._lost = {
            key: lost for key, lost in self._lost.items() if key in values and values[key] == lost[0] and key not in stands
        }
        self._stood = stands
        self._ids = {key: want.standing[key[1]] for key in stands if key[0] == "group" and key[1] in want.standing}
        self._times = {key: times for key, times in self._times.items() if now - times[-1] <= WINDOW}
        self._held = {key: held for key, held in self._held.items() if key in self._times}
        return Outcome(tuple(repaired), tuple(contested))

    def forget(self) -> None:
        """What was seen so far says nothing: the plans are other ones, and what follows from that is our own doing."""
        self._stood, self._lost = {}, {}

    def left_alone(self, now: float) -> set[Key]:
        """What is not to be put right at present."""
        return {key for key, (until, _change) in self._held.items() if until > now}

    def refused(self, now: float) -> set[int]:
        """Ids of the next hops and groups (those of the plan) among them."""
        return {key[1] for key in self.left_alone(now) if key[0] in ("nexthop", "group")}

    def ignored(self, now: float) -> set[int]:
        """Ids of the kernel's next hops whose changes are no reason to look, because nothing would be done about them."""
        alone = self.left_alone(now)
        groups = {key[1] + offset for key in alone if key[0] == "group" for offset in names.GROUP_OFFSETS}
        return groups | {key[1] for key in alone if key[0] == "nexthop"}

    def notes(self, now: float) -> list[str]:
        """A sentence about each of them."""
        held = [change for until, change in self._held.values() if until > now]
        return sorted(f"{c.bundle}: another program keeps changing {c.what}; it is restored once in {PAUSE:g} s" for c in held)

    def wake(self, now: float) -> float | None:
        """When the next of them may be put right again."""
        return min((until for until, _change in self._held.values() if until > now), default=None)


def key_of(action: Action) -> Key | None:
    """The thing that an action puts in place; None for one that takes away."""
    match action:
        case AddDevice(name):
            return "made", name
        case SetDevice(name):
            return "device", name
        case PutRoute(route):
            return _route_key(route)
        case Put(NextHop(number)):
            return "nexthop", number
        case Put(NextHopGroup(number)):
            return "group", names.first_group_id(number)
        case Put(Address() | Neighbour() | Rule() as what):
            return _key(what)
    return None


def _route_key(route: Route) -> Key:
    return "route", route.prefix, route.table, route.metric


def _key(what: Address | Neighbour | Rule) -> Key:
    match what:
        case Address(index, interface):
            return "address", index, interface
        case Neighbour(index, address):
            return "neighbour", index, address
    return "rule", what


def _wanted(want: Desired, have: KernelState) -> Iterator[tuple[Key, object]]:
    """Everything that shall stand, without the id of the group, which may change."""
    yield from ((("made", name), True) for name in want.own_devices)
    for name, state in want.devices.items():
        if link := have.links.get(name):
            yield ("device", name), (state, link.index)
    yield from ((("nexthop", number), hop) for number, hop in want.nexthops.items())
    yield from ((("group", names.first_group_id(n)), replace(group, id=0)) for n, group in want.groups.items())
    yield from ((_route_key(route), _without_id(route)) for route in want.routes)
    for things in (want.addresses, want.neighbours, want.rules):
        yield from ((_key(what), what) for what in things)


def _without_id(route: Route) -> Route:
    return replace(route, nexthop_id=names.first_group_id(route.nexthop_id) if route.nexthop_id else 0)


def _stands(key: Key, value: object, want: Desired, have: KernelState) -> bool:
    match key[0]:
        case "made":
            return key[1] in have.links
        case "device":
            link = have.links.get(str(key[1]))
            return link is not None and device_change(want.devices[link.name], link) is None
        case "nexthop":
            return have.nexthops.get(key[1]) == value  # type: ignore[call-overload]
        case "group":
            number = want.standing.get(key[1])  # type: ignore[call-overload]
            return number is not None and have.groups.get(number) == want.groups.get(number)
        case "route":
            return any(_route_key(route) == key for route in want.routes & have.routes)
    return value in have.addresses or value in have.neighbours or value in have.rules


def _raised(key: Key, want: Desired, have: KernelState) -> bool:
    """Whether a device of an instance has only a larger MTU: the engine writes its network's, and we lower it again."""
    if key[0] != "device" or key[1] in want.own_devices:
        return False
    state, link = want.devices[str(key[1])], have.links[str(key[1])]
    return state.mtu is not None and link.mtu > state.mtu and device_change(state, replace(link, mtu=state.mtu)) is None


def _otherwise(wanted: object, names_of: Mapping[int, str], have: KernelState) -> str:
    """What has become of a device. A port of a bridge loses its addresses' traffic, and ZeroTier drops what hosts send."""
    assert isinstance(wanted, tuple)
    state = wanted[0]
    link, bridge = have.links.get(state.name), have.links.get(names_of.get(state.master, ""))
    if link and bridge and bridge.kind == "bridge" and link.master != bridge.index:
        return f"taken out of bridge {bridge.name}"
    master = have.links.get(names_of.get(link.master, "")) if link else None
    if master and master.kind == "bridge" and not (bridge and bridge.kind == "bridge"):
        return f"made a port of bridge {master.name}, which a routed device cannot be; use VXLAN over the bundle for layer 2"
    return "set otherwise"


def _change(key: Key, value: object, number: int, have: KernelState) -> Change:
    """What a thing is called, and what is found of it; ``number`` is the id that a group had."""
    names_of = {link.index: name for name, link in have.links.items()}
    match key:
        case ("made", name):
            return Change(bundle_of_device(str(name)), f"device {name}", "deleted")
        case ("device", name):
            return Change(bundle_of_device(str(name)), f"device {name}", _otherwise(value, names_of, have))
        case ("nexthop", int(number)):
            return Change(names.bundle_of_nexthop(number) or "", f"next hop {number}", _instead(number, have))
        case ("group", int(first)):
            return Change(names.bundle_of_nexthop(first) or "", f"next-hop group {number}", _instead(number, have))
        case ("route", *_) if isinstance(value, Route):
            found = "changed" if any(_route_key(route) == key for route in have.routes) else "deleted"
            bundle = names.bundle_of_nexthop(value.nexthop_id) or bundle_of_device(names_of.get(value.index, ""))
            return Change(bundle, f"the route to {value.prefix} (table {value.table}, metric {value.metric})", found)
        case ("address" | "neighbour" as kind, index, what):
            name = names_of.get(index, f"if{index}")  # type: ignore[call-overload]
            return Change(bundle_of_device(name), f"{kind} {what} on {name}", "deleted")
    return Change("", "a routing rule", "deleted")


def _instead(number: int, have: KernelState) -> str:
    if stray := have.strays.get(number):
        return f"replaced by {stray.text}"
    return "changed" if number in have.nexthops or number in have.groups else "deleted"
