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
def disk(tmp_path_factory: pytest.TempPathFactory, edition: Edition) -> Path:
    if edition.name != "debian":
        pytest.skip("VyOS has its own install image")
    return new_disk(tmp_path_factory.mktemp("disk") / "disk.qcow2", 4096)


@pytest.fixture(scope="module")
def installed(machine: Callable[[str, Hardware], Vm], iso: Path, disk: Path, edition: Edition) -> Iterator[Person]:
    """A router that was installed from the ISO and has started from its disk, under BIOS."""
    vm = machine("install", Hardware(iso=iso, disks=[disk]))
    vm.start()
    person = Person(vm, edition)
    first_login(person)
    person.configure([f"set interfaces zerotier zt0 description '{DESCRIPTION}'", *BUNDLE], save=True)
    console = vm.console
    console.send("install image\r")
    console.expect(re.escape(f"Install on which disk? [{edition.disk}] "), timeout=120)
    console.send("\r")
    console.expect("Type yes to go on: ", timeout=60)
    console.send("yes\r")
    console.expect("Done. ", timeout=600)
    console.expect(edition.op, timeout=60)
    power_off(person)
    vm.hardware.iso = None
    power_on(person)
    yield person


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


def test_it_starts_from_the_disk(installed: Person) -> None:
    """With the password and the configuration that it was installed with."""
    assert DESCRIPTION in installed.op("show configuration commands | no-more")
    assert "/config" in installed.op("findmnt --noheadings --output SOURCE,TARGET /config")
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
    power_off(installed)
    installed.vm.hardware.firmware = "secure"
    installed.vm.hardware.iso, installed.vm.hardware.first = iso, "disk"
    power_on(installed)
    assert secure(installed)
    assert DESCRIPTION in installed.op("show configuration commands | no-more")


def test_another_image_takes_over_once_it_has_come_up(installed: Person, figures: Figures) -> None:
    assert "is no file" in installed.op("add system image /tmp/nothing.iso")
    assert "is no ISO" in installed.op("add system image /etc/passwd")
    until(lambda: "default" in running(installed), "image a as the default")
    assert "will be tried" in installed.op("add system image /dev/sr0", timeout=600)
    assert "tried at the next start" in installed.op("show system image")
    power_off(installed)
    installed.vm.hardware.firmware = "bios"
    figures["power on to prompt, BIOS, from its disk (s)"] = power_on(installed)
    until(lambda: "default" in running(installed), "image b as the default")
    assert running(installed).startswith("b ")
    assert DESCRIPTION in installed.op("show configuration commands | no-more")


def test_one_that_does_not_come_up_is_left(installed: Person) -> None:
    """Its file system is broken: the kernel gives up, and GRUB takes the one that worked, by itself."""
    installed.root(
        "mount -o remount,rw /run/live/medium && truncate -s 1M /run/live/medium/images/a/filesystem.squashfs "
        "&& mount -o remount,ro /run/live/medium"
    )
    assert "takes image a" in installed.op("set system image default-boot a")
    installed.reboot()
    assert running(installed).startswith("b ")
    until(lambda: "did not come up" in installed.op("show system image"), "what became of image a")
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
    installed.reboot()
    until(lambda: "default" in running(installed), "image a as the default")
    assert running(installed).startswith("a ")
