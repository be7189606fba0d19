"""Invites: what a remote has to know of a router, in one word that can be pasted; pure.

An invite has a version, what the router is, and a checksum, as base64url text without padding. It holds public things alone:
network, site, prefixes, public identities and endpoints. Who pastes one sees nothing of it, so it may say no more than our
own routers write, and a commit tells what it brings.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from zerotier_multi.definition import definition
from zerotier_multi.identity import PublicIdentity
from zerotier_multi.plan import Plan
from zerotier_multi.transit import IPAddress, IPNetwork
from zerotier_multi.values import Endpoint, endpoint

VERSION = 1
_SIZE = {4: 4, 6: 16}  # bytes of an address by family
_AGAIN = "paste the line of 'show zerotier ztN invite' again"
_CUT = f"is not a whole invite; {_AGAIN}"


@dataclass(frozen=True)
class InvitedInstance:
    """One instance of the router that invites."""

    identity: PublicIdentity
    endpoints: tuple[Endpoint, ...] = ()


@dataclass(frozen=True)
class Invite:
    """What an invite says. ``network`` is None where the instances are on several networks."""

    site: int
    network: str | None = None
    prefixes: tuple[IPNetwork, ...] = ()
    instances: Mapping[int, InvitedInstance] = field(default_factory=dict)


def encode(invite: Invite) -> str:
    """The text of an invite."""
    out = bytearray(struct.pack("!BHQ", VERSION, invite.site, int(invite.network or "0", 16)))
    out.append(len(invite.prefixes))
    for prefix in invite.prefixes:
        out += struct.pack("!BB", prefix.version, prefix.prefixlen) + prefix.network_address.packed
    out.append(len(invite.instances))
    for number, instance in sorted(invite.instances.items()):
        out += bytes([number]) + bytes.fromhex(instance.identity.address) + instance.identity.key
        out.append(len(instance.endpoints))
        for one in instance.endpoints:
            out += bytes([one.address.version]) + one.address.packed + struct.pack("!H", one.port)
    out += struct.pack("!I", binascii.crc32(out))
    return base64.urlsafe_b64encode(out).rstrip(b"=").decode()


class _Cursor:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, count: int) -> bytes:
        """Raises ValueError beyond the end."""
        taken = self._data[self._at : self._at + count]
        if len(taken) != count:
            raise ValueError(_CUT)
        self._at += count
        return taken

    def byte(self) -> int:
        return self.take(1)[0]

    def address(self) -> IPAddress:
        return self._address(self.byte())

    def network(self) -> IPNetwork:
        """Raises ValueError for more than a single address: that may draw all traffic, and has to be seen where it is set."""
        family, length = self.take(2)
        address = self._address(family)
        if length != address.max_prefixlen:
            raise ValueError(
                f"has prefix {address}/{length}, and an invite brings single addresses alone; {_AGAIN}, and set a prefix that you "
                f"know to be behind that router with remote NAME prefix"
            )
        return ipaddress.ip_network(address)

    def _address(self, family: int) -> IPAddress:
        if family not in _SIZE:
            raise ValueError(_CUT)
        return ipaddress.ip_address(self.take(_SIZE[family]))

    @property
    def at_end(self) -> bool:
        return self._at == len(self._data)


def decode(text: str) -> Invite:
    """What a text says. Raises ValueError with the second half of a sentence for anything that is not a whole invite, and for
    values that the long form refuses."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(_CUT) from None
    if len(data) < 4 or struct.pack("!I", binascii.crc32(data[:-4])) != data[-4:]:
        raise ValueError(_CUT)
    cursor = _Cursor(data[:-4])
    version, site, network = struct.unpack("!BHQ", cursor.take(11))
    if version != VERSION:
        raise ValueError(
            f"is an invite of version {version}, but this router reads version {VERSION}; update the older of the two routers"
        )
    _within("remote site", site)
    prefixes = tuple(cursor.network() for _ in range(cursor.byte()))
    instances = {}
    for _ in range(cursor.byte()):
        number, node, key = cursor.byte(), cursor.take(5).hex(), cursor.take(64)
        _within("remote instance", number)
        try:
            identity = PublicIdentity.parse(f"{node}:0:{key.hex()}")
        except ValueError as error:
            raise ValueError(f"cannot be used, because {error}; {_AGAIN}") from None
        endpoints = tuple(_endpoint(cursor, number) for _ in range(cursor.byte()))
        instances[number] = InvitedInstance(identity, endpoints)
    if not cursor.at_end:
        raise ValueError(_CUT)
    return Invite(site, f"{network:016x}" if network else None, prefixes, instances)


def _within(setting: str, number: int) -> None:
    """Raises ValueError unless a number is one that the setting takes."""
    node = definition()[setting]
    try:
        node.read(str(number))
    except ValueError:
        raise ValueError(f"has {setting.rpartition(' ')[2]} {number}, but {node.remedy}; {_AGAIN}") from None


def _endpoint(cursor: _Cursor, number: int) -> Endpoint:
    """Raises ValueError for what ``endpoint`` does not take, and for this router itself, which no other one writes."""
    found = Endpoint(cursor.address(), int.from_bytes(cursor.take(2), "big"))
    meant = getattr(found.address, "ipv4_mapped", None) or found.address
    try:
        if not meant.is_loopback:
            endpoint(str(Endpoint(meant, found.port)))
            return endpoint(str(found))
    except ValueError:
        pass
    raise ValueError(f"has endpoint {found} of instance {number}, where no router can be; {_AGAIN}")


def warnings(path: str, remotes: Mapping[str, Mapping[str, Any]], plan: Plan, standing: Plan | None) -> Iterable[str]:
    """What invites bring that the plan in force has not: one sentence for each.

    ``path`` is the CLI path of the bundle, ``remotes`` what is configured below its ``remote``, which has been read before.
    """
    for name, tree in remotes.items():
        if text := (tree or {}).get("invite"):
            invite = decode(text)
            if _in_use(invite, name, plan) - (_in_use(invite, name, standing) if standing else set()):
                word = "prefix" if len(invite.prefixes) == 1 else "prefixes"
                brought = f"{word} {', '.join(map(str, invite.prefixes))}" if invite.prefixes else "no prefix"
                then = f"; what is sent there goes to {name}" if invite.prefixes else ""
                yield f"{path} remote {name} invite: it brings site {invite.site} and {brought}{then}"


def _in_use(invite: Invite, remote: str, plan: Plan) -> set[tuple[object, ...]]:
    """What a plan has of an invite; the id of a group has the site in it."""
    groups = {group.group_id for group in plan.groups if group.remote == remote}
    routed = [route.prefix for route in plan.routes if route.group_id in groups]
    routed += [prefix for waiting in plan.without_identity if waiting.name == remote for prefix in waiting.prefixes]
    found: set[tuple[object, ...]] = {(group,) for group in groups}
    found |= {(prefix,) for prefix in map(str, invite.prefixes) if prefix in routed}
    for peer in plan.peers:
        if peer.remote == remote and (invited := invite.instances.get(peer.instance)):
            texts = {str(invited.identity), *map(str, invited.endpoints)} & {peer.identity, *peer.endpoints}
            found |= {(peer.instance, text) for text in texts}
    return found
