"""The one door to the kernel's network state: links, addresses, neighbours, next hops, routes.

Reads give frozen values, writes are one request each. Numbers are those of linux/rtnetlink.h, linux/if_link.h,
linux/neighbour.h and linux/nexthop.h.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest

from zerotier_multi.names import RT_PROTO, is_our_nexthop_id
from zerotier_multi.netlink import (
    NLM_F_CREATE,
    NLM_F_EXCL,
    NLM_F_REPLACE,
    KernelError,
    RouteSocket,
    attribute,
    attributes,
    nested,
)
from zerotier_multi.nexthops import (
    NHA_GATEWAY,
    NHA_GROUP,
    NHA_GROUP_TYPE,
    NHA_ID,
    NHA_OIF,
    NHA_RES_GROUP,
    NHA_RES_GROUP_BUCKETS,
    NHA_RES_GROUP_IDLE_TIMER,
    NHA_RES_GROUP_UNBALANCED_TIMER,
    NextHop,
    NextHopGroup,
    Stray,
    parse,
    parse_group,
)

RTM_NEWLINK, RTM_DELLINK, RTM_GETLINK, RTM_SETLINK = 16, 17, 18, 19
RTM_NEWADDR, RTM_DELADDR, RTM_GETADDR = 20, 21, 22
RTM_NEWROUTE, RTM_DELROUTE, RTM_GETROUTE = 24, 25, 26
RTM_NEWNEIGH, RTM_DELNEIGH, RTM_GETNEIGH = 28, 29, 30
RTM_NEWRULE, RTM_DELRULE, RTM_GETRULE = 32, 33, 34
RTM_NEWNEXTHOP, RTM_DELNEXTHOP, RTM_GETNEXTHOP = 104, 105, 106
RTM_NEWNEXTHOPBUCKET, RTM_DELNEXTHOPBUCKET, RTM_GETNEXTHOPBUCKET = 116, 117, 118

GROUP_LINK, GROUP_NEIGH, GROUP_IPV4_ADDR, GROUP_IPV4_ROUTE = 1, 3, 5, 7
GROUP_IPV4_RULE, GROUP_IPV6_RULE = 8, 19
GROUP_IPV6_ADDR, GROUP_IPV6_ROUTE, GROUP_NEXTHOP = 9, 11, 32

_IFF_UP, _IFF_POINTOPOINT, _IFF_LOWER_UP = 0x1, 0x10, 0x10000
_IFLA_IFNAME, _IFLA_MTU, _IFLA_MASTER, _IFLA_LINKINFO, _IFLA_IFALIAS, _IFLA_AF_SPEC = 3, 4, 10, 18, 20, 26
_IFLA_GROUP = 27
_IFLA_INFO_KIND, _IFLA_INFO_DATA, _IFLA_VRF_TABLE = 1, 2, 1
_IFLA_INET6_ADDR_GEN_MODE, _ADDR_GEN_NONE = 8, 1
_IFA_ADDRESS, _IFA_LOCAL, _IFA_FLAGS, _IFA_F_NODAD, _IFA_F_PERMANENT = 1, 2, 8, 0x02, 0x80
_IFA_F_DADFAILED, _IFA_F_TENTATIVE = 0x08, 0x40
_NDA_DST, _NDA_LLADDR, _NUD_PERMANENT = 1, 2, 0x80
_RTA_DST, _RTA_PRIORITY, _RTA_PREFSRC, _RTA_TABLE, _RTA_NH_ID = 1, 6, 7, 15, 30
_RTA_GATEWAY, _RTA_MULTIPATH, _RTNH_F_ONLINK = 5, 9, 4
_FRA_SRC, _FRA_PRIORITY, _FRA_SUPPRESS_PREFIXLEN, _FRA_TABLE = 2, 6, 14, 15
_FRA_PROTOCOL, _FRA_IP_PROTO, _FRA_SPORT_RANGE, _FR_ACT_TO_TBL = 21, 22, 23, 1
_RTA_SRC, _RTA_IIF, _RTA_OIF, _RTA_IP_PROTO, _RTA_SPORT, _RTA_DPORT = 2, 3, 4, 27, 28, 29
_RTA_METRICS, _RTM_F_FIB_MATCH = 8, 0x2000
_RTN_UNICAST, _RTN_UNREACHABLE, _RT_SCOPE_UNIVERSE, RT_TABLE_MAIN, RT_TABLE_LOCAL = 1, 7, 0, 254, 255
_NHA_RES_BUCKET = 13
_NHA_RES_BUCKET_INDEX, _NHA_RES_BUCKET_IDLE_TIME, _NHA_RES_BUCKET_NH_ID = 1, 2, 3
_NEXTHOP_GRP_TYPE_RES = 1
_KINDS = {6: "blackhole", 8: "prohibit", 9: "throw"}  # RTN_*
_CLOCK_TICKS = 100  # USER_HZ: timers of next-hop groups are in 1/100 s
FORCED_AFTER = 0.05  # seconds; a shorter time may read back as 0 (never), because the kernel keeps it in whole jiffies


@dataclass(frozen=True)
class Link:
    """A network device; ``table`` is the routing table of a VRF device, else None. ``mtu`` in bytes.

    ``master`` is 0 for a device without one.
    """

    index: int
    name: str
    kind: str | None
    mtu: int
    up: bool
    carrier: bool
    master: int = 0
    alias: str = ""
    group: int = 0
    table: int | None = None
    point_to_point: bool = False


@dataclass(frozen=True)
class Address:
    """An address with its length on a device."""

    index: int
    interface: str


@dataclass(frozen=True)
class Neighbour:
    """A neighbour entry with its link-layer address."""

    index: int
    address: str
    lladdr: str


@dataclass(frozen=True)
class Bucket:
    """A hash bucket of a resilient group: its number, the next hop it is on, seconds since its last packet."""

    index: int
    path: int
    idle: float


@dataclass(frozen=True)
class Flow:
    """What the packets of one direction of a conversation have in common; ports only where ``protocol`` has them."""

    protocol: int  # IP protocol number
    source: str
    destination: str
    sport: int | None
    dport: int | None


@dataclass(frozen=True)
class Route:
    """A route over a next-hop group, or (``nexthop_id`` 0) over the device ``index``, there by way of ``via`` if any.

    One with neither refuses what it takes (unreachable). ``odd`` says what it has that none of ours has; such a route has
    our protocol number and was changed by somebody else.
    """

    prefix: str
    nexthop_id: int
    source: str | None
    table: int
    metric: int = 0
    index: int = 0
    via: str | None = None
    odd: str = ""


@dataclass(frozen=True)
class Match:
    """What the kernel does with packets to an address: the entry of its tables that decides, whosever it is.

    ``error`` (errno) instead where it sends them nowhere.
    """

    prefix: str = ""
    nexthop_id: int = 0
    protocol: int = 0
    index: int = 0
    error: int = 0


@dataclass(frozen=True)
class Rule:
    """A routing rule: what a UDP port sends from an address is looked up in a table, without its default route if so wanted.

    Without a port it takes everything, without a source what comes from anywhere.
    """

    family: int  # 4 or 6
    priority: int
    source: str
    port: int
    table: int
    no_default: bool = False


def _family(text: str) -> int:
    return socket.AF_INET6 if ":" in text else socket.AF_INET


def _packed(address: str) -> bytes:
    return ipaddress.ip_address(address).packed


def _is_global(address: Address) -> bool:
    own = ipaddress.ip_interface(address.interface).ip
    return not (own.is_link_local or own.is_loopback)


def _u32(data: bytes) -> int:
    return int(struct.unpack_from("=I", data)[0])


class Rtnl:
    """Reads and writes of the kernel's network state. Every write raises KernelError when it is refused."""

    def __init__(self) -> None:
        self._socket = RouteSocket()

    def close(self) -> None:
        """Close the door."""
        self._socket.close()

    # -- reads

    def links(self) -> dict[str, Link]:
        """All devices by name."""
        found = {}
        for body in self._socket.dump(RTM_GETLINK, struct.pack("=BxHiII", 0, 0, 0, 0, 0)):
            link = parse_link(body)
            found[link.name] = link
        return found

    def addresses(self) -> set[Address]:
        """All permanent addresses of both families that are in use."""
        return {address for address, flags in self._addresses() if flags & _IFA_F_PERMANENT}

    def local_addresses(self) -> set[Address]:
        """All addresses in use that are known beyond their link, those of DHCP and of router advertisements too."""
        found = (address for address, flags in self._addresses() if not flags & _IFA_F_TENTATIVE)
        return {address for address in found if _is_global(address)}

    def _addresses(self) -> Iterable[tuple[Address, int]]:
        for body in self._socket.dump(RTM_GETADDR, struct.pack("=BBBBi", 0, 0, 0, 0, 0)):
            family, length, _flags, _scope, index = struct.unpack_from("=BBBBi", body)
            if family not in (socket.AF_INET, socket.AF_INET6):
                continue
            values = attributes(body[8:])
            flags = _u32(values[_IFA_FLAGS]) if _IFA_FLAGS in values else _flags
            if flags & _IFA_F_DADFAILED:
                continue
            address = ipaddress.ip_address(values.get(_IFA_LOCAL) or values[_IFA_ADDRESS])
            yield Address(index, f"{address}/{length}"), flags

    def permanent_neighbours(self) -> set[Neighbour]:
        """All permanent neighbour entries."""
        return self._neighbours(_NUD_PERMANENT)

    def neighbours(self) -> set[Neighbour]:
        """All neighbour entries that know a link-layer address, learned ones too."""
        return self._neighbours(0xFFFF)

    def _neighbours(self, states: int) -> set[Neighbour]:
        found = set()
        for body in self._socket.dump(RTM_GETNEIGH, struct.pack("=BxxxiHBB", 0, 0, 0, 0, 0)):
            _family_, index, state, _flags, _type = struct.unpack_from("=BxxxiHBB", body)
            values = attributes(body[12:])
            if state & states and _NDA_DST in values and len(values.get(_NDA_LLADDR, b"")) == 6:
                address = str(ipaddress.ip_address(values[_NDA_DST]))
                found.add(Neighbour(index, address, values[_NDA_LLADDR].hex(":")))
        return found

    def nexthops(self) -> tuple[dict[int, NextHop], dict[int, NextHopGroup], dict[int, Stray]]:
        """By id our next hops, our groups, and what else has our protocol number or an id of our range."""
        single, groups, strays = {}, {}, {}
        for body in self._socket.dump(RTM_GETNEXTHOP, struct.pack("=BBBxI", 0, 0, 0, 0)):
            match parse(body):
                case NextHop() as nexthop:
                    single[nexthop.id] = nexthop
                case NextHopGroup() as group:
                    groups[group.id] = group
                case Stray() as stray if stray.ours or is_our_nexthop_id(stray.id):
                    strays[stray.id] = stray
        return single, groups, strays

    def buckets(self, group: int) -> list[Bucket]:
        """The hash buckets of a resilient group, in order. Raises KernelError where there is no such group."""
        request = struct.pack("=BBBxI", 0, 0, 0, 0) + attribute(NHA_ID, group)
        found = []
        for body in self._socket.dump(RTM_GETNEXTHOPBUCKET, request):
            values = attributes(attributes(body[8:])[_NHA_RES_BUCKET])
            index = struct.unpack_from("=H", values[_NHA_RES_BUCKET_INDEX])[0]
            idle = struct.unpack_from("=Q", values[_NHA_RES_BUCKET_IDLE_TIME])[0]
            found.append(Bucket(index, _u32(values[_NHA_RES_BUCKET_NH_ID]), idle / _CLOCK_TICKS))
        return sorted(found, key=lambda bucket: bucket.index)

    def our_routes(self) -> set[Route]:
        """Routes of both families with our protocol number."""
        found = set()
        for family in (socket.AF_INET, socket.AF_INET6):
            request = struct.pack("=BBBBBBBBI", family, 0, 0, 0, 0, RT_PROTO, 0, 0, 0)
            for body in self._socket.dump(RTM_GETROUTE, request):
                _f, length, _s, _tos, table, protocol, _scope, kind, flags = struct.unpack_from("=BBBBBBBBI", body)
                if protocol != RT_PROTO:
                    continue
                found.add(_parse_route(family, length, table, kind, attributes(body[12:])))
        return found

    def default_gateways(self, family: int, index: int, table: int) -> list[str | None]:
        """Gateways of the default routes over a device in a table, the best first; None for a route without any.

        Raises KernelError where there is no such table or family. Our own routes are left out.
        """
        number = socket.AF_INET if family == 4 else socket.AF_INET6
        request = struct.pack("=BBBBBBBBI", number, 0, 0, 0, 0, 0, 0, _RTN_UNICAST, 0)
        request += attribute(_RTA_TABLE, table) + attribute(_RTA_OIF, index)
        found = []
        for body in self._socket.dump(RTM_GETROUTE, request):
            _f, length, _s, _tos, _table, protocol, _scope, kind, _flags = struct.unpack_from("=BBBBBBBBI", body)
            if length or kind != _RTN_UNICAST or protocol == RT_PROTO:
                continue
            values = attributes(body[12:])
            metric = _u32(values[_RTA_PRIORITY]) if _RTA_PRIORITY in values else 0
            found += [(metric, via) for device, via in _ways(values) if device == index]
        return [via for _metric, via in sorted(found, key=lambda way: way[0])]

    def our_rules(self) -> set[Rule]:
        """Rules of both families with our protocol number."""
        found = set()
        for family, number in ((4, socket.AF_INET), (6, socket.AF_INET6)):
            try:
                bodies = self._socket.dump(RTM_GETRULE, struct.pack("=BBBBBBBBI", number, 0, 0, 0, 0, 0, 0, 0, 0))
            except KernelError:  # a kernel without IPv6
                continue
            for body in bodies:
                values = attributes(body[12:])
                if values.get(_FRA_PROTOCOL, b"\0")[0] != RT_PROTO:
                    continue
                port = struct.unpack_from("=H", values[_FRA_SPORT_RANGE])[0] if _FRA_SPORT_RANGE in values else 0
                source = str(ipaddress.ip_address(values[_FRA_SRC])) if _FRA_SRC in values else ""
                suppress = _u32(values.get(_FRA_SUPPRESS_PREFIXLEN, b"\xff" * 4)) == 0
                found.add(Rule(family, _u32(values.get(_FRA_PRIORITY, bytes(4))), source, port, _u32(values[_FRA_TABLE]), suppress))
        return found

    def uplinks(self) -> frozenset[tuple[int, int]]:
        """Family (4 or 6) and ifindex of what default routes of the main table lead to, those of bundles not counted."""
        found: set[tuple[int, int]] = set()
        for family, number in ((4, socket.AF_INET), (6, socket.AF_INET6)):
            request = struct.pack("=BBBBBBBBI", number, 0, 0, 0, RT_TABLE_MAIN, 0, 0, 0, 0)
            for body in self._socket.dump(RTM_GETROUTE, request):
                length, protocol, kind = body[1], body[5], body[7]
                if length or protocol == RT_PROTO or kind != _RTN_UNICAST:
                    continue
                values = attributes(body[12:])
                found |= {(family, index) for index, _via in _ways(values) if index}
                if _RTA_NH_ID in values:  # FRR's; without nexthop_compat_mode the kernel names nothing else
                    found |= {(family, index) for index in self._nexthop_devices(_u32(values[_RTA_NH_ID]))}
        return frozenset(found)

    def _nexthop_devices(self, number: int) -> set[int]:
        """ifindexes that a next-hop object leads to, whosever it is."""
        body = self._socket.answer(RTM_GETNEXTHOP, struct.pack("=BBBxI", 0, 0, 0, 0) + attribute(NHA_ID, number))
        values = attributes(body[8:]) if body else {}
        if NHA_GROUP in values:
            return {index for member in parse_group(number, values).members for index in self._nexthop_devices(member)}
        return {_u32(values[NHA_OIF])} if NHA_OIF in values else set()

    def egress(self, flow: Flow, *, iif: int = 0, oif: int = 0) -> int | None:
        """ifindex of the device on which the kernel sends packets of ``flow``, its own hash over the paths included.

        ``iif`` is where packets that are forwarded come in, 0 for the router's own; ``oif`` is the device of a
        VRF that the lookup shall be made in. None where the kernel has no way for them.
        """
        family = _family(flow.destination)
        bits = 32 if family == socket.AF_INET else 128
        body = struct.pack("=BBBBBBBBI", family, bits, bits, 0, 0, 0, 0, 0, 0)
        body += attribute(_RTA_DST, _packed(flow.destination)) + attribute(_RTA_SRC, _packed(flow.source))
        for kind, index in ((_RTA_IIF, iif), (_RTA_OIF, oif)):
            body += attribute(kind, index) if index else b""
        if flow.sport is not None and flow.dport is not None:
            body += attribute(_RTA_IP_PROTO, bytes([flow.protocol]))
            body += attribute(_RTA_SPORT, struct.pack(">H", flow.sport))
            body += attribute(_RTA_DPORT, struct.pack(">H", flow.dport))
        try:
            answer = self._socket.answer(RTM_GETROUTE, body)
        except KernelError:
            return None
        values = attributes(answer[12:]) if answer else {}
        return _u32(values[_RTA_OIF]) if _RTA_OIF in values else None

    def match(self, address: str, *, oif: int = 0) -> Match:
        """The entry by which the kernel would send a packet of this router to ``address``; ``oif`` as for :meth:`egress`."""
        family = _family(address)
        bits = 32 if family == socket.AF_INET else 128
        body = struct.pack("=BBBBBBBBI", family, bits, 0, 0, 0, 0, 0, 0, _RTM_F_FIB_MATCH)
        body += attribute(_RTA_DST, _packed(address)) + (attribute(_RTA_OIF, oif) if oif else b"")
        try:
            answer = self._socket.answer(RTM_GETROUTE, body)
        except KernelError as error:
            return Match(error=error.errno or errno.EIO)
        if answer is None:
            return Match(error=errno.ENETUNREACH)
        values = attributes(answer[12:])
        return Match(
            _destination(family, answer[1], values),
            _u32(values[_RTA_NH_ID]) if _RTA_NH_ID in values else 0,
            answer[5],
            _u32(values[_RTA_OIF]) if _RTA_OIF in values else 0,
        )

    # -- writes

    def add_link(self, name: str, kind: str, group: int) -> None:
        """Make a virtual device without settings (``dummy``, ``bridge``), its owner marked in its link group."""
        values = attribute(_IFLA_IFNAME, name) + nested(_IFLA_LINKINFO, attribute(_IFLA_INFO_KIND, kind))
        self._link(RTM_NEWLINK, 0, values + attribute(_IFLA_GROUP, group), NLM_F_CREATE | NLM_F_EXCL)

    def delete_link(self, index: int) -> None:
        """Delete a device."""
        self._link(RTM_DELLINK, index, b"")

    def set_link(
        self,
        index: int,
        *,
        up: bool | None = None,
        mtu: int | None = None,
        master: int | None = None,
        alias: str | None = None,
    ) -> None:
        """Change what is given: up or down, MTU in bytes, master device (0: none)."""
        values = b""
        if mtu is not None:
            values += attribute(_IFLA_MTU, mtu)
        if master is not None:
            values += attribute(_IFLA_MASTER, master)
        if alias is not None:
            values += attribute(_IFLA_IFALIAS, alias.encode())
        self._link(RTM_NEWLINK, index, values, up=up)

    def no_link_local(self, index: int) -> None:
        """Keep the kernel from giving a device an IPv6 link-local address by itself."""
        inet6 = nested(socket.AF_INET6, attribute(_IFLA_INET6_ADDR_GEN_MODE, bytes([_ADDR_GEN_NONE])))
        self._link(RTM_SETLINK, index, nested(_IFLA_AF_SPEC, inet6))

    def _link(self, kind: int, index: int, values: bytes, flags: int = 0, up: bool | None = None) -> None:
        change = _IFF_UP if up is not None else 0
        body = struct.pack("=BxHiII", 0, 0, index, _IFF_UP if up else 0, change)
        self._socket.request(kind, body + values, flags)

    def add_address(self, address: Address) -> None:
        """Give a device an address, in use at once (no duplicate address detection)."""
        self._address(RTM_NEWADDR, address, NLM_F_CREATE | NLM_F_REPLACE)

    def delete_address(self, address: Address) -> None:
        """Take an address from a device."""
        self._address(RTM_DELADDR, address)

    def _address(self, kind: int, address: Address, flags: int = 0) -> None:
        interface = ipaddress.ip_interface(address.interface)
        family = _family(address.interface)
        body = struct.pack("=BBBBi", family, interface.network.prefixlen, 0, 0, address.index)
        body += attribute(_IFA_LOCAL, interface.ip.packed) + attribute(_IFA_ADDRESS, interface.ip.packed)
        if family == socket.AF_INET6:
            body += attribute(_IFA_FLAGS, _IFA_F_NODAD)
        self._socket.request(kind, body, flags)

    def set_neighbour(self, neighbour: Neighbour) -> None:
        """Make or correct a permanent neighbour entry."""
        body = struct.pack("=BxxxiHBB", _family(neighbour.address), neighbour.index, _NUD_PERMANENT, 0, 0)
        body += attribute(_NDA_DST, _packed(neighbour.address))
        body += attribute(_NDA_LLADDR, bytes.fromhex(neighbour.lladdr.replace(":", "")))
        self._socket.request(RTM_NEWNEIGH, body, NLM_F_CREATE | NLM_F_REPLACE)

    def delete_neighbour(self, neighbour: Neighbour) -> None:
        """Delete a neighbour entry."""
        body = struct.pack("=BxxxiHBB", _family(neighbour.address), neighbour.index, 0, 0, 0)
        self._socket.request(RTM_DELNEIGH, body + attribute(_NDA_DST, _packed(neighbour.address)))

    def set_nexthop(self, nexthop: NextHop) -> None:
        """Make or replace a next hop; routes and groups that use it follow at once."""
        body = struct.pack("=BBBxI", _family(nexthop.via), 0, RT_PROTO, 0)
        body += attribute(NHA_ID, nexthop.id) + attribute(NHA_OIF, nexthop.index)
        body += attribute(NHA_GATEWAY, _packed(nexthop.via))
        self._socket.request(RTM_NEWNEXTHOP, body, NLM_F_CREATE | NLM_F_REPLACE)

    def set_group(self, group: NextHopGroup) -> None:
        """Make or replace a group. ``buckets`` of an existing group cannot change; the kernel says so."""
        body = struct.pack("=BBBxI", 0, 0, RT_PROTO, 0) + attribute(NHA_ID, group.id)
        body += attribute(NHA_GROUP, b"".join(_group_entry(*pair) for pair in zip_longest(group.members, group.weights)))
        if group.buckets:
            body += attribute(NHA_GROUP_TYPE, struct.pack("=H", _NEXTHOP_GRP_TYPE_RES))
            body += nested(
                NHA_RES_GROUP,
                attribute(NHA_RES_GROUP_BUCKETS, struct.pack("=H", group.buckets)),
                attribute(NHA_RES_GROUP_IDLE_TIMER, round(group.idle_timer * _CLOCK_TICKS)),
                attribute(NHA_RES_GROUP_UNBALANCED_TIMER, int(FORCED_AFTER * _CLOCK_TICKS) if group.forced else 0),
            )
        self._socket.request(RTM_NEWNEXTHOP, body, NLM_F_CREATE | NLM_F_REPLACE)

    def delete_nexthop(self, number: int) -> None:
        """Delete a next hop or a group; routes over it go with it."""
        self._socket.request(RTM_DELNEXTHOP, struct.pack("=BBBxI", 0, 0, 0, 0) + attribute(NHA_ID, number))

    def add_route(self, route: Route) -> None:
        """Make a route; refused where a route of somebody else to the same prefix stands."""
        self._route(RTM_NEWROUTE, route, NLM_F_CREATE | NLM_F_EXCL)

    def replace_route(self, route: Route) -> None:
        """Move a route that is ours to another group or source without a gap."""
        self._route(RTM_NEWROUTE, route, NLM_F_CREATE | NLM_F_REPLACE)

    def delete_route(self, route: Route) -> None:
        """Delete a route."""
        self._route(RTM_DELROUTE, route, any_kind=bool(route.odd))

    def add_rule(self, rule: Rule) -> None:
        """Make a rule."""
        self._rule(RTM_NEWRULE, rule, NLM_F_CREATE | NLM_F_EXCL)

    def delete_rule(self, rule: Rule) -> None:
        """Delete a rule of ours."""
        self._rule(RTM_DELRULE, rule, 0)

    def _rule(self, kind: int, rule: Rule, flags: int) -> None:
        family = socket.AF_INET if rule.family == 4 else socket.AF_INET6
        bits = 0 if not rule.source else 32 if rule.family == 4 else 128
        body = struct.pack("=BBBBBBBBI", family, 0, bits, 0, 0, 0, 0, _FR_ACT_TO_TBL, 0)
        body += attribute(_FRA_PRIORITY, rule.priority) + attribute(_FRA_TABLE, rule.table)
        body += attribute(_FRA_PROTOCOL, bytes([RT_PROTO]))
        if rule.source:
            body += attribute(_FRA_SRC, _packed(rule.source))
        if rule.port:
            body += attribute(_FRA_IP_PROTO, bytes([socket.IPPROTO_UDP]))
            body += attribute(_FRA_SPORT_RANGE, struct.pack("=HH", rule.port, rule.port))
        if rule.no_default:
            body += attribute(_FRA_SUPPRESS_PREFIXLEN, 0)
        self._socket.request(kind, body, flags)

    def _route(self, kind: int, route: Route, flags: int = 0, any_kind: bool = False) -> None:
        network = ipaddress.ip_network(route.prefix)
        family = _family(route.prefix)
        onlink = _RTNH_F_ONLINK if route.via else 0  # an address of DHCP may be a /32
        type_ = _RTN_UNICAST if route.nexthop_id or route.index else _RTN_UNREACHABLE
        type_ = 0 if any_kind else type_
        body = struct.pack("=BBBBBBBBI", family, network.prefixlen, 0, 0, 0, RT_PROTO, _RT_SCOPE_UNIVERSE, type_, onlink)
        body += attribute(_RTA_DST, network.network_address.packed) + attribute(_RTA_TABLE, route.table)
        body += attribute(_RTA_PRIORITY, route.metric) if route.metric else b""
        if type_ == _RTN_UNICAST:
            body += attribute(_RTA_NH_ID, route.nexthop_id) if route.nexthop_id else attribute(_RTA_OIF, route.index)
        body += attribute(_RTA_GATEWAY, _packed(route.via)) if route.via else b""
        if route.source and kind == RTM_NEWROUTE:
            body += attribute(_RTA_PREFSRC, _packed(route.source))
        self._socket.request(kind, body, flags)


