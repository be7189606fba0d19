"""Routers for the tests of this folder: labs with our packages, and the engine that ``ENGINE`` names."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab import Lab, Router
from lab.controller import KINDS, Controller, controller
from lab.scenario import connect

ROOT = Path(__file__).resolve().parent.parent.parent
ENGINE = os.environ.get("ENGINE", "ztnode")


def packages() -> list[Path]:
    """Our packages as ``make debs`` has built them."""
    found = sorted((ROOT / "build/debs").glob("*.deb"))
    assert len(found) == 3, "build the packages first: make debs"
    return found


def new_lab() -> Lab:
    """A lab with our packages; an engine other than ours comes from this machine's PATH, and is then the only one."""
    if ENGINE == "ztnode":
        return Lab(packages())
    return Lab([deb for deb in packages() if not deb.name.startswith("ztnode_")], programs=programs(ENGINE))


def programs(engine: str) -> dict[str, Path]:
    """Where routers have an engine of this machine's PATH: path there -> path here."""
    path = shutil.which(engine)
    assert path, f"{engine}: no such program on PATH"
    return {f"/usr/sbin/{Path(engine).name}": Path(path)}


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with new_lab() as made:
        yield made


@pytest.fixture(scope="module")
def pair(lab: Lab) -> list[Router]:
    """Two routers with the example on four instances each, carrying traffic."""
    routers = lab.add_routers(["R1", "R2"])
    connect(routers, 4, engine=Path(ENGINE).name)
    return routers


@pytest.fixture(scope="session")
def connected() -> Callable[..., None]:
    def call(routers: list[Router], instances: int, **options: object) -> None:
        connect(routers, instances, engine=Path(ENGINE).name, **options)

    return call


@pytest.fixture(scope="module")
def two(lab: Lab) -> list[Router]:
    """Two routers that know nothing of each other."""
    return lab.add_routers(["R1", "R2"])


@pytest.fixture(scope="module", params=KINDS)
def made(
    request: pytest.FixtureRequest, lab: Lab, two: list[Router], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Controller]:
    """A controller for them, which does not run yet."""
    with controller(lab.underlay, request.param, two[0], tmp_path_factory.mktemp("controller") / "home") as found:
        yield found
    for router in two:
        router.must_configure("delete interfaces zerotier zt0")
