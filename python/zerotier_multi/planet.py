"""Files by which instances find each other without a controller and without ZeroTier's public roots.

Formats as measured on zerotier-one 1.14.1 and the 1.8.4 core. Everything is a pure function of public facts, so
both routers of a link, and every commit, come to the same bytes.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from zerotier_multi.bundle import Endpoint
from zerotier_multi.identity import PublicIdentity

MAX_ROOTS = 4
WORLD_PLANET = 1
# Our planets carry a world id of their own, so that no node ever takes one for ZeroTier's public planet.
WORLD_ID = 0x7A74_6D75_6C74_6931
# Fixed, so that two ends never hold "newer" ones to each other; 2024-01-01 in milliseconds.
TIMESTAMP = 1_704_067_200_000

# Cached network configuration, marked as ours by its name so that it can be told from a controller's.
NETWORK_NAME = "zerotier-multi"
_CONFIG_VERSION, _FLAG_BROADCAST, _TYPE_PUBLIC = 7, 2, 1
_MAX_CREDENTIAL_DELTA = 7_200_000
_MULTICAST_LIMIT = 32

# Rule types (ZT_NETWORK_RULE_*): the match is negated by bit 7; a match's value is five bytes of node address.
_NOT_SOURCE, _DROP, _ACCEPT = 0x98, 0x00, 0x01


@dataclass(frozen=True)
class Root:
    """A root of a planet and where it is reached; without endpoints it has to call us."""

    identity: PublicIdentity
    endpoints: tuple[Endpoint, ...] = ()


def make_planet(network_id: str, roots: Sequence[Root]) -> bytes:
    """The ``planet`` file of an instance: itself and the same instance of every remote as roots.

    Nobody can ever sign an update of it: the update key is the digest of a text, whose private key is known
    to nobody. Raises ValueError for more than four roots or none.
    """
    if not 1 <= len(roots) <= MAX_ROOTS:
        raise ValueError(f"a planet has 1 to {MAX_ROOTS} roots, not {len(roots)}")
    ordered = sorted(roots, key=lambda root: root.identity.address)
    text = " ".join(["zerotier-multi planet", network_id, *(str(root.identity) for root in ordered)])
    update_key = hashlib.sha512(text.encode()).digest()
    head = struct.pack(">BQQ", WORLD_PLANET, WORLD_ID, TIMESTAMP) + update_key + bytes(96)
    return head + bytes([len(ordered)]) + b"".join(_root(root) for root in ordered)


def _root(root: Root) -> bytes:
    return root.identity.wire + bytes([len(root.endpoints)]) + b"".join(_endpoint(e) for e in root.endpoints)


def _endpoint(endpoint: Endpoint) -> bytes:
    kind = 4 if endpoint.address.version == 4 else 6
    return bytes([kind]) + endpoint.address.packed + struct.pack(">H", endpoint.port)


def is_our_planet(data: bytes) -> bool:
    """Whether a planet file was made by :func:`make_planet`."""
    return data[:9] == struct.pack(">BQ", WORLD_PLANET, WORLD_ID)


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
