"""Identities in the configuration: which are taken, what is said of others, and what becomes of the home's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from tests.configuration import EXAMPLE, bundle
from zerotier_multi.box_checks import BoxFacts, check_on_box
from zerotier_multi.checks import check_together
from zerotier_multi.commit import Change
from zerotier_multi.configured_identity import coming_identity, settle
from zerotier_multi.cpu import Cpu
from zerotier_multi.errors import ConfigProblems
from zerotier_multi.identity import SecretIdentity
from zerotier_multi.plan import to_json
from zerotier_multi.planner import make_plan

TOPOLOGY = tuple(Cpu(n, n) for n in range(4))


def secret(number: int) -> str:
    """A secret identity; its address is not that of its key, which only an engine can tell."""
    raw = serialization.Encoding.Raw, serialization.PublicFormat.Raw
    private = bytes([number]) * 64
    agreeing = X25519PrivateKey.from_private_bytes(private[:32]).public_key().public_bytes(*raw)
    signing = Ed25519PrivateKey.from_private_bytes(private[32:]).public_key().public_bytes(*raw)
    return f"00000000a{number}:0:{(agreeing + signing).hex()}:{private.hex()}"


def test_no_text_of_it_has_the_key() -> None:
    own = SecretIdentity.parse(secret(1))
    plan = make_plan(bundle(f"{EXAMPLE}instance 1 identity secret {secret(1)}"), TOPOLOGY, "/usr/sbin/ztnode")
    change = Change("zt0", plan, (), {1: own})
    assert plan.instance(1).identity == secret(1)[:141] and own.public.address == "00000000a1"
    for text in (repr(own), str(own), repr(change), to_json(plan), repr(bundle(f"instance 1 identity secret {secret(1)}"))):
        assert "01010101" not in text


@pytest.mark.parametrize(("text", "why"), [
    (secret(1)[:141], "is a public identity; give the secret one"),
    (secret(1)[:-1], "is not a secret identity"),
    (secret(1).upper(), "is not a secret identity"),
    ("x", "is not a secret identity"),
    (f"{secret(1)[:141]}:{secret(2)[142:]}", "has a secret that does not belong to its public key"),
    (f"{secret(1)[:13]}{'0' * 64}{secret(1)[77:]}", "has a secret that does not belong to its public key"),
    (f"{secret(1)[:77]}{'0' * 64}{secret(1)[141:]}", "has a secret that does not belong to its public key"),
    ("ff" + secret(1)[2:], "is a reserved node address"),
], ids=range(8))  # fmt: skip
def test_what_is_no_identity_is_refused_without_repeating_it(text: str, why: str) -> None:
    with pytest.raises(ConfigProblems) as refused:
        bundle(f"{EXAMPLE}instance 2 identity secret {text}")
    said = str(refused.value)
    assert said.startswith("interfaces zerotier zt0 instance 2 identity secret ") and why in said and "\n" not in said
    assert "0101010101" not in said and text[20:] not in said or text == "x"


def test_two_instances_have_two_identities() -> None:
    own = f"instance 1 identity secret {secret(1)}\n"
    (problem,) = check_together([bundle(f"{EXAMPLE}{own}instance 3 identity secret {secret(1)}")], TOPOLOGY)
    assert str(problem) == (
        "interfaces zerotier zt0 instance 3 identity secret is of node 00000000a1, as that of zt0/1; give each instance its own identity"
    )
    facts = BoxFacts(TOPOLOGY, {"ztnode": "/usr/sbin/ztnode"}, nodes={"00000000a1": ("zt0/1", "zt1/2")})
    (problem,) = check_on_box(bundle(EXAMPLE + own), facts)
    assert "is of node 00000000a1, as that of zt1/2" in str(problem)
    facts = BoxFacts(
        TOPOLOGY, {"ztnode": "/usr/sbin/ztnode"}, identity_faults={1: "has address 00000000a1, which is not that of its key"}
    )
    (problem,) = check_on_box(bundle(EXAMPLE + own), facts)
    assert str(problem).startswith("interfaces zerotier zt0 instance 1 identity secret has address 00000000a1")


def test_a_home_gets_it_and_its_own_comes_back(tmp_path: Path) -> None:
    one, two = SecretIdentity.parse(secret(1)), SecretIdentity.parse(secret(2))
    file = tmp_path / "identity.secret"
    file.write_text(secret(9))
    (tmp_path / "identity.public").write_text(secret(9)[:141])
    for configured in (one, two, two):
        assert coming_identity(tmp_path, configured) == configured.public
        settle(tmp_path, configured)
        assert file.read_text().strip() == configured.text and file.stat().st_mode & 0o777 == 0o600
        assert coming_identity(tmp_path, None).address == "00000000a9"
        assert (tmp_path / "identity.public").read_text() == str(configured.public)
        assert all(p.stat().st_mode & 0o777 == 0o600 for p in tmp_path.iterdir())
    settle(tmp_path, None)
    assert file.read_text() == secret(9) and {p.name for p in tmp_path.iterdir()} == {"identity.secret", "identity.public"}
    settle(tmp_path, None)
    assert file.read_text() == secret(9)


def test_a_home_without_an_own_one_keeps_it(tmp_path: Path) -> None:
    one = SecretIdentity.parse(secret(1))
    assert coming_identity(tmp_path, None) is None
    settle(tmp_path, one)
    settle(tmp_path, None)
    assert coming_identity(tmp_path, None) == one.public and not (tmp_path / "identity.before").exists()


def test_the_home_s_own_one_in_the_configuration_changes_no_file(tmp_path: Path) -> None:
    (tmp_path / "identity.secret").write_text(secret(1))
    settle(tmp_path, SecretIdentity.parse(secret(1)))
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("identity.secret", secret(1))]
