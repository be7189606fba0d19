"""The power goes while a configuration is committed or saved, on both routers, again and again.

What is varied is how many writes of the commit or save reach the disk: one, two, … up to all. QEMU is killed then, so
what the machine has not flushed is lost.
"""

from __future__ import annotations

import os
import time

import pytest

from lab.process import LabError
from tests.image.conftest import Figures, until
from tests.image.ends import INSTANCES, End

pytestmark = pytest.mark.long

ROUNDS = (int(os.environ.get("POWER_CUTS", "4")) + 1) // 2
PHASES = ("commit", "save")
MOST_WRITES = 10  # a commit or a save makes about as many


@pytest.fixture(scope="module")
def before(link: list[End]) -> dict[int, tuple[list[object], list[str]]]:
    """Identities and configuration of each."""
    return {end.number: (end.nodes(), without_mtu(end)) for end in link}


def without_mtu(end: End) -> list[str]:
    """What is configured but for the MTU, which is what changes here."""
    return [line for line in end.commands().splitlines() if " mtu " not in line]


def mtu(end: End) -> int:
    """The MTU that is configured."""
    return int(end.person.op("show configuration commands | match mtu").split("'")[1])


@pytest.mark.parametrize("number", range(1, ROUNDS + 1))
def test_the_power_goes(link: list[End], before: dict[int, tuple[list[object], list[str]]], figures: Figures, number: int) -> None:
    """It starts again with a whole configuration: the saved one, or the one that was being saved."""
    first = 1280 + 10 * number
    for end in link:
        cut(end, PHASES[(number + end.number) % 2], first, writes=1 + (number - 1 + 5 * end.number) % MOST_WRITES)
    for end in link:
        end.person.vm.hardware.firmware = "bios"  # which is quicker where it is emulated
        end.person.vm.start()
    for end in link:
        end.person.wait_login()
        end.person.login()
    for end in link:
        phase = PHASES[(number + end.number) % 2]
        kept = mtu(end)
        assert kept == first or (phase == "save" and kept == first + 1), f"{phase}: {kept}, not {first}"
        nodes, commands = before[end.number]
        assert without_mtu(end) == commands
        until(lambda end=end, nodes=nodes: end.nodes() == nodes, "the instances with their identities")  # type: ignore[misc]
        # The archive can be read, and a router with half a commit takes the next one.
        assert " via " in end.person.op("show system commit | no-more | head -3")
        assert "0 loaded units listed" in end.person.op("systemctl --failed --no-pager")
        figures[f"power cut during {phase}"] = int(figures.get(f"power cut during {phase}", 0)) + 1
    for end in link:
        until(end.all_up, f"R{end.number}: {INSTANCES} paths up", timeout=300)


def cut(end: End, phase: str, first: int, writes: int) -> None:
    """Save one MTU, then commit and save another one, and take the power away after some writes of that phase."""
    person, vm = end.person, end.person.vm
    person.configure([f"set interfaces zerotier zt0 mtu {first}"], save=True)
    for line in ("configure", f"set interfaces zerotier zt0 mtu {first + 1}", *(["commit"] if phase == "save" else [])):
        person.line(line, person.edition.conf)
    start = vm.writes()
    vm.console.send(f"{phase}\r")
    limit = time.monotonic() + 120
    while vm.writes() < start + writes:
        if time.monotonic() > limit:
            raise LabError(f"R{end.number}: a {phase} made no {writes} writes")
    vm.cut_power()