def parse_link(body: bytes) -> Link:
    """A Link out of the body of an RTM_NEWLINK or RTM_DELLINK message."""
    _family_, _type, index, flags, _change = struct.unpack_from("=BxHiII", body)
    values = attributes(body[16:])
    info = attributes(values.get(_IFLA_LINKINFO, b""))
    kind = info[_IFLA_INFO_KIND].rstrip(b"\0").decode() if _IFLA_INFO_KIND in info else None
    data = attributes(info.get(_IFLA_INFO_DATA, b"")) if kind == "vrf" else {}
    return Link(
        index=index,
        name=values.get(_IFLA_IFNAME, b"").rstrip(b"\0").decode(),
        kind=kind,
        mtu=_u32(values[_IFLA_MTU]) if _IFLA_MTU in values else 0,
        up=bool(flags & _IFF_UP),
        carrier=bool(flags & _IFF_LOWER_UP),
        master=_u32(values[_IFLA_MASTER]) if _IFLA_MASTER in values else 0,
        alias=values.get(_IFLA_IFALIAS, b"").rstrip(b"\0").decode("utf-8", "replace"),
        group=_u32(values[_IFLA_GROUP]) if _IFLA_GROUP in values else 0,
        table=_u32(data[_IFLA_VRF_TABLE]) if _IFLA_VRF_TABLE in data else None,
        point_to_point=bool(flags & _IFF_POINTOPOINT),
    )


