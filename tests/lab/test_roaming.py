"""Addresses of the underlay that move: once each of what bench-roaming measures, with limits for a busy machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.roaming import DOMAIN, INSTANCES, MOVES, Move, Site, events
from lab.scenario import status
from tests.lab.conftest import ENGINE, new_lab

BUSY = 3.0  # times as long as the limit for a quiet machine
FEW = [move for move in MOVES if not move.name.startswith("20 s")]


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with new_lab() as lab:
        made = Site(lab, Path(ENGINE).name)
        try:
            yield made
        finally:
            made.close()


def test_a_name_that_does_not_resolve_is_told_and_one_that_does_later_brings_the_path_up(site: Site) -> None:
    near, far = site.routers
    site.ipv6(False)
    site.names()
    base = f"interfaces zerotier zt0 remote {far.name} instance"
    named = "".join(f"set {base} {k} endpoint gone.{DOMAIN}:{9992 + k}\n" for k in range(1, INSTANCES + 1))
    begin = near.must_configure(named)
    assert begin.seconds < 10.0
    fault = f"gone.{DOMAIN} does not resolve to an address"
    paths = near.wait(
        lambda: [p for p in status(near)["bundles"]["zt0"]["paths"] if fault in (p["cause"] or "")], what="the fault as a cause"
    )
    assert len(paths) == INSTANCES
    assert f"zt0: {fault}" in near.run(["ztsh", "-c", "show zerotier zt0"]).stdout
    assert any(fault in line for line in events(near, "endpoint-unresolved"))
    site.names(gone=far.number)
    site.whole(60.0)
    assert any(f"gone.{DOMAIN}: not known -> {far.underlay4}" in line for line in events(near, "endpoint-moved"))
    # It stays when the next commit writes the files, and nothing is restarted for it.
    before = events(near, "device-gone")
    near.must_configure("set interfaces zerotier zt0 description moved")
    assert far.underlay4 in near.read("/config/zerotier-multi/zt0/1/local.conf")
    assert events(near, "device-gone") == before
    near.must_configure("".join(f"delete {base} {k} endpoint\n" for k in range(1, INSTANCES + 1)))


@pytest.mark.parametrize("move", FEW, ids=lambda move: move.name)
def test_traffic_is_back(site: Site, move: Move) -> None:
    move.prepare(site)
    outcome = site.run(move, BUSY * move.limit)
    assert outcome.traffic is not None, "not back"
    assert outcome.traffic <= BUSY * move.limit


def test_only_engines_that_need_it_are_restarted(site: Site) -> None:
    restarted = [line for router in site.routers for line in events(router, "instance-restarted")]
    assert bool(restarted) is (Path(ENGINE).name != "ztnode"), restarted
