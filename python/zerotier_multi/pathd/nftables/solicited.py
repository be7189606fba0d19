"""Limits what makes the kernel note a neighbour on a member device: a chain in our table of nftables; pure.

A solicitation of a neighbour or a router makes an entry of its source, whatever address that is, in a table that all devices
share (net.ipv6.neigh.default.gc_thresh3: 1,024 by default, 8,192 on VyOS). A remote that sends many from made-up addresses
would fill it, and then the router finds no host of its LANs any more. Of ARP the kernel's ``arp_ignore`` takes care.
"""

from __future__ import annotations

from collections.abc import Iterable

from zerotier_multi.pathd.nftables.mss import device_patterns
from zerotier_multi.plan import Plan

_KINDS = "icmpv6 type { nd-router-solicit, nd-neighbor-solicit }"
# By sender, so that none takes what others may need: ZeroTier lets nobody send with another's MAC address, but for bridges.
_SET = " set solicitors {\n  type ether_addr\n  size 1024\n  flags dynamic,timeout\n  timeout 1m\n }\n"
_EACH = "update @solicitors { ether saddr limit rate over 10/second burst 100 packets }"
_ALL = "limit rate over 100/second burst 500 packets"  # entries younger than 5 s cannot be pushed out of the table


def chains(plans: Iterable[Plan]) -> str:
    """The chain that ``plans`` want, as text for nft; empty without a bundle that runs."""
    devices = [name for plan in plans if plan.instances for name in device_patterns(plan)]
    if not devices:
        return ""
    rules = "".join(f'  iifname "{name}" {_KINDS} {limit} drop\n' for name in devices for limit in (_EACH, _ALL))
    return f"{_SET} chain solicitations {{\n  type filter hook prerouting priority raw\n{rules} }}\n"
