"""Bundles, instances and paths as plain data, out of a snapshot; pure.

The schemas are described in docs/op-mode.md. Keys are lower_case_underscore and never data themselves. What is
not known is None.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from zerotier_multi import bridges, membership, names, world
from zerotier_multi.cpu import format_cpu_list
from zerotier_multi.membership import Member
from zerotier_multi.op.controller import controller_data, controller_warnings
from zerotier_multi.op.hello import unread_sentence
from zerotier_multi.op.networks import further_members, further_networks, is_plain_member, node_of
from zerotier_multi.op.peer import peer_node, underlay
from zerotier_multi.op.snapshot import Answer, Snapshot
from zerotier_multi.plan import InstancePlan, NetworkPlan, PathPlan, Plan
from zerotier_multi.planner import HASH_POLICY
from zerotier_multi.states import WORKING, BundleState, PathState, working
from zerotier_multi.states import bundle_state as states_of

SCHEMA = 1
_HASH_NAMES = {number: name for name, number in HASH_POLICY.items()}

Data = dict[str, Any]


def summary(snapshot: Snapshot, unusable: Iterable[str] = ()) -> Data:
    """All bundles, one entry each; ``unusable`` says of each further one what is wrong with its plan."""
    return {
        "schema": SCHEMA,
        "window_seconds": window(snapshot),
        "bundles": [bundle_entry(snapshot, plan) for plan in snapshot.plans],
        "warnings": with_unusable(general_warnings(snapshot), unusable),
    }


def with_unusable(warnings: Sequence[str], unusable: Iterable[str]) -> list[str]:
    """Warnings with what is wrong with plans, unless zerotier-pathd has said it: it knows what became of the bundle too."""
    new = [sentence for sentence in unusable if not any(told.startswith(sentence.partition(": ")[0]) for told in warnings)]
    return [*warnings, *new]


def bundle(snapshot: Snapshot, plan: Plan) -> Data:
    """One bundle in detail."""
    return {
        "schema": SCHEMA,
        "window_seconds": window(snapshot),
        **bundle_entry(snapshot, plan),
        "description": plan.description,
        "addresses": list(plan.addresses),
        "vrf": plan.vrf,
        "mirror_ingress": plan.mirror_ingress,
        "mirror_egress": plan.mirror_egress,
        "redirect": plan.redirect,
        "mtu": _mtu(snapshot, plan),
        "adjust_mss": [{"family": f, "mss": mss} for f, mss in zip((4, 6), plan.adjust_mss, strict=True)],
        "controller_free": plan.controller_free,
        "controller": controller_data(snapshot, plan),
        "private_roots": bool(plan.planet),
        "moons": [world.moon_file(base64.b64decode(moon)).removeprefix("moons.d/").removesuffix(".moon") for moon in plan.moons],
        "bridges": [_bridge(snapshot, network) for i in plan.instances for network in i.joined if network.bridge],
        "networks": list(dict.fromkeys(network.network_id for i in plan.instances for network in i.joined)),
        "engine": plan.instances[0].engine if plan.instances else None,
        "engine_reason": plan.engine_reason or None,
        "resilient": snapshot.pathd.get("resilient") if snapshot.pathd else None,
        "health": {
            "enabled": plan.health.enabled,
            "interval_ms": plan.health.interval_ms,
            "multiplier": plan.health.multiplier,
        },
        "remotes": [
            *(_remote(snapshot, plan, name) for name in dict.fromkeys(p.remote for p in plan.paths)),
            *({"remote": r.name, "prefixes": list(r.prefixes), "paths_up": 0, "paths_total": 0} for r in plan.without_identity),
        ],
        "instances": [instance_entry(snapshot, plan, instance) for instance in plan.instances],
        "to_authorize": _to_authorize(snapshot, plan),
        "paths_not_up": [
            path_entry(snapshot, plan, path) for path in plan.paths if path_state(snapshot, plan, path) not in WORKING
        ],
        "general_warnings": general_warnings(snapshot),
    }


def instances(snapshot: Snapshot, plan: Plan) -> Data:
    """The instances of a bundle."""
    return {
        "schema": SCHEMA,
        "bundle": plan.bundle,
        "window_seconds": window(snapshot),
        "instances": [instance_entry(snapshot, plan, instance) for instance in plan.instances],
        "to_authorize": _to_authorize(snapshot, plan),
        "warnings": bundle_warnings(snapshot, plan),
    }


def paths(snapshot: Snapshot, plan: Plan) -> Data:
    """The paths of a bundle."""
    return {
        "schema": SCHEMA,
        "bundle": plan.bundle,
        "now": int(snapshot.now),
        "paths": [path_entry(snapshot, plan, path) for path in plan.paths],
        "warnings": general_warnings(snapshot),
    }


def window(snapshot: Snapshot) -> float:
    """Seconds that rates are averaged over."""
    return round(snapshot.window, 3)


def bundle_entry(snapshot: Snapshot, plan: Plan) -> Data:
    """What both the summary and the detailed form tell of a bundle."""
    states = [path_state(snapshot, plan, path) for path in plan.paths]
    running = [i for i in plan.instances if instance_state(snapshot, plan, i) == BundleState.UP]
    state = bundle_state(plan, states, bool(unrouted(snapshot, plan)))
    if is_plain_member(plan) and running:
        whole = len(running) == len(plan.instances) and not any(m.waits for m in _members(snapshot, plan))
        state = BundleState.UP if whole else BundleState.DEGRADED
    if plan.left_out and state == BundleState.UP:
        state = BundleState.DEGRADED
    return {
        "bundle": plan.bundle,
        "state": state,
        "instances_up": len(running),
        "instances_total": len(plan.instances),
        "paths_up": working(states),
        "paths_total": len(states),
        "rate_in_bits": _bundle_rate(snapshot, plan, "rx_bytes", 8),
        "rate_out_bits": _bundle_rate(snapshot, plan, "tx_bytes", 8),
        "rate_in_packets": _bundle_rate(snapshot, plan, "rx_packets", 1),
        "rate_out_packets": _bundle_rate(snapshot, plan, "tx_packets", 1),
        "hash_policy": _hash_name(plan.hash_policy),
        "hash_policy_in_kernel": _hash_name(snapshot.hash_policy),
        "warnings": bundle_warnings(snapshot, plan),
    }


def _hash_name(number: int | None) -> str | None:
    return None if number is None else _HASH_NAMES.get(number, f"custom {number}")


def unrouted(snapshot: Snapshot, plan: Plan) -> dict[str, str]:
    """Prefixes whose packets do not go over the bundle, and why, as the plan says and the daemon has it from the kernel."""
    told = (snapshot.pathd or {}).get("bundles", {}).get(plan.bundle, {}).get("unrouted", [])
    return {**{str(entry["prefix"]): str(entry["why"]) for entry in told}, **plan.nowhere}


def bundle_state(plan: Plan, states: list[str], unrouted: bool = False) -> str:
    """The one word for a bundle whose paths are in these states; ``unrouted``: packets for some prefix do not go over it."""
    if not plan.instances:
        return BundleState.DISABLED
    return states_of(states, unrouted) or BundleState.DOWN


def _bundle_rate(snapshot: Snapshot, plan: Plan, counter: str, factor: int) -> int | None:
    rates = [rate for i in plan.instances if (rate := snapshot.rate(i.device, counter)) is not None]
    return round(sum(rates) * factor) if rates else None


def _mtu(snapshot: Snapshot, plan: Plan) -> int | None:
    found = [snapshot.kernel.links[i.device].mtu for i in plan.instances if i.device in snapshot.kernel.links]
    return min(found) if found else plan.mtu


def _bridge(snapshot: Snapshot, network: NetworkPlan) -> Data:
    """A bridge, and whether the device of its network is a port of it."""
    device, bridge = (snapshot.kernel.links.get(name or "") for name in (network.device, network.bridge))
    joined = device is not None and bridge is not None and device.master == bridge.index
    return {"bridge": network.bridge, "network": network.network_id, "device": network.device, "joined": joined}


def _remote(snapshot: Snapshot, plan: Plan, name: str) -> Data:
    states = [path_state(snapshot, plan, path) for path in plan.paths if path.remote == name]
    groups = {group.group_id for group in plan.groups if group.remote == name}
    return {
        "remote": name,
        "prefixes": [route.prefix for route in plan.routes if route.group_id in groups],
        "paths_up": working(states),
        "paths_total": len(states),
    }


# -- instances


def instance_state(snapshot: Snapshot, plan: Plan, instance: InstancePlan) -> str:
    """``up``: it runs, answers, has its device and belongs to its network; ``degraded``: it runs; ``down``: it does not."""
    if not snapshot.unit(instance).pid:
        return BundleState.DOWN
    answers = snapshot.answer(instance).status is not None
    member = member_of(snapshot, plan, instance)
    waits = member is not None and member.waits
    return BundleState.UP if answers and instance.device in snapshot.kernel.links and not waits else BundleState.DEGRADED


def member_of(snapshot: Snapshot, plan: Plan, instance: InstancePlan) -> Member | None:
    """Where an instance stands on its controller's network; None without a controller, or when it does not tell."""
    answer = snapshot.answer(instance)
    if plan.controller_free or answer.status is None:
        return None
    states = [(path.remote, path_state(snapshot, plan, path)) for path in plan.paths if path.instance == instance.number]
    status = membership.network_status(answer.networks, instance.network_id)
    node = node_of(snapshot, instance)
    return membership.member(plan, instance, status, bool(answer.status.get("online")), node, states)


