"""Packets that another part of the router marks, so that they are looked up elsewhere: policy routes, several WANs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import ip_network
from typing import Any

from zerotier_multi import names
from zerotier_multi.netlink.routes import Match
from zerotier_multi.netlink.rtnl import Rtnl
from zerotier_multi.pathd.kernel.forwarding import samples
from zerotier_multi.plan import Plan

Diverted = Sequence[Mapping[str, Any]]  # mark, table (None where the kernel names none) and prefixes, for scripts


def diverted(rtnl: Rtnl, plan: Plan, vrf: int = 0) -> Diverted:
    """Prefixes of a bundle that packets with the mark of a rule do not reach by it, and packets without one do.

    Asks the kernel for one address of each prefix; ``vrf`` is the ifindex of the bundle's VRF. Raises OSError.
    """
    marks = rtnl.marks()
    prefixes = [p for p in (route.prefix for route in plan.routes) if marks and _over(rtnl.match(samples(p)[0], oif=vrf), plan)]
    found: dict[tuple[str, int | None], list[str]] = {}
    for mark in marks:
        for prefix in prefixes:
            if ip_network(prefix).version != mark.family:
                continue
            match = rtnl.match(samples(prefix)[0], oif=vrf, mark=mark.value)
            if not _over(match, plan):
                found.setdefault((str(mark), match.table or None), []).append(prefix)
    return [{"mark": mark, "table": table, "prefixes": lost} for (mark, table), lost in found.items()]


def _over(match: Match, plan: Plan) -> bool:
    return names.bundle_of_nexthop(match.nexthop_id) == plan.bundle


def diverted_note(bundle: str, entry: Mapping[str, Any]) -> str:
    """What an entry of :func:`diverted` means for who looks for the way of his packets."""
    first, more = entry["prefixes"][0], len(entry["prefixes"]) - 1
    others = f" and {more} other prefix{'es' if more > 1 else ''}" if more else ""
    where = f"table {entry['table']}" if entry["table"] else "another table"
    return (
        f"packets with firewall mark {entry['mark']}, as policy route and load-balancing wan set one, do not go over {bundle} to {first}{others}, "
        f"but by {where}; packets without it do"
    )
