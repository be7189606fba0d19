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
from zerotier_multi.netlink import attributes

NHA_ID, NHA_GROUP, NHA_GROUP_TYPE, NHA_OIF, NHA_GATEWAY, NHA_RES_GROUP = 1, 2, 3, 5, 6, 12
_NHA_BLACKHOLE, _NHA_FDB = 4, 11
NHA_RES_GROUP_BUCKETS, NHA_RES_GROUP_IDLE_TIMER, NHA_RES_GROUP_UNBALANCED_TIMER = 1, 2, 3
_RTNH_F_ONLINK = 4
_CLOCK_TICKS = 100  # USER_HZ: timers of next-hop groups are in 1/100 s

# Attributes of the objects that we make, those included that the kernel adds by itself: what other groups have besides.
_SINGLE = {NHA_ID, NHA_OIF, NHA_GATEWAY}
_GROUP = {NHA_ID, NHA_GROUP, NHA_GROUP_TYPE, NHA_RES_GROUP}
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

    ``weights`` are those of the members (1 to 65536); empty where all are 1. ``forced``: members that have too many
    buckets give the first of them away at once, busy or not.
    """

    id: int
    members: tuple[int, ...]
    buckets: int = 0
    idle_timer: float = 0
    weights: tuple[int, ...] = ()
    forced: bool = False


@dataclass(frozen=True)
class Stray:
    """A next-hop object that is not as we make them; ``text`` says what it is. ``ours``: it has our protocol number."""

    id: int
    text: str
    group: bool
    ours: bool


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
    number, ours = _u32(values[NHA_ID]), protocol == RT_PROTO
    kinds = values.keys() - _SILENT
    if NHA_GROUP in values:
        group = parse_group(number, values)
        known = ours and kinds <= _GROUP and not flags & _RTNH_F_ONLINK
        kind = "resilient group" if group.buckets else "group"
        return group if known else Stray(number, f"a {kind} of {group_members(group.members, group.weights)}", True, ours)
    if ours and kinds == _SINGLE and not flags & _RTNH_F_ONLINK:
        return NextHop(number, _u32(values[NHA_OIF]), _gateway(values))
    return Stray(number, _text(values, flags), False, ours)


def _text(values: dict[int, bytes], flags: int) -> str:
    if _NHA_BLACKHOLE in values:
        return "a blackhole"
    words = [f"via {_gateway(values)}"] if NHA_GATEWAY in values else []
    words += [f"dev if{_u32(values[NHA_OIF])}"] if NHA_OIF in values else []
    words += ["onlink"] if flags & _RTNH_F_ONLINK else []
    words += ["fdb"] if _NHA_FDB in values else []
    return " ".join(["a next hop", *words])


def parse_group(number: int, values: dict[int, bytes]) -> NextHopGroup:
    """A group out of its attributes, whosever it is."""
    content = values[NHA_GROUP]
    entries = [struct.unpack_from("=IBBH", content, at) for at in range(0, len(content), 8)]
    members = tuple(entry[0] for entry in entries)
    # One less than people say; the high byte since Linux 6.12.
    weights = group_weights(entry[1] + (entry[2] << 8) + 1 for entry in entries)
    resilient = attributes(values.get(NHA_RES_GROUP, b""))
    if NHA_RES_GROUP_BUCKETS not in resilient:
        return NextHopGroup(number, members, weights=weights)
    buckets = struct.unpack_from("=H", resilient[NHA_RES_GROUP_BUCKETS])[0]
    idle = _u32(resilient[NHA_RES_GROUP_IDLE_TIMER]) / _CLOCK_TICKS
    forced = bool(_u32(resilient.get(NHA_RES_GROUP_UNBALANCED_TIMER, bytes(4))))
    return NextHopGroup(number, members, buckets, idle, weights, forced)


def _gateway(values: dict[int, bytes]) -> str:
    return str(ipaddress.ip_address(values[NHA_GATEWAY]))


def _u32(data: bytes) -> int:
    return int(struct.unpack_from("=I", data)[0])
