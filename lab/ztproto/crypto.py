"""Identities with their keys, agreement, signatures, and the two ciphers: Salsa20/12, and AES-GMAC-SIV since version 1.6."""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass
from functools import cached_property, lru_cache

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR, ECB

SIGNATURE = 96  # bytes: R and S of Ed25519, and what was signed: the first half of a SHA-512


@dataclass(frozen=True)
class Identity:
    """A node: its address (10 hex digits) and public key; the key is X25519's and then Ed25519's, 32 bytes each."""

    address: str
    key: bytes

    @classmethod
    def read(cls, wire: bytes) -> tuple[Identity, int]:
        """The identity at the begin of ``wire`` and how many bytes it takes. Raises ValueError."""
        if len(wire) < 71 or wire[5] != 0 or len(wire) < 71 + wire[70]:
            raise ValueError("not an identity")
        return cls(wire[:5].hex(), wire[6:70]), 71 + wire[70]

    @property
    def wire(self) -> bytes:
        """Its serialised form, without the private key."""
        return bytes.fromhex(self.address) + b"\0" + self.key + b"\0"

    @property
    def digest(self) -> bytes:
        """SHA-384 of address and key, by which a certificate of membership binds a node."""
        return hashlib.sha384(bytes.fromhex(self.address) + self.key).digest()


@dataclass(frozen=True)
class Secret:
    """An identity with its private key."""

    identity: Identity
    private: bytes

    @classmethod
    def parse(cls, text: str) -> Secret:
        """Read the text of an ``identity.secret``."""
        address, _kind, public, private = text.strip().split(":")
        return cls(Identity(address, bytes.fromhex(public)), bytes.fromhex(private))

    @cached_property
    def _signer(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.private[32:])

    def agree(self, other: Identity) -> bytes:
        """The key that packets to and from another node are sealed with, 48 bytes, of which Salsa20 takes the first 32."""
        raw = X25519PrivateKey.from_private_bytes(self.private[:32]).exchange(X25519PublicKey.from_public_bytes(other.key[:32]))
        return hashlib.sha512(raw).digest()[:48]

    def sign(self, message: bytes) -> bytes:
        """A signature of :data:`SIGNATURE` bytes."""
        digest = hashlib.sha512(message).digest()[:32]
        return self._signer.sign(digest) + digest


# Columns, then rows, in the order in which a quarter round takes them.
_QUARTERS = (
    (0, 4, 8, 12), (5, 9, 13, 1), (10, 14, 2, 6), (15, 3, 7, 11),
    (0, 1, 2, 3), (5, 6, 7, 4), (10, 11, 8, 9), (15, 12, 13, 14),
)  # fmt: skip


def salsa12(key: bytes, nonce: bytes, length: int) -> bytes:
    """Key stream of Salsa20 with 12 rounds: 32 bytes of key, 8 of nonce, from block 0."""
    k, n = struct.unpack("<8I", key), struct.unpack("<2I", nonce)
    c = struct.unpack("<4I", b"expand 32-byte k")
    stream = b""
    for block in range((length + 63) // 64):
        start = [c[0], *k[:4], c[1], *n, block & 0xFFFFFFFF, block >> 32, c[2], *k[4:], c[3]]
        x = list(start)
        for _ in range(6):
            for quarter in _QUARTERS:
                _quarter(x, *quarter)
        stream += struct.pack("<16I", *((x[i] + start[i]) & 0xFFFFFFFF for i in range(16)))
    return stream[:length]


def _quarter(x: list[int], a: int, b: int, c: int, d: int) -> None:
    for target, one, other, shift in ((b, a, d, 7), (c, b, a, 9), (d, c, b, 13), (a, d, c, 18)):
        total = (x[one] + x[other]) & 0xFFFFFFFF
        x[target] ^= (total << shift | total >> (32 - shift)) & 0xFFFFFFFF


def xor(data: bytes, stream: bytes) -> bytes:
    """Both of one length."""
    return (int.from_bytes(data, "big") ^ int.from_bytes(stream, "big")).to_bytes(len(data), "big")


@lru_cache
def siv_keys(key: bytes) -> tuple[bytes, bytes]:
    """Keys of GMAC and of AES-CTR, 32 bytes each, derived from one of 48 (KBKDF with HMAC-SHA-384)."""
    first, second = (hmac.digest(key, bytes(4) + b"ZT" + label + bytes(4) + b"\x01\x80", "sha384") for label in (b"0", b"1"))
    return first[:32], second[:32]


def siv_seal(keys: tuple[bytes, bytes], number: bytes, names: bytes, plain: bytes) -> tuple[bytes, bytes]:
    """AES-GMAC-SIV: the 16 bytes that take the place of the ``number`` (8 bytes) and the MAC, and the encrypted text.

    ``names`` are authenticated and not encrypted.
    """
    encryptor = Cipher(AES(keys[1]), ECB()).encryptor()
    block = encryptor.update(number + _gmac(keys[0], number, names, plain)) + encryptor.finalize()
    return block, _counted(keys[1], block, plain)


def siv_open(keys: tuple[bytes, bytes], block: bytes, names: bytes, text: bytes) -> bytes:
    """The plain text. Raises ValueError when the MAC is wrong."""
    decryptor = Cipher(AES(keys[1]), ECB()).decryptor()
    head = decryptor.update(block) + decryptor.finalize()
    plain = _counted(keys[1], block, text)
    if not hmac.compare_digest(head[8:], _gmac(keys[0], head[:8], names, plain)):
        raise ValueError("not from where it says")
    return plain


def _gmac(key: bytes, number: bytes, names: bytes, plain: bytes) -> bytes:
    tag = AESGCM(key).encrypt(number + bytes(4), b"", names + bytes(-len(names) % 16) + plain)
    return xor(tag[:8], tag[8:])


def _counted(key: bytes, block: bytes, data: bytes) -> bytes:
    counter = block[:12] + bytes([block[12] & 0x7F]) + block[13:]
    encryptor = Cipher(AES(key), CTR(counter)).encryptor()
    return encryptor.update(data) + encryptor.finalize()
