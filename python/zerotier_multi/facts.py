"""Gathers the facts of this box that a configuration is checked against; reads only."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from zerotier_multi import box, devices, names, systemd, world
from zerotier_multi.bundle import Bundle
from zerotier_multi.box_checks import BoxFacts
from zerotier_multi.configured_identity import coming_identity
from zerotier_multi.cpu import Topology
from zerotier_multi.engine import IdentityError, address_is_valid
from zerotier_multi.engine_choice import ZEROTIER_ONE
from zerotier_multi.homes import home_fault, write_fault, own_identity
from zerotier_multi.identity import PublicIdentity
from zerotier_multi.importing.home import controlled
from zerotier_multi.netlink.links import Link, routing_domain
from zerotier_multi.networks import further_networks
from zerotier_multi.planner import instance_numbers
from zerotier_multi.plans import published_plans
from zerotier_multi.netlink.rtnl import Rtnl


def read_facts(bundle: Bundle, topology: Topology, others: Mapping[str, Bundle | None]) -> BoxFacts:
    """Everything about this box that may forbid ``bundle``.

    ``others`` are the other bundles of the configuration that it is part of, None for one that will not be committed as it is.
    """
    numbers = instance_numbers(bundle, topology)
    homes = {(bundle.name, k): names.home(bundle.name, k) for k in numbers}
    planet, planet_fault = _world(bundle.planet)
    moons = {given: _world(given, world.MOON) for given in bundle.moons}
    faults = {key: fault for key, home in homes.items() if (fault := home_fault(home))}
    usable = {k: home for (name, k), home in homes.items() if (name, k) not in faults}
    engines = box.find_engines()
    vrfs = _vrfs()
    return BoxFacts(
        topology=topology,
        isolated=box.isolated_cpus(),
        engines=engines,
        has_tun=box.has_tun(),
        vrfs=frozenset(vrfs),
        taken_ports=_taken_ports(bundle, numbers),
        foreign_nexthops=_foreign_nexthops(),
        foreign_devices=_foreign_devices(bundle, numbers),
        home_faults=faults,
        write_faults={k: fault for k, home in usable.items() if (fault := write_fault(home))},
        devices=device_addresses(),
        vrf_of={device: vrf for vrf, inside in vrfs.items() for device in inside},
        planet=planet,
        planet_fault=planet_fault,
        moons={given: data for given, (data, fault) in moons.items() if not fault},
        moon_faults={given: fault for given, (_, fault) in moons.items() if fault},
        zerotier_one=_version_where_it_matters(bundle, engines.get(ZEROTIER_ONE)),
        own_addresses=_own_addresses(bundle, usable),
        nodes=_nodes(bundle, topology, others) if any(bundle.override(k).identity for k in numbers) else {},
        identity_faults=_identity_faults(bundle, numbers, engines),
    )


def _own_addresses(bundle: Bundle, homes: Mapping[int, Path]) -> dict[str, str]:
    """The nodes of a bundle, and the networks that they are the controllers of, with the instance of each.

    Networks that cannot be read on a damaged disk do not count; zerotier-one would not read them either.
    """
    found: dict[str, str] = {}
    for k, home in homes.items():
        if identity := coming_identity(home, bundle.override(k).identity):
            found[identity.address] = f"{bundle.name}/{k}"
            with suppress(OSError):
                found |= dict.fromkeys(controlled(home, identity.address), f"{bundle.name}/{k}")
    return found


def _nodes(bundle: Bundle, topology: Topology, others: Mapping[str, Bundle | None]) -> dict[str, tuple[str, ...]]:
    """Which instances of all bundles have a node after the commit; a home that cannot be read counts for none.

    A published plan says what runs before it, so it counts only for a bundle that stays as it is.
    """
    staying = {name for name, other in others.items() if other is None}
    sources: list[tuple[str, int, Callable[[Path], PublicIdentity | None]]] = [
        *(
            (b.name, k, partial(coming_identity, configured=b.override(k).identity))
            for b in (bundle, *others.values())
            if b is not None
            for k in instance_numbers(b, topology)
        ),
        *((plan.bundle, i.number, own_identity) for plan in published_plans() if plan.bundle in staying for i in plan.instances),
    ]
    found: dict[str, tuple[str, ...]] = {}
    for name, k, identity_in in sources:
        with suppress(OSError, ValueError):
            if own := identity_in(names.home(name, k)):
                found[own.address] = (*found.get(own.address, ()), f"{name}/{k}")
    return found


def _identity_faults(bundle: Bundle, numbers: Iterable[int], engines: Mapping[str, str]) -> dict[int, str]:
    """Configured identities that no peer would talk to, as the second half of a sentence; asked for new ones alone."""
    found = {}
    for k in numbers:
        configured = bundle.override(k).identity
        if configured is None or not engines or _has(names.home(bundle.name, k), configured.public):
            continue
        try:
            if not address_is_valid(next(iter(engines.values())), configured.public):
                found[k] = (
                    f"has address {configured.public.address}, which is not that of its key; "
                    f"give an identity as 'generate zerotier identity' prints it"
                )
        except IdentityError as error:
            found[k] = f"cannot be checked ({error})"
    return found


def _has(home: Path, identity: PublicIdentity) -> bool:
    try:
        return own_identity(home) == identity
    except (OSError, ValueError):
        return False


def _version_where_it_matters(bundle: Bundle, program: str | None) -> tuple[int, ...]:
    """It costs a process, which most commits can do without."""
    return box.engine_version(program) if program and any(given.setting.since for given in bundle.settings) else ()


def _world(given: str | None, kind: int = world.PLANET) -> tuple[bytes, str | None]:
    """Roots out of a file or a text, or what is wrong with them as the second half of a sentence."""
    if given is None:
        return b"", None
    try:
        if not world.is_path(given):
            return world.from_text(given, kind), None
        with Path(given).open("rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return b"", f"is not a valid {world.KINDS[kind]} (not a regular file)"
            data = file.read(world.MAX_SIZE + 1)
        world.check(data, kind)
    except OSError as error:
        return b"", f"is not readable ({error.strerror})"
    except ValueError as error:
        return b"", f"is not a valid {world.KINDS[kind]} ({error})"
    return data, None


def device_addresses() -> dict[str, tuple[str, ...]]:
    """Addresses of every network device that something beyond its link can be reached from; none where it has none."""
    with Rtnl() as rtnl:
        links, addresses = rtnl.links(), rtnl.local_addresses()
    found: dict[str, list[str]] = {name: [] for name in links}
    by_index = {link.index: found[name] for name, link in links.items()}
    for address in sorted(addresses, key=str):
        if address.index in by_index:
            by_index[address.index].append(address.interface.partition("/")[0])
    return {name: tuple(own) for name, own in found.items()}


def _taken_ports(bundle: Bundle, numbers: Iterable[int]) -> dict[int, str]:
    """Ports of a bundle that others hold, with what is in the way.

    That somebody has taken the port of an instance while it did not run is no reason to refuse changes: it is started when
    the port is free.
    """
    planned = {port for plan in published_plans() if plan.bundle == bundle.name for i in plan.instances for port in i.ports}
    ours = systemd.running_ports() | planned
    taken = box.taken_ports([port for k in numbers for port, _path in bundle.ports(k) if port not in ours])
    if taken:  # perhaps by an instance of ours that has just been started again
        ours = systemd.running_ports() | planned
    return {port: who for port, who in taken.items() if port not in ours}


def _vrfs() -> dict[str, list[str]]:
    """VRFs with the devices that are in them; asked by netlink, because not every kernel says in sysfs what they are."""
    with Rtnl() as rtnl:
        links = {link.index: link for link in rtnl.links().values()}
    found: dict[str, list[str]] = {link.name: [] for link in links.values() if link.kind == "vrf"}
    for link in links.values():
        vrf = routing_domain(link.index, links)
        if vrf in found and vrf != link.name:
            found[vrf].append(link.name)
    return found


def _foreign_nexthops() -> tuple[int, ...]:
    """Next hops of other programs in our range; where a bundle stands already, zerotier-pathd copes with them."""
    standing = {plan.bundle for plan in published_plans()}
    with Rtnl() as rtnl:
        _single, _groups, strays = rtnl.nexthops()
    return tuple(sorted(n for n, s in strays.items() if not s.ours and names.bundle_of_nexthop(n) not in standing))


def _foreign_devices(bundle: Bundle, numbers: Iterable[int]) -> dict[str, str]:
    """Devices of other programs by names that a bundle needs, with what they are.

    Where it stands already, zerotier-pathd copes with them. The kernel does not say whose a TAP is, but one of ours ends with
    its process; so one that is there while its instance does not run is another program's.
    """
    standing = [plan for plan in published_plans() if plan.bundle == bundle.name and plan.instances]
    known = {device for plan in standing for device in (bundle.name, *(d for i in plan.instances for d in i.devices))}
    units = {device: names.unit_name(bundle.name, k) for k in numbers for device in _taps(bundle, k)}
    found = _links({bundle.name, *units} - known)
    taps = {name for name, link in found.items() if name in units and devices.may_be_of_instance(link)}
    foreign = {name for name, link in found.items() if name not in taps and not (name == bundle.name and devices.made_by_us(link))}
    if idle := _idle(units, taps):
        # Perhaps of an instance that has just ended or been started: then it is gone or another one by now.
        now = _links(idle)
        foreign |= {name for name in _idle(units, idle) if name in now and now[name].index == found[name].index}
    return {name: devices.what(found[name]) for name in sorted(foreign)}


def _taps(bundle: Bundle, number: int) -> list[str]:
    """TAPs that an instance makes."""
    further = [names.network_device(bundle.name, network) for network in further_networks(bundle, number)]
    return [names.member_device(bundle.name, number), *further]


def _links(wanted: Collection[str]) -> dict[str, Link]:
    with Rtnl() as rtnl:
        return {name: link for name, link in rtnl.links().items() if name in wanted}


def _idle(units: Mapping[str, str], taps: Collection[str]) -> set[str]:
    """TAPs whose instance has no process."""
    states = systemd.unit_states(sorted({units[name] for name in taps}))
    return {name for name in taps if not states[units[name]].pid}
