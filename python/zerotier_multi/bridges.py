"""``network NWID bridge``: a network as a port of a bridge, and whether it can be so; pure.

The bridge is the router's own (``interfaces bridge``): a configuration names it, zerotier-pathd puts the device into it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from zerotier_multi import names
from zerotier_multi.bundle import Bundle, NetworkOptions
from zerotier_multi.errors import Problem
from zerotier_multi.networks import users
from zerotier_multi.plan import InstancePlan, Plan


def problems(bundle: Bundle, numbers: Sequence[int]) -> Iterable[Problem]:
    """What is wrong whatever the router is; ``numbers`` are the instances that run."""
    joined = users(bundle, numbers)
    for network, options in bundle.networks.items():
        if options.bridge is None:
            continue
        if why := _why_not(bundle, network, options, joined[network]):
            yield Problem(f"{bundle.path} network {network} bridge {options.bridge}", why)


def _why_not(bundle: Bundle, network: str, options: NetworkOptions, joined: Sequence[int]) -> str | None:
    """The first reason, as the second half of a sentence."""
    if names.is_our_device(options.bridge or ""):
        return "is a device of a bundle and cannot be a bridge; set one such as br0"
    if bundle.controller_free:
        return "needs a controller that lets this router bridge, and controller-free mode has none; delete one of them"
    if len(joined) > 1:
        return f"would be a loop over {len(joined)} instances; use a bundle with instances 1"
    if bundle.transits and any(bundle.network(k) == network for k in joined):
        return "conflicts with transit, whose addresses a port of a bridge cannot have; bridge a further network-id"
    if options.addresses:
        return f"conflicts with address {options.addresses[0]}, which a port of a bridge cannot have; set it on the bridge"
    if options.allow_managed:
        return "conflicts with allow-managed, because a port of a bridge has no addresses; delete one of them"
    if bundle.vrf:
        return f"conflicts with vrf {bundle.vrf}; put the bridge into the VRF instead"
    return None


def warnings(bundle: Bundle, numbers: Sequence[int], devices: Mapping[str, Sequence[str]]) -> list[str]:
    """What a user should know although the commit is good; ``devices`` are those of this router with their addresses."""
    found = []
    joined = users(bundle, numbers)
    for network, options in bundle.networks.items():
        if options.bridge is None:
            continue
        where = f"{bundle.path} network {network} bridge {options.bridge}"
        uplink = [k for k in joined[network] if bundle.override(k).source_interface == options.bridge]
        if options.bridge not in devices:
            found.append(f"{where}: the interface does not exist yet; the device becomes its port when it is there")
        elif uplink:
            found.append(
                f"{where}: it is also source-interface of instance {uplink[0]}, so a path may run through the bridge itself"
            )
        elif devices[options.bridge]:
            address = devices[options.bridge][0]
            found.append(f"{where}: instances do not use its address {address} to reach others, because it is inside the network")
    return found


def not_allowed(plan: Plan, instance: InstancePlan, told: Iterable[Mapping[str, Any]] | None, node: str | None) -> list[str]:
    """Sentences about networks whose controller does not let the instance bridge; ``told`` is its answer to ``/network``."""
    allows = {str(entry.get("nwid") or entry.get("id")).lower(): entry for entry in told or ()}
    found = []
    for network in instance.joined:
        entry = allows.get(network.network_id, {})
        if network.bridge and entry.get("status") == "OK" and entry.get("bridge") is False:
            found.append(
                f"{plan.bundle}/{instance.number} may not bridge network {network.network_id}, so frames of hosts behind "
                f"{network.bridge} are dropped: allow bridging for member {node or 'of this instance'} at its controller"
            )
    return found
