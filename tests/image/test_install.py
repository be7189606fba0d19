"""From the stick to the disk, another image beside it, and back when that one does not come up."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.edition import Edition
from lab.person import Person
from lab.vm import Hardware, Vm, new_disk
from tests.image.conftest import Figures, first_login, secure, until

pytestmark = pytest.mark.long

DESCRIPTION = "kept over images"


@pytest.fixture(scope="module")
def two_disks(tmp_path_factory: pytest.TempPathFactory, edition: Edition) -> list[Path]:
    if edition.name != "debian":
        pytest.skip("VyOS has its own install image")
    place = tmp_path_factory.mktemp("disks")
    return [new_disk(place / f"disk{number}.qcow2", 4096) for number in (1, 2)]


@pytest.fixture(scope="module")
def installed(machine: Callable[[str, Hardware], Vm], iso: Path, two_disks: list[Path], edition: Edition) -> Iterator[Person]:
    """A router that was installed from the ISO on both its disks and has started from the first one, under BIOS."""
    vm = machine("install", Hardware(iso=iso, disks=two_disks))
    vm.start()
    person = Person(vm, edition)
    first_login(person)
    person.configure([f"set interfaces zerotier zt0 description '{DESCRIPTION}'", *BUNDLE], save=True)
    console = vm.console
    console.send("install image\r")
    console.expect(re.escape(f"Install on which disk? [{edition.disk}] "), timeout=120)
    console.send("\r")
    console.expect("Type yes to continue: ", timeout=60)
    console.send("yes\r")
    console.expect("Done. ", timeout=600)
    console.expect(edition.op, timeout=60)
    assert "Done. " in person.op(f"sudo {PROGRAM} install --disk {SECOND_DISK} --yes", timeout=600)
    power_off(person)
    vm.hardware.iso, vm.hardware.first = None, "disk"
    power_on(person)
    yield person


PROGRAM = "/usr/libexec/router-image/image"
SECOND_DISK = "/dev/vdb"
BUNDLE = [
    "set interfaces zerotier zt0 instances 1",
    "set interfaces zerotier zt0 network-id 8056c2e21c000001",
    "set interfaces zerotier zt0 controller-free",
    "set interfaces zerotier zt0 transit prefix 10.14.0.0/28",
    "set interfaces zerotier zt0 transit site 1",
    "set interfaces zerotier zt0 address 10.0.55.1/32",
    "set interfaces zerotier zt0 remote R2 prefix 10.0.55.2/32",
]


def running(person: Person) -> str:
    """What show system image says of the image that runs."""
    text = person.op("show system image")
    return next(line for line in text.splitlines() if "running" in line)


def sources(person: Person) -> list[str]:
    """Where the running image and /config are."""
    return person.op("findmnt -no SOURCE /run/live/medium; findmnt -no SOURCE /config").split()


def start_again(person: Person) -> None:
    """Restart into an image that gives way to another one by itself, and log in to that one."""
    console = person.vm.console
    console.send("reboot now\r")
    for _start in range(2):
        console.expect("GNU GRUB", timeout=person.edition.boot)
    person.wait_login()
    person.login()


def test_it_starts_from_the_disk(installed: Person) -> None:
    """With the password and the configuration that it was installed with."""
    assert DESCRIPTION in installed.op("show configuration commands | no-more")
    assert sources(installed) == ["/dev/vda3", "/dev/vda4[/config]"]
    until(lambda: "default" in running(installed), "image a as the default")
    assert running(installed).startswith("a ")


def power_off(person: Person) -> None:
    """Switch it off in order."""
    person.vm.console.send("poweroff now\r")
    person.vm.wait_off()


def power_on(person: Person) -> float:
    """Switch it on and log in; the seconds to the prompt."""
    person.vm.start()
    seconds = person.wait_login()
    person.login()
    return seconds


def test_the_same_disk_starts_under_uefi(installed: Person, iso: Path) -> None:
    """And files below /config that cannot be laid over /etc do not bring the image's password back."""
    installed.root("mkdir -p /config/etc; : >/config/etc/hostname; echo nameserver 192.0.2.53 >/config/etc/resolv.conf")
    installed.root("echo 'table inet kept {}' >/config/etc/nftables.conf")
    power_off(installed)
    installed.vm.hardware.firmware = "secure"
    installed.vm.hardware.iso = iso
    power_on(installed)
    assert secure(installed)
    assert DESCRIPTION in installed.op("show configuration commands | no-more")
    assert installed.op("cat /etc/resolv.conf") == "nameserver 192.0.2.53"
    assert "/config/etc/hostname" in installed.root("journalctl -b -u router-settings --no-pager")
    assert "table inet kept" in installed.root("nft list tables")
    installed.root("rm /config/etc/hostname /config/etc/resolv.conf /config/etc/nftables.conf")


