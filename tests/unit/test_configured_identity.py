"""Identities in the configuration: which are taken, what is said of others, and what becomes of the home's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from tests.configuration import EXAMPLE, bundle
from tests.configuration import configured as proposed
from zerotier_multi import box, commit, facts, names, systemd
from zerotier_multi.box_checks import BoxFacts, check_on_box
from zerotier_multi.checks import check_together
from zerotier_multi.commit import Change, CommitError
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


def test_one_that_somebody_has_copied_there_is_never_replaced(tmp_path: Path) -> None:
    """The bundle was deleted meanwhile, or disabled."""
    one, two = SecretIdentity.parse(secret(1)), SecretIdentity.parse(secret(2))
    file = tmp_path / "identity.secret"
    file.write_text(secret(9))
    settle(tmp_path, one)
    settle(tmp_path, two)
    file.write_text(secret(4))
    assert coming_identity(tmp_path, None).address == "00000000a4"
    settle(tmp_path, two)
    assert file.read_text().strip() == two.text
    for _ in range(2):
        assert coming_identity(tmp_path, None).address == "00000000a4"
        settle(tmp_path, None)
        assert file.read_text() == secret(4) and {p.name for p in tmp_path.iterdir()} == {"identity.secret", "identity.public"}
    settle(tmp_path, one)
    file.write_text(secret(5))
    settle(tmp_path, None)
    assert file.read_text() == secret(5) and (tmp_path / "identity.public").read_text() == secret(5)[:141]


@pytest.mark.parametrize("was", [1, 9])
def test_of_an_earlier_version_there_is_no_word_on_what_was_put_there(tmp_path: Path, was: int) -> None:
    one = SecretIdentity.parse(secret(1))
    (tmp_path / "identity.secret").write_text(f"{one.text}\n")
    (tmp_path / "identity.before").write_text(secret(9))
    if was == 1:
        settle(tmp_path, one)
        (tmp_path / "identity.secret").unlink()
    assert coming_identity(tmp_path, None).address == "00000000a9"
    settle(tmp_path, None)
    assert (tmp_path / "identity.secret").read_text() == secret(9)


def test_the_home_s_own_one_in_the_configuration_changes_no_file(tmp_path: Path) -> None:
    (tmp_path / "identity.secret").write_text(secret(1))
    settle(tmp_path, SecretIdentity.parse(secret(1)))
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("identity.secret", secret(1))]


# -- identities that go from one bundle to another

WAS = f"zt0 instances 2\nzt0 network-id 8056c2e21c000001\nzt0 instance 1 identity secret {secret(1)}\n"
IS = WAS.replace("zt0", "zt1")


@pytest.fixture
def homes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A router that runs zt0; its homes."""
    monkeypatch.setattr(names, "HOME_ROOT", tmp_path / "config")
    monkeypatch.setattr(names, "RUN_DIR", tmp_path / "run")
    monkeypatch.setattr(box, "own_topology", lambda: TOPOLOGY)
    monkeypatch.setattr(box, "find_engines", lambda: {"ztnode": "/usr/sbin/ztnode"})
    monkeypatch.setattr(box, "has_tun", lambda: True)
    monkeypatch.setattr(box, "taken_ports", lambda _ports: {})
    monkeypatch.setattr(systemd, "running_ports", set)
    monkeypatch.setattr(facts, "address_is_valid", lambda *_given: True)
    for module, name in ((facts, "device_addresses"), (commit, "device_addresses"), (facts, "_vrfs"), (facts, "_foreign_nexthops")):
        monkeypatch.setattr(module, name, dict)
    monkeypatch.setattr(commit, "read_hosts", dict)
    change = commit.check("zt0", proposed(WAS))
    commit._generate(change)
    commit._publish(change)
    (names.HOME_ROOT / "zt0/2/identity.secret").write_text(secret(2))
    return names.HOME_ROOT


def test_a_bundle_with_another_name_is_told_that_its_nodes_are_new(homes: Path) -> None:
    lines = "zt1 instances 2\nzt1 network-id 8056c2e21c000001\n"
    (told,) = [text for text in commit.check("zt1", proposed(lines)).warnings if "identities" in text]
    assert told == (
        "interfaces zerotier zt1 gets new identities, which no remote and no controller knows; to keep those of zt0, discard this, "
        f"delete zt0 in a commit of its own, and before you set zt1: mv {homes}/zt0 {homes}/zt1"
    )
    both = "zt0 instances 2\nzt0 network-id 8056c2e21c000001\n" + lines.replace("instances 2", "instances 1")
    assert not [text for text in commit.check("zt1", proposed(both)).warnings if "identities" in text]
    (homes / "zt0").rename(homes / "zt1")
    assert not [text for text in commit.check("zt1", proposed(lines)).warnings if "identities" in text]


def test_a_bundle_gets_another_name_in_one_commit(homes: Path) -> None:
    """ztsh checks everything before it changes anything; VyOS has deleted zt0 when it comes to zt1."""
    change = commit.check("zt1", proposed(IS))
    commit._publish(commit.check("zt0", proposed(IS)))
    for one in (change, commit.check("zt1", proposed(IS))):
        commit._generate(one)
        assert (homes / "zt1/1/identity.secret").read_text().strip() == secret(1)


