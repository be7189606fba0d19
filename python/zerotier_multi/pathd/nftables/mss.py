"""Clamps the MSS of TCP connections that the router forwards through bundles: chains in our table of nftables; pure.

Paths through a bundle take smaller packets than the LANs at its ends. The kernel says so to who sends too big a one,
but firewalls eat such messages; so both ends of a connection are told at its beginning, in its SYN packets, as
``adjust-mss`` does on VyOS's other interfaces (python/vyos/ifconfig/interface.py there). Those set it in SYNs that
leave the interface; here also in those that come in, for a remote that does not do the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from zerotier_multi.pathd.kernel.desired import DeviceState
from zerotier_multi.plan import CLAMP_TO_PMTU, NO_CLAMP, Plan

_HEADERS = {4: 40, 6: 60}  # bytes of the IP and TCP headers without options


def chains(plans: Iterable[Plan], devices: Mapping[str, DeviceState]) -> str:
    """The chains that ``plans`` want, as text for nft; empty when they want none. ``devices`` tell the MTUs."""
    found, jumps = [], []
    for plan in plans:
        members = [device for i in plan.instances for device in i.devices if device in devices]
        mtus = [mtu for device in members if (mtu := devices[device].mtu)]
        values = zip((4, 6), plan.adjust_mss, strict=True)
        rules = [rule for family, value in values for rule in _rules(family, value, min(mtus, default=None))]
        if not plan.instances or not rules:
            continue
        found.append(f" chain {plan.bundle} {{\n" + "".join(f"  {rule}\n" for rule in rules) + " }\n")
        # In a VRF the device that a packet came in by is the VRF's; its own is the slave device.
        ways = ("oifname", "meta sdifname" if plan.vrf else "iifname")
        jumps += [f'  {way} "{name}" jump {plan.bundle}\n' for name in device_patterns(plan) for way in ways]
    if not found:
        return ""
    head = "  type filter hook forward priority mangle\n  meta l4proto != tcp accept\n"
    head += "  tcp flags & (syn | rst) != syn accept\n"
    return f"{''.join(found)} chain forward {{\n{head}{''.join(jumps)} }}\n"


def device_patterns(plan: Plan) -> list[str]:
    """Names of nft for the member devices of a bundle; those of further networks only where there are some."""
    further = any(len(instance.joined) > 1 for instance in plan.instances)
    return [f"{plan.bundle}p*", *([f"{plan.bundle}n*"] if further else [])]


def _rules(family: int, value: str | int, mtu: int | None) -> list[str]:
    """Rules of one address family; each can but lower an MSS. ``mtu`` is that of the member devices, where known."""
    if value == NO_CLAMP:
        return []
    # The kernel's "rt mtu" is the MSS that fits the routes there and back; in a VRF it does not find the latter.
    sizes: list[str | int] = ["rt mtu"] if value == CLAMP_TO_PMTU else [value]
    if value == CLAMP_TO_PMTU and mtu:
        sizes.append(mtu - _HEADERS[family])
    return [f"meta nfproto ipv{family} tcp option maxseg size set {size}" for size in sizes]
