"""A repository from packages that were built: what lacks is named, what is left out is stood for, apt can use it."""

from __future__ import annotations

import hashlib
import json
import lzma
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from builder import packages, stand_in
from builder.archive import newest_kernel
from builder.control import Relation, Stock, clauses, stanzas
from builder.errors import BuildError
from builder.gaps import Gap, find_gaps
from builder.local_mirror import served
from builder.log import Log
from builder.packages import Order
from builder.repository import read_given
from builder.stand_in import NAME
from builder.wanted import sources_of
from tests.vyos_build.conftest import VYOS_BUILD, Maker, git, write
from tests.vyos_build.debs import make_deb

DEBIAN = """Package: dialog
Version: 1.3

Package: exim4
Version: 4.96
Provides: mail-transport-agent

Package: libssl3t
Version: 3.0
Provides: libssl3 (= 3.0)

Package: linux-image-amd64
Version: 6.1.9
Depends: linux-image-6.1.0-9-amd64 (= 6.1.9)

Package: linux-image-amd64
Version: 6.1.40
Depends: linux-image-6.1.0-40-amd64 (= 6.1.40)
"""
LISTS = {
    "data/live-build-config/package-lists/base.list.chroot": "dialog\n# no package\nvyos-1x\n",
    "data/build-types/development.toml": 'packages = ["vyos-1x-smoketest"]\n',
    "scripts/package-build/telegraf/package.toml": '[[packages]]\nname = "telegraf"\nscm_url = "https://example.com/telegraf.git"\n',
}
DEPENDS = "Depends: dialog, frr (>= 9.1), telegraf (>= 1.20), mail-transport-agent, libssl3 (>= 2), vyatta-op | vyatta-cfg\n"


