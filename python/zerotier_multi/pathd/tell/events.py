"""What has happened, from two looks at the router; pure.

An event is told in a sentence and in fields, which are the same in the journal and in the environment of a hook.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field

from zerotier_multi import membership, names
from zerotier_multi.membership import Member
from zerotier_multi.pathd.kernel.repairs import FREE, PAUSE, WINDOW, Change
from zerotier_multi.plan import InstancePlan, NetworkPlan, PathPlan, Plan
from zerotier_multi.ports import Holder
from zerotier_multi.states import WORKING, BundleState, PathState, bundle_state, working

WARNING, NOTICE, INFO = 4, 5, 6  # priorities of syslog(3)

MOVED, UNRESOLVED = "endpoint-moved", "endpoint-unresolved"
REVIVED, KILLED, RESTARTED = "instance-revived", "instance-killed", "instance-restarted"
STARTS = frozenset({REVIVED, KILLED, RESTARTED})  # after which an instance starts anew; systemd starts a killed one
BUSY, BLOCKED = "instance-busy", "instance-blocked"

REPAIRED, CONTESTED = "repaired", "contested"

Remote = tuple[str, str]  # bundle and name


@dataclass(frozen=True)
class Event:
    """One thing that has happened. A field that is None does not belong to its kind."""

    kind: str
    priority: int
    message: str
    bundle: str
    cause: str
    before: str | None = None
    after: str | None = None
    remote: str | None = None
    instance: int | None = None
    family: int | None = None
    device: str | None = None
    network: str | None = None
    node: str | None = None

    def fields(self) -> dict[str, str]:
        """Its fields under the names that others see."""
        named = {
            "EVENT": self.kind,
            "BUNDLE": self.bundle,
            "REMOTE": self.remote,
            "INSTANCE": self.instance,
            "FAMILY": self.family,
            "DEVICE": self.device,
            "NETWORK": self.network,
            "NODE": self.node,
            "FROM": self.before,
            "TO": self.after,
            "CAUSE": self.cause,
        }
        return {f"ZEROTIER_{name}": str(value) for name, value in named.items() if value is not None}


@dataclass(frozen=True)
class Seen:
    """One look: what is not named in it was not looked at."""

    states: Mapping[int, str] = field(default_factory=dict)  # word of each path, by the id of its next hop
    devices: Mapping[str, int] = field(default_factory=dict)  # ifindex of each member device, 0: it is not there
    ready: frozenset[int] = frozenset()  # paths that the kernel would take a next hop for
    members: Mapping[str, Member] = field(default_factory=dict)  # instances on networks of controllers, by device
    blocked: Mapping[int, str] = field(default_factory=dict)  # why a path gets no traffic of the kernel's
    unrouted: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # of each bundle prefixes, and why
    passes: Mapping[int, int] = field(default_factory=dict)  # largest packet of a path that loses full ones, bytes; 0: none
    wide: frozenset[int] = frozenset()  # paths over which full packets have come lately
    fresh: frozenset[int] = frozenset()  # paths that were added to a bundle and have not been up since
    remotes: Mapping[int, Remote] = field(default_factory=dict)  # of each path: another one may get its number
    gone: Mapping[Remote, float] = field(default_factory=dict)  # remotes that no path carries any more, and since when
    at: float = 0.0  # seconds of the clock that ``gone`` is of


def remembered(plans: Iterable[Plan], states: Mapping[int, str], now: Seen, unrouted: Mapping[str, Mapping[str, str]]) -> Seen:
    """The look before the first one of a daemon started anew, out of what it finds written down.

    A device that paths were seen over is taken for the one that is there now.
    """
    devices = {}
    for path in (path for plan in plans for path in plan.paths if path.nexthop_id in states):
        absent = states[path.nexthop_id] == PathState.NO_DEVICE
        devices[path.device] = 0 if absent else now.devices.get(path.device) or -1
    ready = frozenset(path for path, state in states.items() if PathState(state).answered)
    return Seen(states, devices, ready, unrouted=unrouted)


def fresh(before: Seen, after: Seen) -> frozenset[int]:
    """Paths of the later look that a commit has added to a bundle and that have not been up since: that is no fault."""
    bundles = set(map(names.bundle_of_nexthop, before.states))
    return frozenset(
        path for path, word in after.states.items()
        if word not in WORKING
        and (path in before.fresh if path in before.states else names.bundle_of_nexthop(path) in bundles)
    )  # fmt: skip


def carried(plans: Iterable[Plan], seen: Seen) -> dict[Remote, bool]:
    """Whether some path carries traffic to a remote; without those that have only paths which count for no bundle yet."""
    remotes = {path.nexthop_id: (plan.bundle, path.remote) for plan in plans for path in plan.paths} | dict(seen.remotes)
    found: dict[Remote, bool] = {}
    for path, word in seen.states.items():
        if path in remotes and path not in seen.fresh:
            found[remotes[path]] = found.get(remotes[path], False) or word == PathState.UP
    return found


def gone(plans: Iterable[Plan], before: Seen, after: Seen) -> dict[Remote, float]:
    """Remotes that no path carries any more at the later look, and since when; not those that none has carried before."""
    was, now = (carried(plans, seen) for seen in (before, after))
    return {
        remote: before.gone.get(remote, after.at)
        for remote, up in now.items()
        if not up and (remote in before.gone or was.get(remote))
    }


def events(plans: Collection[Plan], before: Seen, after: Seen) -> Iterator[Event]:
    """What has happened between two looks: devices first, then the paths over them, then their remotes and bundles.

    What is seen for the first time is no event.
    """
    was_carried, is_carried = (carried(plans, seen) for seen in (before, after))
    for plan in plans:
        for instance in plan.instances:
            yield from _device_event(plan, instance, before, after)
            for network in instance.joined:
                yield from _member_event(plan, instance, network, before, after)
        to: dict[str, list[PathPlan]] = {}
        for path in plan.paths:
            to.setdefault(path.remote, []).append(path)
            was = before.states.get(path.nexthop_id)
            if was is not None and was != after.states[path.nexthop_id]:
                yield _path_event(plan, path, before, after)
            yield from _width_event(plan, path, before, after)
        for remote, paths in to.items():
            was_up, is_up = (found.get((plan.bundle, remote)) for found in (was_carried, is_carried))
            if was_up is not None and is_up is not None and was_up != is_up:
                yield _remote_event(plan, remote, paths, before, after)
        yield from _bundle_event(plan.bundle, before, after)


# -- paths


def _path_event(plan: Plan, path: PathPlan, before: Seen, after: Seen) -> Event:
    was, word = before.states[path.nexthop_id], after.states[path.nexthop_id]
    cause = path_cause(plan, path, before, after)
    if word == PathState.UP:
        kind, priority = "path-up", NOTICE
    elif word == PathState.BACKUP:
        kind, priority = "path-backup", NOTICE
    elif was in WORKING:
        kind, priority = "path-down", NOTICE if word == PathState.DRAINED else WARNING
    else:
        kind, priority = "path-state", INFO
    return Event(
        kind, priority, f"path {_name(plan, path)}: {was} -> {word}: {cause}", plan.bundle, cause, was, word,
        path.remote, path.instance, path.family, path.device,
    )  # fmt: skip


def _name(plan: Plan, path: PathPlan) -> str:
    return f"{plan.bundle}/{path.instance} to {path.remote} (IPv{path.family})"


def _width_event(plan: Plan, path: PathPlan, before: Seen, after: Seen) -> Iterator[Event]:
    """What passes, once it is known and others than full packets do; also where no path is better, and so none is left."""
    was, passes = (seen.passes.get(path.nexthop_id) for seen in (before, after))
    if passes is not None and passes != was:
        kind, priority = "path-narrow", WARNING
        cause = f"probes of {f'more than {passes} bytes' if passes else 'full size'} are lost"
    elif passes is None and was is not None:
        kind, priority, cause = "path-wide", NOTICE, "probes of full size are answered again"
    else:
        return
    yield Event(
        kind, priority, f"path {_name(plan, path)}: {cause}", plan.bundle, cause,
        remote=path.remote, instance=path.instance, family=path.family, device=path.device,
    )  # fmt: skip


def path_cause(plan: Plan, path: PathPlan, before: Seen, after: Seen) -> str:
    """Why a path is in its state: a short sentence."""
    was = before.states.get(path.nexthop_id)
    member = after.members.get(path.device)
    if member and member.waits and after.states[path.nexthop_id] not in (*WORKING, PathState.DRAINED):
        return membership.cause(member)
    match after.states[path.nexthop_id]:
        case PathState.UP:
            return _why_up(plan, path, was, after)
        case PathState.BACKUP:
            return "it is a backup, and another path to the remote works"
        case PathState.DOWN:
            return _why_down(plan, was, _made_anew(path.device, before, after))
        case PathState.HELD:
            return "it fell too often and is held for a while"
        case PathState.REMOTE_DOWN:
            return "the remote does not hear us over it"
        case PathState.NARROW:
            return "packets of full size are lost on it, and not on other paths"
        case PathState.DRAINED:
            return "drained for a restart"
        case PathState.NO_ROUTE:
            return after.blocked.get(path.nexthop_id, "the kernel sends nothing over it")
        case PathState.NO_DEVICE:
            return "the device is not there" if was is None else "the device is gone"
        case _:
            ready = path.nexthop_id in after.ready
            return "it waits for the other paths to the remote" if ready else "the device is not ready"


def _why_up(plan: Plan, path: PathPlan, was: str | None, after: Seen) -> str:
    if was == PathState.REMOTE_DOWN:
        return "the remote hears us over it again"
    if was == PathState.BACKUP:
        others = (p for p in plan.paths if (p.remote, p.family) == (path.remote, path.family) and p != path)
        if any(after.states.get(other.nexthop_id) == PathState.UP for other in others):
            return "it is no backup any more, or several are in use"
        return "it is a backup, and no other path to the remote works"
    if was == PathState.NARROW:
        return "packets of full size arrive again, or on no other path either"
    if was == PathState.NO_ROUTE:
        return "the kernel sends over it again"
    if was == PathState.HELD:
        return "it has answered for long enough"
    return "its probes are answered" if plan.health.enabled else "the device is ready"


def _why_down(plan: Plan, was: str | None, made_anew: bool) -> str:
    if made_anew:
        return "the device was created again; no answer over it yet"
    if was is None:
        return "no answer to its probes"
    return "no answer to its probes yet" if not PathState(was).probed else f"no answer to {plan.health.multiplier} probes"


# -- remotes


def _remote_event(plan: Plan, remote: str, paths: Iterable[PathPlan], before: Seen, after: Seen) -> Event:
    """The first of its paths carries traffic, or none does any more."""
    words = [after.states[path.nexthop_id] for path in paths]
    cause = f"{working(words)} of {len(words)} paths are up"
    if PathState.UP in words:
        kind, priority, was, now = "remote-up", NOTICE, BundleState.DOWN, BundleState.UP
        since = before.gone.get((plan.bundle, remote))
        cause += "" if since is None else f", after {after.at - since:.0f} s"
    else:
        fell = [path for path in paths if before.states.get(path.nexthop_id) == PathState.UP]
        drained = fell and all(after.states[path.nexthop_id] == PathState.DRAINED for path in fell)
        kind, priority, was, now = "remote-down", NOTICE if drained else WARNING, BundleState.UP, BundleState.DOWN
        why = dict.fromkeys(path_cause(plan, path, before, after) for path in fell)
        cause += f": {'; '.join(why)}" if why else ""
    message = f"remote {remote} of {plan.bundle}: {was} -> {now}: {cause}"
    return Event(kind, priority, message, plan.bundle, cause, was, now, remote)


# -- devices and instances


def _made_anew(device: str, before: Seen, after: Seen) -> bool:
    was, index = before.devices.get(device), after.devices.get(device)
    return bool(was and index and was != index)


def _device_event(plan: Plan, instance: InstancePlan, before: Seen, after: Seen) -> Iterator[Event]:
    was, index = before.devices.get(instance.device), after.devices.get(instance.device)
    if was is None or index is None or was == index:
        return
    states = [before.states.get(path.nexthop_id) for path in plan.paths if path.device == instance.device]
    if index:
        kind, priority, cause = "device-appeared", NOTICE, f"the instance has created it{' again' if was else ''}"
    elif states and all(state == PathState.DRAINED for state in states):
        kind, priority, cause = "device-gone", NOTICE, "drained for a restart"
    else:
        kind, priority, cause = "device-gone", WARNING, "the instance has ended or left its network"
    words = ("present" if was else "absent", "present" if index else "absent")
    message = f"device {instance.device} of {plan.bundle}/{instance.number}: {words[0]} -> {words[1]}: {cause}"
    yield Event(kind, priority, message, plan.bundle, cause, *words, instance=instance.number, device=instance.device)


def _member_event(plan: Plan, instance: InstancePlan, network: NetworkPlan, before: Seen, after: Seen) -> Iterator[Event]:
    """What stands in the way, and when it does no more; whether a member's paths are up is told as events of these.

    That an instance waits is told also when it is seen for the first time, since all begin like this.
    """
    was, now = before.members.get(network.device), after.members.get(network.device)
    words = (was.word if was else "unknown", now.word if now else "unknown")
    if now is None or words[0] == words[1] or (not now.waits and (was is None or not was.waits)):
        return
    cause, name = membership.cause(now), f"{plan.bundle}/{instance.number}"
    yield Event(
        "network-state", WARNING if now.waits else NOTICE,
        f"instance {name} on network {network.network_id}: {words[0]} -> {words[1]}: {cause}", plan.bundle, cause, *words,
        instance=instance.number, device=network.device, network=network.network_id, node=now.node,
    )  # fmt: skip


def revival(bundle: str, instance: InstancePlan, cause: str) -> Event:
    """The daemon starts an instance again."""
    return _intervention(REVIVED, bundle, instance, "started again", cause)


def hang(bundle: str, instance: InstancePlan) -> Event:
    """The daemon kills an instance, so that systemd starts it again."""
    return _intervention(KILLED, bundle, instance, "killed", "it runs but does not answer")


def busy(bundle: str, instance: InstancePlan, crowd: str) -> Event:
    """An instance works, but others keep its API from answering."""
    cause = f"{crowd} to TCP port {instance.port} keep its API from answering"
    message = f"instance {bundle}/{instance.number}: {cause}; it is not restarted"
    return Event(BUSY, WARNING, message, bundle, cause, instance=instance.number, device=instance.device)


def blocked(bundle: str, instance: InstancePlan, holder: Holder) -> Event:
    """An instance cannot start, because another program has its port."""
    cause = f"{holder.protocol} port {instance.port} is taken by {holder}"
    message = (
        f"instance {bundle}/{instance.number}: {instance.unit} cannot start: {cause}; it is started as soon as the port is free"
    )
    return Event(BLOCKED, WARNING, message, bundle, cause, instance=instance.number, device=instance.device)


def freed(bundle: str, instance: InstancePlan) -> Event:
    """The port of an instance is free again."""
    return _intervention(REVIVED, bundle, instance, "started again", f"port {instance.port} is free again")


def recovery(bundle: str, instance: InstancePlan, cause: str) -> Event:
    """The daemon restarts an instance whose engine does not follow addresses by itself."""
    return _intervention(RESTARTED, bundle, instance, "restarted", cause)


# -- what others change


def repaired(changes: Iterable[Change]) -> Iterator[Event]:
    """Things of bundles are again as they were, one event for each bundle."""
    for bundle, found in _by_bundle(changes).items():
        cause = "; ".join(map(str, found))
        yield Event(REPAIRED, WARNING, f"bundle {bundle}: restored what another program had changed: {cause}", bundle, cause)


def contested(changes: Iterable[Change]) -> Iterator[Event]:
    """Things of bundles are changed again and again."""
    for bundle, found in _by_bundle(changes).items():
        cause = "; ".join(f"{change.what} was {change.found} more than {FREE} times in {WINDOW:g} s" for change in found)
        message = f"bundle {bundle}: another program undoes changes of zerotier-pathd, which pauses for {PAUSE:g} s: {cause}"
        yield Event(CONTESTED, WARNING, message, bundle, cause)


def _by_bundle(changes: Iterable[Change]) -> dict[str, list[Change]]:
    found: dict[str, list[Change]] = {}
    for change in changes:
        found.setdefault(change.bundle, []).append(change)
    return found


# -- endpoints that are names


def endpoint_moved(bundle: str, remote: str, name: str, was: Iterable[str], now: Iterable[str]) -> Event:
    """The name of an endpoint has other addresses than before."""
    before, after = ", ".join(was) or "not known", ", ".join(now)
    cause = f"{name} is {after} now"
    return Event(
        MOVED, NOTICE, f"endpoint of {remote} ({bundle}): {name}: {before} -> {after}", bundle, cause, before, after, remote
    )


def unresolved(bundle: str, remote: str, fault: str) -> Event:
    """The name of an endpoint could not be looked up."""
    return Event(UNRESOLVED, WARNING, f"endpoint of {remote} ({bundle}): {fault}", bundle, fault, remote=remote)


def _intervention(kind: str, bundle: str, instance: InstancePlan, done: str, cause: str) -> Event:
    message = f"instance {bundle}/{instance.number}: {instance.unit} is {done}: {cause}"
    return Event(kind, WARNING, message, bundle, cause, instance=instance.number, device=instance.device)


# -- bundles


def _bundle_event(bundle: str, before: Seen, after: Seen) -> Iterator[Event]:
    def words(seen: Seen, left_out: Set[int]) -> list[str]:
        return [w for path, w in seen.states.items() if names.bundle_of_nexthop(path) == bundle and path not in left_out]

    was, now = (bundle_state(words(seen, seen.fresh), bool(seen.unrouted.get(bundle))) for seen in (before, after))
    if was is None or now is None or was == now:
        return
    priority = NOTICE if now == BundleState.UP or was == BundleState.DOWN else WARNING
    cause = f"{working(words(after, set()))} of {len(words(after, set()))} paths are up"
    cause += "".join(f"; {prefix} does not go over it: {why}" for prefix, why in after.unrouted.get(bundle, {}).items())
    yield Event(f"bundle-{now}", priority, f"bundle {bundle}: {was} -> {now}: {cause}", bundle, cause, was, now)
