"""Machines for the tests of an image. They need an ISO and half an hour or more, so ``make test`` leaves them out:
nothing of this folder is collected unless ``ISO`` names one (``make test-image``, ``make check-iso``).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

ISO = os.environ.get("ISO", "")
collect_ignore_glob = [] if ISO else ["test_*.py"]

if ISO:
    from lab.edition import EDITIONS, Edition
    from lab.person import Person
    from lab.vm import Hardware, Vm, new_cable, patience

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

    from tests.image.ends import End

NEW_PASSWORD = "cold-Rain-73"
FIRMWARE = {"bios": "BIOS", "uefi": "UEFI", "secure": "Secure Boot"}
Figures = dict[str, float]
_FIGURES: pytest.StashKey[Figures] = pytest.StashKey()


def pytest_configure(config: pytest.Config) -> None:
    """``make check-iso`` leaves out what is marked as long."""
    config.addinivalue_line("markers", "long: takes more than a few minutes on an emulated machine")
    nothing: Figures = {}
    config.stash[_FIGURES] = nothing


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    """What was measured, as a table."""
    found = config.stash[_FIGURES]
    if not found:
        return
    terminalreporter.section("figures")
    width = max(map(len, found))
    for name, value in found.items():
        number = f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"
        terminalreporter.write_line(f"{name:<{width}} {number:>8}")


@pytest.fixture(scope="session")
def iso() -> Path:
    """The image under test."""
    path = Path(ISO).resolve()
    assert path.is_file(), f"ISO={ISO} is not a file; build one with make iso"
    return path


@pytest.fixture(scope="session")
def edition() -> Edition:
    """Whose habits the image has; ``EDITION=vyos`` for an image of VyOS."""
    return EDITIONS[os.environ.get("EDITION", "debian")]


@pytest.fixture(scope="session")
def figures(pytestconfig: pytest.Config, iso: Path) -> Iterator[Figures]:
    """What was measured on the way; printed at the end, and written to the file that ``FIGURES`` names.

    It begins with what the build has left beside the image.
    """
    found = pytestconfig.stash[_FIGURES]
    found["image (MB)"] = iso.stat().st_size / 1e6
    built = iso.with_name("figures.json")
    if built.exists():
        found.update(json.loads(built.read_text()))
    yield found
    if "FIGURES" in os.environ:
        Path(os.environ["FIGURES"]).write_text(json.dumps(found, indent=2) + "\n")


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str, Hardware], Vm]]:
    """Makes machines that are gone at the end of the module."""
    with ExitStack() as stack:
        yield lambda name, hardware: stack.enter_context(Vm(name, hardware, tmp_path_factory.mktemp(name)))


@pytest.fixture(scope="session")
def cables() -> list[tuple[int, int]]:
    """The two second cables of the pair, of R1 and of R2; whoever is at their other ends."""
    return [new_cable(), new_cable()]


@pytest.fixture(scope="session")
def pair(
    iso: Path, edition: Edition, figures: Figures, cables: list[tuple[int, int]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[End]]:
    """Two routers on a cable, logged in: R1 from CD under BIOS, R2 from a stick under UEFI, with Secure Boot where it can."""
    from tests.image.ends import End, at_once, config_disk

    place = tmp_path_factory.mktemp("pair")
    cable = new_cable()
    firmware = "secure" if edition.secure_boot else "uefi"
    machines = [hardware(edition, iso=iso), hardware(edition, firmware=firmware, stick=iso)]
    with ExitStack() as stack:
        ends = []
        for number, wanted in enumerate(machines, start=1):
            wanted.disks = [config_disk(place / f"config{number}.qcow2")]
            wanted.cables, wanted.unplugged = [cable if number == 1 else cable[::-1], cables[number - 1]], {1}
            vm = stack.enter_context(Vm(f"R{number}", wanted, place / f"R{number}"))
            vm.start()
            ends.append(End(number, Person(vm, edition)))
        if pictures := os.environ.get("SCREENSHOTS"):
            ends[0].person.vm.console.expect("The highlighted entry", timeout=120)
            ends[0].person.vm.screenshot(Path(pictures) / "boot-menu.png")
        for end, what in zip(ends, (FIRMWARE["bios"] + ", CD", f"{FIRMWARE[firmware]}, stick"), strict=True):
            figures[f"power on to prompt, two at once, {what} (s)"] = first_login(end.person)
        at_once(ends, End.underlay)
        if edition.secure_boot:
            assert secure(ends[1].person)
        yield ends


@pytest.fixture(scope="session")
def link(pair: list[End], figures: Figures) -> list[End]:
    """The pair with the example on it, carrying traffic."""
    from tests.image.ends import join

    begin = time.monotonic()
    join(pair)
    figures["prompt to traffic, all typed at two consoles (s)"] = time.monotonic() - begin
    return pair


def hardware(edition: Edition, **parts: Any) -> Hardware:
    """What a machine is made of, as large as the edition needs it."""
    return Hardware(memory=edition.memory, cpus=max(edition.cpus, Hardware.cpus), **parts)


def first_login(person: Person) -> float:
    """From the login prompt of a fresh image to op mode, with a password that is no longer the image's.

    Returns the seconds from power on to the prompt.
    """
    seconds = person.wait_login()
    person.login(NEW_PASSWORD if person.edition.must_change else "")
    return seconds


def secure(person: Person) -> bool:
    """Whether the firmware has let the kernel start for its signature."""
    return "Secure boot enabled" in person.op("journalctl -k --no-pager -g 'secure ?boot'")


def until(look: Callable[[], bool], what: str, timeout: float = 180.0) -> None:
    """Ask a machine again until it is so. Each question takes its time on an emulated machine."""
    end = time.monotonic() + timeout * patience()
    while not look():
        assert time.monotonic() < end, f"not so after {timeout * patience():g} s: {what}"
