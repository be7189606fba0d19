"""Planets from the configuration: what is taken, what is refused, and what stands in a home."""

from __future__ import annotations

import base64
import hashlib
import re
import struct
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.configuration import EXAMPLE, bundle
from zerotier_multi import facts, homes, world
from zerotier_multi.box_checks import BoxFacts, check_on_box
from zerotier_multi.checks import check_bundle
from zerotier_multi.cpu import Cpu
from zerotier_multi.errors import ConfigProblems
from zerotier_multi.homefiles import MOON_MARK, PLANET_MARK, HomeFiles, home_files
from zerotier_multi.homes import make_home, sync_home
from zerotier_multi.plan import from_json, to_json
from zerotier_multi.planner import make_plan

CPUS = (Cpu(0, 0),)
ROOT = bytes.fromhex("89e92ceee5") + b"\0" + bytes(64) + b"\0"
ADDRESS = b"\x04" + bytes([198, 51, 100, 1]) + struct.pack(">H", 9993)
ADDRESS6 = b"\x06" + bytes(16) + struct.pack(">H", 9993)


def planet(*roots: bytes, kind: int = 1, number: int = 7, at: int = 1000) -> bytes:
    return struct.pack(">BQQ", kind, number, at) + bytes(160) + bytes([len(roots)]) + b"".join(roots)


GOOD = planet(ROOT + b"\x02" + ADDRESS + ADDRESS6, ROOT + b"\0")


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "too short"),
        (GOOD[:100], "too short"),
        (GOOD[:-1], "it is truncated"),
        (planet(ROOT + b"\x01" + ADDRESS[:3]), "it is truncated"),
        (planet(ROOT + b"\x02" + ADDRESS), "it is truncated"),
        (planet(), "it has 0 roots, not 1 to 4"),
        (planet(*[ROOT + b"\x01" + ADDRESS] * 5), "it has 5 roots, not 1 to 4"),
        (GOOD + b"x", "it has data after its end"),
        (planet(ROOT + b"\x01" + ADDRESS, kind=127), "another kind of file"),
        (planet(ROOT + b"\x01" + ADDRESS, number=0), "another kind of file"),
        (planet(ROOT + b"\0"), "none of its roots has an address"),
        (planet(ROOT[:5] + b"\1" + ROOT[6:] + b"\x01" + ADDRESS), "a root has an identity of an unknown kind"),
        (planet(ROOT[:-1] + b"\x40" + bytes(64) + b"\x01" + ADDRESS), "it holds a secret key of a root"),
        (planet(ROOT + b"\x01\x09" + ADDRESS[1:]), "a root has an address of an unknown kind"),
        (planet(ROOT + b"\x21" + ADDRESS * 33), "a root has 33 addresses, not up to 32"),
        (bytes(world.MAX_SIZE + 1), "larger than 8480 bytes"),
    ],
)
def test_what_is_no_planet_is_refused_with_the_reason(data: bytes, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"^{reason}$"):
        world.check(data)
    remedy = "give the path of the planet file of your roots, or its base64 text"
    file = tmp_path / "planet"
    file.write_bytes(data)
    given = bundle(f"{EXAMPLE}\nplanet {file}")
    _data, fault = facts._world(given.planet)
    problems = check_on_box(given, BoxFacts(CPUS, {"ztnode": "/usr/sbin/ztnode"}, planet_fault=fault))
    assert len(problems) == 1 and str(problems[0]).endswith(f" is not a valid planet ({reason}); {remedy}")
    if len(data) % 3 == 0 and 0 < len(data) < 1000:  # without '=', which is the same to the rest
        with pytest.raises(ConfigProblems) as refused:
            bundle(f"{EXAMPLE}\nplanet {text(data)}")
        assert str(refused.value).endswith(f" is not a valid planet ({reason}); {remedy}")


def test_a_planet_is_taken_from_a_file_and_from_a_text(tmp_path: Path) -> None:
    file = tmp_path / "planet"
    file.write_bytes(GOOD)
    assert facts._world(str(file)) == facts._world(text(GOOD)) == (GOOD, None)
    assert facts._world(None) == (b"", None)
    assert facts._world(str(tmp_path / "none")) == (b"", "is not readable (No such file or directory)")
    assert facts._world(str(tmp_path))[1] == "is not readable (Is a directory)"
    assert facts._world("/dev/zero")[1] == "is not a valid planet (not a regular file)"


