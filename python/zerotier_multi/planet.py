"""Files by which instances find each other without a controller and without ZeroTier's public roots.

Formats as measured on zerotier-one 1.14.1 and the 1.8.4 core. Everything is a pure function of public facts, so
both routers of a link, and every commit, come to the same bytes.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence

from zerotier_multi.identity import PublicIdentity
from zerotier_multi.values import Endpoint

WORLD_PLANET, WORLD_MOON = 1, 127
# Our planets carry a world id of their own, so that no node ever takes one for ZeroTier's public planet.
WORLD_ID = 0x7A74_6D75_6C74_6931
# Our moons: this in the upper 24 bits, below it the address of the node that the moon is about.
MOON_ID = 0x7A74_6D << 40
# A root in a moon has at most so many endpoints (ZT_WORLD_MAX_STABLE_ENDPOINTS_PER_ROOT).
MAX_ENDPOINTS = 32
# Fixed, so that two ends never hold "newer" ones to each other; 2024-01-01 in milliseconds.
TIMESTAMP = 1_704_067_200_000

# Cached network configuration, marked as ours by its name so that it can be told from a controller's.
NETWORK_NAME = "zerotier-multi"
_CONFIG_VERSION, _FLAG_BROADCAST, _TYPE_PUBLIC = 7, 2, 1
_MAX_CREDENTIAL_DELTA = 7_200_000
_MULTICAST_LIMIT = 32

# Rule types (ZT_NETWORK_RULE_*): the match is negated by bit 7; a match's value is five bytes of node address.
_NOT_SOURCE, _DROP, _ACCEPT = 0x98, 0x00, 0x01


def make_planet(network_id: str, own: PublicIdentity) -> bytes:
    """The ``planet`` file of an instance: itself alone as root.

    So it counts as online by itself, relays for those that it knows, and never asks ZeroTier's public roots.
    Nobody can ever sign an update of it: the update key is a hash, so no private key for it exists.
    """
    return _world(WORLD_PLANET, WORLD_ID, f"zerotier-multi planet {network_id} {own}", [_root(own, ())])


def make_moon(remote: PublicIdentity, endpoints: Sequence[Endpoint] = ()) -> bytes:
    """The file :func:`moon_file` of an instance: the same instance of a remote, as a root of a moon of its own.

    The identity stands there twice, because ZeroTier reads the entries for two purposes: a root whose first entry
    has no endpoints is heard from any address (``Topology::isProhibitedEndpoint``), and the endpoints of all its
    entries are where it is looked for while it has no path (``getUpstreamsToContact``). So the endpoints say
    where to start and never limit where the remote may be. Raises ValueError for too many of them.
    """
    if len(endpoints) > MAX_ENDPOINTS:
        raise ValueError(f"a root has at most {MAX_ENDPOINTS} endpoints, not {len(endpoints)}")
    roots = [_root(remote, ())]
    if endpoints:
        roots.append(_root(remote, endpoints))
    return _world(WORLD_MOON, _moon_id(remote), f"zerotier-multi moon {remote}", roots) + bytes(2)  # no dictionary


def moon_file(remote: PublicIdentity) -> str:
    """Path of the moon of a remote within a home; engines load every file of that form when they start."""
    return f"moons.d/{_moon_id(remote):016x}.moon"


def _moon_id(remote: PublicIdentity) -> int:
    return MOON_ID | int(remote.address, 16)


def _world(kind: int, world_id: int, key_text: str, roots: Sequence[bytes]) -> bytes:
    update_key = hashlib.sha512(key_text.encode()).digest()
    return struct.pack(">BQQ", kind, world_id, TIMESTAMP) + update_key + bytes(96) + bytes([len(roots)]) + b"".join(roots)


def _root(identity: PublicIdentity, endpoints: Sequence[Endpoint]) -> bytes:
    return identity.wire + bytes([len(endpoints)]) + b"".join(_endpoint(e) for e in endpoints)


def _endpoint(endpoint: Endpoint) -> bytes:
    kind = 4 if endpoint.address.version == 4 else 6
    return bytes([kind]) + endpoint.address.packed + struct.pack(">H", endpoint.port)


def is_our_planet(data: bytes) -> bool:
    """Whether a planet file was made by :func:`make_planet`, of this or an earlier version."""
    return data[:9] == struct.pack(">BQ", WORLD_PLANET, WORLD_ID)


def is_our_moon(data: bytes) -> bool:
    """Whether a moon file was made by :func:`make_moon`."""
    return data[:4] == struct.pack(">BQ", WORLD_MOON, MOON_ID)[:4] and data[9:17] == struct.pack(">Q", TIMESTAMP)


def make_network_config(network_id: str, own: str, peers: Iterable[str], mtu: int) -> bytes:
    """A ``networks.d/<nwid>.conf`` that admits only frames of ``own`` and ``peers`` (node addresses).

    ``mtu`` is that of the TAP in bytes.
    """
    rules = b"".join(bytes([_NOT_SOURCE, 5]) + bytes.fromhex(address) for address in [own, *sorted(peers)])
    rules += bytes([_DROP, 0, _ACCEPT, 0])
    entries: list[tuple[str, bytes]] = [
        ("v", _hex(_CONFIG_VERSION)),
        ("nwid", network_id.encode()),
        ("ts", _hex(TIMESTAMP)),
        ("ctmd", _hex(_MAX_CREDENTIAL_DELTA)),
        ("r", _hex(1)),
        ("id", own.encode()),
        ("f", _hex(_FLAG_BROADCAST)),
        ("ml", _hex(_MULTICAST_LIMIT)),
        ("t", _hex(_TYPE_PUBLIC)),
        ("n", NETWORK_NAME.encode()),
        ("mtu", _hex(mtu)),
        ("R", rules),
    ]
    return b"".join(key.encode() + b"=" + _escape(value) + b"\n" for key, value in entries)


def is_our_network_config(data: bytes) -> bool:
    """Whether a cached network configuration was made by :func:`make_network_config`."""
    return f"n={NETWORK_NAME}".encode() in data.split(b"\n")


def _hex(number: int) -> bytes:
    return f"{number:x}".encode()


_ESCAPES = {0: b"\\0", 13: b"\\r", 10: b"\\n", 92: b"\\\\", 61: b"\\e"}


def _escape(value: bytes) -> bytes:
    return b"".join(_ESCAPES.get(byte, bytes([byte])) for byte in value)