@pytest.fixture
def place(tmp_path: Path, vyos_build: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree like vyos-build, packages built for it, and a mirror of Debian, all of them files."""
    areas = ("main", "contrib", "non-free", "non-free-firmware")
    for mirror, suite in (("debian", "bookworm"), ("debian", "bookworm-updates"), ("security", "bookworm-security")):
        for area in areas:
            text = f"{debian_s_frr(tmp_path)}\n{DEBIAN}" if (suite, area) == ("bookworm", "main") else ""
            path = tmp_path / mirror / f"dists/{suite}/{area}/binary-amd64/Packages.xz"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(lzma.compress(text.encode()))
    defaults = VYOS_BUILD["data/defaults.toml"] + 'kernel_version = "6.6.58"\nkernel_flavor = "vyos"\n'
    for name in ("debian", "security"):
        defaults = defaults.replace(f"http://127.0.0.1:9/{name}", (tmp_path / name).as_uri())
    write(vyos_build, {**LISTS, "data/defaults.toml": defaults, "data/architectures/amd64.toml": "packages = []\n"})
    built = tmp_path / "built"
    built.mkdir()
    make_deb(built, "vyos-1x", "1.5", fields=DEPENDS)
    make_deb(built, "vyos-1x-smoketest", "1.5", "all", "Depends: vyos-1x\n")
    make_deb(built, "vyatta-cfg", "0.1")
    make_deb(built, "vyatta-cfg-dbgsym", "0.1")
    make_deb(built, "unused", "1", fields="Depends: not-there\n")
    monkeypatch.setenv("VYOS_BUILD", str(vyos_build))
    return tmp_path


def debian_s_frr(place: Path) -> str:
    """Debian's older frr, with a file that no package has that was built, and its stanza of the index."""
    pool = place / "debian/pool"
    pool.mkdir(parents=True, exist_ok=True)
    path = make_deb(pool, "frr", "8.4.4-1", file="lib/systemd/system/frr.service")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return f"Package: frr\nVersion: 8.4.4-1\nFilename: pool/{path.name}\nSHA256: {digest}\n"


def make(place: Path, *leave_out: str) -> list[str]:
    log = Log(place / "log")
    gaps = packages.make(Order(place / "built", leave_out=leave_out), log, place / "out/repository")
    return [str(gap.relation) for gap in gaps]


def test_what_is_missing_is_named_with_where_to_get_it(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BuildError) as refused:
        make(place)
    assert str(refused.value) == (
        f"2 packages are missing: build them from their sources and put them into {place}/built, "
        "or leave them out: LEAVE_OUT=all, or names separated by "
        "commas (never vyos-1x, vyatta-bash, vyatta-cfg, vyos-utils, libvyosconfig0, python3-pyhumps)"
    )
    said = [line.partition("] ")[2] for line in capsys.readouterr().out.splitlines()]
    assert said[-2:] == [
        "missing: frr (>= 9.1) for vyos-1x; Debian has 8.4.4-1; look for its source at https://github.com/vyos",
        "missing: telegraf (>= 1.20) for vyos-1x; Debian has none; vyos-build takes it from https://example.com/telegraf.git",
    ]
    assert not (place / "out/repository").exists()
    with pytest.raises(BuildError, match="^1 packages are missing"):
        make(place, "frr")


def test_apt_installs_from_it(place: Path) -> None:
    """apt itself takes the repository by its signature, and meets every dependency, by the stand-in too."""
    assert make(place, "all") == ["frr (>= 9.1)", "telegraf (>= 1.20)"]
    manifest = json.loads((place / "out/repository/manifest.json").read_text())
    assert manifest["kernel"] == {"wanted": "linux-image-6.6.58-vyos", "taken": "linux-image-6.1.0-40-amd64"}
    assert manifest["left out"] == [
        {"package": "frr (>= 9.1)", "asked for by": ["vyos-1x"], "instead": "Debian's 8.4.4-1"},
        {"package": "telegraf (>= 1.20)", "asked for by": ["vyos-1x"], "instead": "nothing"},
    ]
    assert set(manifest["built"]) == {"vyos-1x", "vyos-1x-smoketest", "vyatta-cfg", "unused"}
    # What Debian gives, as another repository without signature.
    debian = place / "small"
    debian.mkdir()
    for name, fields in (("dialog", ""), ("frr", ""), ("exim4", "Provides: mail-transport-agent, libssl3 (= 3)\n")):
        make_deb(debian, name, "8.4.4-1", fields=fields)
    with (debian / "Packages").open("wb") as index:
        scan = ["dpkg-scanpackages", "--multiversion", "."]
        subprocess.run(scan, cwd=debian, stdout=index, check=True, stderr=subprocess.DEVNULL)
    ours = place / "out/repository"
    apt = _apt(place, f"deb [trusted=yes] file:{debian} ./", f"deb [signed-by={ours}/key.asc] file:{ours} circinus main")
    subprocess.run([*apt, "update"], check=True, capture_output=True)
    said = subprocess.run([*apt, "--simulate", "install", "vyos-1x-smoketest"], capture_output=True, text=True, check=True)
    installed = {line.split()[1] for line in said.stdout.splitlines() if line.startswith("Inst ")}
    assert installed == {"vyos-1x-smoketest", "vyos-1x", "vyatta-cfg", "dialog", "frr", "exim4", NAME}


def _apt(place: Path, *sources: str) -> list[str]:
    """apt-get on a machine of its own, where nothing is installed."""
    root = place / "machine"
    for folder in ("etc/preferences.d", "etc/apt.conf.d", "etc/sources.list.d", "state/lists/partial", "cache/archives/partial"):
        (root / folder).mkdir(parents=True)
    (root / "etc/sources.list").write_text("".join(f"{line}\n" for line in sources))
    (root / "status").touch()
    options = {
        "Dir::Etc": root / "etc", "Dir::State": root / "state", "Dir::State::status": root / "status",
        "Dir::Cache": root / "cache", "APT::Architecture": "amd64", "APT::Sandbox::User": "root",
    }  # fmt: skip
    return ["apt-get", *(f"-o{name}={value}" for name, value in options.items())]


def test_the_newest_of_a_package_is_taken_and_a_damaged_one_named(place: Path) -> None:
    make_deb(place / "built", "vyatta-cfg", "0.10")
    versions = {package.name: package.stanza["Version"] for package in read_given(place / "built")}
    assert versions["vyatta-cfg"] == "0.10"
    (place / "built/half.deb").write_text("no package")
    with pytest.raises(BuildError, match=r"half\.deb is not a readable Debian package; build it again, or remove it$"):
        read_given(place / "built")


def test_sources_are_built_into_it(
    place: Path, checkout: Maker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The one that is wanted is built, the one that fails is told and left out only when somebody says so."""
    checkout("telegraf", version="1.30")
    frr = checkout("frr", command="false", version="9.1.1")
    checkout("unused-source")
    monkeypatch.setattr("builder.chroot.sources_list", lambda *_: "")  # the mirror of this test has no packages

    def build(*leave_out: str) -> list[str]:
        order = Order(place / "built", place / "sources", leave_out, base=Path("/"))
        return [str(gap.relation) for gap in packages.make(order, Log(place / "log"), place / "out/repository", place / "out")]

    with pytest.raises(BuildError) as refused:
        build()
    assert str(refused.value) == (
        "1 of 2 sources could not be built: frr; see their logs and run it again "
        "(finished builds are kept), or leave them out: LEAVE_OUT=all, or names separated by commas"
    )
    assert "not built, because the image needs none of their packages: unused-source" in capsys.readouterr().out
    assert build("frr") == ["frr (>= 9.1)"]
    manifest = json.loads((place / "out/repository/manifest.json").read_text())
    revision = git(frr, "rev-parse", "HEAD")
    assert manifest["sources"] == {
        "frr": {"revision": revision, "changed files": 0,
                "failed": f"build-in-chroot ended with 2; the full log is {place}/out/built/frr/build.log"},
        "telegraf": {"revision": git(place / "sources/telegraf", "rev-parse", "HEAD"), "changed files": 0, "packages": {"telegraf": "1.30"}},
    }  # fmt: skip
    assert manifest["built"]["telegraf"] == "1.30"
    with pytest.raises(BuildError, match="^PACKAGES must name a directory of built packages, or SOURCES "):
        packages.make(Order(), Log(place / "log"), place / "out/repository")


def test_nobody_leaves_out_what_vyos_is(place: Path, checkout: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the lists name another package, which depends on it."""
    checkout("vyatta-cfg", command="false", version="9")
    monkeypatch.setattr("builder.chroot.sources_list", lambda *_: "")
    order = Order(place / "built", place / "sources", ("all",), base=Path("/"))
    with pytest.raises(BuildError, match="^vyatta-cfg could not be built, without which there is no VyOS; see its log"):
        packages.make(order, Log(place / "log"), place / "out/repository", place / "out")


def test_the_flavor_of_the_kernel_is_with_the_architecture_in_older_trees(place: Path, vyos_build: Path) -> None:
    defaults = vyos_build / "data/defaults.toml"
    defaults.write_text("".join(line for line in defaults.read_text().splitlines(keepends=True) if "kernel_flavor" not in line))
    with pytest.raises(BuildError, match="kernel_flavor"):
        make(place, "all")
    (vyos_build / "data/architectures/amd64.toml").write_text('packages = []\nkernel_flavor = "amd64-vyos"\n')
    make(place, "all")
    assert json.loads((place / "out/repository/manifest.json").read_text())["kernel"]["wanted"] == "linux-image-6.6.58-amd64-vyos"


def test_a_repository_is_replaced_whole(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(place, "all")
    before = (place / "out/repository/key.asc").read_bytes()
    monkeypatch.setattr("builder.repository._sign", lambda root, suite: (_ for _ in ()).throw(BuildError("no")))
    with pytest.raises(BuildError):
        make(place, "all")
    assert (place / "out/repository/key.asc").read_bytes() == before
    assert [path.name for path in (place / "out").iterdir()] == ["repository"]


def test_it_is_served_while_an_image_is_built(place: Path) -> None:
    make(place, "all")
    with served(f"file://{place}/out/repository") as mirror:
        assert mirror is not None
        assert mirror.kernel == "linux-image-6.1.0-40-amd64"
        url = f"{mirror.url}/dists/circinus/InRelease"
        assert urllib.request.urlopen(url, timeout=5).read().startswith(b"-----BEGIN PGP SIGNED MESSAGE-----")
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url, timeout=5)
    with served("http://192.0.2.1/vyos") as none:
        assert none is None
    with pytest.raises(BuildError, match=f"^{place} is not a usable repository"), served(f"file:{place}"):
        pass


def test_files_that_two_packages_have(place: Path) -> None:
    """As of old packages whose files vyos-1x has taken over."""
    make_deb(place / "built", "vyatta-op", "1", "all", file="etc/bash_completion.d/vyatta-op")
    make_deb(place / "built", "vyos-1x", "1.5", fields=DEPENDS, file="etc/bash_completion.d/vyatta-op")
    with pytest.raises(BuildError) as refused:
        make(place, "all")
    assert str(refused.value) == (
        "vyatta-op and vyos-1x both have /etc/bash_completion.d/vyatta-op: "
        "remove the package whose files the newer one has taken over"
    )
    replaces = f"{DEPENDS}Replaces: vyatta-op (<< 2)\n"
    make_deb(place / "built", "vyos-1x", "1.5", fields=replaces, file="etc/bash_completion.d/vyatta-op")
    make(place, "all")


def test_debian_s_package_with_a_file_of_vyos(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As podman, whose units vyos-1x brings: dpkg would refuse it when half of the image is installed."""
    make_deb(place / "built", "vyos-1x", "1.5", fields=DEPENDS, file="lib/systemd/system/frr.service")
    make(place, "all")
    clash = "nothing, because Debian's 8.4.4-1 and vyos-1x both have /lib/systemd/system/frr.service"
    assert f"left out: frr (>= 9.1); instead {clash}\n" in capsys.readouterr().out
    manifest = json.loads((place / "out/repository/manifest.json").read_text())
    assert manifest["left out"][0]["instead"] == clash
    stand_in = next((place / "out/repository/pool").glob(f"{NAME}_*.deb"))
    said = subprocess.run(["dpkg-deb", "--field", str(stand_in)], capture_output=True, text=True, check=True).stdout
    assert "Depends:" not in said
    assert f" frr (>= 9.1): {clash}" in said


@pytest.mark.parametrize(("fields", "preinst"), [
    ("Replaces: frr\n", ""), ("", "dpkg-divert --package vyos-1x --add --no-rename /lib/systemd/system/frr.service"),
])  # fmt: skip
def test_debian_s_package_that_makes_way(place: Path, fields: str, preinst: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = "lib/systemd/system/frr.service"
    make_deb(place / "built", "vyos-1x", "1.5", fields=DEPENDS + fields, file=file, preinst=preinst)
    make(place, "all")
    assert "left out: frr (>= 9.1); instead Debian's 8.4.4-1\n" in capsys.readouterr().out


def test_a_package_of_debian_s_that_is_damaged(place: Path) -> None:
    (place / "debian/pool/frr_8.4.4-1_amd64.deb").write_text("cut off")
    with pytest.raises(BuildError, match=r"^Debian's frr \(file:.*\) is damaged; name another mirror with --debian-mirror URL$"):
        make(place, "all")


@pytest.mark.parametrize(("name", "harm"), [
    ("live-boot", "does not start images that install image has written"),
    ("bash-completion", "VyOS's bash 4.1 cannot read, so the shell has no VyOS commands"),
    ("ethtool", "has no JSON for VyOS's scripts, so no Ethernet interface can be configured"),
])  # fmt: skip
def test_what_vyos_does_not_work_with(place: Path, name: str, harm: str, capsys: pytest.CaptureFixture[str]) -> None:
    """No dependency says that Debian's version will not do."""
    make(place, "all")
    assert f"{name} is Debian's, which {harm}; " in capsys.readouterr().out
    make_deb(place / "built", name, "99", "all")
    make(place, "all")
    assert f"{name} is Debian's" not in capsys.readouterr().out


def test_vyos_itself_is_not_left_out(place: Path) -> None:
    (place / "built/vyos-1x_1.5_amd64.deb").unlink()
    with pytest.raises(BuildError, match="^1 packages are missing"):
        make(place, "all")


def test_wrong_places(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BuildError, match=r"^/nowhere is not a directory; name one with built packages: PACKAGES=<dir>$"):
        packages.make(Order(Path("/nowhere")), Log(place / "log"), place / "out")
    monkeypatch.delenv("VYOS_BUILD")
    with pytest.raises(BuildError, match="^VYOS_BUILD must name a vyos-build work tree"):
        make(place)


@pytest.mark.parametrize(("clause", "met"), [
    ("frr", True), ("frr (>= 8)", True), ("frr (>= 9.1)", False), ("frr (= 8.4.4-1)", True), ("frr (<< 8)", False),
    ("frr:any (>= 8.4)", True), ("none | frr", True), ("none", False), ("mail-transport-agent", True),
    ("mail-transport-agent (>= 1)", False), ("libssl3 (>= 2)", True), ("libssl3 (>> 3.0)", False),
])  # fmt: skip
def test_a_dependency_is_met_by_debian_s_rules(clause: str, met: bool) -> None:
    stock = Stock()
    stock.add(stanzas(f"Package: frr\nVersion: 8.4.4-1\n\n{DEBIAN}"))
    assert stock.meets(clauses(clause)[0]) is met


_FOUR = """Package: aa
Version: 1
Depends: bb,
 cc

Package: bb
Version: 1

Package: dd
Version: 1
Depends: ee
"""


def test_only_what_the_image_would_have_is_looked_into() -> None:
    given = list(stanzas(_FOUR))
    gaps = find_gaps({"aa": "list"}, given, Stock())
    assert [(gap.relation, gap.askers) for gap in gaps] == [(Relation("cc"), ("aa",))]


def test_the_newest_kernel_of_debian() -> None:
    assert newest_kernel(list(stanzas(DEBIAN))) == "linux-image-6.1.0-40-amd64"
    assert newest_kernel([]) == ""


def test_a_recipe_that_cannot_be_read_is_no_hint(vyos_build: Path) -> None:
    write(vyos_build, {"scripts/package-build/telegraf/package.toml": "packages = 3\n"})
    assert sources_of(vyos_build, "telegraf") == []


def test_a_unit_of_vyos_without_its_program_is_skipped_at_boot(tmp_path: Path) -> None:
    """vyos-1x enables the service of podman, whose package Debian has too old."""
    path = stand_in.make([Gap((Relation("podman", ">=", "4.9.5"),), ("vyos-1x",)), Gap((Relation("frr"),), ("vyos-1x",))], tmp_path)
    subprocess.run(["dpkg-deb", "--extract", str(path), str(tmp_path / "root")], check=True)
    files = {str(f.relative_to(tmp_path / "root")): f for f in (tmp_path / "root").rglob("*") if f.is_file()}
    assert list(files) == ["usr/lib/systemd/system/podman.service.d/left-out.conf"]
    (line,) = [line for f in files.values() for line in f.read_text().splitlines() if line.startswith("Condition")]
    assert (
        subprocess.run(["systemd-analyze", "condition", line.replace("/usr/bin/podman", "/usr/bin/env")], check=False).returncode
        == 0
    )
    assert subprocess.run(["systemd-analyze", "condition", line.replace("podman", "no-such-program")], check=False).returncode != 0


def test_a_stand_in_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"^dpkg-deb cannot make vyos-left-out_1_all\.deb \(.*\); see whether /.* has free space$"):
        stand_in.make([Gap((Relation("frr"),), ("vyos-1x",))], tmp_path / "not-there")