def test_text_that_is_neither_is_refused() -> None:
    with pytest.raises(ConfigProblems, match=r"planet AQID! is not a valid planet \(neither an absolute path nor base64 text\)"):
        from zerotier_multi.bundle_parser import parse_bundle

        parse_bundle("zt0", {"planet": "AQID!"})


def test_controller_free_has_no_private_roots() -> None:
    found = check_bundle(bundle(f"{EXAMPLE}\ncontroller-free\nplanet /config/planet"), CPUS)
    assert [str(p) for p in found] == [
        "interfaces zerotier zt0 planet /config/planet cannot be used in controller-free mode; delete planet or controller-free"
    ]


def files(data: bytes) -> HomeFiles:
    plan = make_plan(bundle(EXAMPLE.replace("instances 4", "instances 1")), CPUS, "/usr/sbin/ztnode", 0, planet=data)
    assert from_json(to_json(plan)) == plan
    return home_files(plan, plan.instances[0], None)


def test_a_planet_comes_with_the_setting_and_goes_with_it(tmp_path: Path) -> None:
    assert files(GOOD).restart_digest != files(b"").restart_digest
    make_home(tmp_path)
    sync_home(tmp_path, files(GOOD))
    assert (tmp_path / "planet").read_bytes() == GOOD
    assert sync_home(tmp_path, files(GOOD)).written == ()
    gone = sync_home(tmp_path, files(b""))
    assert set(gone.removed) == {"planet", PLANET_MARK} and not (tmp_path / "planet").exists()


def test_a_planet_that_was_not_configured_stays(tmp_path: Path) -> None:
    """Put there by hand, or written by the core, which keeps the public roots there."""
    make_home(tmp_path)
    (tmp_path / "planet").write_bytes(GOOD)
    assert sync_home(tmp_path, files(b"")).removed == ()
    assert (tmp_path / "planet").read_bytes() == GOOD


def test_an_update_that_the_core_has_taken_stays_until_another_planet_is_set(tmp_path: Path) -> None:
    make_home(tmp_path)
    sync_home(tmp_path, files(GOOD))
    newer = planet(ROOT + b"\x01" + ADDRESS, at=2000)
    (tmp_path / "planet").write_bytes(newer)
    assert sync_home(tmp_path, files(GOOD)).written == ()
    assert (tmp_path / "planet").read_bytes() == newer
    other = planet(ROOT + b"\x01" + ADDRESS, number=8)
    sync_home(tmp_path, files(other))
    assert (tmp_path / "planet").read_bytes() == other
    (tmp_path / "planet").write_bytes(newer)
    assert set(sync_home(tmp_path, files(b"")).removed) == {"planet", PLANET_MARK}


# -- planets with the id of ZeroTier's own, as mkworld writes it

ROOT_DIRECTORY = Path(__file__).resolve().parents[2]
EARTH, MKWORLD = 0x08EAC90A, 1567191349589


def public_planet() -> bytes:
    """The one that ztnode has built in, and that a home has where no planet is configured."""
    array = re.search(r"newest\[\] = \{(.*?)\};", (ROOT_DIRECTORY / "packages/ztnode/src/planet.c").read_text(), re.DOTALL)
    assert array is not None
    return bytes(int(value, 16) for value in re.findall(r"0x([0-9a-f]{2})", array[1]))


PUBLIC = public_planet()
ONE, TWO = (Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in (1, 2))


def signed(data: bytes, signer: Ed25519PrivateKey, next_signer: Ed25519PrivateKey) -> bytes:
    """A world with the key that has to sign its updates, signed as the core does it."""
    raw = serialization.Encoding.Raw, serialization.PublicFormat.Raw
    head, rest = data[:17] + bytes(32) + next_signer.public_key().public_bytes(*raw), data[177:]
    digest = hashlib.sha512(b"\x7f" * 8 + head + rest + b"\xf7" * 8).digest()[:32]
    return head + signer.sign(digest) + digest + rest


def earth(at: int = MKWORLD, signer: Ed25519PrivateKey = ONE, next_signer: Ed25519PrivateKey = ONE) -> bytes:
    return signed(planet(ROOT + b"\x01" + ADDRESS, number=EARTH, at=at), signer, next_signer)


def test_a_signature_is_judged_as_the_core_does() -> None:
    assert world.is_signed(PUBLIC, PUBLIC), "ZeroTier signs with the key that it names"
    for at in (0, 20, 60, 81, 150, 177, len(PUBLIC) - 1):
        assert not world.is_signed(PUBLIC[:at] + bytes([PUBLIC[at] ^ 1]) + PUBLIC[at + 1 :], PUBLIC)
    assert world.is_signed(earth(2, ONE, TWO), earth(1)) and not world.is_signed(earth(2, TWO, ONE), earth(1))
    assert not world.is_signed(b"", PUBLIC) and not world.is_signed(PUBLIC, b"")


