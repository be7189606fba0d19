"""What the router does not take of what comes in over a bundle: ``ip source-validation``, ``ip disable-forwarding`` and those of ipv6;
chains in our table of nftables; pure.

VyOS validates the source of other interfaces by the device of the route back (python/vyos/ifconfig/interface.py). A bundle has
several, and what the remote sends over one path may be answered over another; so here the route back must lead over the
bundle. Forwarding is disabled by a rule, because the kernel's setting of a device exists for IPv4 only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from zerotier_multi.pathd.nftables.mss import device_patterns
from zerotier_multi.plan import LOOSE, STRICT, Plan

FAMILIES = ("ipv4", "ipv6")  # in the order of the plan


def chains(plans: Iterable[Plan]) -> str:
    """The chains that ``plans`` want, as text for nft; empty where they want none."""
    running = [plan for plan in plans if plan.instances]
    found, jumps = "", ""
    for plan in running:
        if rules := [
            rule for family, how in zip(FAMILIES, plan.source_validation, strict=True) for rule in _rules(plan, family, how)
        ]:
            name = f"{plan.bundle}-sources"
            found += f" chain {name} {{\n" + "".join(f"  {rule}\n" for rule in rules) + " }\n"
            jumps += "".join(f'  iifname "{device}" jump {name}\n' for device in device_patterns(plan))
    if jumps:
        found += f" chain validation {{\n  type filter hook prerouting priority raw\n{jumps} }}\n"
    drops = "".join(f"  {rule}\n" for plan in running for rule in _drops(plan))
    return found + (f" chain no-forwarding {{\n  type filter hook forward priority mangle\n{drops} }}\n" if drops else "")


def _rules(plan: Plan, family: str, how: str) -> Iterator[str]:
    if family == "ipv6" and how in (STRICT, LOOSE):
        yield "ip6 saddr { ::, fe80::/10 } return"  # they are of the link, which no route leads to
    if how == LOOSE:
        yield f"meta nfproto {family} fib saddr oif missing drop"
    elif how == STRICT:
        for device in device_patterns(plan):
            yield f'meta nfproto {family} fib saddr oifname "{device}" return'
        yield f"meta nfproto {family} drop"


def _drops(plan: Plan) -> Iterator[str]:
    # In a VRF the device that a packet came in by is the VRF's; its own is the slave device.
    way = "meta sdifname" if plan.vrf else "iifname"
    for family, disabled in zip(FAMILIES, plan.disable_forwarding, strict=True):
        if disabled:
            yield from (f'{way} "{device}" meta nfproto {family} drop' for device in device_patterns(plan))
