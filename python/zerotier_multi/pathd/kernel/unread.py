"""What stands of bundles whose plan cannot be read: it carries traffic without a daemon, so it is not taken away; pure.

Numbers and names say whose a thing is. What bundles share has none; it stays while any of them cannot be read.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

from zerotier_multi import names
from zerotier_multi.netlink.routes import Route
from zerotier_multi.netlink.rules import Rule
from zerotier_multi.netlink.state import KernelState


def bundle_of_device(device: str) -> str:
    """The bundle that a device belongs to; empty for one of others, such as an uplink."""
    return re.split("[pn]", device)[0] if names.is_our_device(device) else ""


def prunable(have: KernelState, unread: Collection[str]) -> KernelState:
    """What stands, without what is, or may be, of the bundles ``unread``."""
    if not unread:
        return have
    return replace(
        have,
        links={name: link for name, link in have.links.items() if name not in unread},
        nexthops={n: hop for n, hop in have.nexthops.items() if names.bundle_of_nexthop(n) not in unread},
        groups={n: group for n, group in have.groups.items() if names.bundle_of_nexthop(n) not in unread},
        strays={n: stray for n, stray in have.strays.items() if names.bundle_of_nexthop(n) not in unread},
        routes=have.routes - _routes(have, unread),
        rules=have.rules - _rules(have, unread),
    )


def _routes(have: KernelState, unread: Collection[str]) -> set[Route]:
    names_of = {link.index: name for name, link in have.links.items()}
    # The route that refuses what a full tunnel does not take goes with that of the tunnel, where it tells whose it is.
    tunnels = {_family(r.prefix): names.bundle_of_nexthop(r.nexthop_id) for r in have.routes if _of_tunnel(r) and r.nexthop_id}

    def keeps(route: Route) -> bool:
        if route.nexthop_id:
            return names.bundle_of_nexthop(route.nexthop_id) in unread
        if _of_tunnel(route):
            return tunnels.get(_family(route.prefix)) in (None, *unread)
        return _of_uplink(route.table, unread) or names_of.get(route.index) in unread

    return {route for route in have.routes if keeps(route)}


def _rules(have: KernelState, unread: Collection[str]) -> set[Rule]:
    """Those of full tunnels, and of an uplink both: the one that names the main table is beside one that names ours."""
    senders = {(rule.family, rule.source, rule.port) for rule in have.rules if _of_uplink(rule.table, unread)}
    return {
        rule for rule in have.rules
        if rule.priority >= names.FULL_TUNNEL_PRIORITY or (rule.family, rule.source, rule.port) in senders
    }  # fmt: skip


def _of_tunnel(route: Route) -> bool:
    return route.table == names.FULL_TUNNEL_TABLE


def _of_uplink(table: int, unread: Collection[str]) -> bool:
    """Whether a table is that of an uplink of such a bundle; its number is made as the id of a next hop is."""
    return table != names.FULL_TUNNEL_TABLE and names.bundle_of_nexthop(table) in unread


def _family(prefix: str) -> int:
    return 6 if ":" in prefix else 4