def test_a_private_planet_takes_the_place_of_a_later_public_one(tmp_path: Path) -> None:
    make_home(tmp_path)
    (tmp_path / "planet").write_bytes(PUBLIC)
    assert world.is_newer(PUBLIC, earth())
    sync_home(tmp_path, files(earth()))
    assert (tmp_path / "planet").read_bytes() == earth()
    assert sync_home(tmp_path, files(earth())).written == ()


def test_an_earlier_planet_of_the_same_id_comes_back(tmp_path: Path) -> None:
    """By a rollback, or a commit that nobody has confirmed."""
    make_home(tmp_path)
    for at in (1000, 2000, 1000):
        sync_home(tmp_path, files(earth(at)))
        assert (tmp_path / "planet").read_bytes() == earth(at)


def test_updates_stay_whoever_signs_the_next_one(tmp_path: Path) -> None:
    make_home(tmp_path)
    sync_home(tmp_path, files(earth()))
    for update in (earth(MKWORLD + 1, ONE, TWO), earth(MKWORLD + 2, TWO, TWO)):
        (tmp_path / "planet").write_bytes(update)
        assert sync_home(tmp_path, files(earth())).written == ()
        assert (tmp_path / "planet").read_bytes() == update


@pytest.mark.parametrize(
    ("there", "stays"), [(PUBLIC, False), (earth(MKWORLD + 1, TWO), False), (earth(MKWORLD + 1, ONE, TWO), True)]
)
def test_after_an_earlier_version_the_signature_tells_an_update(tmp_path: Path, there: bytes, stays: bool) -> None:
    """Its mark is that of the wanted planet, also where it has left the public one. The process needs another start then."""
    make_home(tmp_path)
    old_mark = hashlib.sha256(earth()).hexdigest().encode() + b"\n"
    (tmp_path / PLANET_MARK).write_bytes(old_mark)
    (tmp_path / "planet").write_bytes(there)
    sync_home(tmp_path, files(earth()))
    assert (tmp_path / "planet").read_bytes() == (there if stays else earth())
    assert sync_home(tmp_path, files(earth())).written == ()
    assert files(earth()).have[PLANET_MARK] != old_mark, "it is a part of the digest"
    (tmp_path / PLANET_MARK).write_bytes(b"")  # by a power cut
    assert "planet" in sync_home(tmp_path, files(b"")).removed


class PowerCut(BaseException):
    """Nothing more is written."""


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("writes", range(4))
def test_a_power_cut_between_the_files_brings_no_wrong_planet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int, same: bool
) -> None:
    """Whether the same planet is wanted then or another one."""
    make_home(tmp_path)
    (tmp_path / "planet").write_bytes(PUBLIC)
    as_ever, done = homes.write_atomic, list[str]()

    def write(path: Path, content: bytes, mode: int) -> bool:
        if path.name in ("planet", PLANET_MARK):
            if len(done) == writes:
                raise PowerCut
            done.append(path.name)
        return as_ever(path, content, mode)

    for wanted, other in ((earth(2000), earth(3000)), (earth(3000), earth(2000))):
        done.clear()
        with monkeypatch.context() as patched:
            patched.setattr(homes, "write_atomic", write)
            try:
                sync_home(tmp_path, files(wanted))
            except PowerCut:
                assert writes < 3
        for one in (wanted, other) if same else (other, wanted):
            sync_home(tmp_path, files(one))
            assert (tmp_path / "planet").read_bytes() == one


def test_the_core_may_have_cut_the_file_off(tmp_path: Path) -> None:
    make_home(tmp_path)
    sync_home(tmp_path, files(GOOD))
    (tmp_path / "planet").write_bytes(b"\1")
    sync_home(tmp_path, files(GOOD))
    assert (tmp_path / "planet").read_bytes() == GOOD


# -- moons


def moon(*roots: bytes, number: int = 0xDEADBEEF00, at: int = 1000, rest: bytes = bytes(2)) -> bytes:
    return planet(*roots, kind=127, number=number, at=at) + rest


MOON = moon(ROOT + b"\x01" + ADDRESS)
PLACE = "moons.d/000000deadbeef00.moon"


