"""What becomes of a router when actions are carried out, without one; pure."""

from __future__ import annotations

from dataclasses import replace

from zerotier_multi import names
from zerotier_multi.netlink.links import Address, Link, Neighbour
from zerotier_multi.netlink.nexthops import NextHop, NextHopGroup, Stray
from zerotier_multi.netlink.routes import Route
from zerotier_multi.netlink.rules import Rule
from zerotier_multi.netlink.state import KernelState
from zerotier_multi.pathd.kernel.actions import Action, AddDevice, DeleteDevice, Put, PutRoute, Remove, SetDevice, without


def after(state: KernelState, action: Action) -> KernelState:
    """What the kernel makes of an action."""
    match action:
        case AddDevice(name, kind):
            index = max((link.index for link in state.links.values()), default=0) + 1
            made = Link(index, name, kind, 1500, False, True, group=names.DEVICE_GROUP)
            return replace(state, links={**state.links, name: made})
        case SetDevice(name):
            return replace(state, links={**state.links, name: _changed(state.links[name], action)})
        case DeleteDevice(name, index):
            links = {other: link for other, link in state.links.items() if other != name}
            return replace(state, links=links, addresses={a for a in state.addresses if a.index != index})
        case PutRoute(route):
            others = {r for r in state.routes if (r.prefix, r.table, r.metric) != (route.prefix, route.table, route.metric)}
            return replace(state, routes=others | {route})
        case Put(what):
            return _with(state, what)
        case Remove(what):
            return _without(state, what)


def _changed(link: Link, change: SetDevice) -> Link:
    given = {"up": change.up, "mtu": change.mtu, "master": change.master, "alias": change.alias}
    return replace(link, **{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]


def _with(state: KernelState, what: Address | Neighbour | NextHop | NextHopGroup | Rule) -> KernelState:
    match what:
        case Address():
            return replace(state, addresses=state.addresses | {what})
        case Neighbour(index, address):
            others = {n for n in state.neighbours if (n.index, n.address) != (index, address)}
            return replace(state, neighbours=others | {what})
        case NextHop(number):
            strays = {n: s for n, s in state.strays.items() if n != number}
            return replace(state, nexthops={**state.nexthops, number: what}, strays=strays)
        case NextHopGroup(number):
            return replace(state, groups={**state.groups, number: what})
        case Rule():
            return replace(state, rules=state.rules | {what})


def _without(state: KernelState, what: Address | Neighbour | NextHop | NextHopGroup | Stray | Route | Rule) -> KernelState:
    match what:
        case Address():
            return replace(state, addresses=state.addresses - {what})
        case Neighbour():
            return replace(state, neighbours=state.neighbours - {what})
        case Route():
            return replace(state, routes=state.routes - {what})
        case Rule():
            return replace(state, rules=state.rules - {what})
        case Stray(number):
            return replace(state, strays={n: s for n, s in state.strays.items() if n != number})
        case NextHop(number):
            groups = {n: left for n, group in state.groups.items() if (left := without(group, {number})).members}
            return _without_routes(replace(state, nexthops={n: h for n, h in state.nexthops.items() if n != number}), groups)
        case NextHopGroup(number):
            return _without_routes(state, {n: g for n, g in state.groups.items() if n != number})


def _without_routes(state: KernelState, groups: dict[int, NextHopGroup]) -> KernelState:
    """The state with these groups; the routes over others go with them."""
    return replace(state, groups=groups, routes={r for r in state.routes if not r.nexthop_id or r.nexthop_id in groups})
