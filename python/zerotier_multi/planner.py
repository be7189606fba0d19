"""Bundle and CPU topology in, Plan out. No I/O: every decision about the wanted state is made here."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence

from zerotier_multi import names
from zerotier_multi.blacklist import blacklist
from zerotier_multi.bundle import AUTO, Bundle, Remote
from zerotier_multi.cpu import Topology, performance_cores, place, placement_order
from zerotier_multi.identity import mac_on_network
from zerotier_multi.networks import network_plans
from zerotier_multi.plan import (
    ControllerPlan,
    GroupPlan,
    HealthPlan,
    InstancePlan,
    PathPlan,
    PeerPlan,
    Plan,
    RemotePlan,
    RoutePlan,
    SettingPlan,
)

# fib_multipath_hash_policy of net.ipv4 and net.ipv6 (kernel documentation, ip-sysctl)
HASH_POLICY = {"layer3": 0, "layer4": 1, "inner": 2}

# One frame of 1394 bytes is exactly one 1432-byte packet of ZeroTier's; each further 1416 bytes fill one more.
MTU_STEP, MTU_BASE = 1416, 1394


def best_mtu(limit: int) -> int:
    """The largest MTU not above ``limit`` whose frames fill their ZeroTier packets, in bytes.

    A limit below the smallest such size is returned as it is.
    """
    if limit < MTU_BASE:
        return limit
    return MTU_BASE + (limit - MTU_BASE) // MTU_STEP * MTU_STEP


def instance_count(bundle: Bundle, topology: Topology) -> int:
    """Instances of a bundle, ``auto`` resolved; disabled ones included."""
    return bundle.instances or min(performance_cores(topology), names.MAX_INSTANCES)


def instance_numbers(bundle: Bundle, topology: Topology) -> tuple[int, ...]:
    """Numbers of the instances that shall run."""
    numbers = range(1, instance_count(bundle, topology) + 1)
    return () if bundle.disabled else tuple(k for k in numbers if not bundle.override(k).disabled)


def cpu_offset(bundle: Bundle, others: Iterable[Bundle], topology: Topology) -> int:
    """How many places in the CPU order the bundles with lower numbers take before this one."""
    own = names.bundle_number(bundle.name)
    return sum(instance_count(other, topology) for other in others if not other.disabled and names.bundle_number(other.name) < own)


def make_plan(
    bundle: Bundle, topology: Topology, engine: str, offset: int = 0, engine_reason: str = "", planet: bytes = b"",
    moons: Sequence[bytes] = (),
) -> Plan:  # fmt: skip
    """The wanted state of a bundle that :mod:`checks` has passed.

    ``engine`` is the absolute path of the program to run and ``engine_reason`` what chose it (see
    :mod:`engine_choice`), ``offset`` what :func:`cpu_offset` gives, ``planet`` private roots, ``moons`` further ones. A
    disabled bundle has an empty plan: nothing of it stands.
    """
    numbers = instance_numbers(bundle, topology)
    remotes = () if bundle.disabled else tuple(r for r in bundle.remotes if not r.disabled)
    pinned = _pins(bundle, topology, instance_count(bundle, topology), offset)
    paths = tuple(_paths(bundle, numbers, remotes))
    groups = tuple(_groups(bundle, remotes, paths))
    routes = tuple(_routes(bundle, remotes, groups))
    loopbacks = tuple(str(a) for a in bundle.addresses)
    return Plan(
        bundle=bundle.name,
        vrf=bundle.vrf,
        description=bundle.description,
        mtu=bundle.mtu or (MTU_BASE if bundle.controller_free else None),
        controller_free=bundle.controller_free,
        addresses=() if bundle.disabled else loopbacks,
        hash_policy=HASH_POLICY[bundle.hash_policy] if len(numbers) > 1 else None,
        instances=tuple(_instance(bundle, k, engine, pinned[k - 1]) for k in numbers),
        paths=paths,
        groups=groups,
        routes=routes,
        peers=tuple(_peers(bundle, numbers, remotes)) if bundle.controller_free else (),
        blacklist=tuple(map(str, blacklist(bundle))),
        health=HealthPlan(not bundle.health_disabled, bundle.health_interval, bundle.health_multiplier),
        keep_routes=bundle.all_paths_down == "keep",
        auto_weights=bundle.weights == "auto",
        engine_reason=engine_reason,
        planet=base64.b64encode(planet).decode(),
        moons=tuple(base64.b64encode(moon).decode() for moon in moons),
        adjust_mss=bundle.adjust_mss,
        controller=_controller(bundle),
        mirror_ingress=bundle.mirror_ingress,
        mirror_egress=bundle.mirror_egress,
        redirect=bundle.redirect,
        source_validation=bundle.source_validation,
        disable_forwarding=bundle.disable_forwarding,
        without_identity=tuple(_without_identity(remotes, paths)) if bundle.controller_free else (),
    )


def _controller(bundle: Bundle) -> ControllerPlan | None:
    given = bundle.controller
    if given is None or given.kind is None or bundle.disabled:
        return None
    return ControllerPlan(given.kind, given.url, given.authorize, given.assign_addresses, given.ca_certificate, given.insecure)


def _pins(bundle: Bundle, topology: Topology, count: int, offset: int) -> list[tuple[int, ...]]:
    """CPUs of instance 1, 2, …; an empty tuple where it is not pinned."""
    pins: list[tuple[int, ...]]
    if isinstance(bundle.affinity, tuple):
        pins = [(cpu,) for cpu in place(bundle.affinity, count)]
    elif bundle.affinity == AUTO:
        pins = [(cpu,) for cpu in place(placement_order(topology), count, offset)]
    else:
        pins = [()] * count
    return [bundle.override(k).cpus or pin for k, pin in enumerate(pins, start=1)]


def _instance(bundle: Bundle, number: int, engine: str, cpus: tuple[int, ...]) -> InstancePlan:
    network = bundle.network(number)
    assert network is not None, "checks refuse an instance without a network"
    transit = () if bundle.site is None else tuple(str(t.interface(number, bundle.site)) for t in bundle.transits)
    return InstancePlan(
        number=number,
        network_id=network,
        port=bundle.port(number),
        home=str(names.home(bundle.name, number)),
        unit=names.unit_name(bundle.name, number),
        device=names.member_device(bundle.name, number),
        engine=engine,
        cpus=cpus,
        listen=tuple(str(a) for a in bundle.listening(number)),
        transit=transit,
        source_interface=bundle.override(number).source_interface,
        gateways=tuple(str(a) for a in bundle.override(number).gateways),
        settings=_settings(bundle, number),
        identity=str(own.public) if (own := bundle.override(number).identity) else "",
        networks=network_plans(bundle, number),
    )


def _settings(bundle: Bundle, number: int) -> tuple[SettingPlan, ...]:
    """Of ``local.conf``; what an instance has of its own overrides the bundle's."""
    given = {s.key: s.for_instance(number) for s in bundle.settings}
    given |= {s.key: s.value for s in bundle.override(number).settings}
    if mapped := bundle.mapped_port(number):
        given["settings", "tertiaryPort"] = mapped
    return tuple(SettingPlan(key, value) for key, value in given.items())


