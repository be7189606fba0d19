"""What zerotier-pathd decides at one look: values in, values out, the time among them; pure.

:func:`probing` says which paths are probed, which has to be known before a path can be judged; :func:`decide` says what the
kernel shall be and what is to be done about the difference; :func:`path_states` says what has come of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from zerotier_multi.netlink.nexthops import NextHopGroup
from zerotier_multi.netlink.state import KernelState
from zerotier_multi.pathd.kernel.actions import Action, actions
from zerotier_multi.pathd.kernel.desired import Desired, Share, desired_state, group_id, ready
from zerotier_multi.pathd.kernel.sysctls import mute_notes, router_wide
from zerotier_multi.pathd.nftables import forwarding, mirror, mss, solicited, spoofed, table, unsealed
from zerotier_multi.pathd.probe.prober import Target
from zerotier_multi.pathd.probe.targets import targets
from zerotier_multi.pathd.routing import full_tunnel, own_networks, uplinks
from zerotier_multi.plan import PathPlan, Plan
from zerotier_multi.states import PathState


@dataclass(frozen=True)
class Drain:
    """A device that carries nothing new: which one of its name, and until when at the latest."""

    index: int
    until: float


@dataclass(frozen=True)
class Probing:
    """What the prober shall do, by the ids of next hops: targets, those of paths that are drained, in use already, or backups."""

    targets: tuple[Target, ...]
    drained: frozenset[int]
    in_use: frozenset[int]
    spared: frozenset[int]


@dataclass(frozen=True)
class Inputs:
    """All that a decision depends on. Times are seconds of one monotonic clock; paths go by the ids of their next hops."""

    now: float
    plans: Sequence[Plan]
    have: KernelState
    resilient: bool = True  # whether the kernel has resilient groups
    verdicts: Mapping[int, PathState] = field(default_factory=dict)  # of the prober
    backups: Collection[int] = ()  # paths that are backups for the remote, or for us
    drains: Mapping[str, Drain] = field(default_factory=dict)  # by device
    waiting_since: Mapping[int, float] = field(default_factory=dict)  # groups that wait for their members
    shares: Mapping[int, Share] = field(default_factory=dict)  # groups whose weights are measured
    refused: Collection[int] = ()  # next hops and groups that the kernel has just refused, or that others keep changing
    gateways: uplinks.Known = field(default_factory=dict)
    rp_filters: Mapping[str, str | None] = field(default_factory=dict)  # of ``all`` and of the uplinks
    mute: Collection[int] = ()  # address families in which the kernel answers no echo requests
    unread: Collection[str] = ()  # bundles of which something may stand, but no plan can be read


@dataclass(frozen=True)
class Decision:
    """What follows. ``wake`` is when to look again for what has no event."""

    want: Desired
    todo: tuple[Action, ...]
    settings: Mapping[str, str]  # below /proc/sys, held while they are named
    nftables: str  # text of our table of all packets
    mirrors: str  # text of that of devices
    vrfs: frozenset[str]
    managed: frozenset[int]  # ifindexes of our devices
    waiting_since: Mapping[int, float]
    wake: float | None = None
    unread: Collection[str] = ()  # bundles of which nothing is taken away, nor anything that they may share with others

    @classmethod
    def nothing(cls) -> Self:
        """What a daemon has decided that has not looked yet."""
        return cls(Desired(), (), {}, "", "", frozenset(), frozenset(), {})

    @property
    def used(self) -> frozenset[int]:
        """Paths that are in a group."""
        return frozenset(self.want.nexthops)

    @property
    def up(self) -> frozenset[int]:
        """Those of them that work."""
        return self.used & self.want.carrying


def still_drained(drains: Mapping[str, Drain], have: KernelState, now: float) -> dict[str, Drain]:
    """Drains that last: a device that is another one by now is drained no more, nor one that nobody has restarted."""
    return {
        device: drain for device, drain in drains.items()
        if device in have.links and have.links[device].index == drain.index and drain.until > now
    }  # fmt: skip


def probing(plans: Sequence[Plan], have: KernelState, drains: Collection[str], known: Mapping[int, PathState]) -> Probing:
    """Which paths are probed; ``known`` are the states of the paths at the look before, by whichever daemon."""
    drained = frozenset(path.nexthop_id for plan in plans for path in plan.paths if path.device in drains)
    members = {member for group in have.groups.values() for member in group.members}
    # With "all-paths-down keep" a dead path is in its group too.
    in_use = frozenset(path for path in members if known.get(path, PathState.UP).answered)
    spared = frozenset(path for path, state in known.items() if state == PathState.BACKUP)
    return Probing(tuple(targets(plans, have)), drained, in_use, spared)


def standing(plans: Sequence[Plan], have: KernelState, resilient: bool) -> dict[int, NextHopGroup]:
    """Groups that are in the kernel, by the ids of the plans."""
    ids = {group.group_id: group_id(group, resilient, have) for plan in plans for group in plan.groups}
    return {number: have.groups[at] for number, at in ids.items() if at is not None and at in have.groups}


def unusable(
    plans: Sequence[Plan],
    verdicts: Mapping[int, PathState],
    drains: Collection[str],
    have: KernelState,
    refused: Collection[int] = (),
    backups: Collection[int] = (),
) -> frozenset[int]:
    """Paths that shall carry nothing even though their devices are there.

    A backup serves while the kernel would take no other one to the same remote, and one that is narrow while it would take
    none on which full packets arrive.
    """
    out = set()
    for plan in plans:
        ranks = {
            path: rank for path in plan.paths if path.device not in drains
            if (rank := _rank(plan, verdicts.get(path.nexthop_id), path.nexthop_id in backups)) is not None
        }  # fmt: skip
        best: dict[tuple[str, int], int] = {}
        for path, rank in ranks.items():
            if path.nexthop_id not in refused and ready(plan, path, plan.instance(path.instance), have):
                best[path.remote, path.family] = min(rank, best.get((path.remote, path.family), rank))
        good = {path.nexthop_id for path, rank in ranks.items() if rank <= best.get((path.remote, path.family), rank)}
        out |= {path.nexthop_id for path in plan.paths} - good
    return frozenset(out)


def _rank(plan: Plan, verdict: PathState | None, backup: bool) -> int | None:
    """How good a path is, 0 the best; None for one that does not work. Only the best ones to a remote are used."""
    if not plan.health.enabled or verdict == PathState.UP:
        return 1 if backup else 0
    if verdict == PathState.NARROW:
        return 3 if backup else 2
    return None


def _backups(plans: Sequence[Plan], told: Collection[int]) -> frozenset[int]:
    """Paths that are backups, by the plans or as remotes have told."""
    return frozenset(told) | {path.nexthop_id for plan in plans for path in plan.paths if path.backup}


def _all_backups(plans: Sequence[Plan], backups: Collection[int]) -> Iterator[str]:
    """Sentences about remotes to which there is nothing that a backup could stand in for."""
    for plan in plans:
        for remote in dict.fromkeys(group.remote for group in plan.groups if set(group.members) <= set(backups)):
            yield f"{plan.bundle}: each path to {remote} is a backup for this router or for {remote}, so all share the traffic; make one of them none"


def decide(seen: Inputs) -> Decision:
    """What shall be, and what is to be done now."""
    plans, have = seen.plans, seen.have
    backups = _backups(plans, seen.backups)
    out = unusable(plans, seen.verdicts, seen.drains, have, seen.refused, backups)
    rp_filter = seen.rp_filters.get("all") or "0"
    want = desired_state(
        plans, have, out, seen.resilient, seen.waiting_since, seen.now, rp_filter, seen.shares, seen.refused, backups
    )
    full_tunnel.add(want, plans, have)
    uplinks.add(want, plans, have, seen.gateways)
    want.notes += mute_notes(plans, seen.mute)
    want.notes += _all_backups(plans, backups)
    for plan in plans:
        own = own_networks.networks(have.links.values(), have.local, plan.vrf)
        want.notes += own_networks.conflicts(plan, own)
    used = uplinks.devices(plans, have)
    return Decision(
        want,
        tuple(actions(want, have, seen.unread)),
        {**router_wide(plans), **uplinks.loose(used, seen.rp_filters, rp_filter)},
        table.script(
            mss.chains(plans, want.devices),
            spoofed.chains(plans, have.local, have.links.values()),
            forwarding.chains(plans),
            solicited.chains(plans),
            unsealed.chains(plans),
        ),
        mirror.table(plans, have.links),
        frozenset(name for name, link in have.links.items() if link.table is not None),
        frozenset(have.links[name].index for name in want.devices if name in have.links),
        {group: seen.waiting_since.get(group, seen.now) for group in want.waiting},
        want.wake,
        seen.unread,
    )


def path_states(
    plans: Sequence[Plan],
    have: KernelState,
    up: Collection[int],
    verdicts: Mapping[int, PathState],
    drains: Collection[str],
    blocked: Collection[int],
    backups: Collection[int] = (),
) -> dict[int, PathState]:
    """The state of every path. ``up`` are those that are in a group and work, ``blocked`` those that get no packets."""
    out = unusable(plans, verdicts, drains, have, backups=_backups(plans, backups))

    def state(plan: Plan, entry: PathPlan) -> PathState:
        path, device = entry.nexthop_id, entry.device
        if path in up:
            return PathState.NO_ROUTE if path in blocked else PathState.UP
        if device not in have.links:
            return PathState.NO_DEVICE
        if device in drains:
            return PathState.DRAINED
        if path in blocked and path not in out:
            return PathState.NO_ROUTE
        verdict = verdicts.get(path, PathState.WAITING)
        if plan.health.enabled and verdict != PathState.UP:
            return verdict
        spared = path in out and ready(plan, entry, plan.instance(entry.instance), have)
        return PathState.BACKUP if spared else PathState.WAITING

    return {path.nexthop_id: state(plan, path) for plan in plans for path in plan.paths}
