"""Routes and what the kernel answers about them, as values and in messages; pure. Numbers are those of linux/rtnetlink.h."""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from zerotier_multi.names import RT_PROTO
from zerotier_multi.netlink.messages import attribute, attributes, family_of, packed, u32

_RTA_DST, _RTA_PRIORITY, _RTA_PREFSRC, _RTA_TABLE, _RTA_NH_ID = 1, 6, 7, 15, 30
_RTA_GATEWAY, _RTA_MULTIPATH, _RTA_VIA, _RTNH_F_ONLINK = 5, 9, 18, 4
_RTA_SRC, _RTA_IIF, _RTA_OIF, _RTA_IP_PROTO, _RTA_SPORT, _RTA_DPORT = 2, 3, 4, 27, 28, 29
_RTA_METRICS, _RTA_MARK, _RTM_F_LOOKUP_TABLE, _RTM_F_FIB_MATCH = 8, 16, 0x1000, 0x2000
_RTPROT_KERNEL = 2
_RTN_UNICAST, _RTN_UNREACHABLE, _RT_SCOPE_UNIVERSE, RT_TABLE_MAIN, RT_TABLE_LOCAL = 1, 7, 0, 254, 255
_KINDS = {6: "blackhole", 8: "prohibit", 9: "throw"}  # RTN_*


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
    table: int = 0


def our_routes(family: int) -> bytes:
    """A question for the routes with our protocol number; ``family`` is AF_INET or AF_INET6."""
    return struct.pack("=BBBBBBBBI", family, 0, 0, 0, 0, RT_PROTO, 0, 0, 0)


def parse_route(body: bytes) -> Route | None:
    """A route of ours; None for one of others."""
    family, length, _s, _tos, table, protocol, _scope, kind, _flags = struct.unpack_from("=BBBBBBBBI", body)
    if protocol != RT_PROTO:
        return None
    values = attributes(body[12:])
    bare = _RTA_NH_ID in values or kind != _RTN_UNICAST
    source = values.get(_RTA_PREFSRC)
    odd = "" if kind in (_RTN_UNICAST, _RTN_UNREACHABLE) else _KINDS.get(kind, f"type {kind}")
    if not odd and (values.get(_RTA_METRICS) or (_RTA_MULTIPATH in values and _RTA_NH_ID not in values)):
        odd = "metrics" if values.get(_RTA_METRICS) else "multipath"
    return Route(
        _destination(family, length, values),
        u32(values[_RTA_NH_ID]) if _RTA_NH_ID in values else 0,
        str(ipaddress.ip_address(source)) if source else None,
        u32(values[_RTA_TABLE]) if _RTA_TABLE in values else table,
        u32(values[_RTA_PRIORITY]) if _RTA_PRIORITY in values else 0,
        0 if bare else u32(values.get(_RTA_OIF, bytes(4))),
        None if bare else _gateway(values),
        odd,
    )


def route_request(route: Route, *, new: bool) -> bytes:
    """What makes a route, or deletes one."""
    network = ipaddress.ip_network(route.prefix)
    onlink = _RTNH_F_ONLINK if route.via else 0  # an address of DHCP may be a /32
    type_ = _RTN_UNICAST if route.nexthop_id or route.index else _RTN_UNREACHABLE
    type_ = 0 if route.odd and not new else type_  # of any kind
    body = struct.pack(
        "=BBBBBBBBI", family_of(route.prefix), network.prefixlen, 0, 0, 0, RT_PROTO, _RT_SCOPE_UNIVERSE, type_, onlink
    )
    body += attribute(_RTA_DST, network.network_address.packed) + attribute(_RTA_TABLE, route.table)
    body += attribute(_RTA_PRIORITY, route.metric) if route.metric else b""
    if type_ == _RTN_UNICAST:
        body += attribute(_RTA_NH_ID, route.nexthop_id) if route.nexthop_id else attribute(_RTA_OIF, route.index)
    body += attribute(_RTA_GATEWAY, packed(route.via)) if route.via else b""
    if route.source and new:
        body += attribute(_RTA_PREFSRC, packed(route.source))
    return body


# -- default routes of others


@dataclass(frozen=True)
class DefaultRoute:
    """A default route of another program: its ways (ifindex, gateway), and its next-hop object if it has one."""

    metric: int
    ways: tuple[tuple[int, str | None], ...]
    nexthop_id: int


def default_routes(family: int, table: int, index: int = 0) -> bytes:
    """A question for routes of a table, over the device ``index`` if given; a kernel may answer with more."""
    body = struct.pack("=BBBBBBBBI", family, 0, 0, 0, 0, 0, 0, _RTN_UNICAST, 0) + attribute(_RTA_TABLE, table)
    return body + attribute(_RTA_OIF, index) if index else body


def is_default(body: bytes) -> bool:
    """Whether a route is a default route of another program; a main table may have a million that are not."""
    length, protocol, kind = body[1], body[5], body[7]
    return not length and protocol != RT_PROTO and kind == _RTN_UNICAST


