"""Invites: what a remote has to know of a router, in one word that can be pasted; pure.

An invite has a version, what the router is, and a checksum, as base64url text without padding. It holds public things alone:
network, site, prefixes, public identities and endpoints.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from zerotier_multi.identity import PublicIdentity
from zerotier_multi.transit import IPAddress, IPNetwork
from zerotier_multi.values import Endpoint

VERSION = 1
_SIZE = {4: 4, 6: 16}  # bytes of an address by family
_CUT = "is not a whole invite; paste the line of 'show zerotier ztN invite' again"


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
        for endpoint in instance.endpoints:
            out += bytes([endpoint.address.version]) + endpoint.address.packed + struct.pack("!H", endpoint.port)
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
        family, length = self.take(2)
        return ipaddress.ip_network((self._address(family), length))

    def _address(self, family: int) -> IPAddress:
        if family not in _SIZE:
            raise ValueError(_CUT)
        return ipaddress.ip_address(self.take(_SIZE[family]))

    @property
    def at_end(self) -> bool:
        return self._at == len(self._data)


def decode(text: str) -> Invite:
    """What a text says. Raises ValueError with the second half of a sentence for anything that is not a whole invite."""
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
    prefixes = tuple(cursor.network() for _ in range(cursor.byte()))
    instances = {}
    for _ in range(cursor.byte()):
        number, node, key = cursor.byte(), cursor.take(5).hex(), cursor.take(64)
        identity = PublicIdentity.parse(f"{node}:0:{key.hex()}")
        endpoints = tuple(Endpoint(cursor.address(), int.from_bytes(cursor.take(2), "big")) for _ in range(cursor.byte()))
        instances[number] = InvitedInstance(identity, endpoints)
    if not cursor.at_end:
        raise ValueError(_CUT)
    return Invite(site, f"{network:016x}" if network else None, prefixes, instances)
