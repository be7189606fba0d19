"""Images on a router's disk, as far as no disk is needed: GRUB's menu, slots, disks to choose from, settings."""

from __future__ import annotations

import errno
import importlib.machinery
import importlib.util
import os
import re
import shutil
import struct
import subprocess
import sys
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

IMAGE = Path(__file__).resolve().parents[2] / "debian-image"
PACKAGE = IMAGE.parent / "packages/zerotier-router"
PROGRAMS = PACKAGE / "libexec"
sys.path[:0] = [str(IMAGE), str(PACKAGE)]

from imagebuild import iso, signing, steps  # noqa: E402
from router_image import boot, commands, disks, health, signature, slots  # noqa: E402
from router_image.process import ImageError, exclusive, told  # noqa: E402


def image(directory: Path, name: str, size: int = 1000) -> Path:
    """The files of an image, with their checksums."""
    directory.mkdir(parents=True)
    for file in ("vmlinuz", "initrd.img", "filesystem.squashfs"):
        (directory / file).write_text(f"{file} of {name}".ljust(size))
    (directory / "name").write_text(f"{name}\n")
    listed = sorted(path.name for path in directory.iterdir())
    sums = subprocess.run(["sha256sum", *listed], cwd=directory, capture_output=True, text=True, check=True).stdout
    (directory / "SHA256SUMS").write_text(sums)
    return directory


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """A partition with one image in slot a."""
    path = tmp_path / "images-partition"
    image(path / "images-0a1b2c3d/a", "1.0-a")
    return path


# -- slots


def test_slots_are_found_with_an_id_and_without(images: Path, tmp_path: Path) -> None:
    assert slots.home(images).name == "images-0a1b2c3d"
    assert slots.installation(slots.home(images)) == "0a1b2c3d"
    assert slots.names(images) == {"a": "1.0-a"}
    older = tmp_path / "older"
    image(older / "images/b", "0.9-b")
    assert slots.home(older).name == "images"
    assert slots.installation(slots.home(older)) == ""
    assert slots.names(older) == {"b": "0.9-b"}
    (tmp_path / "none/images-of-mine").mkdir(parents=True)
    with pytest.raises(ImageError, match="install again"):
        slots.home(tmp_path / "none")


def test_an_image_takes_the_place_of_another_one(images: Path, tmp_path: Path) -> None:
    slots.copy_in(image(tmp_path / "new", "2.0-b"), images, "b")
    assert slots.names(images) == {"a": "1.0-a", "b": "2.0-b"}
    slots.copy_in(image(tmp_path / "newer", "3.0-b"), images, "b")
    assert slots.names(images) == {"a": "1.0-a", "b": "3.0-b"}
    assert sorted(os.listdir(slots.home(images))) == ["a", "b"]
    slots.check(slots.home(images) / "b", "")


def test_what_a_power_cut_left_goes_with_the_next_copy(images: Path, tmp_path: Path) -> None:
    home = slots.home(images)
    image(home / "b.old", "1.5-b")
    (home / "b.new").mkdir()
    (home / "b.new/vmlinuz").write_text("half")
    slots.copy_in(image(tmp_path / "new", "2.0-b"), images, "b")
    assert sorted(os.listdir(home)) == ["a", "b"]


