"""What a configuration says of the uplinks of its instances, and whether it can be so; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from zerotier_multi import names
from zerotier_multi.bundle import Bundle
from zerotier_multi.engine_choice import ZEROTIER_ONE, ZTNODE
from zerotier_multi.errors import Problem
from zerotier_multi.local_conf import TUNNEL_PREFIXES, holds_addresses
from zerotier_multi.transit import IPAddress


def problems(bundle: Bundle, numbers: Sequence[int]) -> Iterable[Problem]:
    """What is wrong whatever the router is."""
    for k in numbers:
        override, where = bundle.override(k), f"{bundle.path} instance {k}"
        device = override.source_interface
        if device and names.is_our_device(device):
            yield Problem(
                f"{where} source-interface {device}",
                "is a device of a bundle and cannot be an uplink; set an interface such as eth1",
            )
        elif device and (device == "lo" or device.startswith(TUNNEL_PREFIXES)):
            yield Problem(
                f"{where} source-interface {device}",
                "is a tunnel or loopback device and cannot be an uplink; set an interface such as eth1",
            )
        for family in (4, 6):
            gateways = [gateway for gateway in override.gateways if gateway.version == family]
            if len(gateways) > 1:
                yield Problem(f"{where} gateway {gateways[1]}", f"conflicts with {gateways[0]}; keep one IPv{family} gateway")
        if override.gateways and not device:
            yield Problem(f"{where} gateway {override.gateways[0]}", "requires an uplink; set source-interface")


def problems_on_box(
    bundle: Bundle,
    numbers: Sequence[int],
    devices: Mapping[str, Sequence[str]],
    vrf_of: Mapping[str, str],
    binds_any: bool,
) -> Iterable[Problem]:
    """What is wrong on this router; ``devices`` are its devices with their addresses, ``vrf_of`` those in a VRF with that.

    ``binds_any``: its engine listens on any address that it is given, as a zerotier-one does.
    """
    yield from _unheard(bundle, numbers, devices, vrf_of, binds_any)
    for k in numbers:
        override = bundle.override(k)
        if override.source_interface is None:
            continue
        owners = {str(a): next((device for device, own in devices.items() if str(a) in own), None) for a in bundle.listening(k)}
        others = {address: owner for address, owner in owners.items() if owner not in (None, override.source_interface)}
        # Those of the bundle are for instances on other interfaces too.
        if not override.listen and others and len(others) == len(owners):
            yield Problem(
                f"{bundle.path} listen-address {next(iter(others))}",
                f"is not on source-interface {override.source_interface} of instance {k}, which would listen nowhere; "
                f"set instance {k} listen-address",
            )
        for address, owner in others.items():
            if override.listen:
                yield Problem(
                    f"{bundle.path} instance {k} listen-address {address}",
                    f"is an address of {owner}, not of source-interface {override.source_interface}; delete one of them",
                )


def _unheard(
    bundle: Bundle,
    numbers: Sequence[int],
    devices: Mapping[str, Sequence[str]],
    vrf_of: Mapping[str, str],
    binds_any: bool,
) -> Iterable[Problem]:
    """Addresses to listen on that belong to devices which an engine leaves out, whatever it is told to bind to.

    A zerotier-one takes those that it is given from any device; on one of a bundle it would make a tunnel in the tunnel.
    """
    given: dict[str, IPAddress] = {}
    for k in numbers:
        if bundle.override(k).source_interface is None:
            level = f"{bundle.path} instance {k}" if bundle.override(k).listen else bundle.path
            given |= {f"{level} listen-address {address}": address for address in bundle.listening(k)}
    for path, address in given.items():
        owners = ["lo"] if address.is_loopback else [device for device, own in devices.items() if str(address) in own]
        if not owners or not all(device == "lo" or device.startswith(TUNNEL_PREFIXES) for device in owners):
            continue
        if names.is_our_device(owners[0]):
            yield Problem(path, f"is an address of {owners[0]}, a device of a bundle; set an address of an interface such as eth1")
        elif not binds_any and (why := _why_not(address, owners, vrf_of)):
            yield Problem(path, why)


def _why_not(address: IPAddress, owners: Sequence[str], vrf_of: Mapping[str, str]) -> str | None:
    """Why ztnode does not listen on an address of these devices, of which none can be an uplink; None where it does."""
    holders = [device for device in owners if holds_addresses(device)]
    if not holders:
        return (
            f"is an address of {owners[0]}, a tunnel or device of containers, where {ZTNODE} does not listen; "
            f"set an address of an interface such as eth1 or of lo, or engine {ZEROTIER_ONE}"
        )
    if address.is_loopback or address.is_link_local:
        return "is known on this router alone; set an address that remotes reach"
    if all(device in vrf_of for device in holders):
        return (
            f"is an address of {holders[0]} in VRF {vrf_of[holders[0]]}, where {ZTNODE} does not listen; "
            "set an address of an interface such as eth1, or of a device outside VRFs"
        )
    return None


def warnings(bundle: Bundle, numbers: Sequence[int], devices: Mapping[str, Sequence[str]]) -> Iterable[str]:
    """What a user should know although the commit is good: endpoints to which the bundle's own routes lead an instance whose
    socket is bound to no device. (Of an uplink that is not there yet zerotier-pathd tells.)

    A full tunnel leaves such sockets the default route of the underlay (pathd/routing/full_tunnel).
    """
    held = {address for device, own in devices.items() if holds_addresses(device) for address in own}
    remotes = () if bundle.disabled or bundle.vrf else tuple(remote for remote in bundle.remotes if not remote.disabled)
    prefixes = [(remote, prefix) for remote in remotes for prefix in remote.prefixes if prefix.prefixlen]
    for k in numbers:
        own = [a for a in bundle.listening(k) if bundle.override(k).source_interface is None and str(a) in held]
        for remote in remotes:
            for endpoint in remote.instances[k].endpoints if own and k in remote.instances else ():
                address = next((a for a in own if a.version == endpoint.address.version), None)
                inside = ((r, p) for r, p in prefixes if p.version == endpoint.address.version and endpoint.address in p)
                if address is not None and (found := next(inside, None)):
                    yield (
                        f"{bundle.path} remote {found[0].name} prefix {found[1]}: endpoint {endpoint} of remote {remote.name} is inside, "
                        f"and what instance {k} sends from listen-address {address} follows the routes; delete the prefix, "
                        "or add a longer route to the endpoint by an uplink"
                    )
