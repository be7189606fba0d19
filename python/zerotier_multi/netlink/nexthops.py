"""Next-hop objects of the kernel as values: those that are of our making, and all else that has one of our ids.

Numbers are those of linux/nexthop.h. An object is ours when all that makes it up is as we would make it: its protocol
number, kind, flags and attributes. So two equal values are the same to the kernel too, and what differs in anything is a
:class:`Stray`.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest

from zerotier_multi.names import RT_PROTO
from zerotier_multi.netlink.messages import attribute, attributes, family_of, nested, packed, u32

NHA_ID = 1
_NHA_GROUP, _NHA_GROUP_TYPE, _NHA_OIF, _NHA_GATEWAY, _NHA_RES_GROUP = 2, 3, 5, 6, 12
_NHA_BLACKHOLE, _NHA_FDB = 4, 11
_NHA_RES_GROUP_BUCKETS, _NHA_RES_GROUP_IDLE_TIMER, _NHA_RES_GROUP_UNBALANCED_TIMER = 1, 2, 3
_RTNH_F_ONLINK = 4
_NHA_RES_BUCKET = 13
_NHA_RES_BUCKET_INDEX, _NHA_RES_BUCKET_IDLE_TIME, _NHA_RES_BUCKET_NH_ID = 1, 2, 3
_NEXTHOP_GRP_TYPE_RES = 1
_CLOCK_TICKS = 100  # USER_HZ: timers of next-hop groups are in 1/100 s
FORCED_AFTER = 0.05  # seconds; a shorter time may read back as 0 (never), because the kernel keeps it in whole jiffies

ALL_NEXTHOPS = struct.pack("=BBBxI", 0, 0, 0, 0)

# Attributes of the objects that we make, those included that the kernel adds by itself: what other groups have besides.
_SINGLE = {NHA_ID, _NHA_OIF, _NHA_GATEWAY}
_GROUP = {NHA_ID, _NHA_GROUP, _NHA_GROUP_TYPE, _NHA_RES_GROUP}
_NHA_OP_FLAGS, _NHA_HW_STATS_ENABLE, _NHA_HW_STATS_USED = 14, 16, 17  # say nothing about where packets go
_SILENT = {_NHA_OP_FLAGS, _NHA_HW_STATS_ENABLE, _NHA_HW_STATS_USED}


@dataclass(frozen=True)
class NextHop:
    """A next-hop object with a gateway."""

    id: int
    index: int
    via: str


@dataclass(frozen=True)
class NextHopGroup:
    """A group of next hops; ``buckets`` 0 is a plain multipath group. ``idle_timer`` in seconds.

    ``weights`` are those of the members (1 to 65536); empty where all are 1. ``unbalanced`` is the time in seconds after which
    members that have too many buckets give the first of them away, busy or not: 0 (never), :data:`FORCED_AFTER`, or whole seconds.
    """

    id: int
    members: tuple[int, ...]
    buckets: int = 0
    idle_timer: float = 0
    weights: tuple[int, ...] = ()
    unbalanced: float = 0


@dataclass(frozen=True)
class Stray:
    """A next-hop object that is not as we make them; ``text`` says what it is. ``ours``: it has our protocol number."""

    id: int
    text: str
    group: bool
    ours: bool


@dataclass(frozen=True)
class Bucket:
    """A hash bucket of a resilient group: its number, the next hop it is on, seconds since its last packet."""

    index: int
    path: int
    idle: float


def group_weights(weights: Iterable[int]) -> tuple[int, ...]:
    """Weights as a :class:`NextHopGroup` has them: none where all are 1."""
    found = tuple(weights)
    return found if any(weight != 1 for weight in found) else ()


def group_members(members: tuple[int, ...], weights: tuple[int, ...]) -> str:
    """Members of a group as ``ip nexthop`` takes them."""
    pairs = zip_longest(members, weights)
    return "/".join(f"{member},{weight}" if weight and weight != 1 else str(member) for member, weight in pairs)


def parse(body: bytes) -> NextHop | NextHopGroup | Stray:
    """The object that a message RTM_NEWNEXTHOP is about; ``body`` is what follows the netlink header."""
    _family, _scope, protocol, flags = struct.unpack_from("=BBBxI", body)
    values = attributes(body[8:])
    number, ours = u32(values[NHA_ID]), protocol == RT_PROTO
    kinds = values.keys() - _SILENT
    if _NHA_GROUP in values:
        group = parse_group(number, values)
        known = ours and kinds <= _GROUP and not flags & _RTNH_F_ONLINK
        kind = "resilient group" if group.buckets else "group"
        return group if known else Stray(number, f"a {kind} of {group_members(group.members, group.weights)}", True, ours)
    if ours and kinds == _SINGLE and not flags & _RTNH_F_ONLINK:
        return NextHop(number, u32(values[_NHA_OIF]), _gateway(values))
    return Stray(number, _text(values, flags), False, ours)


def _text(values: dict[int, bytes], flags: int) -> str:
    if _NHA_BLACKHOLE in values:
        return "a blackhole"
    words = [f"via {_gateway(values)}"] if _NHA_GATEWAY in values else []
    words += [f"dev if{u32(values[_NHA_OIF])}"] if _NHA_OIF in values else []
    words += ["onlink"] if flags & _RTNH_F_ONLINK else []
    words += ["fdb"] if _NHA_FDB in values else []
    return " ".join(["a next hop", *words])


def parse_group(number: int, values: dict[int, bytes]) -> NextHopGroup:
    """A group out of its attributes, whosever it is."""
    content = values[_NHA_GROUP]
    entries = [struct.unpack_from("=IBBH", content, at) for at in range(0, len(content), 8)]
    members = tuple(entry[0] for entry in entries)
    # One less than people say; the high byte since Linux 6.12.
    weights = group_weights(entry[1] + (entry[2] << 8) + 1 for entry in entries)
    resilient = attributes(values.get(_NHA_RES_GROUP, b""))
    if _NHA_RES_GROUP_BUCKETS not in resilient:
        return NextHopGroup(number, members, weights=weights)
    buckets = struct.unpack_from("=H", resilient[_NHA_RES_GROUP_BUCKETS])[0]
    idle = u32(resilient[_NHA_RES_GROUP_IDLE_TIMER]) / _CLOCK_TICKS
    ticks = u32(resilient.get(_NHA_RES_GROUP_UNBALANCED_TIMER, bytes(4)))
    unbalanced = ticks // _CLOCK_TICKS or (FORCED_AFTER if ticks else 0)
    return NextHopGroup(number, members, buckets, idle, weights, unbalanced)


def _gateway(values: dict[int, bytes]) -> str:
    return str(ipaddress.ip_address(values[_NHA_GATEWAY]))


# -- requests


def about(number: int) -> bytes:
    """A question for a next hop, a group or its buckets, or what deletes one of the first two."""
    return ALL_NEXTHOPS + attribute(NHA_ID, number)


def nexthop_request(nexthop: NextHop) -> bytes:
    """What makes a next hop or replaces one."""
    body = struct.pack("=BBBxI", family_of(nexthop.via), 0, RT_PROTO, 0)
    body += attribute(NHA_ID, nexthop.id) + attribute(_NHA_OIF, nexthop.index)
    return body + attribute(_NHA_GATEWAY, packed(nexthop.via))


def group_request(group: NextHopGroup) -> bytes:
    """What makes a group or replaces one."""
    body = struct.pack("=BBBxI", 0, 0, RT_PROTO, 0) + attribute(NHA_ID, group.id)
    body += attribute(_NHA_GROUP, b"".join(_group_entry(*pair) for pair in zip_longest(group.members, group.weights)))
    if group.buckets:
        body += attribute(_NHA_GROUP_TYPE, struct.pack("=H", _NEXTHOP_GRP_TYPE_RES))
        body += nested(
            _NHA_RES_GROUP,
            attribute(_NHA_RES_GROUP_BUCKETS, struct.pack("=H", group.buckets)),
            attribute(_NHA_RES_GROUP_IDLE_TIMER, round(group.idle_timer * _CLOCK_TICKS)),
            attribute(_NHA_RES_GROUP_UNBALANCED_TIMER, round(group.unbalanced * _CLOCK_TICKS)),
        )
    return body


def _group_entry(member: int, weight: int | None) -> bytes:
    """A struct nexthop_grp, in which a weight is one less than people say."""
    return struct.pack("=IBBH", member, (weight or 1) - 1, 0, 0)


# -- what is asked besides


def parse_bucket(body: bytes) -> Bucket:
    """A hash bucket out of the body of a message RTM_NEWNEXTHOPBUCKET."""
    values = attributes(attributes(body[8:])[_NHA_RES_BUCKET])
    index = struct.unpack_from("=H", values[_NHA_RES_BUCKET_INDEX])[0]
    idle = struct.unpack_from("=Q", values[_NHA_RES_BUCKET_IDLE_TIME])[0]
    return Bucket(index, u32(values[_NHA_RES_BUCKET_NH_ID]), idle / _CLOCK_TICKS)


def leads_to(body: bytes) -> tuple[tuple[int, ...], int, str | None]:
    """(members, ifindex, gateway) of a next-hop object, whosever it is; none, 0 and None where it has no such."""
    values = attributes(body[8:])
    if _NHA_GROUP in values:
        return parse_group(0, values).members, 0, None
    return (), u32(values[_NHA_OIF]) if _NHA_OIF in values else 0, _gateway(values) if _NHA_GATEWAY in values else None
