"""The way to an image, with a stand-in for VyOS's program; and everything that ends it before the long part."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import namedtuple
from pathlib import Path

import pytest
from builder import image, reach, sources, workshop
from builder.branches import BRANCHES, read_defaults
from builder.debs import KEEP, find, preferences
from builder.errors import BuildError
from builder.image import Order
from builder.log import Log
from builder.manifest import check_installed
from builder.pins import read_pins
from builder.reach import Need
from tests.vyos_build.conftest import git, write
from tests.vyos_build.debs import make_deb

NOBODY = "http://127.0.0.1:9"
CIRCINUS = Order(BRANCHES["circinus"], dry_run=False, mirrors={}, version="")

# Takes the packages that stand there, as live-build does, and leaves what live-build leaves.
STAND_IN = """#!/bin/sh -e
echo "I: building $*"
[ -f "$VYOS_BUILD_FLAVORS_DIR/zerotier-multi.toml" ]
[ -f data/live-build-config/archives/zerotier-multi.pref.chroot ]
grep -q NeverAutoRemove data/live-build-config/apt/apt.conf
case "$*" in *--dry-run*) exit 0 ;; esac
for deb in packages/*.deb; do
    dpkg-deb --show --showformat '${Package}\\t${Version}\\n' "$deb"
done >build/chroot.packages.live
echo image >build/vyos-1.5-zerotier-multi-amd64.iso
"""


@pytest.fixture
def place(tmp_path: Path, vyos_build: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Everything given by hand: vyos-build with the stand-in, our packages, zerotier-one."""
    write(vyos_build, {"build-vyos-image": STAND_IN, ".gitignore": "build/\npackages/*\n"})
    (vyos_build / "build-vyos-image").chmod(0o755)
    git(vyos_build, "init", "--quiet")
    git(vyos_build, "add", "--all")
    git(vyos_build, "commit", "--quiet", "--message=base")
    debs = tmp_path / "debs"
    debs.mkdir()
    make_deb(debs, "zerotier-multi", "0.1", "all")
    make_deb(debs, "ztnode", "0.1")
    make_deb(debs, "ztsh", "0.1", "all")
    given = make_deb(tmp_path, "zerotier-one", read_pins().zerotier_one.version)
    monkeypatch.setenv("VYOS_BUILD", str(vyos_build))
    monkeypatch.setenv("ZEROTIER_DEB", str(given))
    monkeypatch.delenv("VYOS_1X", raising=False)
    monkeypatch.setattr(workshop, "choose", lambda tag: workshop.Native())
    monkeypatch.setattr(workshop.Native, "check", lambda self: None)
    monkeypatch.setattr(image, "FREE_GIB", 0)
    return tmp_path


def build(place: Path, order: Order = CIRCINUS) -> Path | None:
    return image.build(order, read_pins(), Log(place / "work/image.log"), place / "work", place / "debs")


def sentence(place: Path) -> str:
    with pytest.raises(BuildError) as refused:
        build(place)
    return str(refused.value)


def test_from_packages_to_the_image(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(reach, "check", lambda needs: None)
    made = build(place)
    assert made == place / "work/vyos-1.5-zerotier-multi-amd64.iso"
    manifest = json.loads(made.with_suffix(".manifest.json").read_text())
    assert manifest["image"] == made.name
    assert [(entry["package"], len(entry["sha256"])) for entry in manifest["ours"]] == [
        ("zerotier-multi", 64), ("zerotier-one", 64), ("ztnode", 64)
    ]  # fmt: skip
    assert manifest["vyos-build"] == git(place / "vyos-build", "rev-parse", "HEAD")
    assert "ztsh" not in manifest["packages"]  # it stands for VyOS's own shell where there is none
    assert made.with_suffix(".packages").read_text().startswith("zerotier-multi 0.1\nzerotier-one ")
    assert git(place / "vyos-build", "status", "--porcelain") == ""
    assert not list((place / "vyos-build/packages").iterdir())
    assert "I: building zerotier-multi" in capsys.readouterr().out


def test_a_repository_on_this_machine(place: Path) -> None:
    """VyOS's program gets it over HTTP with its key, and the kernel that its manifest says."""
    (place / "repository").mkdir()
    (place / "repository/key.asc").write_text("key")
    kernel = {"wanted": "linux-image-6.6.58-vyos", "taken": "linux-image-6.1.0-40-amd64"}
    (place / "repository/manifest.json").write_text(json.dumps({"kernel": kernel}))
    write(
        place / "vyos-build",
        {
            "build-vyos-image": STAND_IN.replace(
                "[ -f data",
                """\
echo "I: $*"
key=$(echo "$*" | sed 's/.*--custom-apt-key=\\([^ ]*\\).*/\\1/'); [ "$(cat $key)" = key ]
mirror=$(echo "$*" | sed 's/.*--vyos-mirror=\\([^ ]*\\).*/\\1/'); python3 -c "import urllib.request as u, sys; assert b'taken' in u.urlopen(sys.argv[1]).read()" $mirror/manifest.json
grep -q 'kernel_version = "6.1.0-40"' "$VYOS_BUILD_FLAVORS_DIR/zerotier-multi.toml"
[ -f data""",
                1,
            )
        },
    )
    order = Order(BRANCHES["circinus"], dry_run=True, mirrors={"vyos-mirror": f"file:{place}/repository"}, version="")
    assert build(place, order) is None
    assert "I: --vyos-mirror=http://127.0.0.1:" in (place / "work/image.log").read_text()


def test_dry_run_needs_no_network_and_no_packages(place: Path) -> None:
    shutil.rmtree(place / "debs")
    assert build(place, Order(BRANCHES["circinus"], dry_run=True, mirrors={}, version="")) is None
    assert "I: building --dry-run --debug zerotier-multi" in (place / "work/image.log").read_text()


def test_no_network(place: Path) -> None:
    refused = "[Errno 111] Connection refused"
    assert sentence(place) == (
        f"could not reach VyOS's packages ({NOBODY}/vyos/dists/circinus/InRelease: {refused}); "
        f"Debian's packages ({NOBODY}/debian/dists/bookworm/InRelease: {refused}); "
        f"Debian's security updates ({NOBODY}/security/dists/bookworm-security/InRelease: {refused}); "
        "give what is missing by hand with --vyos-mirror URL, --debian-mirror URL, --debian-security-mirror URL"
    )


def test_zerotier_is_asked_for_only_where_it_is_not_given(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def names() -> list[str]:
        defaults = read_defaults(place / "vyos-build", CIRCINUS.branch)
        return [need.by_hand for need in image.network_needs(CIRCINUS, defaults, read_pins(), workshop.Native())]

    assert "ZEROTIER_DEB=<file>" not in names()
    monkeypatch.delenv("ZEROTIER_DEB")
    assert "ZEROTIER_DEB=<file>" in names()


def test_vyos_build_that_cannot_be_brought(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VYOS_BUILD")
    monkeypatch.setattr("builder.sources.VYOS_BUILD_URL", f"{NOBODY}/vyos-build")
    assert sentence(place) == (
        f"could not reach the sources of vyos-build ({NOBODY}/vyos-build: [Errno 111] Connection refused); "
        "give what is missing by hand with VYOS_BUILD=<dir>"
    )


def test_what_is_given_must_be_there(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYOS_BUILD", "/nowhere")
    assert sentence(place) == "VYOS_BUILD=/nowhere does not exist; name an existing one, or omit VYOS_BUILD"


def test_vyos_1x_by_hand_must_have_the_pinned_revision(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYOS_1X", str(place / "vyos-build"))
    with pytest.raises(BuildError) as refused:
        sources.vyos_1x_at("ab" * 20, place / "vyos-1x", Log(place / "log"))
    assert str(refused.value) == (
        f"VYOS_1X={place / 'vyos-build'} has no revision {'ab' * 20}, the pinned one; fetch it there, "
        "name a work tree of vyos-1x that has it, or change the pin in vyos-build/pins.toml"
    )
    assert not (place / "vyos-1x").exists()


def test_vyos_s_program_runs_with_debian_s_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "python3").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "python3").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    command = workshop.Native().command(["python3", "-c", "import sys; print(sys.executable)"], tmp_path, tmp_path, {})
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "/usr/bin/python3\n"


def test_a_missing_tool(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert sentence(place) == ("git gnupg gpgv dpkg must be installed first; do it with: apt install git gnupg gpgv dpkg")


def test_a_machine_without_docker_and_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(workshop, "_installed", lambda package: package != "live-build")
    with pytest.raises(BuildError) as refused:
        workshop.Native().check()
    assert str(refused.value) == (
        "there is no docker here, and a build on this machine lacks live-build; install them with: apt install live-build"
    )
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(BuildError, match="^an image is built as root; use sudo, or install docker$"):
        workshop.Native().check()


def test_a_full_disk(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image, "FREE_GIB", 20)
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage(0, 0, 3 << 30))
    assert sentence(place) == (
        f"{place}/vyos-build has 3 GiB free and an image takes 20 while it is built; "
        "make room, or name a vyos-build tree on another disk with VYOS_BUILD"
    )


def test_packages_that_are_not_built(place: Path) -> None:
    (place / "debs/ztnode_0.1_amd64.deb").unlink()
    assert sentence(place) == f"{place}/debs has 0 packages ztnode instead of one; build them with: make debs"


def test_a_failed_build_leaves_vyos_build_as_it_was(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "check", lambda needs: None)
    write(place / "vyos-build", {"build-vyos-image": "#!/bin/sh\necho E: no\nexit 3\n"})
    git(place / "vyos-build", "commit", "--quiet", "--all", "--message=broken")
    assert sentence(place) == (f"build-vyos-image failed with exit code 3; the full log is {place}/work/image.log")
    assert git(place / "vyos-build", "status", "--porcelain") == ""
    assert "E: no" in (place / "work/image.log").read_text()


def test_an_image_with_vyos_own_zerotier_one(place: Path) -> None:
    debs = find(place / "debs", ["ztnode"])
    check_installed({"ztnode": "0.1"}, debs)
    with pytest.raises(BuildError) as refused:
        check_installed({"ztnode": "0.2-vyos1"}, debs)
    assert str(refused.value) == (
        "the image has ztnode 0.2-vyos1 instead of 0.1; the log says where it came from; do not use the image"
    )


_INSTALLED = """Package: squashfs-tools
Status: install ok installed
Architecture: amd64
Version: 1

Package: vyos-1x
Status: install ok installed
Architecture: amd64
Version: 1
Depends: squashfs-tools, shim-signed

Package: shim-signed
Status: install ok installed
Architecture: amd64
Version: 1

Package: grub-efi-amd64-signed
Status: install ok installed
Architecture: amd64
Version: 1
Protected: yes
"""


@pytest.mark.parametrize(("conf", "removed"), [
    ("", {"squashfs-tools", "vyos-1x", "shim-signed"}), (KEEP, {"squashfs-tools", "vyos-1x"}),
])  # fmt: skip
def test_live_build_takes_away_only_what_needs_squashfs_tools(tmp_path: Path, conf: str, removed: set[str]) -> None:
    """apt itself, on a machine of its own that has these three, the last of them because of vyos-1x."""
    automatic = "Package: shim-signed\nArchitecture: amd64\nAuto-Installed: 1\n"
    files = {"status": _INSTALLED, "state/extended_states": automatic, "apt.conf": conf, "state/lists/partial/x": ""}
    write(tmp_path, {**files, "cache/archives/partial/x": "", "etc/preferences.d/x": ""})
    options = {
        "Dir::Etc": "etc", "Dir::State": "state", "Dir::State::status": "status", "Dir::Cache": "cache",
        "APT::Architecture": "amd64",
    }  # fmt: skip
    command = ["apt-get", f"--config-file={tmp_path}/apt.conf"]
    command += [f"-o{name}={value if name.startswith('APT') else tmp_path / value}" for name, value in options.items()]
    command += ["--simulate", "remove", "--auto-remove", "--purge", "--yes"]
    said = subprocess.run([*command, "squashfs-tools"], capture_output=True, text=True, check=True).stdout
    assert {line.split()[1] for line in said.splitlines() if line.startswith(("Remv ", "Purg "))} == removed
    protected = subprocess.run([*command, "grub-efi-amd64-signed"], capture_output=True, check=False)
    assert (protected.returncode == 0) is bool(conf)


def test_preferences_take_ours_and_never_vyos() -> None:
    assert preferences(["zerotier-one"], "current") == (
        "Package: zerotier-one\nPin: release o=config/packages.chroot\nPin-Priority: 1001\n\n"
        "Package: zerotier-one\nPin: release n=current\nPin-Priority: -1\n"
    )


def test_the_container_writes_where_it_must_only(tmp_path: Path) -> None:
    command = workshop.Container("circinus").command(
        ["./build-vyos-image"], tmp_path / "a", tmp_path / "a", {"VYOS_BUILD_FLAVORS_DIR": tmp_path / "f"}
    )
    assert [word for word in command if word.startswith("--volume")] == [
        f"--volume={tmp_path}/a:{tmp_path}/a", f"--volume={tmp_path}/f:{tmp_path}/f:ro"
    ]  # fmt: skip
    assert command[-5:] == [
        "vyos/vyos-build:circinus", "sudo", "env", f"VYOS_BUILD_FLAVORS_DIR={tmp_path}/f", "./build-vyos-image"
    ]  # fmt: skip


def test_the_container_sees_a_repository_on_this_machine(tmp_path: Path) -> None:
    command = workshop.Container("circinus").command(["true"], tmp_path, tmp_path, {}, loopback=True)
    assert "--network=host" in command
    assert not [word for word in command if word.startswith("--sysctl")]  # docker refuses both together


def test_reach_tells_a_login_from_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(code: int):
        def urlopen(request: object, timeout: int) -> None:
            raise reach.urllib.error.HTTPError("http://x", code, "", None, None)

        return urlopen

    monkeypatch.setattr(reach.urllib.request, "urlopen", answer(401))
    reach.check([Need("the image", "http://x", "docker load", demands_login=True)])
    with pytest.raises(BuildError, match=r"^could not reach it \(http://x: answers 401\); give what is missing"):
        reach.check([Need("it", "http://x", "y")])


def test_options_for_vyos_program() -> None:
    order = Order(BRANCHES["rolling"], dry_run=True, mirrors={"debian-mirror": "http://d"}, version="1.5.0-zt1")
    assert order.options() == [
        "--debian-mirror=http://d", "--build-type=release", "--version=1.5.0-zt1", "--dry-run", "--debug"
    ]  # fmt: skip
