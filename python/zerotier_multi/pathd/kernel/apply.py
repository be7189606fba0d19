"""Carrying actions out: from values to requests to the kernel."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from zerotier_multi import names
from zerotier_multi.netlink.sockets import KernelError
from zerotier_multi.pathd.kernel.actions import Action, AddDevice, DeleteDevice, Put, PutRoute, Remove, SetDevice
from zerotier_multi.netlink.state import KernelState
from zerotier_multi.pathd.kernel.commands import Names, describe, names_of
from zerotier_multi.pathd.kernel.repairs import Key, key_of
from zerotier_multi.netlink.nexthops import NextHop, NextHopGroup, Stray
from zerotier_multi.netlink.links import Address, Neighbour
from zerotier_multi.netlink.routes import RT_TABLE_MAIN, Route
from zerotier_multi.netlink.rtnl import Rtnl
from zerotier_multi.netlink.rules import Rule

log = logging.getLogger("pathd")

# What has gone by itself meanwhile needs no removal.
_GONE = (errno.ENOENT, errno.ESRCH, errno.ENODEV, errno.EADDRNOTAVAIL)


def supports_resilient_groups(rtnl: Rtnl) -> bool:
    """Whether the kernel has resilient next-hop groups (5.13 and later with the option).

    Asked by a request that cannot succeed: a group of a next hop that does not exist. A kernel that knows
    the type complains about the member, an older one about the attribute.
    """
    probe = names.NEXTHOP_ID_BASE | 0xFFFFFF
    try:
        rtnl.set_group(NextHopGroup(probe, (probe - 1,), 8, 1))
    except KernelError as error:
        return "nexthop id" in str(error).lower()
    rtnl.delete_nexthop(probe)
    return True


@dataclass
class Done:
    """What has come of a list of actions: sentences about refusals, and next hops that the kernel does not take.

    ``notes`` are about what need not be tried again before something happens.
    """

    anything: bool = False
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    refused: set[int] = field(default_factory=set)


def carry_out(rtnl: Rtnl, todo: Iterable[Action], have: KernelState, left_alone: Collection[Key] = ()) -> Done:
    """Carry actions out, without those for things that are ``left_alone``, and without what follows from refused ones.

    No route is bound to a group that could not be made, no group to a next hop that could not, and nothing that carries
    traffic is taken away before what shall take its place is there.
    """
    done, failed, missing = Done(), set[int](), set[tuple[str, int]]()
    known = names_of(have.links.values())
    for action in todo:
        match action:
            case Put(NextHopGroup() as group) if done.refused & set(group.members):
                failed.add(group.id)
                continue
            case PutRoute(route, False) if route.nexthop_id in failed:
                missing.add((route.prefix, route.table))
                continue
            case PutRoute(route) if route.nexthop_id in failed or (not route.nexthop_id and (route.prefix, route.table) in missing):
                continue
            case Remove(NextHopGroup() | NextHop() | Stray()) if failed:
                continue
        problem = None
        if alone := key_of(action) in left_alone:
            pass
        elif (problem := perform(rtnl, action, known)) is None:
            done.anything = True
            continue
        match action:
            case Put(NextHop(number)) if not alone:
                done.refused.add(number)
            case Put(NextHopGroup(number)):
                failed.add(number)
            case PutRoute(route, False) if route.nexthop_id:
                missing.add((route.prefix, route.table))
        if problem and isinstance(action, PutRoute) and problem.endswith(os.strerror(errno.EEXIST)):
            done.notes.append(_taken(action.route))
        elif problem:
            done.problems.append(problem)
    # The route that FRR sees stands for the other, and would lead nowhere by itself.
    for route in have.routes:
        if (
            route.metric == names.SEEN_METRIC
            and (route.prefix, route.table) in missing
            and perform(rtnl, Remove(route), known) is None
        ):
            done.anything = True
    return done


def _taken(route: Route) -> str:
    table = "" if route.table == RT_TABLE_MAIN else f" table {route.table}"
    command = f"ip {'-6 ' if ':' in route.prefix else ''}route show {route.prefix}{table}"
    return f"the route to {route.prefix} cannot be made, because another program has one in its place; see: {command}"


def perform(rtnl: Rtnl, action: Action, known: Names) -> str | None:
    """Carry one action out, and log it; a sentence when the kernel refuses, else None."""
    try:
        _perform(rtnl, action)
    except KernelError as error:
        if isinstance(action, (Remove, DeleteDevice)) and error.errno in _GONE:
            return None
        if isinstance(action, AddDevice) and action.kind == "dummy" and error.errno == errno.EOPNOTSUPP:
            return perform(rtnl, AddDevice(action.name, "bridge"), known)  # without ports; every kernel of a router has that
        return f"{describe(action, known)}: {error.strerror}"
    log.info("%s", describe(action, known))
    return None


def _perform(rtnl: Rtnl, action: Action) -> None:
    match action:
        case AddDevice(name, kind):
            rtnl.add_link(name, kind, names.DEVICE_GROUP)
            rtnl.no_link_local(rtnl.links()[name].index)
        case SetDevice(_, index, up, mtu, master, alias):
            rtnl.set_link(index, up=up, mtu=mtu, master=master, alias=alias)
        case DeleteDevice(_, index):
            rtnl.delete_link(index)
        case PutRoute(route, replace):
            (rtnl.replace_route if replace else rtnl.add_route)(route)
        case Put(Address() as address):
            rtnl.add_address(address)
        case Put(Neighbour() as neighbour):
            rtnl.set_neighbour(neighbour)
        case Put(NextHop() as nexthop):
            rtnl.set_nexthop(nexthop)
        case Put(NextHopGroup() as group):
            rtnl.set_group(group)
        case Remove(Route() as route):
            rtnl.delete_route(route)
        case Put(Rule() as rule):
            rtnl.add_rule(rule)
        case Remove(Rule() as rule):
            rtnl.delete_rule(rule)
        case Remove(NextHop(number) | NextHopGroup(number) | Stray(number)):
            rtnl.delete_nexthop(number)
        case Remove(Neighbour() as neighbour):
            rtnl.delete_neighbour(neighbour)
        case Remove(Address() as address):
            rtnl.delete_address(address)
