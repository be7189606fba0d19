"""The public roots that ztnode knows without a network: ZeroTier's newest record, signed, and only where no other is wanted."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.process import wait
from tests.engine.test_contract import Host, Node, engine, hosts, node  # noqa: F401 (fixtures)

pytestmark = pytest.mark.only_ztnode

PUBLIC = bytes.fromhex("01 0000000008eac90a")  # kind and id with which the record begins
TIME, UPDATE_KEY, SIGNATURE, ROOTS = 9, 17, 81, 177
ROOT_ADDRESSES = {"cafe80ed74", "778cde7190", "cafefd6717", "cafe04eba9"}
GONE = {"62f865ae71", "992fcf1db7"}  # of the roots in the core's own record, of April 2021


@pytest.fixture
def core(engine: str) -> Path:
    return Path(engine).parent.parent / "lib/zerotier-multi/libztcore.so"


@pytest.fixture
def own_record(core: Path) -> bytes:
    """The record that is part of the core."""
    library = core.read_bytes()
    begin = library.index(PUBLIC)
    return library[begin : begin + 570]


def roots_of(node: Node) -> set[str]:
    code, peers = node.get("/peer")
    assert code == 200
    return {peer["address"] for peer in peers if peer["role"] == "PLANET"}


def planet_after_start(node: Node) -> bytes:
    node.start()
    wait((node.home / "planet").exists, timeout=5, what="the planet in the home")
    return (node.home / "planet").read_bytes()


def test_a_home_without_a_planet_knows_the_roots_of_today(node: Node, core: Path, own_record: bytes) -> None:
    record = planet_after_start(node)
    assert roots_of(node) == ROOT_ADDRESSES
    assert record[:TIME] == PUBLIC and record[TIME:UPDATE_KEY] > own_record[TIME:UPDATE_KEY]
    # ZeroTier has signed it: the core's own check, against the update key that the core itself carries.
    verify: Callable[..., bool] = ctypes.CDLL(str(core))["_ZN8ZeroTier6C255196verifyERKNS0_6PublicEPKvjS5_"]
    verify.restype = ctypes.c_bool  # type: ignore[attr-defined]
    signed = b"\x7f" * 8 + record[:SIGNATURE] + record[ROOTS:] + b"\xf7" * 8
    key, signature = own_record[UPDATE_KEY:SIGNATURE], record[SIGNATURE:ROOTS]
    assert verify(key, signed, len(signed), signature)
    assert not verify(key, signed[:-9] + b"\0" + signed[-8:], len(signed), signature)


def test_a_cached_record_of_earlier_roots_is_replaced(node: Node, own_record: bytes) -> None:
    (node.home / "planet").write_bytes(own_record)
    node.start()
    assert roots_of(node) == ROOT_ADDRESSES and not roots_of(node) & GONE
    wait(lambda: (node.home / "planet").read_bytes() != own_record, timeout=5, what="the newer planet in the home")


def test_a_private_planet_stays_even_with_the_id_of_the_public_one(node: Node, own_record: bytes) -> None:
    private = own_record[:UPDATE_KEY] + bytes(range(64)) + own_record[SIGNATURE:]
    (node.home / "planet").write_bytes(private)
    assert planet_after_start(node) == private
    assert GONE <= roots_of(node)
