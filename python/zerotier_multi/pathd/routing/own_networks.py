"""Prefixes and transit addresses of a bundle that lie on the links of this router itself; pure.

Such a prefix of a remote takes the hosts of a LAN away from their router: its route comes before the connected one (always with
IPv6; with IPv4 once the connected one has been away for a moment). The paths work, so nothing else tells why these hosts are gone.
A longer prefix within a LAN is left to who sets it: it may be meant (proxy ARP), and takes no other hosts.

The daemon asks at each look, and a router may have hundreds of networks. So texts are read once, and those of the transit
addresses are taken together.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from operator import attrgetter

from zerotier_multi import names
from zerotier_multi.netlink.links import Address, Link, routing_domain
from zerotier_multi.plan import Plan
from zerotier_multi.transit import IPNetwork

# Of each network of the router, such as 192.168.1.0/24, the device that it is on.
Networks = Mapping[str, str]


def networks(links: Iterable[Link], addresses: Iterable[Address], vrf: str | None) -> Networks:
    """Networks of more than one address on the links of this router within a VRF (None: outside all), devices of bundles left out."""
    by_index = {link.index: link for link in links}
    found = {}
    for address in sorted(addresses, key=attrgetter("index", "interface")):
        link, own = by_index.get(address.index), _network(address.interface)
        if link is None or not link.up or names.is_our_device(link.name) or own.num_addresses == 1:
            continue
        if routing_domain(link.index, by_index) == vrf:
            found[str(own)] = link.name
    return found


def conflicts(plan: Plan, own: Networks) -> Iterator[str]:
    """A sentence for each."""
    where = f"interfaces zerotier {plan.bundle}"
    remotes = {group.group_id: group.remote for group in plan.groups}
    for route in plan.routes:
        if device := own.get(route.prefix):
            remote = remotes[route.group_id]
            yield (
                f"{where} remote {remote} prefix {route.prefix}: it is the network of {device} on this router, whose hosts are then looked "
                f"for behind {remote}; set prefixes that {remote} alone has"
            )
    transits = {transit: _network(transit) for instance in plan.instances for transit in instance.transit}
    whole = [*_together(4, transits.values()), *_together(6, transits.values())]
    for network, device in own.items():
        if any(_overlap(prefix, _network(network)) for prefix in whole):
            at = next(transit for transit, prefix in transits.items() if _overlap(prefix, _network(network)))
            yield (
                f"{where} transit prefix: {at} lies in {network} of {device} on this router, so addresses of one are looked for on "
                f"the other; set another transit prefix"
            )


@lru_cache(maxsize=4096)
def _network(text: str) -> IPNetwork:
    """The network of an address with its length, or of a prefix."""
    return ipaddress.ip_interface(text).network


def _together(family: int, prefixes: Iterable[IPNetwork]) -> Iterable[IPNetwork]:
    return ipaddress.collapse_addresses(prefix for prefix in prefixes if prefix.version == family)  # type: ignore[type-var]


def _overlap(one: IPNetwork, other: IPNetwork) -> bool:
    return one.version == other.version and one.overlaps(other)
