"""ZeroTier identities in their public form, and the MAC address that one has on a network."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_PUBLIC = re.compile(r"([0-9a-f]{10}):0:([0-9a-f]{128})")
_SECRET = re.compile(r"[0-9a-f]{10}:0:[0-9a-f]{128}:[0-9a-f]{128}")


@dataclass(frozen=True)
class PublicIdentity:
    """A node as others know it: its 10-digit address and its 64-byte public key."""

    address: str
    key: bytes

    @classmethod
    def parse(cls, text: str) -> PublicIdentity:
        """Read the text form ``address:0:key``. Raises ValueError, and never repeats a secret key that it was given."""
        match = _PUBLIC.fullmatch(text.strip())
        if match:
            if match[1] == "0" * 10 or match[1].startswith("ff"):
                raise ValueError(f"{match[1]} is a reserved node address")
            return cls(match[1], bytes.fromhex(match[2]))
        if _SECRET.fullmatch(text.strip()):
            raise ValueError("this is a secret identity, give the public one (identity.public)")
        raise ValueError("a public identity looks like 89e92ceee5:0:<128 hex digits>")

    def __str__(self) -> str:
        return f"{self.address}:0:{self.key.hex()}"

    @property
    def wire(self) -> bytes:
        """Serialised form as in a planet: address, type 0, key, no private key."""
        return bytes.fromhex(self.address) + b"\0" + self.key + b"\0"


@dataclass(frozen=True)
class SecretIdentity:
    """An identity with its private key, which is in no text that is made of this."""

    public: PublicIdentity
    text: str = field(repr=False)  # as in ``identity.secret``, without a newline

    @classmethod
    def parse(cls, text: str) -> SecretIdentity:
        """Read the text form. Raises ValueError with the second half of a sentence, which never has the text.

        That the address belongs to the key is left to the engine (:func:`engine.address_is_valid`), which needs long.
        """
        if _PUBLIC.fullmatch(text):
            raise ValueError("is a public identity; give the secret one, as 'generate zerotier identity' prints it")
        if not _SECRET.fullmatch(text):
            raise ValueError("is not a secret identity; give one as 'generate zerotier identity' prints it")
        try:
            public = PublicIdentity.parse(":".join(text.split(":")[:3]))
        except ValueError as error:
            raise ValueError(f"cannot be used, because {error}; give one as 'generate zerotier identity' prints it") from None
        if not _is_pair(public.key, bytes.fromhex(text.split(":")[3])):
            raise ValueError(
                "has a secret that does not belong to its public key; give one as 'generate zerotier identity' prints it"
            )
        return cls(public, text)


def _is_pair(public: bytes, private: bytes) -> bool:
    """Whether both halves, of X25519 and of Ed25519, belong together."""
    # Loaded here, because few configurations have a secret
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    raw = serialization.Encoding.Raw, serialization.PublicFormat.Raw
    agreeing = X25519PrivateKey.from_private_bytes(private[:32]).public_key().public_bytes(*raw)
    signing = Ed25519PrivateKey.from_private_bytes(private[32:]).public_key().public_bytes(*raw)
    return bool(agreeing + signing == public)


def secret_is_sound(text: str) -> bool:
    """Whether a text has the form of an ``identity.secret``."""
    return bool(_SECRET.fullmatch(text.strip()))


def mac_on_network(node_address: str, network_id: str) -> str:
    """MAC that node ``node_address`` (10 hex digits) has on network ``network_id`` (16 hex digits).

    The rule was measured on zerotier-one 1.14.1 and read in ZeroTier's MAC::fromAddress.
    """
    nwid, node = int(network_id, 16), int(node_address, 16)
    first = nwid & 0xFE | 0x02
    octets = [0x32 if first == 0x52 else first]
    octets += [(node >> 8 * (4 - i) & 0xFF) ^ (nwid >> 8 * (i + 1) & 0xFF) for i in range(5)]
    return ":".join(f"{octet:02x}" for octet in octets)