def _members(snapshot: Snapshot, plan: Plan) -> list[Member]:
    own = [member for instance in plan.instances if (member := member_of(snapshot, plan, instance))]
    return own + [member for instance in plan.instances for member in further_members(snapshot, plan, instance)]


def _to_authorize(snapshot: Snapshot, plan: Plan) -> list[Data]:
    waiting = membership.to_authorize(_members(snapshot, plan))
    return [{"network": network, "nodes": nodes} for network, nodes in waiting.items()]


def instance_entry(snapshot: Snapshot, plan: Plan, instance: InstancePlan) -> Data:
    """One instance."""
    unit, answer = snapshot.unit(instance), snapshot.answer(instance)
    process, status = snapshot.last.processes.get(instance.unit), answer.status or {}
    percent = snapshot.cpu_percent(instance)
    member = member_of(snapshot, plan, instance)
    return {
        "instance": instance.number,
        "state": instance_state(snapshot, plan, instance),
        "network_state": member.word if member else None,
        "network_status": membership.network_status(answer.networks, instance.network_id),
        "unit": instance.unit,
        "unit_state": unit.active,
        "answers": answer.status is not None,
        "node": node_of(snapshot, instance),
        "version": status.get("version"),
        "engine": instance.engine,
        "network": instance.network_id,
        "further_networks": further_networks(snapshot, plan, instance),
        "port": instance.port,
        "cpus": process.cpus if process else format_cpu_list(instance.cpus) or None,
        "cpu_percent": None if percent is None else round(percent, 1),
        "memory_bytes": process.memory if process else None,
        "cgroup_memory_bytes": unit.cgroup_memory,
        "uptime_seconds": None if unit.uptime is None else int(unit.uptime),
        "restarts": unit.restarts,
        "pid": unit.pid or None,
        "device": instance.device,
        "device_present": instance.device in snapshot.kernel.links,
        "rate_in_bits": bits(snapshot.rate(instance.device, "rx_bytes")),
        "rate_out_bits": bits(snapshot.rate(instance.device, "tx_bytes")),
        "offloads_off": _offloads_off(answer, instance.network_id),
    }


