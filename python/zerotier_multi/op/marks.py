"""Packets that another part of the router marks, so that they are looked up elsewhere: policy routes, several WANs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any

from zerotier_multi import names
from zerotier_multi.netlink.routes import Match
from zerotier_multi.netlink.rtnl import Rtnl
from zerotier_multi.netlink.rules import MarkRule
from zerotier_multi.pathd.kernel.forwarding import samples
from zerotier_multi.plan import Plan


@dataclass(frozen=True)
class Diverted:
    """Prefixes of a bundle that packets with the mark of a rule do not reach by it, and packets without one do."""

    rule: MarkRule
    prefixes: tuple[str, ...]

    def data(self) -> dict[str, Any]:
        """As op mode gives it to scripts."""
        rule = self.rule
        return {"mark": rule.mark, "rule": rule.priority, "table": rule.table, "prefixes": list(self.prefixes)}


def diverted(rtnl: Rtnl, plans: Collection[Plan], devices: Mapping[str, int]) -> dict[str, tuple[Diverted, ...]]:
    """What the kernel does with packets that have the mark of a rule, by bundle; ``devices``: ifindexes by name.

    A prefix is asked for by one address. Raises OSError.
    """
    rules = rtnl.mark_rules()
    return {plan.bundle: tuple(_of(rtnl, plan, rules, devices.get(plan.vrf or "", 0))) for plan in plans} if rules else {}


def _of(rtnl: Rtnl, plan: Plan, rules: Sequence[MarkRule], vrf: int) -> list[Diverted]:
    reached = [p for p in (route.prefix for route in plan.routes) if _over(rtnl.match(samples(p)[0], oif=vrf), plan)]
    found = []
    for rule in rules:
        asked = [prefix for prefix in reached if ip_network(prefix).version == rule.family]
        lost = [prefix for prefix in asked if not _over(rtnl.match(samples(prefix)[0], oif=vrf, mark=rule.mark), plan)]
        if lost:
            found.append(Diverted(rule, tuple(lost)))
    return found


def _over(match: Match, plan: Plan) -> bool:
    return names.bundle_of_nexthop(match.nexthop_id) == plan.bundle


def diverted_note(bundle: str, entry: Mapping[str, Any]) -> str:
    """What an entry of :meth:`Diverted.data` means for who looks for the way of his packets."""
    first, more = entry["prefixes"][0], len(entry["prefixes"]) - 1
    others = f" and {more} other prefix{'es' if more > 1 else ''}" if more else ""
    return (
        f"packets with firewall mark {entry['mark']:#x} for {first}{others} do not go over {bundle}, because rule {entry['rule']} looks them up "
        f"in table {entry['table']}; those that shall must not get the mark: an exception for the prefix in policy route or load-balancing wan"
    )
