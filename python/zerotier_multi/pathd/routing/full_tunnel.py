"""What a remote with the prefix 0.0.0.0/0 or ::/0 needs besides its route: rules that keep the underlay where it was; pure.

The default route over the bundle stands in a table of its own. The main table stays as others have made it, default route
included, and is looked at first, but for that. So whoever sets the default route (a DHCP client, FRR, router
advertisements) goes on doing so, and the sockets of the engines, which are bound to their device, find it there. It also
serves

- what is sent from an address of the underlay: answers to those who come in by it, zerotier-one's sockets, and the reverse
  path that rp_filter asks for; also from one of lo or a dummy that an instance listens on, whose socket is bound to no device;
- DHCP clients, which renew by unicast from a socket without an address;
- everything again while no path is up, unless the routes shall be kept: then what has no other way is refused.

In a VRF none of this is needed, because the underlay is not in it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable, Iterator

from zerotier_multi import names
from zerotier_multi.local_conf import holds_addresses
from zerotier_multi.pathd.kernel.desired import DEFAULTS, Desired
from zerotier_multi.netlink.state import KernelState
from zerotier_multi.plan import Plan
from zerotier_multi.netlink.routes import RT_TABLE_LOCAL, RT_TABLE_MAIN, Route
from zerotier_multi.netlink.rules import Rule

_DHCP_CLIENT = {4: 68, 6: 546}  # UDP ports
_LOCAL, _DHCP, _UNDERLAY, _SPECIFIC, _TUNNEL = range(names.FULL_TUNNEL_PRIORITY, names.FULL_TUNNEL_PRIORITY + 5)


def families(plans: Iterable[Plan]) -> dict[int, bool]:
    """Families in which there is a full tunnel, and whether it keeps its routes when all paths are down."""
    found = {}
    for plan in plans:
        for route in plan.routes if plan.vrf is None else ():
            if route.prefix in DEFAULTS:
                found[6 if ":" in route.prefix else 4] = plan.keep_routes
    return found


def add(want: Desired, plans: Collection[Plan], have: KernelState) -> None:
    """Put the rules of full tunnels among what shall stand, and where routes are kept one that refuses."""
    listening = {address for plan in plans for i in plan.instances if i.source_interface is None for address in i.listen}
    for family, keep in families(plans).items():
        want.rules |= set(_rules(family, have, listening))
        if keep:
            prefix = DEFAULTS[family == 6]
            want.routes.add(Route(prefix, 0, None, names.FULL_TUNNEL_TABLE, names.REFUSING_METRIC))


def _rules(family: int, have: KernelState, listening: Collection[str]) -> Iterator[Rule]:
    holders = {link.index for name, link in have.links.items() if holds_addresses(name)}
    # Where VRFs are, VyOS has the local table looked at as late as 32765.
    yield Rule(family, _LOCAL, "", 0, RT_TABLE_LOCAL)
    yield Rule(family, _DHCP, "", _DHCP_CLIENT[family], RT_TABLE_MAIN)
    for address in have.local:
        own = ipaddress.ip_interface(address.interface)
        sends = (family, address.index) in have.uplinks or (address.index in holders and str(own.ip) in listening)
        if own.version == family and sends:
            yield Rule(family, _UNDERLAY, str(own.ip), 0, RT_TABLE_MAIN)
    yield Rule(family, _SPECIFIC, "", 0, RT_TABLE_MAIN, no_default=True)
    yield Rule(family, _TUNNEL, "", 0, names.FULL_TUNNEL_TABLE)
