"""Prefixes that an instance must never take for the underlay, where a path would be a tunnel in the tunnel; pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable

from zerotier_multi.bundle import Bundle
from zerotier_multi.transit import IPAddress, IPNetwork


def blacklist(bundle: Bundle) -> tuple[IPNetwork, ...]:
    """What the bundle has itself, and the loopback addresses of the remotes.

    An engine does not even listen on an address that is in here; so wider prefixes of remotes are not, because the underlay
    may lie inside them, nor are endpoints. An engine's sockets are bound to their devices, which no route over a bundle
    changes.
    """
    remotes = () if bundle.disabled else tuple(r for r in bundle.remotes if not r.disabled)
    prefixes: list[IPNetwork] = [t.prefix for t in bundle.transits]
    prefixes += [a.network for a in bundle.addresses]
    prefixes += [a.network for options in bundle.networks.values() for a in options.addresses]
    prefixes += [p for remote in remotes for p in remote.prefixes if p.prefixlen == p.max_prefixlen]
    return without(prefixes, {e.address for r in remotes for known in r.instances.values() for e in known.endpoints})


def without(prefixes: Iterable[IPNetwork], addresses: Collection[IPAddress]) -> tuple[IPNetwork, ...]:
    """What of prefixes is left without these addresses."""
    found = list(prefixes)
    for address in addresses:
        found = [rest for prefix in found for rest in _rest(prefix, address)]
    return tuple(dict.fromkeys(found))


def _rest(prefix: IPNetwork, address: IPAddress) -> Iterable[IPNetwork]:
    if prefix.version != address.version or address not in prefix:
        return (prefix,)
    return sorted(prefix.address_exclude(ipaddress.ip_network(address)))  # type: ignore[arg-type]
