"""Whether the kernel really forwards over what stands, by its own lookup; pure but for :func:`ask`.

That a route of ours stands does not say that packets take it: a route of another program may stand in its place, in
front of it or within its prefix, and rules may lead elsewhere. So the kernel is asked for an address or a few of every prefix.
"""

from __future__ import annotations

import errno
import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from zerotier_multi import names
from zerotier_multi.pathd.kernel.desired import DEFAULTS, Desired
from zerotier_multi.netlink.state import KernelState
from zerotier_multi.plan import GroupPlan, Plan
from zerotier_multi.netlink.routes import Match
from zerotier_multi.netlink.rtnl import Rtnl

# Where a default route is tried; nothing is sent there. First ordinary addresses far apart, because careful routers have
# blackholes for those of documentations; then these, because routers with all routes of the Internet have one for any other.
_ANYWHERE = {
    "0.0.0.0/0": ("8.0.0.1", "77.0.0.1", "133.1.0.1", "192.0.2.1", "203.0.113.1", "198.51.100.1"),
    "::/0": ("2600::1", "2a00:1450::1", "2400:cb00::1", "2001:db8:ffff::1", "3fff::1", "2001:db8::1"),
}
_NOWHERE = {
    errno.EINVAL: "a blackhole route drops it",
    errno.EHOSTUNREACH: "an unreachable route rejects it",
    errno.EACCES: "a prohibit route or rule rejects it",
    errno.ENETUNREACH: "there is no route, or a rule refuses it",
}
_PROTOCOLS = {
    0: "unspec",
    2: "kernel",
    3: "boot",
    4: "static",
    9: "ra",
    11: "zebra",
    16: "dhcp",
    186: "bgp",
    188: "ospf",
    196: "static",
}

Answers = Mapping[tuple[str, str], tuple[Match, ...]]  # by bundle and prefix


@dataclass
class Blocked:
    """What packets do not take although it stands or should: each with the reason as the end of a sentence."""

    paths: dict[int, str] = field(default_factory=dict)
    prefixes: dict[str, dict[str, str]] = field(default_factory=dict)  # of each bundle


def samples(prefix: str) -> tuple[str, ...]:
    """Addresses inside a prefix that stand for it: the first host, the middle, the last."""
    if prefix in _ANYWHERE:
        return _ANYWHERE[prefix]
    network = ipaddress.ip_network(prefix)
    size = network.num_addresses
    chosen = (0,) if size == 1 else (0, 1) if size == 2 else (1, size // 2, size - 2)
    return tuple(dict.fromkeys(str(network[n]) for n in chosen))


def ask(rtnl: Rtnl, plans: Iterable[Plan], want: Desired, have: KernelState) -> dict[tuple[str, str], tuple[Match, ...]]:
    """The kernel's answers for every prefix whose group shall stand; for no further address once one is right."""
    return {
        (plan.bundle, prefix): tuple(_ask(rtnl, prefix, number, device))
        for plan, prefix, number, device in _prefixes(plans, want, have)
    }


def _prefixes(plans: Iterable[Plan], want: Desired, have: KernelState) -> Iterator[tuple[Plan, str, int, int]]:
    for plan in plans:
        link = have.links.get(plan.vrf or "")
        vrf = link.index if link else 0
        for route in plan.routes:
            if number := want.standing.get(route.group_id):
                yield plan, route.prefix, number, vrf


def _ask(rtnl: Rtnl, prefix: str, number: int, device: int) -> Iterator[Match]:
    for address in samples(prefix):
        match = rtnl.match(address, oif=device)
        yield match
        if match.nexthop_id == number:
            return


def blocked(plans: Iterable[Plan], want: Desired, have: KernelState, answers: Answers) -> Blocked:
    """Which paths and prefixes that shall be used are not; ``have`` is what stands after all that could be done."""
    found = Blocked()
    names_of = {link.index: name for name, link in have.links.items()}
    for plan in plans:
        for group in plan.groups:
            number = want.standing.get(group.group_id)
            if number is None and group.group_id not in want.waiting:
                reason = f"there is no next-hop group to {group.remote}"
                found.paths.update({m: reason for m in group.members if m in want.carrying})
            elif number is not None:
                _look(found, plan, group, number, want, have, answers, names_of)
    return found


def _look(
    found: Blocked, plan: Plan, group: GroupPlan, number: int, want: Desired, have: KernelState, answers: Answers, names_of: Mapping[int, str],
) -> None:  # fmt: skip
    members = [m for m in want.groups[number].members if m in want.carrying]
    standing = have.groups.get(number)
    for member in members:
        if have.nexthops.get(member) != want.nexthops[member]:
            found.paths[member] = f"next hop {member} is not in the kernel"
        elif standing is None or member not in standing.members:
            found.paths[member] = (
                f"next-hop group {number} is not in the kernel" if standing is None else "it is not in a next-hop group"
            )
    prefixes = [route.prefix for route in plan.routes if route.group_id == group.group_id]
    wrong = {p: why(p, number, answers.get((plan.bundle, p), ()), names_of) for p in prefixes}
    wrong = {prefix: reason for prefix, reason in wrong.items() if reason}
    if wrong:
        found.prefixes.setdefault(plan.bundle, {}).update(wrong)
    if wrong and len(wrong) == len(prefixes):
        prefix, reason = next(iter(wrong.items()))
        found.paths.update({member: f"{prefix} does not go over it: {reason}" for member in members if member not in found.paths})


def why(prefix: str, number: int, answers: Iterable[Match], names_of: Mapping[int, str]) -> str:
    """Why packets for a prefix do not go over the group ``number``; empty where they do."""
    given = list(answers)
    if any(match.nexthop_id == number for match in given):
        return ""
    if not given:
        return "the kernel was not asked"
    judged = [match for match in given if not match.error] if prefix in _ANYWHERE else given
    others = [match for match in judged or given if not _is_a_part(match, prefix)]
    if not others:
        return ""
    # What takes the whole prefix says more than what takes a part of it.
    match = next((m for m in others if m.error or m.prefix == prefix), others[0])
    if match.error:
        return _NOWHERE.get(match.error, errno.errorcode.get(match.error, f"error {match.error}"))
    if match.protocol == names.RT_PROTO and match.prefix == prefix:
        return "the route is not over the right next-hop group"
    over = f" over {names_of[match.index]}" if match.index in names_of else ""
    protocol = _PROTOCOLS.get(match.protocol, str(match.protocol))
    which = "the default route" if match.prefix in DEFAULTS else f"the route {match.prefix}"
    return f"{which}{over} of another program (protocol {protocol}) is used instead"


def _is_a_part(match: Match, prefix: str) -> bool:
    """Whether a more specific route of ours decides: the prefix is the backup of another remote's, which is judged by itself."""
    return match.protocol == names.RT_PROTO and _length(match.prefix) > _length(prefix)


def _length(prefix: str) -> int:
    return int(prefix.partition("/")[2])