def test_another_image_takes_over_once_it_has_come_up(installed: Person, figures: Figures) -> None:
    assert "is not a file" in installed.op("add system image /tmp/nothing.iso")
    assert "is not an ISO image" in installed.op("add system image /etc/passwd")
    installed.root("mkdir -p /tmp/none && mount --bind /tmp/none /usr/share/router-image/keys")
    assert "no key of this router matches the signature" in installed.op("add system image /dev/sr0")
    installed.root("umount /usr/share/router-image/keys")
    until(lambda: "default" in running(installed), "image a as the default")
    assert "will be tried" in installed.op("add system image /dev/sr0", timeout=600)
    assert "tried at the next start" in installed.op("show system image")
    power_off(installed)
    installed.vm.hardware.firmware = "bios"
    figures["power on to prompt, BIOS, from its disk (s)"] = power_on(installed)
    until(lambda: "default" in running(installed), "image b as the default")
    assert running(installed).startswith("b ")
    assert DESCRIPTION in installed.op("show configuration commands | no-more")


def change_disk(person: Person, command: str) -> None:
    """Do something on the partition of the images."""
    medium = "/run/live/medium"
    person.root(f"mount -o remount,rw {medium} && cd {medium} && {command}; cd /; mount -o remount,ro {medium}")


def is_left(person: Person) -> None:
    """Image a was tried, b runs again, and it is told why."""
    assert running(person).startswith("b ")
    until(lambda: "did not come up" in person.op("show system image"), "what became of image a")


def try_broken(person: Person, command: str) -> None:
    """Start image a after something was done to its files; it is left."""
    assert "uses image a" in person.op("set system image default-boot a", timeout=600)
    change_disk(person, f"cd images-*/a && {command}")
    person.reboot()
    is_left(person)


def test_only_a_trial_that_is_pending_runs_out_of_time(installed: Person) -> None:
    """The quarter of an hour is over when somebody starts what the timer starts."""
    ends = "systemctl start router-image-trial.service"
    installed.root(ends)
    assert running(installed).startswith("b ")
    change_disk(installed, "grub-editenv boot/grub/grubenv set trial=b")
    installed.vm.console.send(f"echo '{installed.password}' | sudo -S {ends}\r")
    installed.wait_login()
    installed.login()
    until(lambda: "default" in running(installed), "image b as the default")
    assert running(installed).startswith("b ")


def test_one_that_does_not_come_up_is_left(installed: Person) -> None:
    """Its file system is broken: the kernel gives up, and GRUB takes the one that worked, by itself."""
    try_broken(installed, "truncate -s 1M filesystem.squashfs")
    assert "is damaged" in installed.op("set system image default-boot a", timeout=600)
    # And it stays left.
    installed.reboot()
    assert running(installed).startswith("b ")
    assert DESCRIPTION in installed.op("show configuration commands | no-more")


def test_the_power_goes_while_an_image_is_added(installed: Person) -> None:
    """Half an image is none."""
    vm = installed.vm
    before = vm.writes()
    vm.console.send("add system image /dev/sr0\r")
    until(lambda: vm.writes() > before + 60, "some writes of the copy")
    vm.cut_power()
    power_on(installed)
    assert running(installed).startswith("b ")
    assert "will be tried" in installed.op("add system image /dev/sr0", timeout=600)


REFUSES = "/config/etc/systemd/system/ztsh-boot.service.d"


def test_one_that_does_not_carry_the_configuration_out_is_left(installed: Person) -> None:
    """It has come up otherwise: somebody can log in, FRR runs."""
    # What the image before it did, it must do.
    script = r"#!/bin/sh\nztsh boot || exit 1\ngrep -q router.trial /proc/cmdline && exit 1\nexit 0\n"
    installed.root(f'printf "{script}" >/config/refuse; chmod +x /config/refuse; mkdir -p {REFUSES}')
    installed.root(f'printf "[Service]\\nExecStart=\\nExecStart=/config/refuse\\n" >{REFUSES}/refuse.conf')
    start_again(installed)
    is_left(installed)
    installed.root(f"rm -r {REFUSES} /config/refuse")


def test_one_that_cannot_even_be_loaded_is_left(installed: Person) -> None:
    """GRUB goes on to the other one without anybody at the console."""
    try_broken(installed, "mv vmlinuz away")
    change_disk(installed, "cd images-*/a && mv away vmlinuz")
    assert "uses image a" in installed.op("set system image default-boot a", timeout=600)
    installed.reboot()
    until(lambda: "default" in running(installed), "image a as the default")
    assert running(installed).startswith("a ")


def test_each_of_two_disks_has_its_own(installed: Person) -> None:
    """Started from the second one while the first is there, its images and its /config are those of the second."""
    installed.root("touch /config/first")
    power_off(installed)
    installed.vm.hardware.first_disk = 1
    power_on(installed)
    assert sources(installed) == ["/dev/vdb3", "/dev/vdb4[/config]"]
    assert DESCRIPTION in installed.op("show configuration commands | no-more")
    assert "cannot access" in installed.op("ls /config/first")
    assert len(installed.op("show system image").splitlines()) == 3, "an image that only the first disk has"
