"""The image starts under BIOS and UEFI, from CD and stick, and its first login asks for a new password."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lab.edition import Edition
from lab.person import Person
from lab.process import LabError
from lab.vm import Hardware, Vm
from tests.image.conftest import FIRMWARE, Figures, first_login, hardware, secure


@pytest.mark.parametrize(
    ("firmware", "medium"),
    [("uefi", "stick"), ("bios", "stick"), ("secure", "iso")],
)
def test_it_starts(
    machine: Callable[[str, Hardware], Vm], iso: Path, edition: Edition, figures: Figures,
    firmware: str, medium: str,
) -> None:  # fmt: skip
    if firmware == "secure" and not edition.secure_boot:
        pytest.skip(f"{edition.name} is not signed by a key that firmware has")
    if firmware == "uefi" and not edition.secure_boot:
        pytest.skip("R2 of test_pair.py starts so")
    parts = hardware(edition, firmware=firmware, uplink=True)
    setattr(parts, medium, iso)
    with machine(f"{firmware}-{medium}", parts) as vm:
        vm.start()
        person = Person(vm, edition)
        what = f"{FIRMWARE[firmware]}, {'CD' if medium == 'iso' else medium}"
        figures[f"power on to prompt, {what} (s)"] = first_login(person)
        assert firmware != "secure" or secure(person)
        assert "0 loaded units listed" in person.op("systemctl --failed --no-pager")


def test_the_first_login(machine: Callable[[str, Hardware], Vm], iso: Path, edition: Edition, figures: Figures) -> None:
    """The password of the image opens nothing but the question for another one; what is typed wrong is refused."""
    if not edition.must_change:
        pytest.skip(f"{edition.name} comes with a password that stays")
    with machine("first", Hardware(iso=iso, uplink=True)) as vm:
        vm.start()
        person = Person(vm, edition)
        figures["power on to prompt, BIOS, CD (s)"] = first_login(person)
        groups = person.op("id -nG").split()
        assert {"vyattacfg", "sudo"} <= set(groups)
        assert person.op("getent passwd admin").endswith(":/usr/bin/ztsh")
        assert person.op("systemctl is-active ssh.service") == "inactive"
        assert person.op("systemctl is-active logrotate.timer") == "active"
        assert "10.0.2.15/24" in person.op("ip -4 -br address"), "the first port has no address by DHCP"
        # Nothing of the machine that built it.
        left = "find /etc/ssh -name ssh_host_\\*; find /var/lib/apt/lists -type f; find /var/log -name dpkg.log"
        assert person.root(left) == ""
        assert "deb.debian.org" in person.op("cat /etc/apt/sources.list")
        # The image's password is no longer good, the new one is.
        vm.console.send("exit\r")
        vm.console.expect(edition.login, timeout=60)
        stranger = Person(vm, edition, password=edition.password)
        with pytest.raises(LabError, match="refused"):
            stranger.login()
        person.login()