def _offloads_off(answer: Answer, network: str) -> list[str] | None:
    """The offloads that an instance does not use; None where its engine does not say so."""
    own = next((found for found in answer.networks or () if found.get("nwid") == network), {})
    told = [place.get("offloads") for place in (own, (answer.status or {}).get("underlay")) if isinstance(place, Mapping)]
    used = {str(name): value is True for part in told if isinstance(part, Mapping) for name, value in part.items()}
    return [name for name, value in used.items() if not value] if used else None


def bits(rate: float | None) -> int | None:
    """A rate in bytes per second as bits."""
    return None if rate is None else round(rate * 8)


# -- paths


def _told(snapshot: Snapshot, plan: Plan, path: PathPlan) -> Data:
    """What the daemon tells of a path; empty when it does not."""
    told = (snapshot.pathd or {}).get("bundles", {}).get(plan.bundle, {}).get("paths", [])
    wanted = (path.remote, path.instance, path.family)
    return next((p for p in told if (p.get("remote"), p.get("instance"), p.get("family")) == wanted), {})


def path_state(snapshot: Snapshot, plan: Plan, path: PathPlan) -> str:
    """The daemon's word for a path; without the daemon what the kernel does: a path in a group carries traffic."""
    state = _told(snapshot, plan, path).get("state")
    if state is not None:
        return str(state)
    if _carries(snapshot, plan, path):
        return PathState.UP
    return PathState.UNKNOWN if path.device in snapshot.kernel.links else PathState.NO_DEVICE


