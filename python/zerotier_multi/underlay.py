"""Which addresses of this router the other routers may look for it at; pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from zerotier_multi.local_conf import TUNNEL_PREFIXES, holds_addresses
from zerotier_multi.plan import Plan
from zerotier_multi.transit import IPInterface, IPNetwork

# Addresses that the Internet does not route: RFC 1918, RFC 6598 (behind a carrier's NAT), RFC 6890 (of 464XLAT), RFC 4193.
_PRIVATE = "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "192.0.0.0/24", "fc00::/7"
PRIVATE = tuple(map(ipaddress.ip_network, _PRIVATE))
# A bridge of docker's is named after the first 12 digits of a network id.
_CONTAINER_BRIDGE = re.compile(r"br-[0-9a-f]{12}")


@dataclass(frozen=True)
class Local:
    """An address that an instance listens on, with the length of its subnet, and its device (empty: not known).

    ``passing`` says why the device will not keep it, as :func:`netlink.links.passing` does.
    """

    device: str
    interface: IPInterface
    passing: str = ""


@dataclass(frozen=True)
class Verdict:
    """Whether an address is told to the other routers; ``reason`` says why not, ``on_request`` whether it may be."""

    local: Local
    reason: str | None = None
    on_request: bool = False


def is_private(interface: IPInterface) -> bool:
    """Whether an address is of the kind that anybody may have."""
    return any(interface.version == prefix.version and interface.ip in prefix for prefix in PRIVATE)


def is_tunnel(device: str) -> bool:
    """Whether a device belongs to a tunnel, to containers or to a bundle, going by its name."""
    return device.startswith(TUNNEL_PREFIXES) or bool(_CONTAINER_BRIDGE.fullmatch(device))


def verdicts(listening: Sequence[Local], uplinks: Collection[str], plans: Iterable[Plan]) -> list[Verdict]:
    """What becomes of each address that an instance listens on, in their order.

    ``uplinks`` are the devices with a default route that is not a bundle's, ``plans`` those in force. Where none of the
    devices is an uplink, all are taken for it. On addresses of lo or a dummy an instance listens because somebody wants them
    to be known.
    """
    inside = list(_overlay(plans))
    never = {local: _never(local, inside) for local in listening}
    possible = [local for local in listening if never[local] is None]
    ways_out = {local.device for local in possible} & set(uplinks)
    outside = [local for local in possible if not ways_out or local.device in ways_out or holds_addresses(local.device)]
    public = [local for local in outside if not is_private(local.interface)]
    # An address that lasts says as much as those that its device gives up within hours or days.
    lasting = {(local.device, local.interface.version) for local in public or outside if not local.passing}

    def verdict(local: Local) -> Verdict:
        if never[local] is not None:
            return Verdict(local, never[local])
        if local not in outside:
            return Verdict(local, f"{local.device} has no default route", on_request=True)
        if public and local not in public:
            return Verdict(local, "private", on_request=True)
        if local.passing and (local.device, local.interface.version) in lasting:
            return Verdict(local, local.passing, on_request=True)
        return Verdict(local)

    return [verdict(local) for local in listening]


def _never(local: Local, inside: Iterable[tuple[IPNetwork, str]]) -> str | None:
    if is_tunnel(local.device) and not holds_addresses(local.device):
        return f"{local.device} is a tunnel or leads to containers"
    for prefix, what in inside:
        # A wider prefix of a remote takes nothing from a subnet that this router is connected to.
        own = local.interface.network
        if prefix.version == own.version and local.interface.ip in prefix and prefix.prefixlen >= own.prefixlen:
            return f"inside {what}"
    return None


def _overlay(plans: Iterable[Plan]) -> Iterable[tuple[IPNetwork, str]]:
    """What is reached through the bundles or is part of them, and what it is."""
    for plan in plans:
        for address in plan.addresses:
            yield ipaddress.ip_network(address.partition("/")[0]), f"an address of {plan.bundle}"
        for instance in plan.instances:
            for address in instance.transit:
                yield ipaddress.ip_interface(address).network, f"the transit of {plan.bundle}"
        remote_of = {group.group_id: group.remote for group in plan.groups}
        for route in plan.routes:
            prefix = ipaddress.ip_network(route.prefix)
            if prefix.prefixlen:
                yield prefix, f"prefix {prefix} of remote {remote_of[route.group_id]}"
