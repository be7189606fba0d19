"""Drops what comes by "trusted path 0" to instances of zerotier-one: a chain in our table of nftables; pure.

By a trusted path, packets come without encryption and MAC, with the number of the path in the place of the MAC. zerotier-one
takes one for authentic that comes from any prefix below ``physical`` in ``local.conf`` and has its number, and every prefix has
one: 0 where none is configured, also where the prefix is only kept off the underlay, as transit prefixes are (1.14.1:
``OneService::readLocalSettings``, ``Topology::shouldInboundPathBeTrusted``). So whoever forges a source address of such a prefix
could be any node. A number that is configured is not 0, and ztnode refuses 0 itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from zerotier_multi.engine_choice import checks_trusted_paths
from zerotier_multi.plan import Plan

# From the beginning of the UDP header: a whole packet or the head of fragments (byte 13), cipher suite 2 (byte 18), number 0.
_FORGED = "@th,168,8 != 0xff @th,208,8 & 0x38 == 0x10 @th,216,64 == 0"


def chains(plans: Iterable[Plan]) -> str:
    """The chain that ``plans`` want, as text for nft; empty where no instance needs it."""
    ports = {port for plan in plans for i in plan.instances if not checks_trusted_paths(i.engine) for port in i.ports}
    if not ports:
        return ""
    rule = f"udp dport {{ {', '.join(map(str, sorted(ports)))} }} {_FORGED} drop"
    return f" chain unsealed {{\n  type filter hook input priority raw\n  {rule}\n }}\n"
