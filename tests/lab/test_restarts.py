"""A zerotier-one that has to be restarted because one of its remotes has moved."""

from __future__ import annotations

import time

import pytest

from lab import Lab
from lab.flows import Flows
from lab.roaming import INSTANCES, SETTLE, events
from lab.scenario import connect, paths_up, wait_paths
from lab.underlay import PREFIX4
from tests.lab.conftest import packages, programs


@pytest.mark.both_engines
def test_a_remote_that_moves_costs_flows_to_the_others_nothing() -> None:
    """R3 moves and restarts its own; R1's, if it has to be too, carries for R2 all the while, so it is drained first."""
    with Lab(packages(), programs=programs("zerotier-one")) as lab:
        routers = lab.add_routers(["R1", "R2", "R3"])
        first, second, third = routers
        for router in routers:
            router.run(["ip", "-6", "address", "flush", "dev", "eth0", "scope", "global"])
        connect(routers, INSTANCES, engine="zerotier-one", subnet_lengths=(29,), endpoints="4")
        flows = Flows(first, second, 8, first=20000)
        try:
            time.sleep(SETTLE)
            lab.underlay.renumber(third, 4, f"{PREFIX4}.120")
            first.wait(lambda: paths_up(first) < 2 * INSTANCES, what="the fall of the paths to R3")
            wait_paths(routers, 2 * INSTANCES, timeout=60.0)
            seen = flows.end()
        finally:
            flows.kill()
        assert sum(flow.lost for flow in seen) == 0, [flow.missing for flow in seen if flow.lost]
        assert any("addresses" in line for line in events(third, "instance-restarted"))
