"""How traffic is spread over the member devices: bytes since they were made, and the flows of now."""

from __future__ import annotations

from typing import Any

from zerotier_multi.op.data import SCHEMA, general_warnings
from zerotier_multi.op.flows import LIMIT, FlowCount, Placement, count_flows, inside, read_flows
from zerotier_multi.op.snapshot import Counters, Snapshot
from zerotier_multi.plan import Plan
from zerotier_multi.netlink.rtnl import Rtnl


def read_balance(snapshot: Snapshot, plan: Plan) -> FlowCount:
    """The flows to the remotes of a bundle, each on the device that the kernel's own hash puts it on."""
    source, flows, capped = read_flows(inside(route.prefix for route in plan.routes))
    with Rtnl() as rtnl:
        own = (address.interface.partition("/")[0] for address in snapshot.kernel.addresses)
        placement = Placement(rtnl, snapshot.kernel.links, own, plan.vrf)
        placed = [placement.device(flow) for flow in flows]
    return count_flows(source, placed, (i.device for i in plan.instances), capped)


def balance(snapshot: Snapshot, plan: Plan, flows: FlowCount) -> dict[str, Any]:
    """Shares of the member devices; pure."""
    counters = {i.device: snapshot.last.counters.get(i.device, Counters()) for i in plan.instances}
    received = sum(c.rx_bytes for c in counters.values())
    sent = sum(c.tx_bytes for c in counters.values())
    total = sum(flows.by_device.values())
    told = (snapshot.pathd or {}).get("bundles", {}).get(plan.bundle, {}).get("instances", [])
    loads = {entry["instance"]: entry.get("load") for entry in told}
    return {
        "schema": SCHEMA,
        "bundle": plan.bundle,
        "flow_source": flows.source,
        "flow_limit": LIMIT,
        "flows_capped": flows.capped,
        "flows_elsewhere": flows.elsewhere,
        "members": [
            {
                "instance": i.number,
                "device": i.device,
                "present": i.device in snapshot.kernel.links,
                "bytes_in": counters[i.device].rx_bytes,
                "bytes_in_share": _share(counters[i.device].rx_bytes, received),
                "bytes_out": counters[i.device].tx_bytes,
                "bytes_out_share": _share(counters[i.device].tx_bytes, sent),
                "flows": flows.by_device.get(i.device, 0),
                "flows_share": _share(flows.by_device.get(i.device, 0), total),
                "load": loads.get(i.number),
            }
            for i in plan.instances
        ],
        "warnings": general_warnings(snapshot),
    }


def _share(part: int, total: int) -> float | None:
    """Part of a whole from 0 to 1; None where there is no whole."""
    return round(part / total, 4) if total else None
