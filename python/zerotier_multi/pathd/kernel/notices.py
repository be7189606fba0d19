"""Which of the kernel's notifications can mean that our state has drifted, and how soon to look; pure."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Collection, Iterable

from zerotier_multi import names
from zerotier_multi.netlink import messages
from zerotier_multi.netlink.links import NDA_DST, NUD_PERMANENT, Neighbour
from zerotier_multi.netlink.messages import Message, attributes, packed
from zerotier_multi.netlink.nexthops import NHA_ID

GROUPS = [
    messages.GROUP_LINK,
    messages.GROUP_NEIGH,
    messages.GROUP_IPV4_ADDR,
    messages.GROUP_IPV6_ADDR,
    messages.GROUP_IPV4_ROUTE,
    messages.GROUP_IPV6_ROUTE,
    messages.GROUP_NEXTHOP,
    messages.GROUP_IPV4_RULE,
    messages.GROUP_IPV6_RULE,
]
_ROUTES = (messages.RTM_NEWROUTE, messages.RTM_DELROUTE)
_BUCKETS = (messages.RTM_NEWNEXTHOPBUCKET, messages.RTM_DELNEXTHOPBUCKET)  # where a group's buckets are is the kernel's business
_NEXTHOPS = (messages.RTM_NEWNEXTHOP, messages.RTM_DELNEXTHOP)
_NEIGHBOURS = (messages.RTM_NEWNEIGH, messages.RTM_DELNEIGH)
_RTA_DST = 1
_FAMILIES = {2: 4, 10: 6}  # AF_INET, AF_INET6


class Neighbours:
    """Neighbours on our devices: ``devices`` are their ifindexes, ``ours`` the permanent entries that shall stand."""

    def __init__(self, devices: Collection[int] = (), ours: Iterable[Neighbour] = ()) -> None:
        self._devices, self._ours = devices, {(n.index, packed(n.address)) for n in ours}

    def touched_by(self, message: Message) -> bool:
        """Whether a message is about one of ours, or about a permanent entry on our devices.

        What the kernel learns there changes all the time; a bridge's table of MAC addresses, which comes by the same
        group, changes as fast as hosts behind it can send.
        """
        if message.type not in _NEIGHBOURS or len(message.body) < 12 or message.body[0] not in _FAMILIES:
            return False
        index, state = struct.unpack_from("=iH", message.body, 4)
        if index not in self._devices:
            return False
        return bool(state & NUD_PERMANENT) or (index, attributes(message.body[12:]).get(NDA_DST)) in self._ours


def concerns_us(message: Message, neighbours: Neighbours, ignored: Collection[int] = ()) -> bool:
    """Whether an event can mean that our state has drifted.

    Of routes only ours count (a router's table changes all the time) and default routes, which name the gateways of
    uplinks; of next hops ours and those in our range, but for the ``ignored``.
    """
    if message.type in _ROUTES:
        return len(message.body) > 5 and (message.body[5] == names.RT_PROTO or message.body[1] == 0)
    if message.type in _NEIGHBOURS:
        return neighbours.touched_by(message)
    if message.type in _NEXTHOPS:
        return _concerns_next_hop(message.body, ignored)
    return message.type not in _BUCKETS


def _concerns_next_hop(body: bytes, ignored: Collection[int]) -> bool:
    values = attributes(body[8:])
    if len(values.get(NHA_ID, b"")) != 4:
        return True
    number = int(struct.unpack("=I", values[NHA_ID])[0])
    return number not in ignored and (body[2] == names.RT_PROTO or names.is_our_nexthop_id(number))


class Prefixes:
    """Prefixes of remotes: routes of others to them or within them may take what shall go over a bundle.

    What lies within a default route is not looked at, because everything does.
    """

    def __init__(self, prefixes: Iterable[str] = ()) -> None:
        self._of: dict[int, dict[int, set[int]]] = {4: {}, 6: {}}  # family -> length -> the bits in front
        for prefix in prefixes:
            network = ipaddress.ip_network(prefix)
            if network.prefixlen:
                bits = int(network.network_address) >> network.max_prefixlen - network.prefixlen
                self._of[network.version].setdefault(network.prefixlen, set()).add(bits)

    def touched_by(self, message: Message) -> bool:
        """Whether a message is about a route to such a prefix, or to a part of one."""
        if message.type not in _ROUTES or len(message.body) < 12:
            return False
        family, length = _FAMILIES.get(message.body[0], 0), message.body[1]
        lengths = [own for own in self._of.get(family, ()) if own <= length]
        if not lengths:
            return False
        destination = attributes(message.body[12:]).get(_RTA_DST, b"")
        bits, size = int.from_bytes(destination, "big"), 8 * len(destination)
        return any(bits >> size - own in self._of[family][own] for own in lengths if own <= size)
