"""Archives: what goes in comes out, and whatever else somebody offers is refused in one sentence."""

from __future__ import annotations

import base64
import io
import json
import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.op_box import PLAN
from zerotier_multi import archive, commit, names
from zerotier_multi.archive import Archive, ArchiveProblem, foreign, pack, seal, unpack, unseal
from zerotier_multi.configured_identity import coming_identity, settle
from zerotier_multi.op import archives
from zerotier_multi.op.errors import NotConfigured, OpError, Unavailable, WrongValue
from zerotier_multi.planet import make_planet
from zerotier_multi.identity import PublicIdentity

PASSPHRASE = "correct horse battery"


def secret(number: int) -> str:
    return f"00000000a{number}:0:{number:02x}{'ab' * 63}:{'cd' * 64}"


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cost of the key is no part of what is tested."""
    monkeypatch.setattr(archive, "_COST", 1 << 4)


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A router with two homes of zt0 and one of zt1, none of them configured, and no plan."""
    place = tmp_path / "config"
    monkeypatch.setattr(names, "HOME_ROOT", place)
    monkeypatch.setattr(names, "RUN_DIR", tmp_path / "run")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(archives, "published_plans", list)
    for bundle, number in (("zt0", 1), ("zt0", 2), ("zt1", 3)):
        home = place / bundle / str(number)
        (home / "networks.d").mkdir(parents=True)
        (home / "identity.secret").write_text(secret(number))
        (home / "authtoken.secret").write_text("hush")
        (home / "local.conf").write_text("{}")
    yield place


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def give(text: str) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO(text))

    give(PASSPHRASE + "\n")
    return give


def made(root: Path, typed: Callable[[str], None], bundle: str | None = None) -> Path:
    path = root.parent / f"archive{bundle or ''}"
    typed(PASSPHRASE)
    archives.write_archive(str(path), bundle, None)
    typed(PASSPHRASE)
    return path


def restore(path: Path, bundle: str | None = None, replace: bool = False) -> list[str]:
    said: list[str] = []
    archives.read_archive(str(path), bundle, None, replace, said.append)
    return said


def nodes(root: Path) -> dict[str, str]:
    return {str(p.parent.relative_to(root)): p.read_text() for p in sorted(root.glob("*/*/identity.secret"))}


def empty(root: Path) -> None:
    root.rename(root.with_name("before"))


# -- the file


CONTENT = Archive("R1", "2026-11-23T00:00:00+00:00", {("zt0", 1): {"identity.secret": secret(1).encode()}})


def sealed(content: bytes | None = None, passphrase: str = PASSPHRASE) -> bytes:
    return seal(pack(CONTENT) if content is None else content, passphrase.encode(), bytes(16), bytes(12))


def test_what_is_sealed_is_opened_and_hides_everything() -> None:
    file = sealed()
    assert unpack(unseal(file, PASSPHRASE.encode())) == CONTENT
    assert b"identity" not in file and b"cdcd" not in file and b"R1" not in file


def test_a_changed_cut_or_foreign_file_is_refused_at_every_place() -> None:
    file = sealed()
    for at in range(len(file)):
        changed = file[:at] + bytes([file[at] ^ 1]) + file[at + 1 :]
        with pytest.raises(ArchiveProblem):
            unseal(changed, PASSPHRASE.encode())
        with pytest.raises(ArchiveProblem):
            unseal(file[:at], PASSPHRASE.encode())
    for other in (file + b"x", b"", b"Salted__" + file):
        with pytest.raises(ArchiveProblem):
            unseal(other, PASSPHRASE.encode())
    assert foreign(file) is None and "larger" in str(foreign(file + bytes(archive.LIMIT)))


def test_the_key_is_costly_to_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    asked = []
    monkeypatch.setattr(archive.hashlib, "scrypt", lambda *_a, **given: asked.append(given) or bytes(32))
    sealed()
    assert asked[0]["n"] * asked[0]["r"] * 128 == 128 << 20


