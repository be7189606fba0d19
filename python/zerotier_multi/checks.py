"""What a configuration must fulfil as a whole; pure. Every sentence that refuses a commit stands here.

Three layers, each only asked when the one before found nothing: a bundle alone, all bundles together, and a bundle on
this box (:mod:`box_checks`).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence

from zerotier_multi import bonding, bridges, mirror, names, networks, uplinks
from zerotier_multi.bundle import Bundle, Remote
from zerotier_multi.controller import settings as controllers
from zerotier_multi.cpu import Topology
from zerotier_multi.errors import Problem
from zerotier_multi.planet import MAX_ENDPOINTS
from zerotier_multi.planner import instance_count, instance_numbers
from zerotier_multi.transit import IPNetwork
from zerotier_multi.values import shown

# Each is a moon that every HELLO names (17 bytes), and a rule of the network; both hold more.
MAX_CONTROLLER_FREE_REMOTES = 31

MAX_TUNED = 32  # prefixes with an MTU or a trusted path (ZeroTierOne.h: ZT_MAX_CONFIGURABLE_PATHS)


def check_bundle(bundle: Bundle, topology: Topology) -> list[Problem]:
    """Problems of a bundle by itself. A disabled bundle may be incomplete."""
    if bundle.disabled:
        return []
    numbers = instance_numbers(bundle, topology)
    return [
        *_vrf(bundle),
        *mirror.problems(bundle),
        *_weights(bundle, numbers),
        *_backups(bundle, numbers),
        *_networks(bundle, numbers),
        *networks.problems(bundle, numbers, instance_count(bundle, topology)),
        *bridges.problems(bundle, numbers),
        *controllers.problems(bundle.path, bundle.controller, bundle.controller_free),
        *_ports(bundle, numbers),
        *_settings(bundle),
        *uplinks.problems(bundle, numbers),
        *_transit(bundle, instance_count(bundle, topology)),
        *_remotes(bundle),
        *_loops(bundle),
        *(_controller_free(bundle, numbers) if bundle.controller_free else _needs_controller_free(bundle)),
    ]


def _vrf(bundle: Bundle) -> Iterable[Problem]:
    """Bundles, members and VRFs are devices of one router, so no two may share a name."""
    if bundle.vrf and names.is_our_device(bundle.vrf):
        yield Problem(f"{bundle.path} vrf {bundle.vrf}", "is a device name of bundles; choose a VRF name other than ztN and ztNpK")


def _weights(bundle: Bundle, numbers: Sequence[int]) -> Iterable[Problem]:
    """Who measures the shares sets none by hand."""
    fixed = [k for k in numbers if bundle.weight(k) != bundle.default_weight]
    if bundle.weights == "auto" and fixed:
        weight = f"instance {fixed[0]} weight {bundle.weight(fixed[0])}"
        yield Problem(
            f"{bundle.path} balance weights auto", f"conflicts with {weight}; delete that weight or set balance weights static"
        )


def _backups(bundle: Bundle, numbers: Sequence[int]) -> Iterable[Problem]:
    """A backup needs what it is a backup of, and somebody who notices that this fails."""
    backups = [k for k in numbers if bundle.override(k).backup]
    for k in backups[:1]:
        path = f"{bundle.path} instance {k} backup"
        if len(backups) == len(numbers):
            yield Problem(path, "is of no use where every instance is a backup; delete it, or run one more instance")
        if bundle.health_disabled:
            yield Problem(path, "needs the probes, which notice that other paths fail; delete health-check disable or this backup")


def _networks(bundle: Bundle, numbers: Sequence[int]) -> Iterable[Problem]:
    if not numbers:
        yield Problem(f"{bundle.path} instance", "every instance is disabled; disable the bundle instead")
    missing = [k for k in numbers if bundle.network(k) is None]
    if missing and bundle.network_id is None and len(missing) == len(numbers):
        yield Problem(f"{bundle.path} network-id", "is missing; set the 16 hexadecimal digits of the network")
    else:
        for k in missing:
            yield Problem(f"{bundle.path} instance {k} network-id", "is missing; set it here or for the whole bundle")


def _ports(bundle: Bundle, numbers: Sequence[int]) -> Iterable[Problem]:
    highest, path, last = max(((port, path, k) for k in numbers for port, path in bundle.ports(k)), default=(0, "", 0))
    if highest > 65535:
        yield Problem(
            path,
            f"instance {last} would need port {highest}, above 65535; set {65536 - len(numbers)} or lower, or run fewer instances",
        )
    yield from _same_port([bundle], {bundle.name: numbers})


def _same_port(bundles: Iterable[Bundle], numbers: Mapping[str, Sequence[int]]) -> Iterable[Problem]:
    """Further ports come after all first ones, which are the better known."""
    every = [(bundle.ports(k), f"{bundle.name}/{k}") for bundle in bundles for k in numbers[bundle.name]]
    first = [(*ports[0], user) for ports, user in every]
    users: dict[int, str] = {}
    for port, path, user in [*first, *((*further, user) for ports, user in every for further in ports[1:])]:
        if port in users:
            yield Problem(
                path, f"instance {user} would use port {port}, as instance {users[port]} does; change one of the two ports"
            )
        users.setdefault(port, user)


def _settings(bundle: Bundle) -> Iterable[Problem]:
    """Settings of ``local.conf`` that contradict each other."""
    yield from bonding.problems(bundle.path, bundle.settings)
    paths = {given.path: given for given in bundle.settings}
    for one, other in (("disable-port-mapping", "enable-port-mapping"), ("disable-secondary-port", "secondary port")):
        if one in paths and other in paths:
            yield Problem(f"{bundle.path} {one}", f"conflicts with {other}; delete one of them")
    for option in ("core-count", "cpu-pinning"):
        if f"multicore-options {option}" in paths and "multicore-options enabled" not in paths:
            yield Problem(f"{bundle.path} multicore-options {option}", "requires several threads; set multicore-options enabled")
    pinned = bundle.affinity != "none" or any(override.cpus for override in bundle.overrides.values())
    if "multicore-options cpu-pinning" in paths and pinned:
        yield Problem(
            f"{bundle.path} multicore-options cpu-pinning",
            "conflicts with pinned instances, because zerotier-one ends where it cannot pin its threads to the first CPUs; "
            "set cpu affinity none and delete instance K cpu",
        )
    tuned = {given.key[1] for given in bundle.settings if given.key[0] == "physical" and given.key[2] in ("mtu", "trustedPathId")}
    if len(tuned) > MAX_TUNED:
        yield Problem(
            f"{bundle.path} network-config",
            f"has {len(tuned)} prefixes with an mtu or a trusted-path, of which an engine keeps {MAX_TUNED}; delete some or use larger ones",
        )
    if "tertiary port" in paths and "enable-port-mapping" not in paths:
        yield Problem(f"{bundle.path} tertiary port", "is for port mapping; set enable-port-mapping or delete it")


def _transit(bundle: Bundle, count: int) -> Iterable[Problem]:
    base = f"{bundle.path} transit"
    families = [t.family for t in bundle.transits]
    for family in set(families):
        if families.count(family) > 1:
            yield Problem(f"{base} prefix", f"there are {families.count(family)} IPv{family} prefixes; keep one")
    for transit in bundle.transits:
        where = f"{base} prefix {transit.prefix}"
        if transit.room < count:
            yield Problem(
                where,
                f"has room for {transit.room} subnets of /{transit.subnet_length} but there are {count} instances; "
                f"use a /{transit.prefix_length_for(count)} or larger",
            )
        if bundle.site is not None and bundle.site > transit.sites:
            yield Problem(
                f"{base} site {bundle.site}",
                f"a /{transit.subnet_length} has only hosts 1 to {transit.sites}; choose one of these or a shorter subnet-length",
            )
    if bundle.transits and bundle.site is None:
        yield Problem(f"{base} site", "is missing; set this router's host number in every transit subnet")
    if bundle.remotes and not bundle.transits:
        yield Problem(f"{base} prefix", "is missing; set it, because remotes are reached through it")


def _remotes(bundle: Bundle) -> Iterable[Problem]:
    sites: dict[int, str] = {}
    owners: dict[IPNetwork, str] = {}
    families = {t.family for t in bundle.transits}
    for remote in bundle.remotes:
        if remote.disabled or not bundle.transits:
            continue
        where = f"{bundle.path} remote {remote.name}"
        yield from _site(bundle, remote, where, sites)
        own = {network for k in remote.instances if (network := bundle.network(k))}
        if remote.network and own and own != {remote.network}:
            yield Problem(
                f"{where} invite",
                f"is for network {remote.network}, but {bundle.name} is on {min(own)}; set the same network-id on both routers",
            )
        for prefix in remote.prefixes:
            at = f"{where} prefix {prefix}"
            if prefix in owners:
                backup = ", or use a shorter prefix for the one that is a backup" if prefix.prefixlen else ""
                yield Problem(at, f"is also a prefix of remote {owners[prefix]}; keep it at one of them{backup}")
            owners.setdefault(prefix, remote.name)
            if prefix.version == 6 and 6 not in families:
                yield Problem(at, "needs IPv6 transit; add an IPv6 transit prefix, such as a /120")
            for transit in bundle.transits:
                if prefix.version == transit.family and prefix.subnet_of(transit.prefix):  # type: ignore[arg-type]
                    yield Problem(at, f"is inside transit prefix {transit.prefix}; use another prefix")


def own_addresses(bundle: Bundle, others: Iterable[Bundle] = ()) -> Iterable[Problem]:
    """Prefixes of remotes that are addresses of this router on a bundle of one VRF: the kernel delivers their packets here."""
    bundles = [bundle, *(other for other in others if other.vrf == bundle.vrf and not other.disabled)]
    addresses = {ipaddress.ip_network(address.ip): (address, own.name) for own in bundles for address in own.addresses}
    for remote in bundle.remotes:
        for prefix in remote.prefixes:
            if prefix in addresses and not remote.disabled:
                address, name = addresses[prefix]
                yield Problem(
                    f"{bundle.path} remote {remote.name} prefix {prefix}",
                    f"is address {address} of {name} on this router; set a prefix that {remote.name} has",
                )


def _site(bundle: Bundle, remote: Remote, where: str, sites: dict[int, str]) -> Iterable[Problem]:
    site = bundle.remote_site(remote)
    if site is None:
        if bundle.site is not None and all(bundle.site <= t.sites for t in bundle.transits):
            yield Problem(f"{where} site", "is missing; it can be inferred only in a two-host transit subnet")
        return
    at = f"{where} site {site}"
    if site == bundle.site:
        yield Problem(at, "is the site of this router; set the number of the remote")
    elif site in sites:
        yield Problem(
            at, f"is also the site of remote {sites[site]}; give each router its own number, or delete one of the two names"
        )
    sites.setdefault(site, remote.name)
    for transit in bundle.transits:
        if site > transit.sites:
            yield Problem(at, f"a /{transit.subnet_length} has only hosts 1 to {transit.sites}; use a shorter subnet-length")


def _loops(bundle: Bundle) -> Iterable[Problem]:
    """Endpoints that no underlay can lead to, because the bundle itself has them.

    One inside a prefix of a remote does no harm: the engines bind their sockets to the devices of the underlay, where
    routes over a bundle do not count. Of those that listen on a loopback address :mod:`zerotier_multi.uplinks` warns.
    """
    inside: list[tuple[str, IPNetwork]] = [(f"transit prefix {t.prefix}", t.prefix) for t in bundle.transits]
    inside += [(f"address {a}", ipaddress.ip_network(a.ip)) for a in bundle.addresses]
    for remote in bundle.remotes:
        for k, known in sorted(remote.instances.items()):
            for endpoint in known.endpoints:
                for own, prefix in inside:
                    if not remote.disabled and endpoint.address.version == prefix.version and endpoint.address in prefix:
                        yield Problem(
                            f"{bundle.path} remote {remote.name} instance {k} endpoint {endpoint}",
                            f"is inside {own} of this bundle; give an address that {remote.name} has on the underlay",
                        )


def _needs_controller_free(bundle: Bundle) -> Iterable[Problem]:
    for remote in bundle.remotes:
        for k, known in sorted(remote.instances.items()):
            if (known.endpoints or known.named) and not remote.disabled:
                yield Problem(
                    f"{bundle.path} remote {remote.name} instance {k} endpoint",
                    "requires controller-free mode; set controller-free or delete the endpoint",
                )


def _controller_free(bundle: Bundle, numbers: Sequence[int]) -> Iterable[Problem]:
    for kind, given in (("planet", bundle.planet), *(("moon", moon) for moon in bundle.moons)):
        if given is not None:
            yield Problem(
                f"{bundle.path} {kind} {shown(given)}", f"cannot be used in controller-free mode; delete {kind} or controller-free"
            )
    remotes = [r for r in bundle.remotes if not r.disabled]
    if len(remotes) > MAX_CONTROLLER_FREE_REMOTES:
        yield Problem(
            f"{bundle.path} remote",
            f"controller-free mode has at most {MAX_CONTROLLER_FREE_REMOTES} remotes but there are {len(remotes)}; "
            f"use a second bundle or a controller",
        )
    seen: dict[str, str] = {}
    for network in sorted({bundle.network(k) or "" for k in numbers}):
        if network.startswith("ff"):
            yield Problem(
                f"{bundle.path} network-id {network}",
                "is an ad-hoc network (it begins with ff), which anybody can join; choose another",
            )
    for remote in remotes:
        for k, known in sorted(remote.instances.items()):
            if (count := len(known.endpoints) + len(known.named)) > MAX_ENDPOINTS:
                yield Problem(
                    f"{bundle.path} remote {remote.name} instance {k} endpoint",
                    f"has {count} values, more than {MAX_ENDPOINTS}; delete some",
                )
            if known.identity is None:
                continue
            at = f"{bundle.path} remote {remote.name} instance {k} identity {known.identity.address}"
            if known.identity.address in seen:
                yield Problem(at, f"is the identity of {seen[known.identity.address]}; give each instance its own identity")
            seen.setdefault(known.identity.address, f"{remote.name} instance {k}")
            if (bundle.network(k) or "").startswith(known.identity.address):
                yield Problem(at, f"would be the controller of network {bundle.network(k)}; choose another network-id")


def same_identities(bundles: Sequence[Bundle], topology: Topology) -> Iterable[Problem]:
    """Identities that the configuration gives to two instances; ZeroTier would take both for one node."""
    users: dict[str, str] = {}
    for bundle in bundles:
        for k in instance_numbers(bundle, topology):
            if identity := bundle.override(k).identity:
                node = identity.public.address
                if node in users:
                    yield Problem(
                        f"{bundle.path} instance {k} identity secret",
                        f"is of node {node}, as that of {users[node]}; give each instance its own identity",
                    )
                users.setdefault(node, f"{bundle.name}/{k}")


def check_together(bundles: Sequence[Bundle], topology: Topology) -> list[Problem]:
    """Problems between bundles."""
    running = [b for b in bundles if not b.disabled]
    numbers = {b.name: instance_numbers(b, topology) for b in running}
    problems = [*_same_port(running, numbers), *same_identities(running, topology)]
    for index, bundle in enumerate(running):
        for other in running[:index]:
            problems += _overlaps(bundle, other)
            if bundle.hash_policy != other.hash_policy and min(len(numbers[bundle.name]), len(numbers[other.name])) > 1:
                problems.append(
                    Problem(
                        f"{bundle.path} balance hash-policy {bundle.hash_policy}",
                        f"conflicts with {other.hash_policy} of {other.name}, because the router has one hash policy; set the same in both",
                    )
                )
    return problems


def _overlaps(bundle: Bundle, other: Bundle) -> Iterable[Problem]:
    """What two bundles of one routing table may not both have; in two VRFs they may."""
    if bundle.vrf != other.vrf:
        return
    for transit in bundle.transits:
        for theirs in other.transits:
            if transit.family == theirs.family and transit.prefix.overlaps(theirs.prefix):
                yield Problem(
                    f"{bundle.path} transit prefix {transit.prefix}",
                    f"overlaps {theirs.prefix} of {other.name}; give each bundle its own transit prefix",
                )
    taken = {a.ip for a in other.addresses}
    for address in bundle.addresses:
        if address.ip in taken:
            yield Problem(f"{bundle.path} address {address}", f"is also an address of {other.name}; keep it on one of them")
    theirs_prefixes = {p: r.name for r in other.remotes if not r.disabled for p in r.prefixes}
    for remote in bundle.remotes:
        for prefix in remote.prefixes:
            if prefix in theirs_prefixes and not remote.disabled:
                yield Problem(
                    f"{bundle.path} remote {remote.name} prefix {prefix}",
                    f"is also a prefix of remote {theirs_prefixes[prefix]} of {other.name}; keep it at one of them",
                )
