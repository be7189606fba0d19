"""The ``local.conf`` of an instance, as a pure function of the plan: what is configured, and what every instance needs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from zerotier_multi.bonding import complete_policies
from zerotier_multi.engine_choice import checks_trusted_paths, follows_addresses
from zerotier_multi.plan import InstancePlan, Plan
from zerotier_multi.settings import put
from zerotier_multi.values import Endpoint, endpoint

# The beginning of a dummy's name, as VyOS and Debian give it. Of its addresses an instance uses those that it is told to.
DUMMY = "dum"

# Devices that carry tunnels, hold loopback addresses or lead to containers and so are never the underlay: VyOS's names
# for them, and ours. Prefixes, as ZeroTier compares them.
TUNNEL_PREFIXES = (
    "zt", "wg", "tun", "tap", "vtun", "vti", "ipsec", "xfrm", "gre", "gnv", "vxlan", "l2tpeth", "ipoe", "sstpc",
    DUMMY, "pod-", "tailscale", "wt", "docker", "podman", "cni-", "virbr",
)  # fmt: skip

# Where an instance listens whose device has no address: packets from here leave the router by no device.
NOWHERE = ("127.0.0.1",)

# Who may use the API in any case.
LOCAL = ("127.0.0.1/32", "::1/128")


def holds_addresses(device: str) -> bool:
    """Whether a device leads nowhere and holds addresses of the router as a whole, to which routes lead by any uplink."""
    return device == "lo" or device.startswith(DUMMY)


def _own_bridges(instance: InstancePlan) -> tuple[str, ...]:
    """Bridges that this very instance leads to the far ends: a path over one of them would be a tunnel in the tunnel."""
    found = (network.bridge for network in instance.joined if network.bridge != instance.source_interface)
    return tuple(dict.fromkeys(bridge for bridge in found if bridge))


def bind_addresses(instance: InstancePlan, addresses: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Addresses that a zerotier-one of an instance has to bind to; empty: every one of the underlay.

    It can be kept to a device by nothing else: other devices it knows by the beginnings of their names only, and those
    of devices to come cannot be told. ``addresses`` are those of each device at this moment.
    """
    if instance.source_interface is None:
        return instance.listen
    there = tuple(a for a in addresses.get(instance.source_interface, ()) if not instance.listen or a in instance.listen)
    return there or NOWHERE


def local_conf(plan: Plan, instance: InstancePlan, addresses: Mapping[str, Sequence[str]] | None = None) -> str:
    """The ``local.conf`` of an instance as text; ``addresses`` is what :func:`bind_addresses` takes."""
    return json.dumps(make_conf(plan, instance, addresses), indent=1) + "\n"


def make_conf(plan: Plan, instance: InstancePlan, addresses: Mapping[str, Sequence[str]] | None) -> dict[str, Any]:
    """What is configured, and what every instance needs: no port that is not configured, no foreign paths, no self-update."""
    conf: dict[str, Any] = {"settings": {}, "physical": {}, "virtual": {}}
    for setting in instance.settings:
        put(conf, setting.key, setting.value)
    settings = conf["settings"]
    complete_policies(settings.get("policies", {}))
    settings |= {
        "primaryPort": instance.port,
        "allowSecondaryPort": "secondaryPort" in settings,
        "portMappingEnabled": settings.get("portMappingEnabled", False),
        "softwareUpdate": "disable",
        "cpuPinningEnabled": settings.get("cpuPinningEnabled", False),
        "interfacePrefixBlacklist": [*TUNNEL_PREFIXES, *_own_bridges(instance), *settings.get("interfacePrefixBlacklist", ())],
        "allowManagementFrom": [*LOCAL, *settings.get("allowManagementFrom", ())],
    }
    if not checks_trusted_paths(instance.engine):
        # Without one, it takes a random port when it was offline for two minutes, although it may have none (1.14.1). Not bound.
        settings.setdefault("secondaryPort", instance.port)
    if instance.source_interface and follows_addresses(instance.engine):
        settings["interfaces"] = [instance.source_interface]
        bind = instance.listen
    else:
        bind = bind_addresses(instance, addresses or {})
    if bind:
        settings["bind"] = list(bind)
    for prefix in plan.blacklist:
        put(conf, ("physical", prefix, "blacklist"), True)
    for peer in plan.peers:
        if peer.instance == instance.number and peer.endpoints:
            node = peer.identity.partition(":")[0]
            known = conf["virtual"].get(node, {}).get("try", ())
            put(conf, ("virtual", node, "try"), (*(_slashed(endpoint(e)) for e in peer.endpoints), *known))
    return conf


def _slashed(where: Endpoint) -> str:
    """An endpoint as ``local.conf`` writes it."""
    return f"{where.address}/{where.port}"