def with_moons(*moons: bytes) -> HomeFiles:
    plan = make_plan(bundle(EXAMPLE.replace("instances 4", "instances 1")), CPUS, "/usr/sbin/ztnode", moons=moons)
    assert from_json(to_json(plan)) == plan
    return home_files(plan, plan.instances[0], None)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (GOOD, "another kind of file"),
        (moon(ROOT + b"\x01" + ADDRESS, rest=b""), "it is truncated"),
        (moon(ROOT + b"\x01" + ADDRESS, rest=b"\0\1"), "it is truncated"),
        (MOON + b"x", "it has data after its end"),
        (moon(ROOT + b"\0"), "none of its roots has an address"),
    ],
)
def test_a_moon_that_is_none_is_refused(data: bytes, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigProblems) as refused:
        bundle(f"{EXAMPLE}\nmoon {text(data)}")
    remedy = "give the path of the moon file, or its base64 text"
    assert str(refused.value).endswith(f" is not a valid moon ({reason}); {remedy}")
    file = tmp_path / "moon"
    file.write_bytes(data)
    given = bundle(f"{EXAMPLE}\nmoon {file}")
    found = BoxFacts(CPUS, {"ztnode": "x"}, moon_faults={str(file): str(facts._world(str(file), world.MOON)[1])})
    assert [str(p).partition(" is not ")[2] for p in check_on_box(given, found)] == [f"a valid moon ({reason}); {remedy}"]


def test_two_moons_of_one_world_id_are_refused() -> None:
    newer = moon(ROOT + b"\x01" + ADDRESS, at=2000)
    given = bundle(f"{EXAMPLE}\nmoon /config/a\nmoon /config/b")
    (problem,) = check_on_box(given, BoxFacts(CPUS, {"ztnode": "x"}, moons={"/config/a": MOON, "/config/b": newer}))
    assert str(problem) == ("interfaces zerotier zt0 moon /config/b has the same world ID as moon /config/a; delete one of them")


def test_controller_free_has_no_moons() -> None:
    (problem,) = check_bundle(bundle(f"{EXAMPLE}\ncontroller-free\nmoon /config/a"), CPUS)
    assert "moon /config/a cannot be used in controller-free mode" in str(problem)


def test_moons_come_with_the_setting_and_go_with_it(tmp_path: Path) -> None:
    other = moon(ROOT + b"\x01" + ADDRESS6, number=5)
    make_home(tmp_path)
    by_hand = tmp_path / "moons.d/0000000000000009.moon"
    by_hand.write_bytes(moon(ROOT + b"\x01" + ADDRESS, number=9))
    sync_home(tmp_path, with_moons(MOON, other))
    assert (tmp_path / PLACE).read_bytes() == MOON
    newer = moon(ROOT + b"\x01" + ADDRESS, at=2000)
    (tmp_path / PLACE).write_bytes(newer)  # by the core, which has verified it
    assert sync_home(tmp_path, with_moons(MOON, other)) == sync_home(tmp_path, with_moons(MOON, other))
    assert (tmp_path / PLACE).read_bytes() == newer
    assert sync_home(tmp_path, with_moons(MOON)).removed == ("moons.d/0000000000000005.moon",)
    assert set(sync_home(tmp_path, with_moons()).removed) == {PLACE, MOON_MARK} and by_hand.exists()
    assert with_moons(MOON).restart_digest != with_moons().restart_digest


def test_an_earlier_moon_of_the_same_id_comes_back_and_updates_stay(tmp_path: Path) -> None:
    def made(at: int, signer: Ed25519PrivateKey = ONE) -> bytes:
        return signed(moon(ROOT + b"\x01" + ADDRESS, at=at), signer, signer)

    other = moon(ROOT + b"\x01" + ADDRESS6, number=5)
    make_home(tmp_path)
    for at in (1000, 2000, 1000):
        sync_home(tmp_path, with_moons(made(at), other))
        assert (tmp_path / PLACE).read_bytes() == made(at)
    (tmp_path / "moons.d/0000000000000005.moon").write_bytes(update := moon(ROOT + b"\x01" + ADDRESS, number=5, at=2000))
    sync_home(tmp_path, with_moons(made(2000), other))
    assert (tmp_path / "moons.d/0000000000000005.moon").read_bytes() == update, "another moon was changed, not this one"
    for there, stays in ((made(3000), True), (made(3000, TWO), False)):
        (tmp_path / PLACE).write_bytes(there)
        (tmp_path / MOON_MARK).write_text(f"{PLACE}\nmoons.d/0000000000000005.moon\n")  # as an earlier version wrote it
        sync_home(tmp_path, with_moons(made(2000), other))
        assert (tmp_path / PLACE).read_bytes() == (there if stays else made(2000))
