"""What all attacks share: their settings, and three routers in one transit network, of which R1 is attacked."""

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
def trio(lab: Lab) -> list[Router]:
    """R1, R2 and R3, each a remote of the others in both families on two instances; a test leaves them carrying traffic."""
    routers = lab.add_routers(["R1", "R2", "R3"])
    connect(
        routers, INSTANCES, families=(4, 6), transit=("10.14.0.0/27", "2001:db8:14::/123"), subnet_lengths=(28, 124),
        engine=Path(ENGINE).name,
    )  # fmt: skip
    for router in routers:  # else routes come while a test looks at them
        router.wait(
            lambda r=router: not r.json(["ip", "-j", "-6", "address", "show", "tentative"]), what="addresses that are settled"
        )
    return routers