def _carries(snapshot: Snapshot, plan: Plan, path: PathPlan) -> bool:
    """Whether the path is as planned in the kernel: its next hop in a group, and a route of its remote over that."""
    kernel = snapshot.kernel
    hop, link = kernel.nexthops.get(path.nexthop_id), kernel.links.get(path.device)
    if hop is None or link is None or not link.carrier or (hop.index, hop.via) != (link.index, path.via):
        return False
    group = next(g.group_id for g in plan.groups if path.nexthop_id in g.members)
    standing = {n for n, g in kernel.groups.items() if path.nexthop_id in g.members and names.first_group_id(n) == group}
    prefixes = {route.prefix for route in plan.routes if route.group_id == group}
    return bool(standing) and (not prefixes or any(r.prefix in prefixes and r.nexthop_id in standing for r in kernel.routes))


def path_entry(snapshot: Snapshot, plan: Plan, path: PathPlan) -> Data:
    """One path."""
    instance, told = plan.instance(path.instance), _told(snapshot, plan, path)
    node = peer_node(snapshot, plan, path)
    peers = snapshot.answer(instance).peers if instance else None
    reached = underlay(peers, node, plan.controller_free, snapshot.now)
    state = path_state(snapshot, plan, path)
    member = member_of(snapshot, plan, instance) if instance and state != PathState.UP else None
    return {
        "remote": path.remote,
        "instance": path.instance,
        "family": path.family,
        "device": path.device,
        "next_hop": path.via,
        "next_hop_id": path.nexthop_id,
        "peer_node": node,
        "link": reached.link,
        "relay": _owner(plan, reached.relay),
        "underlay_address": reached.address,
        "latency_ms": reached.latency_ms if told.get("rtt_ms") is None else told["rtt_ms"],
        "loss": told.get("loss"),
        "state": state,
        "since": told.get("since"),
        "changes": told.get("changes"),
        "cause": membership.cause(member) if member and member.waits else told.get("cause"),
    }


def _owner(plan: Plan, node: str | None) -> str | None:
    """Name of the remote that a node belongs to, or the node itself where it is none's."""
    return next((peer.remote for peer in plan.peers if peer.identity.partition(":")[0] == node), node)


# -- warnings


def general_warnings(snapshot: Snapshot) -> list[str]:
    """What concerns the whole router: the daemon's own problems, or that it does not answer."""
    if snapshot.pathd is None:
        return [snapshot.pathd_fault] if snapshot.pathd_fault and snapshot.plans else []
    return [str(problem) for problem in snapshot.pathd.get("problems", [])]


def bundle_warnings(snapshot: Snapshot, plan: Plan) -> list[str]:
    """What is wrong with a bundle, one sentence each."""
    found = [
        f"{plan.bundle}/{number} was left out at boot, because its home {names.home(plan.bundle, number)} cannot be used; "
        f"repair it, then reboot, or commit a change of {plan.bundle}, such as its description"
        for number in plan.left_out
    ]
    for instance in plan.instances:
        name, unit = f"{plan.bundle}/{instance.number}", snapshot.unit(instance)
        obstacle = f": {snapshot.obstacles[instance.unit]}" if instance.unit in snapshot.obstacles else ""
        if not unit.pid:
            why = ", ".join(part for part in (unit.active, unit.end, _restarts(unit.restarts)) if part)
            found.append(f"{name} does not run ({why}){obstacle}; see: journalctl -u {_short(instance)}")
        elif snapshot.answer(instance).status is None:
            found.append(f"{name} runs but does not answer{obstacle}; see: journalctl -u {_short(instance)}")
        elif instance.device not in snapshot.kernel.links and not _waits(snapshot, plan, instance):
            found.append(f"{name} runs but has no device {instance.device}; check the network ID")
        if unread := unread_sentence(name, f"interfaces zerotier {plan.bundle}", snapshot.answer(instance).status):
            found.append(unread)
        if instance.unit in snapshot.broken_identities:
            found.append(f"the identity of {name} is corrupt: {instance.home}/identity.secret")
    found += _replaced(snapshot, plan)
    found += membership.sentences(_members(snapshot, plan))
    for instance in plan.instances:
        found += bridges.not_allowed(plan, instance, snapshot.answer(instance).networks, node_of(snapshot, instance))
    found += controller_warnings(snapshot, plan)
    if plan.hash_policy is not None and snapshot.hash_policy not in (None, plan.hash_policy):
        found.append(
            f"the kernel hashes by {_hash_name(snapshot.hash_policy)}, not by {_hash_name(plan.hash_policy)}; "
            f"another program set net.ipv4.fib_multipath_hash_policy"
        )
    told = (snapshot.pathd or {}).get("bundles", {}).get(plan.bundle, {})
    found += dict.fromkeys(_twin(plan.bundle, path) for path in told.get("paths", []) if path.get("twin"))
    found += _narrow(plan.bundle, told.get("paths", []))
    found += [f"{plan.bundle}: {fault}" for fault in told.get("endpoint_faults", [])]
    elsewhere = {prefix: why for prefix, why in unrouted(snapshot, plan).items() if prefix not in plan.nowhere}
    found += [f"packets for {prefix} do not go over {plan.bundle}: {why}" for prefix, why in elsewhere.items()]
    if sunk := snapshot.sunk.get(plan.bundle):
        found.append(_sunk(plan.bundle, sunk))
    if plan.instances and not plan.paths and not is_plain_member(plan):
        found.append(f"{plan.bundle} has no path: {_why_no_path(plan)}")
    elif plan.paths:
        found += [
            f"{plan.bundle} has no path to {remote.name}: no identity of it is configured for an instance that runs here; "
            f"get its lines there with: show zerotier ztN identity"
            for remote in plan.without_identity
        ]
    return found


