"""ZeroTier identities in their public form, and the MAC address that one has on a network."""

from __future__ import annotations

import re
from dataclasses import dataclass

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
