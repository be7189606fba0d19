"""What shall stand in the kernel now, given the plans and the devices that exist; pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from zerotier_multi import devices, names
from zerotier_multi.pathd.balance.spread import MAX_WEIGHT
from zerotier_multi.plan import GroupPlan, InstancePlan, NetworkPlan, PathPlan, Plan
from zerotier_multi.planner import best_mtu
from zerotier_multi.netlink.nexthops import FORCED_AFTER, NextHop, NextHopGroup, group_weights
from zerotier_multi.netlink.state import KernelState
from zerotier_multi.netlink.links import Address, Link, Neighbour
from zerotier_multi.netlink.routes import RT_TABLE_MAIN, Route
from zerotier_multi.netlink.rules import Rule

# How long the first group of a remote waits for the rest of its members, in seconds. Built at once with all
# of them, the groups of both ends have the same layout, so that both directions of a flow use one instance.
GROUP_GRACE = 2.0
SETTLED_AFTER = 60  # seconds for which flows in progress stay where they are although the weights want them elsewhere
DEFAULTS = ("0.0.0.0/0", "::/0")


@dataclass(frozen=True)
class DeviceState:
    """What a device shall be; None leaves a thing as it is."""

    name: str
    up: bool
    mtu: int | None
    master: int
    alias: str | None = None


@dataclass
class Desired:
    """What shall stand. ``problems`` are sentences for the operator, ``wake`` is when to look again.

    ``notes`` are sentences too, about what cannot be helped by trying again.
    """

    own_devices: set[str] = field(default_factory=set)
    devices: dict[str, DeviceState] = field(default_factory=dict)
    managed: set[int] = field(default_factory=set)  # ifindexes of devices on which a controller may set addresses, too
    addresses: set[Address] = field(default_factory=set)
    neighbours: set[Neighbour] = field(default_factory=set)
    ready: dict[int, NextHop] = field(default_factory=dict)  # of every path that the kernel would take one for
    nexthops: dict[int, NextHop] = field(default_factory=dict)  # those of them that are in a group
    groups: dict[int, NextHopGroup] = field(default_factory=dict)
    carrying: set[int] = field(default_factory=set)  # next hops that work; with "keep" a group may hold others too
    routes: set[Route] = field(default_factory=set)
    rules: set[Rule] = field(default_factory=set)
    sysctls: dict[str, str] = field(default_factory=dict)
    zones: dict[str, int] = field(default_factory=dict)  # device in a VRF -> its conntrack zone
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    standing: dict[int, int] = field(default_factory=dict)  # group of a plan -> id that it shall have in the kernel
    waiting: set[int] = field(default_factory=set)  # groups that wait for the rest of their members
    wake: float | None = None


@dataclass(frozen=True)
class Share:
    """Measured weights of a group by path; ``forced`` while busy buckets are moved."""

    weights: Mapping[int, int]
    forced: bool = False


_EQUAL = Share({})


def member_sysctls(device: str, rp_filter_all: str, bridged: bool = False, closed: bool = False) -> dict[str, str]:
    """Settings of a TAP: it answers only for itself and takes what asymmetric ECMP brings back.

    ``closed``: only routers with these settings are there, which ask by an address of the subnet (``arp_announce``). The
    sender of a request that is answered gets an entry in a table that all devices share, so nobody else is answered.

    The kernel applies the stricter of ``all`` and the device's ``rp_filter``, so where ``all`` is on, loose
    mode (2) is the only way out. VyOS gives new devices no link-local address (``addr_gen_mode`` 1 by default,
    vyos-1x ``31-vyos-addr_gen_mode.conf``), and without one a router cannot ask for the neighbours of what it forwards.
    The port of a bridge needs none.
    """
    return {
        **({} if bridged else {f"net/ipv6/conf/{device}/addr_gen_mode": "0"}),
        f"net/ipv4/conf/{device}/arp_ignore": "2" if closed else "1",
        f"net/ipv4/conf/{device}/arp_announce": "2",
        f"net/ipv4/conf/{device}/rp_filter": "2" if rp_filter_all != "0" else "0",
        f"net/ipv6/conf/{device}/accept_ra": "0",
    }


def desired_state(
    plans: Iterable[Plan],
    observed: KernelState,
    unusable: Collection[int],
    resilient: bool,
    waiting_since: Mapping[int, float],
    now: float,
    rp_filter_all: str = "0",
    shares: Mapping[int, Share] | None = None,
    refused: Collection[int] = (),
    backups: Collection[int] = (),
) -> Desired:
    """Everything that shall stand for ``plans``.

    ``unusable`` are next hops that shall carry nothing even though their devices are there (health, draining);
    ``resilient`` whether the kernel has resilient groups; ``waiting_since`` since when, in the seconds of ``now``, a
    group waits for the rest of its members; ``shares`` are those groups whose weights are measured; ``refused`` are next
    hops and groups (by the id in their plan) that cannot be made at present; ``backups`` are next hops that nothing waits for.
    """
    want = Desired()
    for plan in plans:
        _bundle(want, plan, observed, rp_filter_all)
        if plan.instances:
            _paths(want, plan, observed, unusable, resilient, waiting_since, now, shares or {}, refused, backups)
    return want


def _master(want: Desired, plan: Plan, observed: KernelState) -> tuple[int, int] | None:
    """(ifindex of the VRF or 0, its table); None while a VRF that is wanted is not there."""
    if plan.vrf is None:
        return 0, RT_TABLE_MAIN
    link = observed.links.get(plan.vrf)
    if link is None or link.table is None:
        want.problems.append(f"{plan.bundle}: VRF {plan.vrf} does not exist, so nothing is routed")
        return None
    return link.index, link.table


def _bundle(want: Desired, plan: Plan, observed: KernelState, rp_filter_all: str) -> None:
    vrf = _master(want, plan, observed)
    if vrf is None:
        return
    foreign = _foreign(plan, observed)
    want.notes += [
        f"{plan.bundle}: {name} is {devices.what(link)} of another program, which is left as it is and carries nothing of the "
        f"bundle; stop that program or give its device another name"
        for name, link in foreign.items()
    ]
    if plan.vrf is not None:
        # Also for devices to come, so that their first packet is tracked in the right zone.
        own_names = [plan.bundle, *(device for i in plan.instances for device in i.devices)]
        want.zones |= {name: vrf[1] for name in own_names if name not in foreign}
    own = _own(plan, observed)
    if plan.bundle not in foreign:
        # A disabled bundle keeps its device, down and without addresses, as other interfaces of the router do.
        want.own_devices.add(plan.bundle)
        want.devices[plan.bundle] = DeviceState(plan.bundle, bool(plan.instances), plan.mtu or 1500, vrf[0], plan.description)
    if own:
        want.addresses |= {Address(own.index, a) for a in plan.addresses}
    for instance, network in ((i, n) for i in plan.instances for n in i.joined):
        device, transit = network.device, instance.transit if network.device == instance.device else ()
        link = observed.links.get(device)
        if link is None or device in foreign:
            continue
        want.devices[device] = DeviceState(
            device, True, _mtu(plan, network, link), _bridge(want, plan, network, observed) or vrf[0]
        )
        want.addresses |= {Address(link.index, a) for a in (*transit, *network.addresses)}
        bridged = network.bridge is not None
        want.sysctls |= member_sysctls(device, rp_filter_all, bridged, plan.controller_free)
        if network.allow_managed:
            want.managed.add(link.index)
    for path in plan.paths:
        link = observed.links.get(path.device)
        if link and path.lladdr and path.device not in foreign:
            want.neighbours.add(Neighbour(link.index, path.via, path.lladdr))


def _own(plan: Plan, observed: KernelState) -> Link | None:
    """The device of the bundle; None while it is not there, and where another program has one of that name."""
    link = observed.links.get(plan.bundle)
    return link if link and devices.made_by_us(link) else None


def _foreign(plan: Plan, observed: KernelState) -> dict[str, Link]:
    """Devices of other programs that have names of this bundle: nothing is done to them."""
    members = [device for instance in plan.instances for device in instance.devices]
    found = {plan.bundle: devices.made_by_us, **dict.fromkeys(members, devices.may_be_of_instance)}
    return {name: link for name, ours in found.items() if (link := observed.links.get(name)) and not ours(link)}


def _mtu(plan: Plan, network: NetworkPlan, link: Link) -> int | None:
    """Of a TAP. A bridge passes frames of its other ports, and cannot have senders make smaller ones as a router does."""
    return plan.mtu or (None if network.bridge else best_mtu(link.mtu))


def _bridge(want: Desired, plan: Plan, network: NetworkPlan, observed: KernelState) -> int:
    """Ifindex of the bridge that a TAP is a port of; 0 for one of none, and while that is not there."""
    if network.bridge is None:
        return 0
    link = observed.links.get(network.bridge)
    if link is None or link.kind != "bridge":
        why = "does not exist" if link is None else "is no bridge"
        want.notes.append(
            f"{plan.bundle}: {network.bridge} {why}, so {network.device} (network {network.network_id}) is a port of none"
        )
        return 0
    return link.index


def ready(plan: Plan, path: PathPlan, instance: InstancePlan | None, observed: KernelState) -> Link | None:
    """The device of a path when the kernel would take a next hop over it: up, carrier, addressed."""
    link = observed.links.get(path.device)
    if instance is None or link is None or not devices.may_be_of_instance(link) or not (link.up and link.carrier):
        return None
    own = {a for a in instance.transit if ipaddress.ip_interface(a).version == path.family}
    return link if any(Address(link.index, a) in observed.addresses for a in own) else None


def _paths(
    want: Desired,
    plan: Plan,
    observed: KernelState,
    unusable: Collection[int],
    resilient: bool,
    waiting_since: Mapping[int, float],
    now: float,
    shares: Mapping[int, Share],
    refused: Collection[int],
    backups: Collection[int],
) -> None:
    vrf = _master(Desired(), plan, observed)
    if vrf is None:
        return
    for path in plan.paths:
        link = ready(plan, path, plan.instance(path.instance), observed)
        if link is None or path.nexthop_id in refused:
            continue
        want.ready[path.nexthop_id] = NextHop(path.nexthop_id, link.index, path.via)
        if path.nexthop_id not in unusable:
            want.carrying.add(path.nexthop_id)
    weight_of = {path.nexthop_id: path.weight for path in plan.paths}
    for group in plan.groups:
        number = group_id(group, resilient, observed)
        members = tuple(m for m in group.members if m in want.carrying)
        # One that the kernel refuses is not waited for: it may do so for good.
        complete = all(m in want.carrying or m in refused or m in backups for m in group.members)
        if not members and plan.keep_routes:
            members = tuple(m for m in group.members if m in want.ready)
        # One that is only changed, and goes on carrying traffic, is better than none.
        if not members or (group.group_id in refused and number not in observed.groups):
            continue
        end = waiting_since.get(group.group_id, now) + GROUP_GRACE
        if number is None:
            want.problems.append(f"{plan.bundle}: all next-hop ids for the group to {group.remote} (IPv{group.family}) are taken "
                                 f"by other programs, so nothing is routed; remove one with: ip nexthop del id {group.group_id}")  # fmt: skip
            continue
        if number != group.group_id and (stray := observed.strays.get(group.group_id)):
            want.notes.append(f"{plan.bundle}: next hop {stray.id} is {stray.text} of another program, so the group to {group.remote} "
                              f"(IPv{group.family}) is {number}; remove it with: ip nexthop del id {stray.id}")  # fmt: skip
        stands = any(group.group_id + offset in observed.groups for offset in names.GROUP_OFFSETS)  # perhaps with other buckets
        if not stands and not complete and now < end:
            want.waiting.add(group.group_id)
            want.wake = min(want.wake or end, end)
            continue
        buckets = group.buckets if resilient else 0
        share = shares.get(group.group_id, _EQUAL)
        weights = fitting(share.weights.get(m, weight_of[m]) for m in members)
        want.groups[number] = NextHopGroup(
            number,
            members,
            buckets,
            group.idle_timer if resilient else 0,
            group_weights(weights),
            _unbalanced(plan, share) if buckets else 0,
        )
        want.nexthops |= {m: want.ready[m] for m in members}
        want.standing[group.group_id] = number
    own = _own(plan, observed)
    addressed = plan.bundle not in _foreign(plan, observed)
    for route in plan.routes:
        if route.group_id in want.standing:
            metric, table = names.route_metric(route.prefix), route_table(plan, route.prefix, vrf[1])
            source = route.source if addressed else None  # the kernel takes no source that is not the router's
            want.routes.add(Route(route.prefix, want.standing[route.group_id], source, table, metric))
            # FRR sees no next-hop object of others, but this one, and so shows and announces the prefix. It would take a
            # default route for a better one than the underlay's, and take that away.
            if own and own.up and table == vrf[1]:
                want.routes.add(Route(route.prefix, 0, route.source, vrf[1], names.SEEN_METRIC, own.index))


def _unbalanced(plan: Plan, share: Share) -> float:
    """Seconds after which busy buckets move to where the weights want them.

    Where no bucket is ever idle, a path that returns, or a new weight, would get nothing for good. With measured weights the
    daemon decides by itself which flows are worth a move.
    """
    if plan.auto_weights:
        return FORCED_AFTER if share.forced else 0
    return SETTLED_AFTER


def route_table(plan: Plan, prefix: str, main: int) -> int:
    """The table of a route; a full tunnel has its own, so that the underlay keeps its default route."""
    return names.FULL_TUNNEL_TABLE if plan.vrf is None and prefix in DEFAULTS else main


def fitting(weights: Iterable[int]) -> tuple[int, ...]:
    """Weights as the kernel takes them: 1 to 256, about in their proportion."""
    found = tuple(weights)
    most = max(found, default=1)
    return found if most <= MAX_WEIGHT else tuple(max(1, weight * MAX_WEIGHT // most) for weight in found)


def group_id(group: GroupPlan, resilient: bool, observed: KernelState) -> int | None:
    """Id that a group has or gets: an existing one of ours keeps its id unless its size changes.

    Else it is the first id that nothing has; None where others have them all.
    """
    buckets = group.buckets if resilient else 0
    candidates = [group.group_id + offset for offset in names.GROUP_OFFSETS]
    for number in candidates:
        if number in observed.groups and observed.groups[number].buckets == buckets:
            return number
    return next(
        (n for n in candidates if not any(n in taken for taken in (observed.groups, observed.strays, observed.nexthops))), None
    )