HOME = {"identity.secret": base64.b64encode(secret(1).encode()).decode()}
HOSTILE = [
    {"zt0/1": {**HOME, "../../../etc/cron.d/x": "eA=="}},
    {"zt0/1": {**HOME, "/etc/passwd": "eA=="}},
    {"zt0/1": {**HOME, "networks.d/../../x.conf": "eA=="}},
    {"zt0/1": {**HOME, "networks.d/8056c2e21c000001.conf\n": "eA=="}},
    {"zt0/1": {**HOME, "local.conf": "eA=="}},
    {"zt0/1": {**HOME, "controller.d/network/../../x.json": "eA=="}},
    {"zt0/1": {**HOME, "controller.d/network/00000000a1000001/member/../../../../x.json": "eA=="}},
    {"zt0/1": {**HOME, "controller.d/network/00000000a1000001/00000000b1.json": "eA=="}},
    {"zt0/1": {**HOME, "controller.d/network/00000000a1000001.json\n": "eA=="}},
    {"zt0/1": {**HOME, "controller.d/trace/00000000a1000001.json": "eA=="}},
    {"zt0/1": {**HOME, "/controller.d/network/00000000a1000001.json": "eA=="}},
    {"zt0/1": {**HOME, "planet": "?"}},
    {"zt0/../../etc/1": HOME},
    {"../zt0/1": HOME},
    {"zt0/33": HOME},
    {"zt0/01": HOME},
    {"zt0/²": HOME},
    {"zt256/1": HOME},
    {"zt0/1\n": HOME},
    {"zt0": HOME},
    {"zt0/1": {}},
    {"zt0/1": {"identity.secret": "eA=="}},
    {"zt0/1": {"identity.secret": None}},
    {"zt0/1": []},
    [],
    None,
]


@pytest.mark.parametrize("homes", HOSTILE, ids=range(len(HOSTILE)))
def test_nothing_but_homes_is_taken_from_an_archive(root: Path, typed: Callable[[str], None], homes: object) -> None:
    """Also with the right passphrase: whoever sent the file may have told it."""
    content = json.dumps({"router": "R1", "created": "x", "homes": homes}).encode()
    path = root.parent / "hostile"
    path.write_bytes(sealed(content))
    empty(root)
    with pytest.raises(WrongValue, match="has files of zt0/1 that|corrupt identity|of another form"):
        restore(path)
    assert not root.exists() and not (root.parent / "x").exists()


@pytest.mark.parametrize("content", [b"", b"[" * 100_000, b"{}", b'{"router": "\x1b[2J"}', b"\xff"])
def test_content_of_another_form_is_refused(content: bytes) -> None:
    with pytest.raises(ArchiveProblem, match="another form"):
        unpack(content)


# -- out


def test_an_archive_has_what_no_commit_makes_again(root: Path, typed: Callable[[str], None]) -> None:
    home, joined = root / "zt0/1", "networks.d/8056c2e21c000001.conf"
    (home / joined).write_bytes(b"v=7\nn=office\n")  # of a controller
    (home / "networks.d/8056c2e21c000001.local.conf").write_bytes(b"allowManaged=0\n")
    (home / "planet").write_bytes(make_planet("8056c2e21c000001", PublicIdentity.parse(secret(1)[:141])))
    (root / "zt1/3/planet").write_bytes(b"by hand")
    (root / "hooks").mkdir()
    path = made(root, typed)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = unpack(unseal(path.read_bytes(), PASSPHRASE.encode()))
    assert {place: set(files) for place, files in found.homes.items()} == {
        ("zt0", 1): {"identity.secret", joined},
        ("zt0", 2): {"identity.secret"},
        ("zt1", 3): {"identity.secret", "planet"},
    }
    one = unpack(unseal(made(root, typed, "zt1").read_bytes(), PASSPHRASE.encode()))
    assert set(one.homes) == {("zt1", 3)}


def test_what_is_told_has_no_secret(root: Path, typed: Callable[[str], None]) -> None:
    data = archives.write_archive(str(root.parent / "a"), "zt0", None)
    assert data["identities"] == [{"bundle": "zt0", "instance": k, "node": f"00000000a{k}", "controls": []} for k in (1, 2)]
    text = archives.archive_text(data) + json.dumps(data)
    assert "cdcd" not in text and PASSPHRASE not in text


