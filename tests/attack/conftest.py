"""What all attacks share: their settings, and two routers with a link between them, R1 of ours and R2 the far end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.attack.settings import ATTACK, Attack
from tests.lab.conftest import ENGINE, new_lab

from lab import Lab, Router
from lab.scenario import connect

INSTANCES = 2


@pytest.fixture(scope="session")
def attack() -> Attack:
    return ATTACK


@pytest.fixture(autouse=True)
def _told() -> None:
    """pytest shows this of a test that fails."""
    print(f"SEED={ATTACK.seed}" + (f" ATTACK=long SECONDS={ATTACK.seconds:g}" if ATTACK.long else ""))


@pytest.fixture(scope="package")
def lab() -> Iterator[Lab]:
    """One lab for all files of this folder."""
    with new_lab() as made:
        yield made


@pytest.fixture(scope="package")
def pair(lab: Lab) -> list[Router]:
    """R1 and R2 with the example in both families on two instances each, carrying traffic; a test leaves them so."""
    routers = lab.add_routers(["R1", "R2"])
    connect(
        routers, INSTANCES, families=(4, 6), transit=("10.14.0.0/28", "2001:db8:14::/124"), engine=Path(ENGINE).name
    )
    return routers
