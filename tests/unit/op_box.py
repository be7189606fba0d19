"""A box in miniature for the tests of op mode: the example with all of it running."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.configuration import EXAMPLE, bundle
from zerotier_multi import names
from zerotier_multi.cpu import Cpu
from zerotier_multi.op.snapshot import Answer, Counters, Process, Sample, Snapshot
from zerotier_multi.plan import PeerPlan, Plan
from zerotier_multi.planner import make_plan
from zerotier_multi.netlink.nexthops import NextHop, NextHopGroup
from zerotier_multi.netlink.state import KernelState
from zerotier_multi.netlink.links import Address, Link
from zerotier_multi.netlink.routes import Route
from zerotier_multi.systemd import UnitState

NOW = 1_700_000_000.0
PLAN = make_plan(bundle(EXAMPLE), tuple(Cpu(n, n) for n in range(4)), "/usr/sbin/ztnode")
NODES = {i.unit: f"00000000a{i.number}" for i in PLAN.instances}
PEERS = tuple(PeerPlan("R2", k, f"00000000b{k}:0:{'ab' * 64}", ()) for k in range(1, 5))


def peer(node: str, *, age: float = 1.0, role: str = "PLANET", address: str = "198.51.100.2/9993") -> dict[str, Any]:
    """A peer as the API of an instance tells it, last heard of ``age`` seconds ago."""
    path = {"active": True, "expired": False, "preferred": True, "address": address}
    return {
        "address": node,
        "latency": 7,
        "role": role,
        "paths": [{**path, "lastReceive": int((NOW - age) * 1000)}],
    }


def pathd(plan: Plan = PLAN, **states: str) -> dict[str, Any]:
    """The daemon's status; ``states`` by device, all others are up."""
    paths = [
        {
            "remote": p.remote, "instance": p.instance, "family": p.family, "device": p.device, "via": p.via,
            "state": states.get(p.device, "up"), "since": int(NOW) - 65,
        }
        for p in plan.paths
    ]  # fmt: skip
    return {"schema": 1, "resilient": True, "problems": [], "bundles": {plan.bundle: {"paths": paths}}}


def kernel(plan: Plan = PLAN) -> KernelState:
    """Everything of the plan stands."""
    links = {i.device: Link(10 + i.number, i.device, "tun", 1394, True, True) for i in plan.instances}
    links[plan.bundle] = Link(3, plan.bundle, "dummy", 1500, True, True)
    group = plan.groups[0]
    return KernelState(
        links=links,
        addresses=frozenset({Address(3, "10.0.55.1/32")}),
        nexthops={p.nexthop_id: NextHop(p.nexthop_id, links[p.device].index, p.via) for p in plan.paths},
        groups={group.group_id: NextHopGroup(group.group_id, group.members, 128, 10)},
        routes=frozenset(
            {
                Route("10.0.55.2/32", group.group_id, "10.0.55.1", 254),
                Route("10.0.55.2/32", 0, "10.0.55.1", 254, names.SEEN_METRIC, 3),  # for FRR
                Route("10.1.55.2/32", 0, "10.1.55.1", 254, names.SEEN_METRIC, 4),  # that of zt1
            }
        ),  # fmt: skip
    )


def box(plan: Plan = PLAN, **changes: Any) -> Snapshot:
    """The snapshot of a box on which all is well, with changes."""
    plan = replace(plan, controller_free=True, peers=PEERS)
    units = {i.unit: UnitState("active", 100 + i.number, 0, 3700.0, 9 << 20) for i in plan.instances}
    answers = {
        i.unit: Answer({"address": NODES[i.unit], "version": "1.14.1"}, (peer(f"00000000b{i.number}"),)) for i in plan.instances
    }
    first = Sample(10.0, {u: Process(1.0, 8 << 20, "0") for u in units}, {i.device: Counters() for i in plan.instances})
    last = Sample(
        10.5,
        {u: Process(1.25, 8 << 20, "0") for u in units},
        {i.device: Counters(rx_bytes=62_500, tx_bytes=125_000, tx_packets=100) for i in plan.instances},
    )
    whole = Snapshot(
        now=NOW, plans=(plan,), pathd=pathd(plan), units=units, answers=answers, nodes=NODES, kernel=kernel(plan), hash_policy=1,
        first=first, last=last,
    )  # fmt: skip
    return replace(whole, **changes)
