"""Prefixes, groups and next hops as the kernel has them, beside what is wanted; pure."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

from zerotier_multi import names
from zerotier_multi.op.data import SCHEMA, general_warnings
from zerotier_multi.op.marks import Diverted
from zerotier_multi.op.snapshot import Snapshot
from zerotier_multi.plan import Plan
from zerotier_multi.netlink.nexthops import NextHop
from zerotier_multi.netlink.routes import Route
from zerotier_multi.states import LinkState, link_state


def routes(snapshot: Snapshot, plan: Plan, diverted: Diverted = ()) -> dict[str, Any]:
    """The routes of a bundle: wanted ones first, then any others of ours that point into it.

    ``diverted`` is what packets with firewall marks do not reach by them.
    """
    # Those over the device alone, which FRR sees, have no next-hop id and carry nothing.
    ours = {r for r in snapshot.kernel.routes if names.bundle_of_nexthop(r.nexthop_id) == plan.bundle}
    wanted = [route.prefix for route in plan.routes]
    standing = {route.prefix: route for route in ours}
    entries = [_entry(snapshot, plan, prefix, standing.get(prefix), True) for prefix in wanted]
    entries += [_entry(snapshot, plan, p, standing[p], False) for p in sorted(standing) if p not in wanted]
    return {
        "schema": SCHEMA,
        "bundle": plan.bundle,
        "routes": entries,
        "diverted": list(diverted),
        "warnings": general_warnings(snapshot),
    }


def _entry(snapshot: Snapshot, plan: Plan, prefix: str, route: Route | None, planned: bool) -> dict[str, Any]:
    group = snapshot.kernel.groups.get(route.nexthop_id) if route else None
    members = group.members if group else ()
    weights = dict(zip_longest(members, group.weights if group else (), fillvalue=1))
    remotes = {g.group_id: g.remote for g in plan.groups}
    wanted = next((r.group_id for r in plan.routes if r.prefix == prefix), None)
    return {
        "prefix": prefix,
        "remote": remotes.get(wanted) if wanted is not None else None,
        "planned": planned,
        "installed": route is not None,
        "table": route.table if route else None,
        "source": route.source if route else None,
        "group": route.nexthop_id if route else None,
        "buckets": group.buckets if group else None,
        "next_hops": [_next_hop(snapshot, plan, snapshot.kernel.nexthops.get(m), m, weights[m]) for m in members],
    }


def _next_hop(snapshot: Snapshot, plan: Plan, nexthop: NextHop | None, number: int, weight: int) -> dict[str, Any]:
    path = next((p for p in plan.paths if p.nexthop_id == number), None)
    link = next((x for x in snapshot.kernel.links.values() if nexthop and x.index == nexthop.index), None)
    state = link_state(link.up, link.carrier) if link else LinkState.NO_DEVICE
    return {
        "id": number,
        "via": nexthop.via if nexthop else None,
        "device": link.name if link else None,
        "instance": path.instance if path else None,
        "weight": weight,
        "state": state,
    }
