"""The one door to the kernel's network state: links, addresses, neighbours, next hops, routes, rules.

Reads give frozen values, writes are one request each.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import suppress

from zerotier_multi.names import is_our_nexthop_id
from zerotier_multi.netlink import links, nexthops, routes, rules
from zerotier_multi.netlink.links import Address, Link, Neighbour
from zerotier_multi.netlink.messages import (
    NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE,
    RTM_DELADDR, RTM_DELLINK, RTM_DELNEIGH, RTM_DELNEXTHOP, RTM_DELROUTE, RTM_DELRULE,
    RTM_GETADDR, RTM_GETLINK, RTM_GETNEIGH, RTM_GETNEXTHOP, RTM_GETNEXTHOPBUCKET, RTM_GETROUTE, RTM_GETRULE,
    RTM_NEWADDR, RTM_NEWLINK, RTM_NEWNEIGH, RTM_NEWNEXTHOP, RTM_NEWROUTE, RTM_NEWRULE, RTM_SETLINK,
)  # fmt: skip
from zerotier_multi.netlink.nexthops import Bucket, NextHop, NextHopGroup, Stray
from zerotier_multi.netlink.routes import RT_TABLE_MAIN, DefaultRoute, Flow, Match, Route
from zerotier_multi.netlink.rules import FAMILIES, Mark, Rule
from zerotier_multi.netlink.sockets import Closable, KernelError, RouteSocket

_NEW, _REPLACE = NLM_F_CREATE | NLM_F_EXCL, NLM_F_CREATE | NLM_F_REPLACE


class Rtnl(Closable):
    """Reads and writes of the kernel's network state. Every write raises KernelError when it is refused."""

    def __init__(self) -> None:
        self._socket = RouteSocket()

    def close(self) -> None:
        """Close the door."""
        self._socket.close()

    # -- reads

    def links(self) -> dict[str, Link]:
        """All devices by name."""
        found = map(links.parse_link, self._socket.dump(RTM_GETLINK, links.ALL_LINKS))
        return {link.name: link for link in found}

    def addresses(self) -> tuple[set[Address], set[Address]]:
        """Addresses of both families: permanent ones, and those in use that are known beyond their link.

        The latter may be of DHCP or of router advertisements too.
        """
        found = self._addresses()
        permanent = {address for address, flags in found if flags & links.IFA_F_PERMANENT}
        return permanent, {address for address, flags in found if not flags & links.IFA_F_TENTATIVE and address.is_global}

    def local_addresses(self) -> set[Address]:
        """All addresses in use that are known beyond their link."""
        return self.addresses()[1]

    def passing_addresses(self) -> dict[Address, str]:
        """Addresses that their devices will not keep, with what :func:`links.passing` says of each."""
        return {address: why for address, flags in self._addresses() if (why := links.passing(address, flags))}

    def _addresses(self) -> list[tuple[Address, int]]:
        """All addresses with their flags."""
        return list(filter(None, map(links.parse_address, self._socket.dump(RTM_GETADDR, links.ALL_ADDRESSES))))

    def neighbours(self) -> tuple[set[Neighbour], set[Neighbour]]:
        """Neighbour entries that know a link-layer address: permanent ones, and all others."""
        found = list(filter(None, map(links.parse_neighbour, self._socket.dump(RTM_GETNEIGH, links.ALL_NEIGHBOURS))))
        return {n for n, state in found if state & links.NUD_PERMANENT}, {
            n for n, state in found if not state & links.NUD_PERMANENT
        }

    def nexthops(self) -> tuple[dict[int, NextHop], dict[int, NextHopGroup], dict[int, Stray]]:
        """By id our next hops, our groups, and what else has our protocol number or an id of our range."""
        single, groups, strays = {}, {}, {}
        for body in self._socket.dump(RTM_GETNEXTHOP, nexthops.ALL_NEXTHOPS):
            match nexthops.parse(body):
                case NextHop() as nexthop:
                    single[nexthop.id] = nexthop
                case NextHopGroup() as group:
                    groups[group.id] = group
                case Stray() as stray if stray.ours or is_our_nexthop_id(stray.id):
                    strays[stray.id] = stray
        return single, groups, strays

    def buckets(self, group: int) -> list[Bucket]:
        """The hash buckets of a resilient group, in order. Raises KernelError where there is no such group."""
        found = map(nexthops.parse_bucket, self._socket.dump(RTM_GETNEXTHOPBUCKET, nexthops.about(group)))
        return sorted(found, key=lambda bucket: bucket.index)

    def our_routes(self) -> set[Route]:
        """Routes of both families with our protocol number."""
        bodies = (body for family in FAMILIES.values() for body in self._socket.dump(RTM_GETROUTE, routes.our_routes(family)))
        return set(filter(None, map(routes.parse_route, bodies)))

    def default_gateways(self, family: int, index: int, table: int) -> list[str | None]:
        """Gateways of the default routes over a device in a table, the best first; None for a route without any.

        Raises KernelError where there is no such table or family. Our own routes are left out, and gateways of the other family.
        """
        bodies = self._socket.dump(RTM_GETROUTE, routes.default_routes(FAMILIES[family], table, index), routes.is_default)
        found = sorted(filter(None, map(routes.parse_default_route, bodies)), key=lambda route: route.metric)
        ways = (way for route in found for way in self._ways(route))
        return [via for device, via in ways if device == index and (via is None or (":" in via) == (family == 6))]

    def prefixes_over(self, index: int) -> list[str]:
        """Prefixes that routes of other programs lead to a device, in any table, IPv4 first."""
        found: list[str] = []
        for family in FAMILIES.values():
            try:
                bodies = self._socket.dump(RTM_GETROUTE, routes.routes_over(family, index), routes.is_of_others)
            except KernelError:  # a kernel without IPv6, or a device that has just gone
                continue
            found += filter(None, (routes.parse_prefix(body, index) for body in bodies))
        return list(dict.fromkeys(found))

    def our_rules(self) -> set[Rule]:
        """Rules of both families with our protocol number."""
        return {rule for family, body in self._rules() if (rule := rules.parse_rule(family, body))}

    def marks(self) -> list[Mark]:
        """The firewall marks that rules of both families ask for."""
        return sorted({mark for family, body in self._rules() if (mark := rules.parse_mark(family, body))})

    def _rules(self) -> Iterator[tuple[int, bytes]]:
        for family in FAMILIES:
            with suppress(KernelError):  # a kernel without IPv6
                yield from ((family, body) for body in self._socket.dump(RTM_GETRULE, rules.all_rules(family)))

    def uplinks(self) -> frozenset[tuple[int, int]]:
        """Family (4 or 6) and ifindex of what default routes of the main table lead to, those of bundles not counted."""
        found: set[tuple[int, int]] = set()
        for family, number in FAMILIES.items():
            bodies = self._socket.dump(RTM_GETROUTE, routes.default_routes(number, RT_TABLE_MAIN), routes.is_default)
            for route in filter(None, map(routes.parse_default_route, bodies)):
                found |= {(family, index) for index, _via in self._ways(route)}
        return frozenset(found)

    def _ways(self, route: DefaultRoute) -> list[tuple[int, str | None]]:
        """(ifindex, gateway) of all that a default route leads to.

        FRR's have a next-hop object; without ``net.ipv4.nexthop_compat_mode`` the kernel names nothing else of them.
        """
        named = [way for way in route.ways if way[0]]
        return named if named or not route.nexthop_id else self._nexthop_ways(route.nexthop_id)

    def _nexthop_ways(self, number: int) -> list[tuple[int, str | None]]:
        """(ifindex, gateway) of all that a next-hop object leads to, whosever it is; nothing of one that has just gone."""
        try:
            body = self._socket.answer(RTM_GETNEXTHOP, nexthops.about(number))
        except KernelError:
            return []
        members, index, via = nexthops.leads_to(body) if body else ((), 0, None)
        return [way for member in members for way in self._nexthop_ways(member)] + ([(index, via)] if index else [])

    def egress(self, flow: Flow, *, iif: int = 0, oif: int = 0) -> int | None:
        """ifindex of the device on which the kernel sends packets of ``flow``, its own hash over the paths included.

        ``iif`` is where packets that are forwarded come in, 0 for the router's own; ``oif`` is the device of a
        VRF that the lookup shall be made in. None where the kernel has no way for them.
        """
        try:
            answer = self._socket.answer(RTM_GETROUTE, routes.egress_request(flow, iif, oif))
        except KernelError:
            return None
        return routes.parse_egress(answer) if answer else None

    def match(self, address: str, *, oif: int = 0, mark: int = 0) -> Match:
        """The entry by which the kernel would send a packet of this router, with a firewall mark, to ``address``.

        ``oif`` as for :meth:`egress`.
        """
        try:
            answer = self._socket.answer(RTM_GETROUTE, routes.match_request(address, oif, mark))
        except KernelError as error:
            return Match(error=error.errno or errno.EIO)
        return routes.parse_match(answer) if answer is not None else Match(error=errno.ENETUNREACH)

    # -- writes

    def add_link(self, name: str, kind: str, group: int) -> None:
        """Make a virtual device without settings (``dummy``, ``bridge``), its owner marked in its link group."""
        self._socket.request(RTM_NEWLINK, links.new_link(name, kind, group), _NEW)

    def delete_link(self, index: int) -> None:
        """Delete a device."""
        self._socket.request(RTM_DELLINK, links.link_request(index))

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
        self._socket.request(RTM_NEWLINK, links.link_change(index, up, mtu, master, alias))

    def no_link_local(self, index: int) -> None:
        """Keep the kernel from giving a device an IPv6 link-local address by itself."""
        self._socket.request(RTM_SETLINK, links.no_link_local(index))

    def add_address(self, address: Address) -> None:
        """Give a device an address, in use at once (no duplicate address detection)."""
        self._socket.request(RTM_NEWADDR, links.address_request(address), _REPLACE)

    def delete_address(self, address: Address) -> None:
        """Take an address from a device."""
        self._socket.request(RTM_DELADDR, links.address_request(address))

    def set_neighbour(self, neighbour: Neighbour) -> None:
        """Make or correct a permanent neighbour entry."""
        self._socket.request(RTM_NEWNEIGH, links.neighbour_request(neighbour, new=True), _REPLACE)

    def delete_neighbour(self, neighbour: Neighbour) -> None:
        """Delete a neighbour entry."""
        self._socket.request(RTM_DELNEIGH, links.neighbour_request(neighbour, new=False))

    def set_nexthop(self, nexthop: NextHop) -> None:
        """Make or replace a next hop; routes and groups that use it follow at once."""
        self._socket.request(RTM_NEWNEXTHOP, nexthops.nexthop_request(nexthop), _REPLACE)

    def set_group(self, group: NextHopGroup) -> None:
        """Make or replace a group. ``buckets`` of an existing group cannot change; the kernel says so."""
        self._socket.request(RTM_NEWNEXTHOP, nexthops.group_request(group), _REPLACE)

    def delete_nexthop(self, number: int) -> None:
        """Delete a next hop or a group; routes over it go with it."""
        self._socket.request(RTM_DELNEXTHOP, nexthops.about(number))

    def add_route(self, route: Route) -> None:
        """Make a route; refused where a route of somebody else to the same prefix stands."""
        self._socket.request(RTM_NEWROUTE, routes.route_request(route, new=True), _NEW)

    def replace_route(self, route: Route) -> None:
        """Move a route that is ours to another group or source without a gap."""
        self._socket.request(RTM_NEWROUTE, routes.route_request(route, new=True), _REPLACE)

    def delete_route(self, route: Route) -> None:
        """Delete a route."""
        self._socket.request(RTM_DELROUTE, routes.route_request(route, new=False))

    def add_rule(self, rule: Rule) -> None:
        """Make a rule."""
        self._socket.request(RTM_NEWRULE, rules.rule_request(rule), _NEW)

    def delete_rule(self, rule: Rule) -> None:
        """Delete a rule of ours."""
        self._socket.request(RTM_DELRULE, rules.rule_request(rule))
