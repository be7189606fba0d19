"""Drops what comes over a path with an address of this router itself as its source: a chain in our table of nftables; pure.

Only the router itself sends with its addresses. Of IPv4 packets the kernel takes none such (unless ``accept_local`` is set
somewhere), of IPv6 packets it takes all, and a program that trusts its own host would be wrong. So with loopback addresses: those
of IPv4 come in where ``route_localnet`` is set, and written as IPv6 (::ffff:127.0.0.1) a socket of both families cannot tell
them from IPv4. Any other source is the remote's business: its LANs may have any
address, and with a full tunnel it sends for the whole Internet.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable, Mapping

from zerotier_multi.netlink.links import Address, Link, routing_domain
from zerotier_multi.pathd.nftables.mss import device_patterns
from zerotier_multi.plan import Plan

_CHAIN = "own-sources"


def _of_devices(plan: Plan) -> Iterable[str]:
    """Addresses of the member devices that are configured."""
    for instance in plan.instances:
        yield from instance.transit
        yield from (address for network in instance.joined for address in network.addresses)


def chains(plans: Iterable[Plan], local: Iterable[Address], links: Iterable[Link] = ()) -> str:
    """The chains that ``plans`` want, as text for nft; empty without a bundle.

    ``local`` are the router's own addresses, ``links`` its devices, which say what VRF each address is in.

    They stand before connection tracking and routing; there a packet of a device in a VRF still comes in by that device.
    """
    running = [plan for plan in plans if plan.instances]
    if not running:
        return ""
    known = {link.index: link for link in links}
    domains: dict[str | None, list[Plan]] = {}
    for plan in running:
        domains.setdefault(plan.vrf, []).append(plan)
    own = _by_domain(local, known)
    found = "".join(_chain(vrf, inside, own.get(vrf, ())) for vrf, inside in domains.items())
    head = "  type filter hook prerouting priority raw\n"
    jumps = "".join(f'  iifname "{name}" jump {_name(plan.vrf)}\n' for plan in running for name in device_patterns(plan))
    return f"{found} chain prerouting {{\n{head}{jumps} }}\n"


def _name(vrf: str | None) -> str:
    return _CHAIN if vrf is None else f"{_CHAIN}-{vrf}"


def _by_domain(local: Iterable[Address], links: Mapping[int, Link]) -> dict[str | None, list[Address]]:
    """Addresses by the VRF that they are in; None stands for those that are in none."""
    found: dict[str | None, list[Address]] = {}
    for address in local:
        found.setdefault(routing_domain(address.index, links), []).append(address)
    return found


def _chain(vrf: str | None, plans: Collection[Plan], local: Iterable[Address]) -> str:
    """The chain of a VRF, with the addresses that are the router's there."""
    # Those of the plans whether they stand or not, or every restart of an instance would change the table.
    planned = (text for plan in plans for text in (*plan.addresses, *_of_devices(plan)))
    own = {ipaddress.ip_interface(text).ip for text in (*planned, *(address.interface for address in local))}
    rules = ["ip saddr 127.0.0.0/8 drop", "ip6 saddr ::ffff:0:0/96 drop"]
    for version, word in ((4, "ip"), (6, "ip6")):
        if listed := ", ".join(map(str, sorted(ip for ip in own if ip.version == version))):
            rules.append(f"{word} saddr {{ {listed} }} drop")
    return f" chain {_name(vrf)} {{\n" + "".join(f"  {rule}\n" for rule in rules) + " }\n"
