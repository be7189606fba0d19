"""Six sites in full mesh, each knowing all others: more than a planet has room for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab import Lab, Router
from lab.scenario import connect, loopback, reach, wait_paths
from tests.lab.conftest import ENGINE, new_lab

SITES = 6


@pytest.fixture(scope="module")
def sites() -> Iterator[tuple[Lab, list[Router]]]:
    with new_lab() as lab:
        routers = lab.add_routers([f"R{n}" for n in range(1, SITES + 1)])
        connect(routers, 1, engine=ENGINE.rpartition("/")[2], transit=("10.14.0.0/28",), subnet_lengths=(28,))
        yield lab, routers


def test_every_site_reaches_every_other_directly(sites: tuple[Lab, list[Router]]) -> None:
    _lab, routers = sites
    for router in routers:
        shown = router.json(["/usr/libexec/vyos/op_mode/zerotier.py", "show_paths", "--bundle", "zt0", "--raw"])
        assert len(shown["paths"]) == SITES - 1
        assert {p["link"] for p in shown["paths"]} == {"direct"}, shown["paths"]


def test_a_site_with_another_address_is_found_by_all(sites: tuple[Lab, list[Router]]) -> None:
    lab, routers = sites
    moved, others = routers[0], routers[1:]
    lab.underlay.renumber(moved, 4, "198.51.100.201")
    lab.underlay.renumber(moved, 6, "2001:db8:0:1::201")
    for other in others:
        reach(other, loopback(other), loopback(moved), timeout=10 if ENGINE == "ztnode" else 60)
    wait_paths(routers, SITES - 1, timeout=30)
