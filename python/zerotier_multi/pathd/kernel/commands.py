"""Actions as the commands of iproute2 that do the same; pure. The log and ``show zerotier ztN plan`` print them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from zerotier_multi import names
from zerotier_multi.netlink.links import Address, Link, Neighbour
from zerotier_multi.netlink.nexthops import NextHop, NextHopGroup, Stray, group_members
from zerotier_multi.netlink.routes import RT_TABLE_MAIN, Route
from zerotier_multi.netlink.rules import Rule
from zerotier_multi.pathd.kernel.actions import Action, AddDevice, DeleteDevice, Put, PutRoute, Remove, SetDevice

_PROTO = f"proto {names.RT_PROTO}"


@dataclass(frozen=True)
class Names:
    """What a person calls things that the kernel has numbers for: devices by ifindex, VRFs by table."""

    devices: Mapping[int, str] = field(default_factory=dict)
    vrfs: Mapping[int, str] = field(default_factory=dict)

    def device(self, index: int) -> str:
        """Name of a device; ``ifN`` for one that is not there."""
        return self.devices.get(index, f"if{index}")

    def table(self, table: int) -> str:
        """A routing table as an argument; nothing for the main one."""
        if table == RT_TABLE_MAIN:
            return ""
        return f" vrf {self.vrfs[table]}" if table in self.vrfs else f" table {table}"


def names_of(links: Iterable[Link]) -> Names:
    """The names of these devices."""
    found = list(links)
    return Names({link.index: link.name for link in found}, {link.table: link.name for link in found if link.table is not None})


def commands(action: Action, known: Names) -> list[str]:
    """The commands of one action, in order."""
    match action:
        case AddDevice(name, kind):
            # Two, because iproute2 6.1 takes no addrgenmode for a device that it makes.
            return [f"ip link add {name} group {names.DEVICE_GROUP} type {kind}", f"ip link set {name} addrgenmode none"]
        case SetDevice():
            return [_set_device(action, known)]
        case DeleteDevice(name, _):
            return [f"ip link del {name}"]
        case PutRoute(route, replace):
            return [_route("replace" if replace else "add", route, known)]
        case Put(what):
            return [_rule("add", what) if isinstance(what, Rule) else _thing("replace", what, known)]
        case Remove(what):
            if isinstance(what, Route):
                return [_route("del", what, known)]
            return [_rule("del", what) if isinstance(what, Rule) else _thing("del", what, known)]


def describe(action: Action, known: Names) -> str:
    """An action as one line of shell, for the log."""
    return " && ".join(commands(action, known))


def _set_device(action: SetDevice, known: Names) -> str:
    words = ["up" if action.up else "down"] if action.up is not None else []
    words += [f"mtu {action.mtu}"] if action.mtu is not None else []
    if action.master is not None:
        words.append(f"master {known.device(action.master)}" if action.master else "nomaster")
    words += [f"alias {shlex.quote(action.alias)}"] if action.alias is not None else []
    return f"ip link set {action.name} {' '.join(words)}"


def _thing(verb: str, what: Address | Neighbour | NextHop | NextHopGroup | Stray, known: Names) -> str:
    made = verb != "del"
    match what:
        case Address(index, interface):
            nodad = " nodad" if made and ":" in interface else ""
            return f"ip address {verb} {interface} dev {known.device(index)}{nodad}"
        case Neighbour(index, address, lladdr):
            entry = f" lladdr {lladdr} nud permanent" if made else ""
            return f"ip neigh {verb} {address}{entry} dev {known.device(index)}"
        case NextHop(number, index, via):
            return f"ip nexthop {verb} id {number}" + (f" via {via} dev {known.device(index)} {_PROTO}" if made else "")
        case NextHopGroup():
            return f"ip nexthop {verb} id {what.id}" + (f" group {_group(what)} {_PROTO}" if made else "")
        case Stray(number, text):
            return f"ip nexthop {verb} id {number}  # {text}"


def _group(group: NextHopGroup) -> str:
    kind = f" type resilient buckets {group.buckets} idle_timer {group.idle_timer:g}" if group.buckets else ""
    unbalanced = f" unbalanced_timer {group.unbalanced:g}" if group.unbalanced else ""
    return f"{group_members(group.members, group.weights)}{kind}{unbalanced}"


def _route(verb: str, route: Route, known: Names) -> str:
    made = verb != "del"
    if route.nexthop_id:
        way = f" nhid {route.nexthop_id}"
    elif route.index:
        # A route over a device alone would be of the scope of its link, were nothing said.
        scope = " scope global" if ":" not in route.prefix else ""
        way = (
            (f" via {route.via}" if route.via else "")
            + f" dev {known.device(route.index)}"
            + (" onlink" if route.via else "")
            + scope
        )
    else:
        way = ""
    kind = "" if way or route.odd else "unreachable "
    source = f" src {route.source}" if route.source and made else ""
    metric = f" metric {route.metric}" if route.metric else ""
    family = "-6 " if ":" in route.prefix else ""
    return f"ip {family}route {verb} {kind}{route.prefix}{way}{source}{known.table(route.table)}{metric} {_PROTO}"


def _rule(verb: str, rule: Rule) -> str:
    udp = f" ipproto udp sport {rule.port}" if rule.port else ""
    tail = " suppress_prefixlength 0" if rule.no_default else ""
    source = rule.source or "all"
    return (
        f"ip -{rule.family} rule {verb} pref {rule.priority} from {source}{udp} lookup {rule.table}{tail} protocol {names.RT_PROTO}"
    )