def test_one_that_could_not_be_deleted_is_not_run_twice(homes: Path) -> None:
    """VyOS goes on with the next bundle, and its configuration has no zt0 then either."""
    with pytest.raises(CommitError) as refused:
        commit._generate(commit.check("zt1", proposed(IS)))
    assert str(refused.value) == (
        "interfaces zerotier zt1 instance 1 identity secret is of node 00000000a1, as that of zt0/1, which was not deleted; "
        "delete interfaces zerotier zt0 first"
    )
    assert not (homes / "zt1/1/identity.secret").exists()


OTHER = WAS.replace(secret(1), secret(3))
WITHOUT = "".join(line for line in WAS.splitlines(keepends=True) if "identity" not in line)


@pytest.mark.parametrize(("zt0", "before", "refused"), [
    (OTHER, "", False),
    (WITHOUT, secret(4), False),
    (WITHOUT, "", True),
    (WITHOUT.replace("zt0 network-id 8056c2e21c000001\n", ""), secret(4), True),
    (f"{WAS}zt0 disable\n", "", False),
    (f"{WAS}zt0 instance 1 disable\n", "", False),
    (f"{WITHOUT}zt0 instance 1 identity secret x\n", secret(4), True),
], ids=["another one", "its own again", "no other one", "refused itself", "disabled", "instance disabled", "not readable"])  # fmt: skip
def test_what_another_bundle_has_after_the_commit_counts(homes: Path, zt0: str, before: str, refused: bool) -> None:
    (homes / "zt0/1/identity.before").write_text(before)
    try:
        assert commit.check("zt1", proposed(zt0 + IS)).secrets.keys() == {1} and not refused
    except ConfigProblems as problems:
        assert refused and "is of node 00000000a1, as that of zt0/1; give each instance its own identity" in str(problems)


def test_two_bundles_swap_theirs(homes: Path) -> None:
    commit._publish(commit.check("zt1", proposed(OTHER.replace("zt0", "zt1") + WAS)))
    for name in ("zt0", "zt1"):
        assert commit.check(name, proposed(OTHER + IS)).secrets.keys() == {1}


def test_the_home_of_another_bundle_counts(homes: Path) -> None:
    """Whether it runs already or comes with the same commit."""
    (homes / "zt2/1").mkdir(parents=True)
    (homes / "zt2/1/identity.secret").write_text(secret(1))
    with pytest.raises(ConfigProblems, match=r"as that of zt2/1;"):
        commit.check("zt1", proposed(IS + WITHOUT.replace("zt0", "zt2")))


# -- what a commit makes of the whole configuration

TWO = "zt0 network-id 8056c2e21c000001\nzt0 transit prefix 10.14.0.0/28\nzt0 transit site 1\n"
TWO += "".join(line.replace("zt0", "zt1") for line in TWO.splitlines(keepends=True))


def test_what_two_bundles_may_not_both_have_is_refused(homes: Path) -> None:
    with pytest.raises(ConfigProblems, match="^interfaces zerotier zt1 transit prefix 10.14.0.0/28 overlaps 10.14.0.0/28 of zt0"):
        commit.check("zt1", proposed(TWO))


def test_what_is_wrong_between_others_refuses_no_third_one(homes: Path) -> None:
    third = "zt2 network-id 8056c2e21c000001\n"
    assert commit.check("zt2", proposed(TWO + third)).plan is not None


def test_the_key_of_a_controller_goes_with_the_change(homes: Path) -> None:
    lines = "zt1 network-id 8056c2e21c000001\nzt1 controller type central\nzt1 controller api-key hush\n"
    change = commit.check("zt1", proposed(lines))
    assert change.api_key == "hush" and change.plan is not None and change.plan.controller is not None
    assert "hush" not in to_json(change.plan) and "hush" not in repr(change)
    assert commit.check("zt1", proposed(lines + "zt1 disable\n")).api_key is None
    assert commit.check("zt1", proposed("zt1 network-id 8056c2e21c000001\n")).api_key is None


@pytest.mark.parametrize("booting", [True, False])
def test_what_a_commit_says_at_vyos_s_boot_is_in_the_journal(homes: Path, monkeypatch: pytest.MonkeyPatch, booting: bool) -> None:
    """Where a commit is refused then, VyOS keeps no word of it."""
    told: list[str] = []
    monkeypatch.setattr(commit.systemd, "vyos_is_booting", lambda: booting)
    monkeypatch.setattr(commit.syslog, "syslog", lambda _priority, text: told.append(text))
    with pytest.raises(ConfigProblems):
        commit.check("zt1", proposed(TWO))
    said = ["zerotier-multi: interfaces zerotier zt1 transit prefix 10.14.0.0/28 overlaps 10.14.0.0/28 of zt0"]
    assert [text.partition(";")[0] for text in told] == (said if booting else [])
