"""What a configuration needs of this very router, and what a user should know of a good one; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from zerotier_multi import bridges, mirror, names, networks, uplinks, world
from zerotier_multi.bundle import AUTO, Bundle
from zerotier_multi.bundle_parser import MOON_REMEDY, PLANET_REMEDY
from zerotier_multi.checks import own_addresses
from zerotier_multi.controller import settings as controllers
from zerotier_multi.cpu import Topology, format_cpu_list
from zerotier_multi.engine_choice import ZTNODE, choose_engine, engine_problems, engine_warnings
from zerotier_multi.errors import Problem
from zerotier_multi.planner import instance_count, instance_numbers
from zerotier_multi.values import shown


@dataclass(frozen=True)
class BoxFacts:
    """What :mod:`box` has read: everything outside the configuration that can forbid a commit."""

    topology: Topology
    engines: Mapping[str, str]  # name -> absolute path, only those that work
    has_tun: bool = True
    vrfs: frozenset[str] = frozenset()
    taken_ports: Mapping[int, str] = field(default_factory=dict)  # port -> who, ours left out
    foreign_nexthops: tuple[int, ...] = ()  # ids of our range that are not ours
    foreign_devices: Mapping[str, str] = field(default_factory=dict)  # devices of others by our names -> what each is
    home_faults: Mapping[tuple[str, int], str] = field(default_factory=dict)  # (bundle, instance) -> sentence
    write_faults: Mapping[int, str] = field(default_factory=dict)  # homes with an identity that cannot be written, by instance
    nodes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # node address -> instances that have it after the commit
    identity_faults: Mapping[int, str] = field(default_factory=dict)  # configured identities, by instance
    own_addresses: Mapping[str, str] = field(default_factory=dict)  # see engine_choice.OwnAddresses
    devices: Mapping[str, Sequence[str]] = field(default_factory=dict)  # network devices with their addresses
    vrf_of: Mapping[str, str] = field(default_factory=dict)  # devices that are in a VRF, with its name
    planet: bytes = b""  # private roots, where there are some
    planet_fault: str | None = None  # why they cannot be used
    moons: Mapping[str, bytes] = field(default_factory=dict)  # by what is configured
    moon_faults: Mapping[str, str] = field(default_factory=dict)
    isolated: tuple[int, ...] = ()  # CPUs that run only what is pinned to them, and are not in the topology
    zerotier_one: tuple[int, ...] = ()  # its version, where a setting needs a certain one


def check_on_box(bundle: Bundle, facts: BoxFacts, others: Sequence[Bundle] = ()) -> list[Problem]:
    """Problems of a bundle on this very box, beside ``others``; some are :func:`tolerable`."""
    if bundle.disabled:
        return []
    numbers = instance_numbers(bundle, facts.topology)
    problems = [
        *_worlds(bundle, facts),
        *engine_problems(bundle, facts.engines, facts.own_addresses),
        *tolerable(bundle, facts, others),
    ]
    if not facts.has_tun:
        problems.append(
            Problem(bundle.path, "/dev/net/tun is missing, so no TAP device can be created; load the kernel module tun")
        )
    if bundle.name in facts.vrfs:
        problems.append(Problem(bundle.path, "a VRF has the same name; rename the VRF or use another number"))
    problems += _devices(bundle, numbers, facts)
    if facts.foreign_nexthops:
        first = facts.foreign_nexthops[0]
        problems.append(
            Problem(
                bundle.path,
                f"another program created next hop {first} in the ID range of zerotier-multi "
                f"({names.NEXTHOP_ID_BASE} and up); remove it with: ip nexthop del id {first}",
            )
        )
    for k in numbers:
        problems += [
            Problem(
                path,
                f"instance {bundle.name}/{k} cannot use port {port}, because {facts.taken_ports[port]}; "
                f"choose another port or stop the program",
            )
            for port, path in bundle.ports(k)
            if port in facts.taken_ports
        ]
    if not with_usable_homes(bundle, facts):
        problems += _homes(bundle, facts)
    problems += _identities(bundle, numbers, facts)
    for remote in bundle.remotes:
        for k, known in sorted(remote.instances.items()):
            if known.identity and known.identity.address in facts.own_addresses:
                problems.append(
                    Problem(
                        f"{bundle.path} remote {remote.name} instance {k} identity {known.identity.address}",
                        f"is the identity of {facts.own_addresses[known.identity.address]} on this router; "
                        f"set the identity that {remote.name} prints",
                    )
                )
    return problems


def tolerable(bundle: Bundle, facts: BoxFacts, others: Sequence[Bundle] = ()) -> list[Problem]:
    """What a commit is refused for, and a boot is not, because the rest of the bundle works.

    Most of it fits another router, or this one with other CPUs, or with devices that come later; the rest is a damaged disk.
    Who types it sees why; at a boot nobody would see why the other site is gone.
    """
    if bundle.disabled:
        return []
    choice = choose_engine(bundle, facts.engines, facts.own_addresses)
    binds_any = choice is not None and PurePath(choice.program).name != ZTNODE
    problems = list(_cpus(bundle, facts))
    problems += uplinks.problems_on_box(bundle, instance_numbers(bundle, facts.topology), facts.devices, facts.vrf_of, binds_any)
    problems += own_addresses(bundle, others)
    if bundle.vrf and bundle.vrf not in facts.vrfs:
        problems.append(
            Problem(f"{bundle.path} vrf {bundle.vrf}", f"does not exist; create it first, on VyOS by set vrf name {bundle.vrf}")
        )
    problems += [Problem(f"{bundle.path} instance {k}", fault) for k, fault in sorted(facts.write_faults.items())]
    if with_usable_homes(bundle, facts):
        problems += _homes(bundle, facts)
    return problems


def on_these_cpus(bundle: Bundle, facts: BoxFacts) -> Bundle:
    """The bundle without the CPUs that this router has not; where none is left, as if none were set."""
    online = _online(facts)
    affinity = bundle.affinity
    if isinstance(affinity, tuple):
        affinity = tuple(cpu for cpu in affinity if cpu in online) or AUTO
    overrides = {
        k: replace(o, cpus=tuple(cpu for cpu in o.cpus or () if cpu in online) or None) for k, o in bundle.overrides.items()
    }
    return replace(bundle, affinity=affinity, overrides=overrides)


def with_usable_homes(bundle: Bundle, facts: BoxFacts) -> Bundle | None:
    """The bundle with those instances off whose home cannot be used; None where no other is left."""
    off = without_home(bundle, facts)
    if off and len(off) == len(instance_numbers(bundle, facts.topology)):
        return None
    return replace(bundle, overrides={**bundle.overrides, **{k: replace(bundle.override(k), disabled=True) for k in off}})


def without_home(bundle: Bundle, facts: BoxFacts) -> list[int]:
    """Instances whose home cannot be used."""
    return [k for k in instance_numbers(bundle, facts.topology) if (bundle.name, k) in facts.home_faults]


def _homes(bundle: Bundle, facts: BoxFacts) -> Iterable[Problem]:
    for k in without_home(bundle, facts):
        yield Problem(f"{bundle.path} instance {k}", facts.home_faults[bundle.name, k])


def _online(facts: BoxFacts) -> set[int]:
    return {cpu.number for cpu in facts.topology} | set(facts.isolated)


def _devices(bundle: Bundle, numbers: Sequence[int], facts: BoxFacts) -> Iterable[Problem]:
    """Devices of other programs by names that the bundle needs: to take one over would end what it is for."""
    instances = {names.member_device(bundle.name, k): f"{bundle.path} instance {k}" for k in numbers}
    for device, what in facts.foreign_devices.items():
        if device == bundle.name and device in facts.vrfs:
            continue
        otherwise = "" if device in instances else ", or use another number"
        yield Problem(
            instances.get(device, bundle.path),
            f"device {device} exists already and is {what} of another program; "
            f"stop that program or give its device another name{otherwise}",
        )


def _identities(bundle: Bundle, numbers: Sequence[int], facts: BoxFacts) -> Iterable[Problem]:
    for k in numbers:
        at = f"{bundle.path} instance {k} identity secret"
        if k in facts.identity_faults:
            yield Problem(at, facts.identity_faults[k])
        elif identity := bundle.override(k).identity:
            others = [name for name in facts.nodes.get(identity.public.address, ()) if name != f"{bundle.name}/{k}"]
            if others:
                yield Problem(
                    at, f"is of node {identity.public.address}, as that of {others[0]}; give each instance its own identity"
                )


def _worlds(bundle: Bundle, facts: BoxFacts) -> Iterable[Problem]:
    if facts.planet_fault:
        yield Problem(f"{bundle.path} planet {shown(bundle.planet or '')}", f"{facts.planet_fault}; {PLANET_REMEDY}")
    places: dict[str, str] = {}
    for given in bundle.moons:
        where = f"{bundle.path} moon {shown(given)}"
        if given in facts.moon_faults:
            yield Problem(where, f"{facts.moon_faults[given]}; {MOON_REMEDY}")
        elif given in facts.moons:
            other = places.setdefault(world.moon_file(facts.moons[given]), given)
            if other != given:
                yield Problem(where, f"has the same world ID as moon {shown(other)}; delete one of them")


def _cpus(bundle: Bundle, facts: BoxFacts) -> Iterable[Problem]:
    online = _online(facts)
    wanted = [(f"{bundle.path} instance {k} cpu", o.cpus) for k, o in sorted(bundle.overrides.items()) if o.cpus]
    if isinstance(bundle.affinity, tuple):
        wanted.insert(0, (f"{bundle.path} cpu affinity", bundle.affinity))
    for path, cpus in wanted:
        unknown = set(cpus) - online
        if unknown:
            yield Problem(
                f"{path} {format_cpu_list(cpus)}",
                f"this router has no CPU {format_cpu_list(unknown)}; its CPUs are {format_cpu_list(online)}",
            )


def warnings(bundle: Bundle, facts: BoxFacts) -> list[str]:
    """What a user should know although the commit is good."""
    topology = facts.topology
    numbers = instance_numbers(bundle, topology)
    found = [*uplinks.warnings(bundle, numbers, facts.devices), *mirror.warnings(bundle, facts.devices)]
    found += bridges.warnings(bundle, numbers, facts.devices)
    found += [f"{bundle.path} {text}" for text in _of_settings(bundle, numbers, facts)]
    found += [f"{bundle.path} {text}" for text in networks.warnings(bundle, numbers)]
    found += [f"{bundle.path} {text}" for text in controllers.warnings(bundle.controller)]
    found += [f"{bundle.path} {text}" for text in engine_warnings(bundle, facts.engines, facts.own_addresses)]
    if len(numbers) > len(topology) and bundle.affinity == "auto":
        found.append(f"{bundle.path} instances: {len(numbers)} instances share {len(topology)} CPUs")
    beyond = sorted(k for k in bundle.overrides if k > instance_count(bundle, topology))
    if beyond:
        found.append(f"{bundle.path} instance {beyond[0]}: it has no effect, because there are fewer instances")
    for remote in bundle.remotes:
        if not remote.prefixes and not remote.disabled:
            found.append(
                f"{bundle.path} remote {remote.name} prefix: none is set, so only a routing protocol leads to {remote.name}"
            )
    if bundle.controller_free:
        for remote in bundle.remotes:
            waiting = [k for k in numbers if (known := remote.instances.get(k)) is None or known.identity is None]
            if waiting and not remote.disabled:
                found.append(
                    f"{bundle.path} remote {remote.name}: no identity for instance "
                    f"{format_cpu_list(waiting)} yet, so there is no path; "
                    f"'show zerotier {bundle.name} identity' on {remote.name} prints it"
                )
    return found


def _of_settings(bundle: Bundle, numbers: Sequence[int], facts: BoxFacts) -> Iterable[str]:
    """Settings of ``local.conf`` that work against several instances or against safety, or that the engine ignores."""
    paths = {given.path: given for given in bundle.settings}
    if "enable-port-mapping" in paths and len(numbers) > 1:
        yield f"enable-port-mapping: {len(numbers)} instances ask the NAT for ports, which some routers confuse; endpoints and forwarded ports are safer"
    if "multicore-options cpu-pinning" in paths and len(numbers) > 1:
        yield f"multicore-options cpu-pinning: the threads of all {len(numbers)} instances are pinned to the same first CPUs"
    cpus = [bundle.override(k).cpus or (() if bundle.affinity == "none" else (k,)) for k in numbers]
    if "multicore-options enabled" in paths and any(len(own) == 1 for own in cpus):
        yield "multicore-options enabled: an instance is pinned to a single CPU, which its threads share; set cpu affinity none"
    for given in bundle.settings:
        if given.path.endswith(" trusted-path"):
            yield f"{given.path} {given.value}: traffic over this network is neither encrypted nor authenticated"
    version = facts.zerotier_one
    for given in bundle.settings:
        if version and version < given.setting.since:
            yield f"{given.path}: zerotier-one {_dotted(version)} ignores it; it needs {_dotted(given.setting.since)} or newer"


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
