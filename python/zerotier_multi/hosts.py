"""Endpoints that are DNS names: where they stand in a plan, and the plan with the addresses that they have now.

zerotier-pathd looks names up and writes their addresses down; a commit takes them from there and waits for no name server.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from zerotier_multi import names
from zerotier_multi.blacklist import without
from zerotier_multi.homefiles import HomeFiles, home_files
from zerotier_multi.identity import PublicIdentity
from zerotier_multi import memory
from zerotier_multi.plan import InstancePlan, PeerPlan, Plan
from zerotier_multi.planet import MAX_ENDPOINTS
from zerotier_multi.values import Endpoint, NamedEndpoint, endpoint, named_endpoint

Hosts = Mapping[str, tuple[str, ...]]  # name -> its addresses, IPv4 and IPv6

FILE = names.HOME_ROOT / "hosts.json"  # kept over a restart of the router, which has no name server before its uplinks are up


def read_hosts(path: Path = FILE) -> dict[str, tuple[str, ...]]:
    """What zerotier-pathd has written down; nothing where it has not yet."""
    return {
        name: tuple(a for a in addresses if _is_address(a))
        for name, addresses in memory.load(path).items()
        if isinstance(addresses, list)
    }


def _is_address(value: object) -> bool:
    try:
        return isinstance(value, str) and str(ipaddress.ip_address(value)) == value
    except ValueError:
        return False


def store_hosts(hosts: Hosts, path: Path = FILE) -> list[str]:
    """Write it down; a sentence when that cannot be done."""
    return memory.store(path, {name: list(addresses) for name, addresses in sorted(hosts.items())})


def host_of(text: str) -> NamedEndpoint | None:
    """The name in an endpoint of a plan; None for one that is an address."""
    try:
        endpoint(text)
    except ValueError:
        return named_endpoint(text)
    return None


def named_peers(plans: Iterable[Plan]) -> Iterator[tuple[Plan, PeerPlan, str]]:
    """Every peer with a name of an endpoint of its, as often as it has names."""
    for plan in plans:
        for peer in plan.peers:
            for named in filter(None, map(host_of, peer.endpoints)):
                yield plan, peer, named.host


def with_hosts(plan: Plan, hosts: Hosts) -> Plan:
    """The plan with addresses instead of names; a name without one is left out.

    A peer has no more endpoints than an engine takes: those that are configured as addresses first. What a name stands for is
    the underlay, as a configured address is.
    """
    addresses = {ipaddress.ip_address(a) for _plan, _peer, host in named_peers([plan]) for a in hosts.get(host, ())}
    left = without(map(ipaddress.ip_network, plan.blacklist), addresses) if addresses else plan.blacklist
    peers = tuple(replace(peer, endpoints=_resolved(peer, hosts)) for peer in plan.peers)
    return replace(plan, peers=peers, blacklist=tuple(map(str, left)))


def _resolved(peer: PeerPlan, hosts: Hosts) -> tuple[str, ...]:
    named = [(text, host_of(text)) for text in peer.endpoints]
    found = [text for text, host in named if host is None]
    for _text, host in named:
        if host is not None:
            found += [str(Endpoint(ipaddress.ip_address(a), host.port)) for a in hosts.get(host.host, ())]
    return tuple(dict.fromkeys(found))[:MAX_ENDPOINTS]


def current_files(
    plan: Plan, instance: InstancePlan, own: PublicIdentity | None, hosts: Hosts, addresses: Mapping[str, Sequence[str]]
) -> HomeFiles:
    """What :func:`home_files` gives, with the addresses that names have now; these are no reason for a restart."""
    without = home_files(with_hosts(plan, {}), instance, own, addresses)
    files = home_files(with_hosts(plan, hosts), instance, own, addresses)
    return replace(files, restart_digest=without.restart_digest)