def _paths(bundle: Bundle, numbers: Sequence[int], remotes: Sequence[Remote]) -> Iterable[PathPlan]:
    """Next hops. In controller-free mode a remote's instance without an identity has no path yet."""
    for remote in remotes:
        site = bundle.remote_site(remote)
        assert site is not None, "checks refuse a remote without a site"
        for transit in bundle.transits:
            for k in numbers:
                known = remote.instances.get(k)
                identity = known.identity if known else None
                if bundle.controller_free and identity is None:
                    continue
                yield PathPlan(
                    remote=remote.name,
                    instance=k,
                    family=transit.family,
                    device=names.member_device(bundle.name, k),
                    via=str(transit.interface(k, site).ip),
                    nexthop_id=names.nexthop_id(bundle.name, transit.family, site, k),
                    lladdr=mac_on_network(identity.address, bundle.network(k) or "") if identity else None,
                    weight=bundle.weight(k),
                    backup=bundle.override(k).backup,
                )


def _without_identity(remotes: Sequence[Remote], paths: Sequence[PathPlan]) -> Iterable[RemotePlan]:
    known = {path.remote for path in paths}
    for remote in remotes:
        if remote.name not in known:
            yield RemotePlan(remote.name, tuple(map(str, remote.prefixes)))


def _groups(bundle: Bundle, remotes: Sequence[Remote], paths: Sequence[PathPlan]) -> Iterable[GroupPlan]:
    for remote in remotes:
        for transit in bundle.transits:
            members = tuple(p.nexthop_id for p in paths if p.remote == remote.name and p.family == transit.family)
            if members:
                yield GroupPlan(
                    remote=remote.name,
                    family=transit.family,
                    group_id=names.nexthop_id(bundle.name, transit.family, bundle.remote_site(remote) or 0, 0),
                    members=members,
                    buckets=bundle.resilient_buckets,
                    idle_timer=bundle.resilient_idle,
                )


def _routes(bundle: Bundle, remotes: Sequence[Remote], groups: Sequence[GroupPlan]) -> Iterable[RoutePlan]:
    """A prefix goes over the group of its own family; an IPv4 one over IPv6 transit where there is no other."""
    by_family = {(g.remote, g.family): g.group_id for g in groups}
    source = {a.version: str(a.ip) for a in reversed(bundle.addresses)}
    for remote in remotes:
        for prefix in remote.prefixes:
            group = by_family.get((remote.name, prefix.version)) or by_family.get((remote.name, 6))
            if group is not None:
                yield RoutePlan(str(prefix), group, source.get(prefix.version))


def _peers(bundle: Bundle, numbers: Sequence[int], remotes: Sequence[Remote]) -> Iterable[PeerPlan]:
    for remote in remotes:
        for k in numbers:
            known = remote.instances.get(k)
            if known and known.identity:
                endpoints = tuple(str(e) for e in (*known.endpoints, *known.named))
                yield PeerPlan(remote.name, k, str(known.identity), endpoints)