@pytest.mark.parametrize(
    ("mode", "group", "owner"), [(0o755, 0, 0), (0o775, 0, 0), (0o775, 65534, 65534), (0o1777, 0, 65534)], ids=oct
)
def test_an_archive_is_the_callers_where_he_may_write(
    root: Path, typed: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, group: int, owner: int
) -> None:
    """Elsewhere it stays root's: a file of one's own in /etc could be written again, and read by root."""
    monkeypatch.setenv("SUDO_UID", "65534")
    monkeypatch.setenv("SUDO_GID", "65534")
    place = tmp_path / "place"
    place.mkdir()
    os.chown(place, 0, group)
    place.chmod(mode)
    typed(PASSPHRASE)
    archives.write_archive(str(place / "a"), None, None)
    found = (place / "a").stat()
    assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (owner, 0o600)


def test_no_archive_is_written_in_vain(root: Path, typed: Callable[[str], None], tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.write_text("mine")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere")
    for path, why in (
        (there, "already exists and is not overwritten"),
        (link, "already exists"),
        (tmp_path / "no/file", "is not a directory"),
    ):
        with pytest.raises(WrongValue, match=why):
            archives.write_archive(str(path), None, None)
    assert there.read_text() == "mine"
    with pytest.raises(NotConfigured, match="^interfaces zerotier zt7 has no identity in .* yet, so there is nothing to archive$"):
        archives.write_archive(str(tmp_path / "a"), "zt7", None)
    for text, why in (
        ("", "gives no passphrase"),
        ("short\n", "has 5 characters; use at least 12"),
        ("x" * 1025, "is longer than 1024"),
    ):
        typed(text)
        with pytest.raises(WrongValue, match=why):
            archives.write_archive(str(tmp_path / "a"), None, None)
    (root / "zt0/2/identity.secret").write_text("broken")
    typed(PASSPHRASE)
    with pytest.raises(Unavailable, match="zt0/2 is corrupt, so it cannot be archived"):
        archives.write_archive(str(tmp_path / "a"), None, None)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("what", ["file", "home"])
def test_a_full_disk_leaves_everything_as_it_was(root: Path, typed: Callable[[str], None], tmp_path: Path, what: str) -> None:
    """A file that does not fit is taken away again; identities that do not all fit replace none."""
    full = tmp_path / "full"
    full.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "none", str(full)], check=True)
    try:
        if what == "file":
            (full / "other").write_bytes(bytes(8192))
            with pytest.raises(Unavailable, match="archive cannot be written .No space left on device.; nothing is left of it$"):
                archives.write_archive(str(full / "archive"), None, None)
            assert [p.name for p in full.iterdir()] == ["other"]
            return
        path = made(root, typed)
        empty(root)
        (root / "zt0").mkdir(parents=True)
        (root / "zt0/1").mkdir()
        (root / "zt0/1/identity.secret").write_text(secret(9))
        (root / "zt0/2").symlink_to(full)
        (full / "other").write_bytes(bytes(8192))
        with pytest.raises(Unavailable, match="cannot be written .No space left on device., so nothing was changed$"):
            restore(path, replace=True)
        assert nodes(root) == {"zt0/1": secret(9)}
        assert [p.name for p in (root / "zt0/1").iterdir() if "identity" in p.name] == ["identity.secret"]
    finally:
        subprocess.run(["umount", str(full)], check=True)


# -- in


def test_an_empty_router_gets_the_same_nodes(root: Path, typed: Callable[[str], None]) -> None:
    before, path = nodes(root), made(root, typed)
    empty(root)
    said = restore(path)
    assert nodes(root) == before
    assert "zt0 is not configured yet; its identities are used by its first commit." in said
    homes = [root / place for place in before]
    assert all(stat.S_IMODE(p.stat().st_mode) == (0o700 if p.is_dir() else 0o600) for h in homes for p in (h, *h.rglob("*")))
    typed(PASSPHRASE)
    assert "zt0/1 was already node 00000000a1" in "\n".join(restore(path))


