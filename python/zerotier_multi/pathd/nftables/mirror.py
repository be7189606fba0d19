"""Copies of what comes and goes over member devices, and packets that another device takes: our table of the devices; pure.

VyOS does this with tc (python/vyos/ifconfig/interface.py). A chain of nftables is bound to its devices, so it leaves alone
what others have in tc, such as the shaper of an input device.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from zerotier_multi import devices as ours
from zerotier_multi.netlink.links import Link
from zerotier_multi.pathd.nftables.table import script
from zerotier_multi.plan import Plan

FAMILY = "netdev"
MISSING = "mirror and redirect of bundles do nothing"
_FIRST, _LAST = -500, 500  # copies on the way in are taken before anything changes them, on the way out after


def table(plans: Iterable[Plan], links: Mapping[str, Link]) -> str:
    """The table for nft; empty when no plan wants one. Only devices that exist are in it, and none of another program.

    A chain is about one device, whatever has its name later, so the text changes with the indexes.
    """
    return script(*(chain for plan in plans for chain in _chains(plan, links)), family=FAMILY)


def _chains(plan: Plan, links: Mapping[str, Link]) -> Iterator[str]:
    wanted = (
        ("mirror-ingress", "ingress", _FIRST, "dup", plan.mirror_ingress),
        ("mirror-egress", "egress", _LAST, "dup", plan.mirror_egress),
        ("redirect", "ingress", _FIRST, "fwd", plan.redirect),
    )
    named = (links.get(device) for instance in plan.instances for device in instance.devices)
    members = [link.name for link in named if link and ours.may_be_of_instance(link)]
    for name, hook, priority, verb, target in wanted:
        if target and target in links and members:
            indexes = " ".join(f"{device}={links[device].index}" for device in (*members, target))
            devices = ", ".join(f'"{device}"' for device in members)
            yield (
                f" chain {plan.bundle}-{name} {{ # {indexes}\n"
                f"  type filter hook {hook} devices = {{ {devices} }} priority {priority}; policy accept\n"
                f'  {verb} to "{target}"\n }}\n'
            )
