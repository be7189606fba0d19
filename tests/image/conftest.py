"""Machines for the tests of an image. They need an ISO and half an hour or more, so ``make test`` leaves them out:
nothing of this folder is collected unless ``ISO`` names one (``make test-image``, ``make check-iso ISO=…``).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ISO = os.environ.get("ISO", "")
collect_ignore_glob = [] if ISO else ["test_*.py"]

if ISO:
    from lab.edition import EDITIONS, Edition
    from lab.person import Person
    from lab.vm import Hardware, Vm

NEW_PASSWORD = "cold-Rain-73"


@pytest.fixture(scope="session")
def iso() -> Path:
    """The image under test."""
    path = Path(ISO).resolve()
    assert path.is_file(), f"ISO={ISO} is no file: build one with make iso"
    return path


@pytest.fixture(scope="session")
def edition() -> Edition:
    """Whose habits the image has; ``EDITION=vyos`` for an image of VyOS."""
    return EDITIONS[os.environ.get("EDITION", "debian")]


@pytest.fixture(scope="session")
def figures() -> Iterator[dict[str, float]]:
    """What was measured on the way; written to the file that ``FIGURES`` names."""
    found: dict[str, float] = {}
    yield found
    if found and "FIGURES" in os.environ:
        Path(os.environ["FIGURES"]).write_text(json.dumps(found, indent=2, sort_keys=True) + "\n")


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str, Hardware], Vm]]:
    """Makes machines that are gone at the end of the module."""
    made: list[Vm] = []

    def make(name: str, hardware: Hardware) -> Vm:
        vm = Vm(name, hardware, tmp_path_factory.mktemp(name))
        made.append(vm)
        return vm

    yield make
    for vm in made:
        vm.cut_power()


def first_login(vm: Vm, edition: Edition) -> Person:
    """From the login prompt of a fresh image to op mode, with a password that is no longer the image's."""
    person = Person(vm, edition)
    person.wait_login()
    person.login(NEW_PASSWORD if edition.must_change else "")
    return person


def until(look: Callable[[], bool], what: str, timeout: float = 180.0) -> None:
    """Ask a machine again until it is so. Each question takes its time on an emulated machine."""
    end = time.monotonic() + timeout
    while not look():
        assert time.monotonic() < end, f"not so after {timeout:g} s: {what}"
