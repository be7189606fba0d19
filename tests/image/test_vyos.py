"""An image of VyOS: started live, installed by VyOS's own dialogue, started from its disk, and our smoketest on it.

make check-iso ISO=build/vyos/NAME.iso EDITION=vyos IMAGE_TESTS=tests/image/test_vyos.py
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.edition import Edition
from lab.person import Person
from lab.vm import Hardware, Vm, new_disk
from tests.image.conftest import Figures, first_login, hardware, until

if os.environ.get("EDITION") != "vyos":
    pytest.skip("for an image of VyOS: EDITION=vyos", allow_module_level=True)

# What VyOS 1.4 and 1.5 ask (vyos-1x: src/op_mode/image_installer.py); an empty answer takes what is proposed.
DIALOGUE = (
    ("Would you like to continue?", "y"),
    ("What would you like to name this image?", ""),
    ('Please enter a password for the "vyos" user:', "vyos"),
    ('Please confirm password for the "vyos" user:', "vyos"),
    ("What console should be used by default?", "S"),
    ("Which one should be used for installation?", ""),
    ("Installation will delete all data on the drive. Continue?", "y"),
    ("Would you like to use all the free space on the drive?", "y"),
    ("Which file would you like as boot config?", ""),
)
ZT0 = "set interfaces zerotier zt0"
UNDERLAY = ["set interfaces ethernet eth0 address 198.51.100.9/24"]
BUNDLE = [
    f"{ZT0} instances 2",
    f"{ZT0} network-id 8056c2e21c000001",
    f"{ZT0} controller-free",
    f"{ZT0} transit prefix 10.14.0.0/28",
    f"{ZT0} transit site 1",
    f"{ZT0} address 10.0.55.1/32",
    f"{ZT0} remote R2 prefix 10.0.55.2/32",
]


@pytest.fixture(scope="module")
def installed(
    machine: Callable[[str, Hardware], Vm], iso: Path, edition: Edition, figures: Figures, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Person]:
    """A router that was installed from the ISO under BIOS and has started from its disk."""
    disk = new_disk(tmp_path_factory.mktemp("disk") / "disk.qcow2", 8192)
    vm = machine("vyos", hardware(edition, iso=iso, disks=[disk], uplink=True))
    vm.start()
    person = Person(vm, edition)
    figures["power on to prompt, BIOS, CD (s)"] = first_login(person)
    person.configure(UNDERLAY, save=True)
    vm.console.send("install image\r")
    for question, answer in DIALOGUE:
        vm.console.expect(re.escape(question), timeout=300)
        vm.console.send(answer + "\r")
    vm.console.expect("The image installed successfully", timeout=1200)
    vm.console.expect(edition.op, timeout=60)
    power_off(person)
    vm.hardware.iso = None
    power_on(person)
    yield person


def power_off(person: Person) -> None:
    """Switch it off in order."""
    person.vm.console.send("poweroff now\r")
    person.vm.wait_off()


def power_on(person: Person) -> None:
    """Switch it on and log in."""
    person.vm.start()
    person.wait_login()
    person.login()


def identity(person: Person) -> list[str]:
    """The lines that make this router known to another one."""
    text = person.op("show zerotier zt0 identity name R1")
    return re.findall(r"instance \d+ identity \S+", text)


def both_run(person: Person) -> bool:
    """Whether both instances are up."""
    return bool(re.search(r"^zt0 .* 2/2 ", person.op("show zerotier"), re.MULTILINE))


def test_the_example_and_its_restart(installed: Person) -> None:
    """Identities are the same after a restart, and VyOS knows ztN as an interface."""
    installed.configure(BUNDLE, save=True)
    until(lambda: both_run(installed), "both instances")
    known = identity(installed)
    assert len(known) == 2
    if os.environ.get("BRANCH", "rolling") == "rolling":
        assert re.search(r"^zt0 +10\.0\.55\.1/32 ", installed.op("show interfaces"), re.MULTILINE)
    installed.reboot()
    until(lambda: both_run(installed), "both instances after the restart")
    assert identity(installed) == known


def test_a_vrf(installed: Person) -> None:
    """It takes the bundle like VyOS's own interfaces, with its zone of connections."""
    installed.configure(["set vrf name red table 101", f"{ZT0} vrf red"])
    zones = "nft list map inet vrf_zones ct_iface_map"
    until(lambda: all(f'"{name}" : 101' in installed.root(zones) for name in ("zt0", "zt0p1", "zt0p2")), "the zones")
    assert "master red" in installed.op("ip link show zt0p2")
    installed.configure(["delete interfaces zerotier zt0 vrf"])
    until(lambda: '"zt0' not in installed.root(zones), "no zones")
    installed.configure(["delete vrf"])


def test_the_same_disk_starts_under_uefi(installed: Person) -> None:
    known = identity(installed)
    power_off(installed)
    installed.vm.hardware.firmware = "uefi"
    power_on(installed)
    until(lambda: both_run(installed), "both instances under UEFI")
    assert identity(installed) == known


def test_the_installed_smoketest(installed: Person) -> None:
    """As the user that VyOS runs its own as. Release images have VyOS's smoketests left out, and so the base of ours."""
    if "No such file" in installed.op("ls /usr/libexec/vyos/tests/smoke/cli/base_vyostest_shim.py 2>&1"):
        pytest.skip("a release build has no smoketests")
    text = installed.smoketest()
    assert len(re.findall(r"^OK", text, re.MULTILINE)) == 2, text[-4000:]