def parse_default_route(body: bytes) -> DefaultRoute | None:
    """A default route of another program; None for any other route."""
    if not is_default(body):
        return None
    values = attributes(body[12:])
    metric = u32(values[_RTA_PRIORITY]) if _RTA_PRIORITY in values else 0
    return DefaultRoute(metric, tuple(_ways(values)), u32(values[_RTA_NH_ID]) if _RTA_NH_ID in values else 0)


# -- routes of others over a device


def routes_over(family: int, index: int) -> bytes:
    """A question for routes of all tables over a device, also by next-hop objects; a kernel may answer with more."""
    return struct.pack("=BBBBBBBBI", family, 0, 0, 0, 0, 0, 0, _RTN_UNICAST, 0) + attribute(_RTA_OIF, index)


def is_of_others(body: bytes) -> bool:
    """Whether a route takes packets to a destination, and neither the kernel nor we have made it."""
    table, protocol, kind = body[4], body[5], body[7]
    return protocol not in (RT_PROTO, _RTPROT_KERNEL) and kind == _RTN_UNICAST and table != RT_TABLE_LOCAL


def parse_prefix(body: bytes, index: int) -> str | None:
    """The prefix of a route; None where it names devices of which ``index`` is none."""
    values = attributes(body[12:])
    devices = {device for device, _via in _ways(values)} - {0}
    return None if devices and index not in devices else _destination(body[0], body[1], values)


# -- questions about a destination


def egress_request(flow: Flow, iif: int, oif: int) -> bytes:
    """A question for the way of the packets of a flow; ifindexes 0 where they play no part."""
    family = family_of(flow.destination)
    bits = 32 if family == socket.AF_INET else 128
    body = struct.pack("=BBBBBBBBI", family, bits, bits, 0, 0, 0, 0, 0, 0)
    body += attribute(_RTA_DST, packed(flow.destination)) + attribute(_RTA_SRC, packed(flow.source))
    for kind, index in ((_RTA_IIF, iif), (_RTA_OIF, oif)):
        body += attribute(kind, index) if index else b""
    if flow.sport is not None and flow.dport is not None:
        body += attribute(_RTA_IP_PROTO, bytes([flow.protocol]))
        body += attribute(_RTA_SPORT, struct.pack(">H", flow.sport))
        body += attribute(_RTA_DPORT, struct.pack(">H", flow.dport))
    return body


def parse_egress(body: bytes) -> int | None:
    """ifindex out of an answer to :func:`egress_request`."""
    values = attributes(body[12:])
    return u32(values[_RTA_OIF]) if _RTA_OIF in values else None


def match_request(address: str, oif: int, mark: int = 0) -> bytes:
    """A question for the entry of the tables that decides about packets to ``address``; zeros play no part."""
    family = family_of(address)
    bits = 32 if family == socket.AF_INET else 128
    # For IPv6 the table is in each answer, and the question for it is refused.
    flags = _RTM_F_FIB_MATCH | (_RTM_F_LOOKUP_TABLE if family == socket.AF_INET else 0)
    body = struct.pack("=BBBBBBBBI", family, bits, 0, 0, 0, 0, 0, 0, flags)
    asked = ((_RTA_OIF, oif), (_RTA_MARK, mark))
    return body + attribute(_RTA_DST, packed(address)) + b"".join(attribute(kind, value) for kind, value in asked if value)


def parse_match(body: bytes) -> Match:
    """The answer to :func:`match_request`."""
    values = attributes(body[12:])
    return Match(
        _destination(body[0], body[1], values),
        u32(values[_RTA_NH_ID]) if _RTA_NH_ID in values else 0,
        body[5],
        u32(values[_RTA_OIF]) if _RTA_OIF in values else 0,
        table=u32(values[_RTA_TABLE]) if _RTA_TABLE in values else body[4],
    )


def _destination(family: int, length: int, values: dict[int, bytes]) -> str:
    zero = bytes(4 if family == socket.AF_INET else 16)
    return f"{ipaddress.ip_address(values.get(_RTA_DST, zero))}/{length}"


def _gateway(values: dict[int, bytes]) -> str | None:
    if _RTA_VIA in values:  # one of another family than the route's: struct rtvia
        return str(ipaddress.ip_address(values[_RTA_VIA][2:]))
    return str(ipaddress.ip_address(values[_RTA_GATEWAY])) if _RTA_GATEWAY in values else None


def _ways(values: dict[int, bytes]) -> Iterator[tuple[int, str | None]]:
    """(ifindex, gateway) of every next hop of a route."""
    if _RTA_MULTIPATH not in values:
        yield u32(values.get(_RTA_OIF, bytes(4))), _gateway(values)
        return
    data, at = values[_RTA_MULTIPATH], 0
    while at + 8 <= len(data):
        length, _flags, _hops, index = struct.unpack_from("=HBBi", data, at)  # struct rtnexthop
        if length < 8:
            return
        yield index, _gateway(attributes(data[at + 8 : at + length]))
        at += length + 3 & ~3