# -- a router that is the controller of a network

NETWORK, OTHERS, MORE = "00000000a1000001", "00000000b1000002", "00000000a1000003"
OF_IT = {NETWORK: "network", f"{NETWORK}/member/00000000b1": "member", OTHERS: "of a node that it was once"}


def state(root: Path) -> dict[str, str]:
    """What zt0/1 has as a controller."""
    top = root / "zt0/1/controller.d/network"
    return {str(p.relative_to(top).with_suffix("")): json.loads(p.read_text()) for p in sorted(top.rglob("*.json"))}


def controls(root: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        path = root / "zt0/1/controller.d/network" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))


def test_a_controller_comes_back_with_its_networks_and_members(root: Path, typed: Callable[[str], None]) -> None:
    controls(root, OF_IT)
    (root / "zt0/1/controller.d/trace").mkdir()
    (root / "zt0/1/controller.d/trace/00000000b1.json").write_text("{}")
    path = root.parent / "archive"
    data = archives.write_archive(str(path), None, None)
    assert data["identities"][0]["controls"] == [NETWORK]
    assert f"zt0/1 is node 00000000a1, the controller of {NETWORK}.\nzt0/2 is node 00000000a2.\n" in archives.archive_text(data)
    empty(root)
    typed(PASSPHRASE)
    said = restore(path)
    assert state(root) == OF_IT
    places = [root / "zt0/1/controller.d", *(root / "zt0/1/controller.d").rglob("*")]
    assert all(stat.S_IMODE(p.stat().st_mode) == (0o700 if p.is_dir() else 0o600) for p in places)
    assert [line for line in said if "controller" in line] == [
        f"zt0/1 is the controller of {NETWORK} again, with the members of that time."
    ]


