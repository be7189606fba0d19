"""The view of the kernel's state that the daemon and op mode share."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from zerotier_multi.netlink.links import Address, Link, Neighbour
from zerotier_multi.netlink.nexthops import NextHop, NextHopGroup, Stray
from zerotier_multi.netlink.routes import Route
from zerotier_multi.netlink.rtnl import Rtnl
from zerotier_multi.netlink.rules import Rule


@dataclass
class KernelState:
    """Devices, addresses and neighbours of all; next hops, routes and rules as far as they are ours."""

    links: Mapping[str, Link] = field(default_factory=dict)
    addresses: Set[Address] = field(default_factory=set)  # permanent ones
    neighbours: Set[Neighbour] = field(default_factory=set)  # permanent ones
    learned: Set[Neighbour] = field(default_factory=set)  # all others
    nexthops: Mapping[int, NextHop] = field(default_factory=dict)
    groups: Mapping[int, NextHopGroup] = field(default_factory=dict)
    strays: Mapping[int, Stray] = field(default_factory=dict)  # what else has our ids or our protocol number
    routes: Set[Route] = field(default_factory=set)
    rules: Set[Rule] = field(default_factory=set)
    local: Set[Address] = field(default_factory=set)  # the router's own addresses, those of DHCP too
    uplinks: Set[tuple[int, int]] = frozenset()  # (family, ifindex) of default routes; read where they are needed


def observe(rtnl: Rtnl) -> KernelState:
    """Read all but the uplinks. Raises OSError."""
    nexthops, groups, strays = rtnl.nexthops()
    permanent, learned = rtnl.neighbours()
    addresses, local = rtnl.addresses()
    return KernelState(
        links=rtnl.links(),
        addresses=addresses,
        neighbours=permanent,
        learned=learned,
        nexthops=nexthops,
        groups=groups,
        strays=strays,
        routes=rtnl.our_routes(),
        rules=rtnl.our_rules(),
        local=local,
    )
