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

# Say which planet and moons of a home come from the configuration, and so have to go when that has them no more: for each a
# line with its file and the SHA-256 of what is configured. Others were put there by hand, or are what the core keeps of the
# public roots.
PLANET_MARK = "planet.configured"
MOON_MARK = "moons.configured"
_CHANGING = "-"  # in place of the digest, until the file is there


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
            have[PLANET_MARK] = _mark({"planet": given})
            have["planet"] = given
        if plan.moons:
            moons = {world.moon_file(moon): moon for moon in map(base64.b64decode, plan.moons)}
            have[MOON_MARK] = _mark(moons)
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


def is_kept(relative: str, present: bytes, wanted: HomeFiles, marked: Mapping[str, str]) -> bool:
    """Whether a file that differs stays: an update that the core has got of a configured planet or moon.

    ``marked`` is what the marks in the home say. What came after the configured file itself was there has passed the core;
    a file that was there before, such as the public planet, may be later too. Marks of an earlier version do not tell, so
    there the signature decides.
    """
    mark = PLANET_MARK if relative == "planet" else MOON_MARK if relative.startswith("moons.d/") else None
    if mark not in wanted.have or relative not in marked or not world.is_newer(present, wanted.have[relative]):
        return False
    digest = marked[relative]
    return digest == _digest(wanted.have[relative]) if digest else world.is_signed(present, wanted.have[relative])


def read_mark(text: str) -> Mapping[str, str]:
    """Digests of a mark by file; an earlier version wrote the digest of a planet alone, and the names of moons alone."""
    lines = (line.partition(" ") for line in text.splitlines() if line)
    return {name if name.startswith("moons.d/") else "planet": digest for name, _space, digest in lines}


def unsettled(name: str, wanted: HomeFiles, marked: Mapping[str, str], due: Collection[str]) -> bytes | None:
    """What a mark says while its files are written; None where none of them becomes another one.

    A power cut then leaves no file that passes for an update of another one.
    """
    given = read_mark(wanted.have[name].decode())
    changing = {file for file, digest in given.items() if file in due and marked.get(file) != digest}
    return _lines({file: _CHANGING if file in changing else digest for file, digest in given.items()}) if changing else None


def _mark(worlds: Mapping[str, bytes]) -> bytes:
    return _lines({name: _digest(content) for name, content in worlds.items()})


def _lines(digests: Mapping[str, str]) -> bytes:
    return "".join(f"{name} {digest}\n" for name, digest in sorted(digests.items())).encode()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
