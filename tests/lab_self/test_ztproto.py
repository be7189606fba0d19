"""The lab's own piece of ZeroTier's protocol: its arithmetic, apart from the nodes that it talks to elsewhere."""

from __future__ import annotations

import os

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from lab.ztproto import packet
from lab.ztproto.crypto import Identity, Secret, salsa12


def secret(address: str) -> Secret:
    """Keys as an identity has them; the address is not derived from them."""
    x, e = X25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    private = b"".join(k.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption()) for k in (x, e))
    public = b"".join(k.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw) for k in (x, e))
    return Secret(Identity(address, public), private)


ONE, TWO = secret("00000000a1"), secret("00000000b2")


def test_salsa_with_twelve_rounds() -> None:
    """The first vector of eSTREAM for 256 bits."""
    assert salsa12(b"\x80" + bytes(31), bytes(8), 16).hex().upper() == "AFE411ED1C4E07E4D0CDE3B33E31EC19"


@pytest.mark.parametrize("aes", [False, True])
def test_a_packet_is_opened_by_the_one_it_is_for_and_not_changed_on_the_way(aes: bool) -> None:
    key = ONE.agree(TWO.identity)
    assert key == TWO.agree(ONE.identity)
    data, number = packet.seal(key, ONE, "00000000b2", packet.ECHO, b"hello" * 40, aes)
    assert (packet.source(data), packet.destination(data)) == ("00000000a1", "00000000b2")
    opened = packet.open_packet(key, data)
    assert (opened.number, opened.source, opened.verb, opened.payload) == (number, "00000000a1", packet.ECHO, b"hello" * 40)
    onward = packet.relayed(data)
    assert onward and packet.open_packet(key, onward) == opened  # hops may be counted
    for at in (0, 9, 14, 20, len(data) - 1):
        with pytest.raises(ValueError):
            packet.open_packet(key, data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    with pytest.raises(ValueError):
        packet.open_packet(os.urandom(48), data)


def test_a_packet_does_not_go_on_for_ever() -> None:
    data, _number = packet.seal(ONE.agree(TWO.identity), ONE, "00000000b2", packet.ECHO, b"x")
    for _ in range(7):
        data = packet.relayed(data) or b""
    assert packet.relayed(data) is None


def test_a_signature_is_one_of_the_digest() -> None:
    signature = ONE.sign(b"message")
    Ed25519PublicKey.from_public_bytes(ONE.identity.key[32:]).verify(signature[:64], signature[64:])
    assert len(signature) == 96 and signature[64:] != TWO.sign(b"other")[64:]


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (b"\x50hello", b"hello"),
        (b"\x11a\x01\x00\x00", b"a" * 6),
        (b"\x1fa\x01\x00\x00\x10b", b"a" * 20 + b"b"),
        (b"\xf0\x01" + b"0123456789abcdef", b"0123456789abcdef"),
    ],
)
def test_lz4(block: bytes, text: bytes) -> None:
    assert packet.decompress(block) == text


@pytest.mark.parametrize("block", [b"", b"\x50hell", b"\x10a\x02\x00\x00", b"\x10a\x00\x00", b"\x1fa\x01\x00\xff"])
def test_a_broken_block_is_refused(block: bytes) -> None:
    with pytest.raises(ValueError, match="broken"):
        packet.decompress(block)


def test_identities_and_dictionaries() -> None:
    wire = ONE.identity.wire
    assert Identity.read(wire + b"rest") == (ONE.identity, len(wire))
    with pytest.raises(ValueError):
        Identity.read(wire[:-2])
    assert packet.dictionary({"a": 255, "b": b"=\0\n\\", "c": "x"}) == b"a=ff\nb=\\e\\0\\n\\\\\nc=x\n"