def test_a_network_is_there_only_with_its_members_and_a_node_with_its_networks(
    root: Path, typed: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Power that goes between two of them must not leave what looks whole."""
    controls(root, OF_IT)
    path = made(root, typed)
    empty(root)
    order: list[str] = []
    monkeypatch.setattr(archives, "renew", lambda _seen, work: work())
    as_ever = os.replace
    monkeypatch.setattr(os, "replace", lambda a, b: order.append(str(Path(b).name)) or as_ever(a, b))
    restore(path, "zt0")
    order = [name for name in order if name != "identity.public"]
    assert order == ["00000000b1.json", f"{NETWORK}.json", f"{OTHERS}.json", "identity.secret", "identity.secret"]


def test_a_controller_whose_identity_is_there_already_gets_what_it_lacks(
    root: Path, typed: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the configuration has the identity, and was loaded first; what is there may be newer."""
    plan = replace(PLAN, instances=tuple(replace(i, identity=secret(1)[:141] if i.number == 1 else "") for i in PLAN.instances))
    monkeypatch.setattr(archives, "published_plans", lambda: [plan])
    monkeypatch.setattr(archives, "renew", lambda _seen, work: work())
    stopped: list[tuple[str, int]] = []
    monkeypatch.setattr(archives, "_stop", lambda _plans, due: stopped.extend(due))
    controls(root, {**OF_IT, MORE: "then", f"{MORE}/member/00000000b1": "then"})
    path, home = made(root, typed, "zt0"), root / "zt0/1"
    for name in (NETWORK, OTHERS):
        (home / f"controller.d/network/{name}.json").unlink()
    controls(root, {MORE: "now"})
    (home / f"controller.d/network/{MORE}/member/00000000b1.json").unlink()
    (home / "identity.before").write_text(secret(8))
    (home / "networks.d/8056c2e21c000001.conf").write_text("now")
    monkeypatch.setattr("zerotier_multi.op.archives.box.find_engines", dict)
    said = restore(path, "zt0")
    assert state(root) == {**OF_IT, MORE: "now"} and stopped == [("zt0", 1)]
    assert (home / "identity.before").read_text() == secret(8) and (home / "networks.d/8056c2e21c000001.conf").read_text() == "now"
    assert [line for line in said if "controller" in line] == [
        f"zt0/1 is the controller of {NETWORK} again, with the members of that time.",
        f"zt0/1 is the controller of {MORE} already and keeps its members; what the archive has of it is not used.",
        "zt0 runs ztnode, which has no controller; install zerotier-one 1.14 or later and set its engine to auto, so that it runs "
        "zerotier-one.",
    ]
    typed(PASSPHRASE)
    stopped.clear()
    monkeypatch.setattr("zerotier_multi.op.archives.box.find_engines", lambda: {"zerotier-one": "/usr/sbin/zerotier-one"})
    assert any("no controller; set its engine to auto" in line for line in restore(path, "zt0"))
    assert stopped == []


def test_a_file_that_the_controller_is_writing_is_read_again(
    root: Path, typed: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """zerotier-one writes in place. One that stays broken, as after a power cut, does not keep the identities out."""
    controls(root, OF_IT)
    file = root / f"zt0/1/controller.d/network/{NETWORK}.json"
    file.write_text('{"id": "000')
    pauses: list[float] = []
    monkeypatch.setattr(archives.time, "sleep", lambda pause: pauses.append(pause) or file.write_text('"whole"'))
    found = unpack(unseal(made(root, typed, "zt0").read_bytes(), PASSPHRASE.encode()))
    assert found.homes["zt0", 1][f"controller.d/network/{NETWORK}.json"] == b'"whole"' and len(pauses) == 1
    file.write_text('{"id": "000')
    monkeypatch.setattr(archives.time, "sleep", pauses.append)
    (root.parent / "archivezt0").unlink()
    found = unpack(unseal(made(root, typed, "zt0").read_bytes(), PASSPHRASE.encode()))
    assert found.homes["zt0", 1][f"controller.d/network/{NETWORK}.json"] == b'{"id": "000' and len(pauses) < 10


def test_one_bundle_of_several(root: Path, typed: Callable[[str], None]) -> None:
    path = made(root, typed)
    empty(root)
    restore(path, "zt1")
    assert set(nodes(root)) == {"zt1/3"}
    typed(PASSPHRASE)
    with pytest.raises(WrongValue, match="has no identity of zt7; it has: zt0, zt1$"):
        restore(path, "zt7")


def test_other_identities_give_way_on_request_alone(root: Path, typed: Callable[[str], None]) -> None:
    path = made(root, typed)
    (root / "zt0/2/identity.secret").write_text(secret(9))
    (root / "zt0/2/identity.public").write_text("of node 9")
    with pytest.raises(
        WrongValue, match=r"^zt0/2 has another identity than in .*; to lose its own .*: import zerotier archive .* replace$"
    ):
        restore(path)
    assert nodes(root)["zt0/2"] == secret(9)
    typed(PASSPHRASE)
    restore(path, replace=True)
    assert nodes(root)["zt0/2"] == secret(2) and (root / "zt0/2/identity.public").read_text() == secret(2)[:141]


def test_homes_of_a_bundle_whose_plan_cannot_be_used_stay(root: Path, typed: Callable[[str], None]) -> None:
    """Its instances may run; without the plan they are not stopped first."""
    path = made(root, typed)
    empty(root)
    names.plan_file("zt0").parent.mkdir(parents=True, exist_ok=True)
    names.plan_file("zt0").write_text("{}")
    typed(PASSPHRASE)
    with pytest.raises(Unavailable, match="zt0.json is unusable: .*; to replace it, commit a change of it"):
        restore(path, replace=True)
    assert nodes(root) == {}


@pytest.mark.parametrize("there", [9, 2])
def test_the_first_commit_leaves_them_in_homes_that_had_one_of_the_configuration(
    root: Path, typed: Callable[[str], None], there: int
) -> None:
    """A bundle that is deleted keeps the identity that the configuration had, and its own one beside it."""
    path, home = made(root, typed), root / "zt0/2"
    (home / "identity.secret").write_text(secret(there))
    (home / "identity.before").write_text(secret(8))
    with pytest.raises(WrongValue, match=r"^zt0/2 has another identity than in"):
        restore(path)
    typed(PASSPHRASE)
    restore(path, replace=True)
    assert coming_identity(home, None) == PublicIdentity.parse(secret(2)[:141])
    settle(home, None)
    assert nodes(root)["zt0/2"] == secret(2)


@pytest.mark.parametrize("what", ["commit", "first commit", "reset"])
def test_a_commit_meanwhile_is_not_undone(
    root: Path, typed: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """It may come between the look at the plans and the first file; the plan that was seen is published no more."""
    path, as_ever = made(root, typed), archives._stage
    (root / "zt0/2/identity.secret").write_text(secret(9))
    plan = replace(PLAN, mtu=1300)
    monkeypatch.setattr(archives, "published_plans", lambda: [] if what == "first commit" else [PLAN])
    monkeypatch.setattr(commit, "published_plans", lambda: [PLAN] if what == "reset" else [plan])

    def stage(*given: Any) -> Any:
        if what == "reset":
            (root / "zt0/2/identity.secret").write_text(secret(8))
        return as_ever(*given)

    monkeypatch.setattr(archives, "_stage", stage)
    monkeypatch.setattr(archives, "_stop", lambda *_given: pytest.fail("it stops instances"))
    with pytest.raises(Unavailable, match=rf"^zt0{'/2' if what == 'reset' else ''} was changed meanwhile; try again$"):
        restore(path, replace=True)
    assert nodes(root)["zt0/2"] == secret(8 if what == "reset" else 9)
    assert not [p for p in root.rglob(".*") if p.name.startswith(".identity")]


def test_a_wrong_passphrase_a_cut_and_a_foreign_file_change_nothing(root: Path, typed: Callable[[str], None]) -> None:
    path = made(root, typed)
    before = nodes(root)
    content = path.read_bytes()
    for file, given, why in (
        (content, "another passphrase", "the passphrase is wrong, or the file is damaged or cut$"),
        (content[:-1], PASSPHRASE, "the passphrase is wrong, or the file is damaged or cut$"),
        (content[:40], PASSPHRASE, "is cut; copy it again$"),
        (b"PK\3\4" + bytes(99), PASSPHRASE, "is not an archive of zerotier-multi$"),
        (b"", PASSPHRASE, "is not an archive of zerotier-multi$"),
    ):
        path.write_bytes(file)
        typed(given)
        with pytest.raises(WrongValue, match=why) as refused:
            restore(path, replace=True)
        assert given not in str(refused.value) and "\n" not in str(refused.value)
        assert nodes(root) == before


def test_the_passphrase_may_come_from_a_file(root: Path, typed: Callable[[str], None], tmp_path: Path) -> None:
    words = tmp_path / "passphrase"
    words.write_text(f"{PASSPHRASE}\nnot this\n")
    typed("")
    archives.write_archive(str(tmp_path / "a"), None, str(words))
    assert unseal((tmp_path / "a").read_bytes(), PASSPHRASE.encode())
    empty(root)
    archives.read_archive(str(tmp_path / "a"), None, str(words), False, lambda _: None)
    assert nodes(root)
    for content, why in ((b"\xff\xfe\n", "has no text"), (b"\n", "gives no passphrase"), (None, "cannot be read")):
        words.unlink(missing_ok=True)
        if content is not None:
            words.write_bytes(content)
        with pytest.raises(OpError, match=why):
            archives.read_archive(str(tmp_path / "a"), None, str(words), False, lambda _: None)


@pytest.mark.parametrize("path", ["", "a\0b", "a\nb", "\x1b[2J"])
def test_a_hostile_name_gets_one_sentence(root: Path, typed: Callable[[str], None], path: str) -> None:
    for call in (lambda: archives.write_archive(path, None, None), lambda: archives.read_archive(path, None, None, False)):
        with pytest.raises(WrongValue) as refused:
            call()
        assert str(refused.value).isprintable()
