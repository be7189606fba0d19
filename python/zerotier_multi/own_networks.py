"""Prefixes and transit addresses of a bundle that lie on the links of this router itself; pure.

Such a prefix of a remote takes the hosts of a LAN away from their router: its route comes before the connected one (always with
IPv6; with IPv4 once the connected one has been away for a moment). The paths work, so nothing else tells why these hosts are gone.
A longer prefix within a LAN is left to who sets it: it may be meant (proxy ARP), and takes no other hosts.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping

from zerotier_multi import names
from zerotier_multi.netlink.links import Address, Link, routing_domain
from zerotier_multi.plan import Plan

# Of each network of the router, such as 192.168.1.0/24, the device that it is on.
Networks = Mapping[str, str]


def networks(links: Iterable[Link], addresses: Iterable[Address], vrf: str | None) -> Networks:
    """Networks of more than one address on the links of this router within a VRF (None: outside all), devices of bundles left out."""
    by_index = {link.index: link for link in links}
    found = {}
    for address in sorted(addresses, key=str):
        link, own = by_index.get(address.index), ipaddress.ip_interface(address.interface).network
        if link is None or not link.up or names.is_our_device(link.name) or own.num_addresses == 1:
            continue
        if routing_domain(link.index, by_index) == vrf:
            found[str(own)] = link.name
    return found


def conflicts(plan: Plan, own: Networks) -> Iterator[str]:
    """Sentences without their begin, which is the path of the bundle or its name."""
    remotes = {group.group_id: group.remote for group in plan.groups}
    for route in plan.routes:
        if device := own.get(route.prefix):
            remote = remotes[route.group_id]
            yield (
                f"remote {remote} prefix {route.prefix}: it is the network of {device} on this router, whose hosts are then looked "
                f"for behind {remote}; set prefixes that {remote} alone has"
            )
    for network, device in own.items():
        if at := next((t for i in plan.instances for t in i.transit if _overlap(t, network)), None):
            yield (
                f"transit prefix: {at} lies in {network} of {device} on this router, so addresses of one are looked for on the other; "
                f"set another transit prefix"
            )


def _overlap(transit: str, network: str) -> bool:
    prefix, own = ipaddress.ip_interface(transit).network, ipaddress.ip_network(network)
    return prefix.version == own.version and prefix.overlaps(own)