def _destination(family: int, length: int, values: dict[int, bytes]) -> str:
    zero = bytes(4 if family == socket.AF_INET else 16)
    return f"{ipaddress.ip_address(values.get(_RTA_DST, zero))}/{length}"


def _parse_route(family: int, length: int, table: int, kind: int, values: dict[int, bytes]) -> Route:
    bare = _RTA_NH_ID in values or kind != _RTN_UNICAST
    source = values.get(_RTA_PREFSRC)
    odd = "" if kind in (_RTN_UNICAST, _RTN_UNREACHABLE) else _KINDS.get(kind, f"type {kind}")
    if not odd and (values.get(_RTA_METRICS) or (_RTA_MULTIPATH in values and _RTA_NH_ID not in values)):
        odd = "metrics" if values.get(_RTA_METRICS) else "multipath"
    return Route(
        _destination(family, length, values),
        _u32(values[_RTA_NH_ID]) if _RTA_NH_ID in values else 0,
        str(ipaddress.ip_address(source)) if source else None,
        _u32(values[_RTA_TABLE]) if _RTA_TABLE in values else table,
        _u32(values[_RTA_PRIORITY]) if _RTA_PRIORITY in values else 0,
        0 if bare else _u32(values.get(_RTA_OIF, bytes(4))),
        None if bare else _gateway(values),
        odd,
    )


def _gateway(values: dict[int, bytes]) -> str | None:
    return str(ipaddress.ip_address(values[_RTA_GATEWAY])) if _RTA_GATEWAY in values else None


def _ways(values: dict[int, bytes]) -> Iterable[tuple[int, str | None]]:
    """(ifindex, gateway) of every next hop of a route."""
    if _RTA_MULTIPATH not in values:
        yield _u32(values.get(_RTA_OIF, bytes(4))), _gateway(values)
        return
    data, at = values[_RTA_MULTIPATH], 0
    while at + 8 <= len(data):
        length, _flags, _hops, index = struct.unpack_from("=HBBi", data, at)  # struct rtnexthop
        if length < 8:
            return
        yield index, _gateway(attributes(data[at + 8 : at + length]))
        at += length + 3 & ~3


def _group_entry(member: int, weight: int | None) -> bytes:
    """A struct nexthop_grp, in which a weight is one less than people say."""
    return struct.pack("=IBBH", member, (weight or 1) - 1, 0, 0)
