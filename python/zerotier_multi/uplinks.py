"""What a configuration says of the uplinks of its instances, and whether it can be so; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from zerotier_multi import names
from zerotier_multi.bundle import Bundle
from zerotier_multi.engine_choice import ZEROTIER_ONE, ZTNODE
from zerotier_multi.errors import Problem
from zerotier_multi.local_conf import TUNNEL_PREFIXES
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
    bundle: Bundle, numbers: Sequence[int], devices: Mapping[str, Sequence[str]], binds_any: bool
) -> Iterable[Problem]:
    """What is wrong on this router; ``devices`` are its devices with their addresses.

    ``binds_any``: its engine listens on any address that it is given, as a zerotier-one does.
    """
    yield from _unheard(bundle, numbers, devices, binds_any)
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


def _unheard(bundle: Bundle, numbers: Sequence[int], devices: Mapping[str, Sequence[str]], binds_any: bool) -> Iterable[Problem]:
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
        elif not binds_any:
            yield Problem(
                path,
                f"is an address of {owners[0]}, a tunnel or loopback device, where {ZTNODE} does not listen; "
                f"set an address of an interface such as eth1, or engine {ZEROTIER_ONE}",
            )


def warnings(bundle: Bundle, numbers: Sequence[int], devices: Mapping[str, Sequence[str]]) -> list[str]:
    """What a user should know although the commit is good: at boot an uplink may come later than the configuration."""
    wanted = [(k, bundle.override(k).source_interface) for k in numbers]
    return [
        f"{bundle.path} instance {k} source-interface {device}: the interface does not exist yet; the instance waits for it"
        for k, device in wanted
        if device and device not in devices
    ]
