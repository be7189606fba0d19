"""Worlds that a user gives: a planet of private roots, moons of further ones; each as a file or as base64 text.

The format is that of ZeroTier's ``node/World.hpp``, as ``mkworld`` and ``zerotier-idtool genmoon`` write it. The core
takes the planet in its home before the one that it is built with, and lets only one of the same id, newer, and signed
by the key in it replace it; so a private planet stays, whatever id it has. A moon adds its roots to the planet's.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct

PLANET, MOON = 1, 127
KINDS = {PLANET: "planet", MOON: "moon"}
MAX_ROOTS, MAX_ENDPOINTS = 4, 32
MAX_SIZE = 8480  # bytes: ZT_WORLD_MAX_SERIALIZED_LENGTH
_HEAD = struct.Struct(">BQQ64x96xB")  # type, id, timestamp, update key, signature, number of roots
_KEY, _SIGNATURE = slice(17, 81), slice(81, 177)
# The key that signs updates of ZeroTier's public planet. Private ones often have its id, since mkworld writes that.
_PUBLIC_KEY = bytes.fromhex(
    "b8b388a469221491aa9acd66cc764cdefd56039f1067ae15e69c6fb42d7b5533"
    "0e3fdaac529c0792fd7340a6aa21aba8a489fdaea44a39bf2d00659ac9c818eb"
)
_ENDPOINTS = {4: 7, 6: 19}  # bytes of an endpoint by its first byte


def is_path(text: str) -> bool:
    """Whether a value names a file; base64 text of a world never begins like this."""
    return text.startswith("/")


def moon_file(moon: bytes) -> str:
    """Where a moon stands in a home; ``moon`` has passed :func:`check`."""
    return f"moons.d/{_HEAD.unpack_from(moon)[1]:016x}.moon"


def from_text(text: str, kind: int = PLANET) -> bytes:
    """The world in a base64 text. Raises ValueError with the reason."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("neither an absolute path nor base64 text") from None
    check(data, kind)
    return data


def check(data: bytes, kind: int = PLANET) -> None:
    """Raises ValueError with the reason when this is no world of this kind that a core can use."""
    if len(data) > MAX_SIZE:
        raise ValueError(f"larger than {MAX_SIZE} bytes")
    if len(data) < _HEAD.size:
        raise ValueError("too short")
    found, world_id, _timestamp, roots = _HEAD.unpack_from(data)
    if found != kind or not world_id:
        raise ValueError("another kind of file")
    if not 1 <= roots <= MAX_ROOTS:
        raise ValueError(f"it has {roots} roots, not 1 to {MAX_ROOTS}")
    at, reachable = _HEAD.size, False
    for _ in range(roots):
        at, endpoints = _root(data, at)
        reachable |= endpoints > 0
    if kind == MOON:  # a dictionary follows, which is empty so far
        if len(data) < at + 2:
            raise ValueError("it is truncated")
        at += 2 + int.from_bytes(data[at : at + 2], "big")
    if at != len(data):
        raise ValueError("it has data after its end" if at < len(data) else "it is truncated")
    if not reachable:
        raise ValueError("none of its roots has an address")


def _root(data: bytes, at: int) -> tuple[int, int]:
    """Where the root at ``at`` ends, and how many endpoints it has. Raises ValueError."""
    if len(data) < at + 72:
        raise ValueError("it is truncated")
    if data[at + 5]:
        raise ValueError("a root has an identity of an unknown kind")
    if data[at + 70]:
        raise ValueError("it holds a secret key of a root")
    endpoints = data[at + 71]
    if endpoints > MAX_ENDPOINTS:
        raise ValueError(f"a root has {endpoints} addresses, not up to {MAX_ENDPOINTS}")
    at += 72
    for _ in range(endpoints):
        kind = data[at] if at < len(data) else None
        if kind is None:
            raise ValueError("it is truncated")
        if kind not in _ENDPOINTS:
            raise ValueError("a root has an address of an unknown kind")
        at += _ENDPOINTS[kind]
    return at, endpoints


def is_public(data: bytes) -> bool:
    """Whether it is a public planet of ZeroTier, of any time."""
    return data[_KEY] == _PUBLIC_KEY


def is_newer(present: bytes, given: bytes) -> bool:
    """Whether ``present`` can be an update of ``given``: of the same kind and id, and later. Who has signed it is not asked."""
    if min(len(present), len(given)) < _HEAD.size:
        return False
    (kind, number, at, _), (given_kind, given_number, given_at, _) = _HEAD.unpack_from(present), _HEAD.unpack_from(given)
    return (kind, number) == (given_kind, given_number) and at > given_at


def is_signed(update: bytes, given: bytes) -> bool:
    """Whether the key in ``given`` has signed ``update``, which is what a core asks of one that it takes for ``given``."""
    if min(len(update), len(given)) < _HEAD.size:
        return False
    # Loaded here, because few configurations have a world
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    signed = b"\x7f" * 8 + update[: _SIGNATURE.start] + update[_SIGNATURE.stop :] + b"\xf7" * 8
    digest, signature = hashlib.sha512(signed).digest()[:32], update[_SIGNATURE]
    if signature[64:] != digest:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(given[_KEY][32:]).verify(signature[:64], digest)
    except (InvalidSignature, ValueError):
        return False
    return True
