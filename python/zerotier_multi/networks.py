"""The networks that an instance joins, and what each may do to this router; pure.

An instance of a bundle has one network with transit subnets and paths. The only instance of a bundle may join further ones:
each has a device of its own, whose addresses are configured here, or come from its controller.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from zerotier_multi import names
from zerotier_multi.bundle import Bundle, NetworkOptions
from zerotier_multi.errors import Problem
from zerotier_multi.plan import NetworkPlan
from zerotier_multi.transit import IPInterface

MAX_NETWORKS = 64  # of one ztnode (networks.h: MAX_NETWORKS)


def further_networks(bundle: Bundle, number: int) -> tuple[str, ...]:
    """Networks that an instance joins beside its own."""
    own = bundle.network(number)
    return () if bundle.override(number).network_id else tuple(n for n in bundle.further_networks if n != own)


def network_plans(bundle: Bundle, number: int) -> tuple[NetworkPlan, ...]:
    """All networks of an instance, its own first."""
    own = bundle.network(number)
    assert own is not None, "checks refuse an instance without a network"
    devices = {own: names.member_device(bundle.name, number)}
    devices |= {n: names.network_device(bundle.name, n) for n in further_networks(bundle, number)}
    return tuple(_plan(bundle.networks.get(network, NetworkOptions()), network, device) for network, device in devices.items())


def _plan(options: NetworkOptions, network: str, device: str) -> NetworkPlan:
    return NetworkPlan(
        network_id=network,
        device=device,
        addresses=tuple(str(a) for a in options.addresses),
        allow_managed=options.allow_managed,
        allow_global=options.allow_global,
        allow_default=options.allow_default,
        allow_dns=options.allow_dns,
        bridge=options.bridge,
    )


def users(bundle: Bundle, numbers: Iterable[int]) -> dict[str, list[int]]:
    """Which of these instances join each network that has options."""
    return {n: [k for k in numbers if n in (bundle.network(k), *further_networks(bundle, k))] for n in bundle.networks}


def problems(bundle: Bundle, numbers: Sequence[int], count: int) -> Iterable[Problem]:
    """What a configuration of networks cannot be; ``numbers`` are the instances that run, of ``count``."""
    yield from _further(bundle, count)
    joined = users(bundle, numbers)
    taken: dict[object, str] = {a.ip: f"address {a}" for a in bundle.addresses}
    for network, options in bundle.networks.items():
        at = f"{bundle.path} network {network}"
        if not joined[network]:
            yield Problem(at, f"is a network of no instance; set network-id {network} or delete it")
            continue
        if bundle.controller_free and options.allowed:
            yield Problem(
                f"{at} {options.allowed[0]}", "needs a controller, which controller-free mode has not; delete one of them"
            )
        if bundle.vrf and options.allow_managed:
            yield Problem(
                f"{at} allow-managed",
                f"conflicts with vrf {bundle.vrf}, because the engine puts the routes of a controller into the main table; delete one of them",
            )
        for word in options.allowed:
            if word in ("allow-default", "allow-global") and not options.allow_managed:
                yield Problem(f"{at} {word}", "is for what a controller manages; set allow-managed too")
        if options.addresses and len(joined[network]) > 1:
            yield Problem(
                f"{at} address {options.addresses[0]}",
                f"would be on {len(joined[network])} instances; use transit prefix, which gives each instance its own",
            )
        for address in options.addresses:
            yield from _address(bundle, f"{at} address {address}", address, taken)
            taken.setdefault(address.ip, f"address {address} of network {network}")


def _further(bundle: Bundle, count: int) -> Iterable[Problem]:
    further = bundle.further_networks
    if not further:
        return
    at = f"{bundle.path} network-id {further[0]}"
    if count > 1:
        yield Problem(
            at,
            f"is a further network, which only a bundle of one instance can join, but there are {count}; "
            f"delete the network-id that it replaces ({bundle.network_id}), or set instance K network-id",
        )
    elif bundle.controller_free:
        yield Problem(at, "is a further network, which needs a controller; keep one network-id in controller-free mode")
    elif own := bundle.override(1).network_id:
        yield Problem(f"{bundle.path} instance 1 network-id {own}", "conflicts with several network-id; delete it")
    elif len(further) >= MAX_NETWORKS:
        yield Problem(at, f"is one of {len(further) + 1} networks, more than {MAX_NETWORKS}; delete some")
    devices: dict[str, str] = {}
    for network in further:
        device = names.network_device(bundle.name, network)
        if device in devices:
            yield Problem(
                f"{bundle.path} network-id {network}",
                f"would have device {device}, as {devices[device]} has; put one of them on another bundle",
            )
        devices.setdefault(device, network)


def _address(bundle: Bundle, at: str, address: IPInterface, taken: dict[object, str]) -> Iterable[Problem]:
    if address.ip in taken:
        yield Problem(at, f"is also {taken[address.ip]}; keep it in one place")
    for transit in bundle.transits:
        if transit.family == address.version and transit.prefix.overlaps(address.network):
            yield Problem(at, f"overlaps transit prefix {transit.prefix}; use another address")


def warnings(bundle: Bundle, numbers: Sequence[int]) -> Iterable[str]:
    """What a user should know of networks, below the path of the bundle."""
    for network, options in bundle.networks.items():
        users = [k for k in numbers if network == bundle.network(k)]
        if options.allow_managed and len(users) > 1:
            yield (
                f"network {network} allow-managed: each of the {len(users)} instances sets the routes of the controller, "
                "so they use one of them; routes over all instances need transit and remote"
            )
        if options.allow_default:
            yield f"network {network} allow-default: the controller can lead all traffic of this router over its network"
        if options.allow_dns:
            yield f"network {network} allow-dns: zerotier-one changes no name servers on Linux; set those of the controller by hand"


def wants_managed(bundle: Bundle) -> Iterable[str]:
    """Settings that need an engine that takes what a controller manages."""
    for network, options in bundle.networks.items():
        yield from (f"network {network} {word}" for word in options.allowed)
