"""What stands in the home of an instance, as a pure function of the plan and its identity."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from zerotier_multi import world
from zerotier_multi.engine_choice import follows_addresses
from zerotier_multi.identity import PublicIdentity
from zerotier_multi.local_conf import local_conf, make_conf
from zerotier_multi.plan import InstancePlan, NetworkPlan, Plan
from zerotier_multi.planet import (
    is_our_moon,
    is_our_network_config,
    is_our_planet,
    make_moon,
    make_network_config,
    make_planet,
    moon_file,
)
from zerotier_multi.settings import without_live
from zerotier_multi.values import endpoint

# Says that the planet in a home comes from the configuration, and so has to go when that has none any more. A planet
# without it was put there by hand, or is what the core keeps of the public roots.
PLANET_MARK = "planet.configured"
# The same of moons: the names of those that come from the configuration, a line each.
MOON_MARK = "moons.configured"


@dataclass(frozen=True)
class HomeFiles:
    """Files to have (relative path -> content), to create when absent, and to have not."""

    have: Mapping[str, bytes]
    create: Mapping[str, bytes]
    restart_digest: str = ""  # a running process that was started with another one must be restarted


def network_marker(instance: InstancePlan) -> str:
    """The file of a home that has an instance join its network."""
    return f"networks.d/{instance.network_id}.conf"


def _network_settings(network: NetworkPlan) -> bytes:
    """``networks.d/<nwid>.local.conf``: what a controller may do to this router, nothing unless it is allowed."""
    allowed = {
        "allowManaged": network.allow_managed,
        "allowGlobal": network.allow_global,
        "allowDefault": network.allow_default,
        "allowDNS": network.allow_dns,
    }
    return "".join(f"{key}={int(value)}\n" for key, value in allowed.items()).encode()


def network_config(plan: Plan, instance: InstancePlan, own: PublicIdentity) -> bytes:
    """What is in that file in controller-free mode; ``own`` is the identity of the instance."""
    peers = [PublicIdentity.parse(p.identity).address for p in plan.peers if p.instance == instance.number]
    return make_network_config(instance.network_id, own.address, peers, plan.mtu or 0)


def _restart_digest(plan: Plan, instance: InstancePlan, files: HomeFiles) -> str:
    """Digest of all that the engine reads at its start alone: how it is called, the files of its home, and of
    ``local.conf`` what it does not read again.

    The addresses of a source interface are no part of it: whoever restarts an instance writes those of that moment.
    """
    conf = without_live(make_conf(plan, instance, None))
    start = [
        instance.engine,
        str(instance.port),
        instance.source_interface or "",
        *instance.listen,
        *([instance.identity] if instance.identity else []),
        json.dumps(conf, sort_keys=True),
        # A port of a bridge has the MTU of its network, which only the engine knows.
        *(f"{n.device} bridge" for n in instance.joined if n.bridge),
        # Nobody takes these from a device where a controller may set others, but it goes with the process.
        *(a for n in instance.joined if n.allow_managed for a in (n.device, *instance.transit, *n.addresses)),
    ]
    digest = hashlib.sha256("\0".join(start).encode())
    for name, content in sorted({**files.have, **files.create, "local.conf": b""}.items()):
        digest.update(f"\0{name}\0{hashlib.sha256(content).hexdigest()}".encode())
    return digest.hexdigest()[:16]


def home_files(
    plan: Plan, instance: InstancePlan, own: PublicIdentity | None, addresses: Mapping[str, Sequence[str]] | None = None
) -> HomeFiles:
    """Files of the home of ``instance``; ``own`` is its identity, needed in controller-free mode only.

    ``addresses`` of the devices matter where a zerotier-one has a source interface; they are no reason for a restart.

    Raises ValueError when it is needed and absent.
    """
    have = {
        "local.conf": local_conf(plan, instance, addresses).encode(),
        "devicemap": "".join(f"{network.network_id}={network.device}\n" for network in instance.joined).encode(),
    }
    for network in instance.joined:
        have[f"networks.d/{network.network_id}.local.conf"] = _network_settings(network)
    create: dict[str, bytes] = {}
    if plan.controller_free:
        if own is None:
            raise ValueError(f"{plan.bundle}/{instance.number} has no identity yet")
        peers = [(PublicIdentity.parse(p.identity), p.endpoints) for p in plan.peers if p.instance == instance.number]
        have["planet"] = make_planet(instance.network_id, own)
        for identity, endpoints in peers:
            # ztnode takes them from local.conf, which it reads again when it changes; zerotier-one asks there
            # only every 30 s, so it gets them as roots' endpoints too, and is restarted when they change.
            known = () if follows_addresses(instance.engine) else tuple(endpoint(e) for e in endpoints)
            have[moon_file(identity)] = make_moon(identity, known)
        have[network_marker(instance)] = network_config(plan, instance, own)
    else:
        if plan.planet:
            given = base64.b64decode(plan.planet)
            have[PLANET_MARK] = hashlib.sha256(given).hexdigest().encode() + b"\n"
            have["planet"] = given
        if plan.moons:
            moons = {world.moon_file(moon): moon for moon in map(base64.b64decode, plan.moons)}
            have[MOON_MARK] = "".join(f"{name}\n" for name in sorted(moons)).encode()
            have |= moons
        for network in instance.joined:  # an empty file joins; what the controller sends is kept in it
            create[f"networks.d/{network.network_id}.conf"] = b""
    files = HomeFiles(have, create)
    return replace(files, restart_digest=_restart_digest(plan, instance, files))


def is_leftover(relative: str, content: bytes, wanted: HomeFiles, configured: Collection[str] = ()) -> bool:
    """Whether a file found in a home belongs to an earlier configuration and has to go.

    That is: networks that are no longer joined, moons of remotes that are gone, in controller mode what controller-free
    mode left, and a planet and moons that the configuration gave once (``configured``, as the marks tell).
    """
    if relative.startswith("networks.d/"):
        known = relative in wanted.have or relative in wanted.create
        return not known or (relative in wanted.create and is_our_network_config(content))
    if relative in wanted.have:
        return False
    if relative.startswith("moons.d/"):
        return relative in configured or is_our_moon(content)
    return relative in (PLANET_MARK, MOON_MARK) or (relative == "planet" and (relative in configured or is_our_planet(content)))


def is_kept(relative: str, present: bytes, wanted: HomeFiles) -> bool:
    """Whether a file that differs stays: a configured planet or moon that the core has got an update of."""
    mark = PLANET_MARK if relative == "planet" else MOON_MARK if relative.startswith("moons.d/") else None
    return mark in wanted.have and world.is_newer(present, wanted.have[relative])