def test_the_slot_has_its_image_until_the_new_one_is_whole(images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At every step there is a whole image with the slot's name, but between two renames, and then both are whole."""
    slots.copy_in(image(tmp_path / "new", "2.0-b"), images, "b")
    home, seen, rename = slots.home(images), [], Path.rename

    def watched(path: Path, target: Path) -> Path:
        seen.append(sorted(os.listdir(home)))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", watched)
    slots.copy_in(image(tmp_path / "newer", "3.0-b"), images, "b")
    assert seen == [["a", "b", "b.new"], ["a", "b.new", "b.old"]]


@pytest.mark.parametrize("fault", ["disk", "checksum"])
def test_a_copy_that_fails_leaves_what_was_there(images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    slots.copy_in(image(tmp_path / "new", "2.0-b"), images, "b")
    copy = shutil.copy

    def faulty(source: Path, target: Path) -> None:
        if target.name == "filesystem.squashfs" and fault == "disk":
            raise OSError(errno.ENOSPC, "No space left on device", str(source), None, str(target))
        copy(source, target)
        if target.name == "filesystem.squashfs":
            target.write_text("something else")

    monkeypatch.setattr(shutil, "copy", faulty)
    with pytest.raises((OSError, ImageError)) as caught:
        slots.copy_in(image(tmp_path / "newer", "3.0-b"), images, "b")
    if isinstance(caught.value, OSError):
        assert told(caught.value).endswith("filesystem.squashfs: No space left on device: free some space there")
    else:
        assert "did not keep the data that was written" in str(caught.value)
    assert slots.names(images)["b"] == "2.0-b"
    assert sorted(os.listdir(slots.home(images))) == ["a", "b"]


def test_there_must_be_room_before_anything_is_copied(images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=1 << 20))
    monkeypatch.setattr(shutil, "copy", lambda *_paths: pytest.fail("it began to copy"))
    with pytest.raises(ImageError, match=r"needs 2 MiB and .* has 1 MiB free: remove"):
        slots.copy_in(image(tmp_path / "new", "2.0-b"), images, "b")


# -- signatures


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> tuple[steps.Steps, Path]:
    """A builder with a key."""
    place = tmp_path_factory.mktemp("builder")
    return steps.Steps(place / "log", {}), place / "keys/image.key"


def signed(builder: tuple[steps.Steps, Path], directory: Path, name: str) -> tuple[Path, Path]:
    """An image that the builder has signed, and a file system with his key in it."""
    path = image(directory / "live", name)
    root = directory / "root"
    signing.put_in(root, signing.public_key(*builder))
    signing.sign(builder[0], path, builder[1], name)
    return path, root / signing.IN_IMAGE


def test_an_image_of_a_known_builder_is_taken(builder: tuple[steps.Steps, Path], images: Path, tmp_path: Path) -> None:
    path, key = signed(builder, tmp_path, "2.0-b")
    assert builder[1].stat().st_mode & 0o777 == 0o600
    signature.verify(path, signature.known_keys([key.parent]))
    slots.copy_in(path, images, "b")
    signature.verify(slots.home(images) / "b", [key])


def test_a_stick_that_changes_while_it_is_read_is_found(
    builder: tuple[steps.Steps, Path], images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, key = signed(builder, tmp_path, "2.0-b")
    monkeypatch.setattr(signature.known_keys, "__defaults__", ((key.parent,),))
    slots.copy_in(path, images, "b", signed=True)
    evil = image(tmp_path / "evil", "2.0-b", size=2000)
    shutil.copy(path / signature.SIGNATURE, evil)
    with pytest.raises(ImageError, match="no key of this router matches"):
        slots.copy_in(evil, images, "b", signed=True)
    signature.verify(slots.home(images) / "b", [key])
    assert sorted(os.listdir(slots.home(images))) == ["a", "b"]


def test_two_signatures_of_one_image_are_the_same(builder: tuple[steps.Steps, Path], tmp_path: Path) -> None:
    found = {(signed(builder, tmp_path / n, "2.0-b")[0] / signature.SIGNATURE).read_bytes() for n in ("one", "two")}
    assert len(found) == 1


@pytest.mark.parametrize("change", ["sums", "signature", "key", "nothing known", "unsigned"])
def test_any_other_image_is_refused(builder: tuple[steps.Steps, Path], tmp_path: Path, change: str) -> None:
    path, key = signed(builder, tmp_path, "2.0-b")
    keys, sentence = [key], "no key of this router matches the signature"
    if change == "sums":
        (path / "vmlinuz").write_text("evil")
        sums = subprocess.run(["sha256sum", *slots.FILES[:3], "name"], cwd=path, capture_output=True, text=True, check=True).stdout
        (path / "SHA256SUMS").write_text(sums)
        slots.check(path, "its checksums agree")
    elif change == "signature":
        (path / signature.SIGNATURE).write_text("trust me\n")
    elif change == "key":
        keys = [signed((builder[0], tmp_path / "other.key"), tmp_path / "other", "2.0-b")[1]]
    elif change == "nothing known":
        keys = []
    else:
        (path / signature.SIGNATURE).unlink()
        sentence = "the image is not signed"
    with pytest.raises(ImageError, match=f"{sentence}.*or add the word without-signature"):
        signature.verify(path, keys)


def test_a_key_that_others_could_have_put_there_counts_for_nothing(builder: tuple[steps.Steps, Path], tmp_path: Path) -> None:
    _path, key = signed(builder, tmp_path, "2.0-b")
    assert signature.known_keys([key.parent, tmp_path / "none"]) == [key]
    key.parent.chmod(0o777)
    assert signature.known_keys([key.parent]) == []


def test_a_damaged_image_is_refused_with_the_remedy_that_fits(tmp_path: Path) -> None:
    path = image(tmp_path / "stick", "1.0-a")
    slots.check(path, "write the stick again")
    (path / "initrd.img").write_text("rotten")
    with pytest.raises(ImageError, match="damaged .*; write the stick again"):
        slots.check(path, "write the stick again")
    (path / "initrd.img").unlink()
    with pytest.raises(ImageError, match="initrd.img is missing"):
        slots.check(path, "write the stick again")


def test_only_a_mount_that_fails_makes_it_no_iso(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "some.iso"
    path.write_text("text")

    def runs(command: list[str], text: str | None = None) -> str:
        return ""

    monkeypatch.setattr("router_image.process.run", runs)
    with pytest.raises(ImageError, match="^mount of something else$"), slots.iso(path):
        raise ImageError("mount of something else")

    def fails(command: list[str], text: str | None = None) -> str:
        raise ImageError("mount failed: wrong fs type")

    monkeypatch.setattr("router_image.process.run", fails)
    with pytest.raises(ImageError, match="is not an ISO image"), slots.iso(path):
        pass


# -- GRUB


def test_the_menu_is_what_grub_understands(images: Path, tmp_path: Path) -> None:
    if not shutil.which("grub-script-check"):
        pytest.skip("grub-script-check is missing; install it with: apt install grub-common")
    path = tmp_path / "grub.cfg"
    path.write_text(boot.menu({"a": "1.0-a", "b": "2.0-b"}, slots.home(images)))
    subprocess.run(["grub-script-check", str(path)], check=True)


def test_an_installation_finds_its_own_partitions(images: Path) -> None:
    text = boot.menu({"a": "1.0-a"}, slots.home(images))
    assert "linux /images-0a1b2c3d/a/vmlinuz " in text
    assert " live-media-path=images-0a1b2c3d/a router.slot=a $mode\n" in text
    assert " persistence-label=config-0a1b2c3d " in text
    assert "name=config-0a1b2c3d" in disks.LAYOUT.format(installation="0a1b2c3d")
    older = boot.menu({"a": "1.0-a"}, Path("/somewhere/images"))
    assert " live-media-path=images/a router.slot=a $mode\n" in older
    assert "persistence-label" not in older


def test_only_the_start_of_the_image_itself_uses_its_chance_up(images: Path) -> None:
    menu, *entries = boot.menu({"a": "1.0-a", "b": "2.0-b"}, slots.home(images)).split("\nmenuentry ")
    assert "save_env" not in menu
    for number, slot in enumerate("ab"):
        assert f'if [ "$slot" = {slot} ]; then\n\t\tset fallback={number}\n' in menu
    for slot, entry in zip("ab", entries, strict=True):
        lines = [line.strip() for line in entry.splitlines()]
        assert lines[1:3] == ["set mode=", f'if [ "$trial" = {slot} -a "$tried" != yes ]; then']
        assert lines.index("save_env tried") < next(n for n, line in enumerate(lines) if line.startswith("linux "))


# -- trials


@dataclass
class Router:
    """The image that runs, whether it is on trial, GRUB's memory, what the router lacks, what was called."""

    here: str = "b"
    on_trial: bool = True
    memory: dict[str, str] = field(default_factory=dict)
    lacks: set[str] = field(default_factory=set)
    called: list[str] = field(default_factory=list)

    def change_memory(self, _images: Path, **values: str) -> None:
        self.memory = {key: value for key, value in {**self.memory, **values}.items() if value}

    def look(self, name: str) -> bool:
        return name not in self.lacks


@pytest.fixture
def router(monkeypatch: pytest.MonkeyPatch) -> Router:
    """A router with two images."""
    found = Router()
    monkeypatch.setattr(slots, "running", lambda: found.here)
    monkeypatch.setattr(slots, "on_trial", lambda: found.on_trial)
    monkeypatch.setattr(slots, "names", lambda _images: {"a": "1.0-a", "b": "2.0-b"})
    monkeypatch.setattr(slots, "home", lambda images: images)
    monkeypatch.setattr(slots, "check", lambda _directory, _remedy: None)
    monkeypatch.setattr(slots, "run", lambda _command: "")
    monkeypatch.setattr(boot, "write_menu", lambda _images: None)
    monkeypatch.setattr(boot, "read_memory", lambda _images: dict(found.memory))
    monkeypatch.setattr(boot, "change_memory", found.change_memory)
    looks = {name: (partial(found.look, name), missing) for name, (_holds, missing) in health.CHECKS.items()}
    monkeypatch.setattr(health, "CHECKS", looks)
    monkeypatch.setattr(subprocess, "run", lambda command, **_more: found.called.append(command[1]))
    return found


TRIAL = {"slot": "a", "trial": "b", "tried": "yes", "needed": "config,boot,frr"}


def test_a_trial_that_brings_everything_becomes_the_default(router: Router) -> None:
    router.memory = TRIAL
    commands.confirm()
    assert router.memory == {"slot": "b"}


def test_one_that_lacks_something_gives_way(router: Router, capsys: pytest.CaptureFixture[str]) -> None:
    router.memory, router.lacks = TRIAL, {"boot"}
    commands.confirm()
    assert router.memory == TRIAL
    assert router.called == ["reboot"]
    assert "the configuration was not applied" in capsys.readouterr().out
    # And the image before it writes that down.
    router.here, router.on_trial = "a", False
    commands.confirm()
    assert router.memory == {"slot": "a", "failed": "b"}


def test_a_trial_need_not_bring_what_was_missing_before(router: Router) -> None:
    router.here, router.on_trial, router.memory, router.lacks = "a", False, {"slot": "a"}, {"boot"}
    commands.default_boot("b")
    assert router.memory == {"slot": "a", "trial": "b", "needed": "config,frr"}
    router.memory = {**router.memory, "tried": "yes"}
    router.here, router.on_trial = "b", True
    commands.confirm()
    assert router.memory == {"slot": "b"}


@pytest.mark.parametrize(("needed", "lacking"), [(None, 3), ("none", 0), ("boot,frr", 2), ("boot,from-the-future", 1)])
def test_what_a_trial_must_bring(router: Router, needed: str | None, lacking: int) -> None:
    router.lacks = {"config", "boot", "frr"}
    assert len(health.lacking(needed)) == lacking
    assert health.holding() == "none"


def test_a_trial_that_was_called_off_stays_called_off(router: Router) -> None:
    router.memory = TRIAL
    commands.default_boot("a")
    assert router.memory == {"slot": "a"}
    commands.confirm()
    assert router.memory == {"slot": "a"}
    assert router.called == []


def test_the_running_image_becomes_the_default_at_once(router: Router) -> None:
    """Whoever has picked it in the menu sees that it works."""
    router.on_trial, router.memory = False, {"slot": "a", "failed": "b"}
    commands.default_boot("2.0-b")
    assert router.memory == {"slot": "b"}


def test_nobody_replaces_the_default(router: Router) -> None:
    with pytest.raises(ImageError, match="b is still on trial; wait"):
        commands._demand_default(TRIAL, "a")
    with pytest.raises(ImageError, match="default-boot b$"):
        commands._demand_default({"slot": "a"}, "a")
    commands._demand_default({"slot": "b"}, "a")


@pytest.mark.parametrize(("memory", "over"), [("trial=b\n", False), ("trial=a\n", True), ("slot=b\n", True), (None, False)])
def test_a_trial_is_over_when_it_was_confirmed_or_called_off(tmp_path: Path, memory: str | None, over: bool) -> None:
    line, grubenv = tmp_path / "cmdline", tmp_path / "grubenv"
    line.write_text("live-media-path=images-0a1b2c3d/b router.slot=b router.trial\n")
    if memory is not None:
        grubenv.write_text(("# GRUB Environment Block\nslot=a\n" + memory).ljust(1024, "#"))
    done = subprocess.run([str(PROGRAMS / "trial-over"), str(line), str(grubenv)], capture_output=True, check=False)
    assert (done.returncode == 0) == over


def test_commands_for_images_exclude_each_other(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with exclusive(False, lock):
        with pytest.raises(ImageError, match="wait until it ends"), exclusive(False, lock):
            pass
        waiting = subprocess.Popen(["flock", str(lock), "true"])
        time.sleep(0.2)
        assert waiting.poll() is None
    assert waiting.wait(timeout=10) == 0


# -- disks


def entry(path: str, **values: object) -> dict[str, object]:
    """A disk as lsblk tells of it."""
    usual = {"size": 8 << 30, "model": "Some ", "type": "disk", "ro": False, "rm": False, "tran": "sata", "fstype": None}
    return {"path": path, **usual, "label": None, "mountpoints": [None], **values}


def part(path: str, **values: object) -> dict[str, object]:
    return entry(path, type="part", **values)


FOUND = [
    entry("/dev/sda", tran="usb", fstype="iso9660", label=iso.LABEL),
    entry("/dev/sdb", tran="usb"),
    entry("/dev/sdc", rm=True),
    entry("/dev/sdd", children=[part("/dev/sdd1", fstype="iso9660", label=iso.LABEL)]),
    entry("/dev/sde", children=[part("/dev/sde1", mountpoints=["/config"])]),
    entry("/dev/sdf", size=1 << 30),
    entry("/dev/nvme0n1", tran="nvme", model=None),
    entry("/dev/sr0", type="rom"),
    entry("/dev/sdg", ro=True),
]


def test_disks_that_are_offered(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Not the stick that the image came from; and none that can be pulled out for a mere Enter."""
    found = disks.read({"blockdevices": FOUND})
    assert [disk.path for disk in found if disk.free] == ["/dev/sdb", "/dev/sdc", "/dev/nvme0n1"]
    asked: list[str] = []
    monkeypatch.setattr(disks, "disks", lambda: found)

    def answer(text: str) -> str:
        asked.append(text)
        return ""

    monkeypatch.setattr("builtins.input", answer)
    assert disks.ask() == "/dev/nvme0n1"
    assert asked == ["Install on which disk? [/dev/nvme0n1] "]
    assert "/dev/sdb  9 GB  usb  Some" in capsys.readouterr().out
    monkeypatch.setattr(disks, "disks", lambda: found[:3])
    with pytest.raises(ImageError, match="no disk was selected"):
        disks.ask()
    assert asked[1] == "Install on which disk? "


@pytest.mark.parametrize("sector", [512, 4096])
def test_the_efi_partition_is_fat32_for_the_firmware_too(tmp_path: Path, sector: int) -> None:
    """EDK2 refuses a FAT32 with fewer clusters than the standard has."""
    if not shutil.which("mkfs.fat"):
        pytest.skip("mkfs.fat is missing; install it with: apt install dosfstools")
    size = re.search(r"size=(\d+)MiB, .*name=efi", disks.LAYOUT)
    assert size
    path = tmp_path / "efi"
    with path.open("wb") as file:
        file.truncate(int(size[1]) << 20)
    subprocess.run(["mkfs.fat", "-F", "32", "-S", str(sector), str(path)], check=True, capture_output=True)
    with path.open("rb") as file:
        head = file.read(64)
    per_cluster, reserved, tables = struct.unpack_from("<BHB", head, 13)
    sectors, per_table = struct.unpack_from("<I", head, 32)[0], struct.unpack_from("<I", head, 36)[0]
    assert struct.unpack_from("<H", head, 11)[0] == sector
    assert (sectors - reserved - tables * per_table) // per_cluster >= 65525


# -- settings below /config


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The top of a router's file system; programs that change it only write down that they were called."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("usermod", "chage", "hostname", "systemctl", "getent"):
        (programs / name).write_text(f'#!/bin/sh\necho {name} "$@" >>{tmp_path}/called\n')
        (programs / name).chmod(0o755)
    (programs / "hostname").write_text('#!/bin/sh\ntest -s "$2"\n')
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    path = tmp_path / "top"
    (path / "etc").mkdir(parents=True)
    (path / "etc/hostname").write_text("router\n")
    (path / "etc/resolv.conf").symlink_to("../run/systemd/resolve/stub-resolv.conf")
    (path / "config/etc").mkdir(parents=True)
    (path / "config/passwords").write_text("admin:$6$salt$hash:20000\nother:$6$salt$hash:20001\n")
    return path


def settings(top: Path, verb: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(PROGRAMS / "settings"), verb, str(top)], capture_output=True, text=True, check=False)


def test_a_bad_file_does_not_keep_passwords_back(top: Path) -> None:
    (top / "config/etc/hostname").write_text("")
    (top / "config/etc/resolv.conf").write_text("nameserver 192.0.2.53\n")
    (top / "etc/frr").write_text("a file where a directory shall be")
    (top / "config/etc/frr").mkdir()
    (top / "config/etc/zzz").write_text("the last one")
    done = settings(top, "restore")
    assert done.returncode == 1
    assert "/frr'" in done.stderr
    assert "hostname" in done.stderr
    called = (top.parent / "called").read_text()
    assert "usermod --password $6$salt$hash admin\nchage --lastday 20000 admin\n" in called
    assert "usermod --password $6$salt$hash other\n" in called
    assert (top / "etc/resolv.conf").read_text() == "nameserver 192.0.2.53\n"
    assert not (top / "etc/resolv.conf").is_symlink()
    assert (top / "etc/zzz").exists()


def test_what_is_right_is_restored_without_a_word(top: Path) -> None:
    (top / "config/etc/hostname").write_text("R1\n")
    done = settings(top, "restore")
    assert (done.returncode, done.stderr) == (0, "")
    assert (top / "etc/hostname").read_text() == "R1\n"


def test_changed_passwords_are_kept(top: Path) -> None:
    (top / "etc/shadow").write_text("root:!:19000::::::\nadmin:$6$x$new:20500:0:99999:7:::\nfresh:$6$x$image:0:0::::\n")
    assert settings(top, "keep").returncode == 0
    assert (top / "config/passwords").read_text() == "admin:$6$x$new:20500\nother:!:-1\n", "other is gone"


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def test_directories_of_etc_keep_their_owner_and_mode(top: Path) -> None:
    """Somebody with a umask of 077 has made those below /config."""
    wireguard, frr, network, new = (top / "etc" / name for name in ("wireguard", "frr", "systemd/network", "new"))
    for path, is_mode in ((top / "etc", 0o755), (wireguard, 0o700), (frr, 0o2750), (network.parent, 0o755), (network, 0o755)):
        path.mkdir(exist_ok=True)
        path.chmod(is_mode)
    os.chown(frr, 1234, 1234)
    frr.chmod(0o2750)
    overlay = top / "config/etc"
    for name in ("wireguard", "frr", "systemd/network", "new/deep"):
        (overlay / name).mkdir(parents=True)
    (overlay / "wireguard/wg0.conf").write_text("[Interface]\n")
    (overlay / "frr/frr.conf").write_text("!\n")
    (overlay / "frr/frr.conf").chmod(0o640)
    os.chown(overlay / "frr/frr.conf", 1234, 1234)
    (overlay / "systemd/network/a name with spaces.network").write_text("[Match]\n")
    (overlay / "new/deep/file").write_text("new\n")
    (overlay / "link").symlink_to("hostname")
    for path in (overlay, *(path for path in overlay.rglob("*") if path.is_dir())):
        path.chmod(0o700)
    (overlay / "wireguard").chmod(0o755)
    done = settings(top, "restore")
    assert (done.returncode, done.stderr) == (0, "")
    assert [mode(path) for path in (top / "etc", wireguard, frr, network)] == [0o755, 0o700, 0o2750, 0o755]
    assert (frr.stat().st_uid, frr.stat().st_gid) == (1234, 1234)
    assert (mode(frr / "frr.conf"), (frr / "frr.conf").stat().st_uid) == (0o640, 1234)
    assert [mode(path) for path in (new, new / "deep")] == [0o700, 0o700], "what only the overlay has is as it is there"
    assert (new / "deep/file").read_text() == "new\n"
    assert (wireguard / "wg0.conf").exists() and (network / "a name with spaces.network").exists()
    assert (top / "etc/link").is_symlink()


@pytest.mark.parametrize(
    ("known", "shadow", "kept"),
    [
        ("", "admin:!$6$x$new:20500:0:99999:7:::", "admin:!$6$x$new:20500"),  # passwd -l
        ("", "admin:!$6$x$image:0:0:99999:7:::", "admin:!$6$x$image:0"),  # before the password was ever changed
        ("", "admin::20500:0:99999:7:::", "admin::20500"),  # passwd -d
        ("admin:$6$x$own:20000", "admin:*:20500:0:99999:7:::", "admin:*:20500"),  # usermod -p '*'
        ("admin:$6$x$own:20000", "admin:!:20500:0:99999:7:::", "admin:!:20500"),
        ("admin:$6$x$own:20000", "admin:$6$x$own:0:0:99999:7:::", "admin:$6$x$own:0"),  # passwd -e
        ("admin:$6$x$own:20000", "admin:$6$x$own::0:99999:7:::", "admin:$6$x$own:-1"),  # chage -d -1
        ("admin:$6$x$own:20000", "bob:*:20500:0:99999:7:::", "admin:!:-1"),  # userdel
    ],
)
def test_a_login_that_was_closed_does_not_get_the_images_password_back(top: Path, known: str, shadow: str, kept: str) -> None:
    (top / "config/passwords").unlink()
    if known:
        (top / "config/passwords").write_text(f"{known}\n")
    (top / "etc/shadow").write_text(f"root:!*:19000::::::\n{shadow}\nsshd:!:19000::::::\n")
    assert settings(top, "keep").returncode == 0
    assert (top / "config/passwords").read_text() == f"{kept}\n"
    assert settings(top, "restore").returncode == 0
    _user, password, day = kept.split(":")
    assert f"usermod --password {password} admin\nchage --lastday {day} admin\n" in (top.parent / "called").read_text()


def test_a_host_key_is_whole_or_not_there(tmp_path: Path) -> None:
    if not shutil.which("ssh-keygen"):
        pytest.skip("ssh-keygen is missing; install it with: apt install openssh-client")
    key = tmp_path / "ssh_host_ed25519_key"
    key.write_text("")  # what a power cut leaves of one that was written under its name
    (tmp_path / "ssh_host_ed25519_key.new").write_text("half")
    subprocess.run([str(PROGRAMS / "host-key"), str(key)], check=True)
    assert "PRIVATE KEY" in key.read_text()
    assert sorted(os.listdir(tmp_path)) == [key.name, f"{key.name}.pub"]
    before = key.read_bytes()
    subprocess.run([str(PROGRAMS / "host-key"), str(key)], check=True)
    assert key.read_bytes() == before


# -- the build


def test_the_build_gives_the_reason_of_a_program(tmp_path: Path) -> None:
    with pytest.raises(steps.BuildError, match="^git log failed: fatal: not a git repository"):
        steps.output(["git", "log"], cwd=tmp_path)
    with pytest.raises(steps.BuildError, match="cannot be run"):
        steps.output(["no-such-program"])


def test_a_tree_without_git_can_be_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loader = importlib.machinery.SourceFileLoader("image_build", str(IMAGE / "build"))
    spec = importlib.util.spec_from_loader("image_build", loader)
    assert spec
    build = importlib.util.module_from_spec(spec)
    loader.exec_module(build)
    (tmp_path / "packages/zerotier-multi/debian").mkdir(parents=True)
    (tmp_path / "packages/zerotier-multi/debian/changelog").write_text("zerotier-multi (0.3) bookworm; urgency=low\n")
    monkeypatch.setattr(build, "ROOT", tmp_path)
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    with pytest.raises(steps.BuildError, match="set SOURCE_DATE_EPOCH"):
        build.identity()
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1767225600")
    assert (build.identity().name, build.identity().epoch) == ("0.3-20260101000000", 1767225600)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "today")
    with pytest.raises(steps.BuildError, match="seconds since 1970"):
        build.identity()


def test_the_lock_is_roots_alone(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.touch(0o644)
    with exclusive(False, lock):
        assert lock.stat().st_mode & 0o777 == 0o600