def _replaced(snapshot: Snapshot, plan: Plan) -> Iterator[str]:
    """Instances that an upgrade has left on the program of before, as it leaves all: it may have a fault that is mended since."""
    processes = snapshot.last.processes
    numbers = [i.number for i in plan.instances if (process := processes.get(i.unit)) and process.replaced]
    if numbers:
        runs = "runs" if len(numbers) == 1 else "run"
        yield (
            f"{plan.bundle}/{format_cpu_list(numbers)} {runs} the program from before the upgrade; "
            f"to change it: restart zerotier {plan.bundle}"
        )


def _sunk(bundle: str, prefixes: Sequence[str]) -> str:
    """Routes over the device of the bundle, which has no way out: a habit from WireGuard."""
    first, more = prefixes[0], len(prefixes) - 1
    others = f" and {more} other prefix{'es' if more > 1 else ''}" if more else ""
    told = f"{bundle} drops packets for {first}{others}: another program routes them to the device {bundle} itself; delete that route and"
    if first in ("0.0.0.0/0", "::/0"):  # of a table of its own, perhaps, for some hosts
        return f"{told} use the remote's address in the transit prefix as next hop, or, for all traffic of this router, remote NAME prefix {first}"
    return f"{told} set interfaces zerotier {bundle} remote NAME prefix {first}"


def _narrow(bundle: str, paths: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Paths on which small packets arrive and full ones do not: one sentence for those of one remote that are alike.

    A bundle has one MTU for all its remotes.
    """
    alike: dict[tuple[str, int, bool], list[str]] = {}
    for path in paths:
        if path.get("passes") is not None and path["state"] in (PathState.UP, PathState.NARROW):
            used = path["state"] == PathState.UP
            alike.setdefault((path["remote"], path["passes"], used), []).append(f"{bundle}/{path['instance']}")
    least = min((passes for _remote, passes, _used in alike if passes), default=0)
    for (remote, passes, used), found in alike.items():
        effect = "so TCP may stall" if used else "so other paths carry all traffic"
        size = f"more than {passes} bytes" if passes else "full size"
        lost = f"probes of {size} are lost between {remote} and {', '.join(dict.fromkeys(found))}, {effect}"
        if passes:
            yield f"{lost}; on both routers set interfaces zerotier {bundle} mtu {least}, or raise the MTU of the line"
        else:
            yield f"{lost}; raise the MTU of the line, or remove the endpoints that lead over it"


def _twin(bundle: str, path: Mapping[str, Any]) -> str:
    """An identity that is in two places, as after a copy of a disk, or an archive that two routers have read."""
    number, remote = path["instance"], path["remote"]
    if path["twin"] == "own":
        return (
            f"{remote} hears another router with the identity of {bundle}/{number}; "
            f"stop one of the two, or give this one another: reset zerotier {bundle} identity instance {number}"
        )
    return (
        f"two routers with the identity of {remote} send over {bundle}/{number}; stop one of the two, "
        f"or give one of them another: reset zerotier ztN identity instance {number}"
    )


def _waits(snapshot: Snapshot, plan: Plan, instance: InstancePlan) -> bool:
    """Whether its network is the reason why nothing passes."""
    member = member_of(snapshot, plan, instance)
    return member is not None and member.waits


def _restarts(count: int) -> str:
    return f"restarted {count} times" if count else ""


def _short(instance: InstancePlan) -> str:
    return instance.unit.removesuffix(".service")


def _why_no_path(plan: Plan) -> str:
    if plan.controller_free:
        return "no identity of another router is configured; get its lines there with: show zerotier ztN identity"
    return "no remote and transit prefix are configured"
