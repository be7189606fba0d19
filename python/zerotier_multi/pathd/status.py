"""The daemon's state for op mode and metrics: what was seen at the last look, with what is measured; nothing of it is secret."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from zerotier_multi.netlink.state import KernelState
from zerotier_multi.pathd.balance.weights import Weights
from zerotier_multi.pathd.instances.controllers import Controllers
from zerotier_multi.pathd.instances.endpoints import Endpoints
from zerotier_multi.pathd.instances.members import Members
from zerotier_multi.pathd.kernel.forwarding import Blocked
from zerotier_multi.pathd.plans import Plans
from zerotier_multi.pathd.probe.prober import Prober, Silence
from zerotier_multi.pathd.tell.chronicle import Chronicle
from zerotier_multi.pathd.tell.moment import Moment
from zerotier_multi.pathd.tell.since import Since
from zerotier_multi.plan import InstancePlan, PathPlan, Plan
from zerotier_multi.states import PathState, bundle_state


@dataclass(frozen=True)
class Look:
    """What was seen at the last look, after all that could be done."""

    plans: Sequence[Plan] = ()
    have: KernelState = field(default_factory=KernelState)
    states: Mapping[int, PathState] = field(default_factory=dict)  # of every path, by its next hop
    up: Collection[int] = ()  # paths that are in a group and work
    blocked: Blocked = field(default_factory=Blocked)
    problems: Sequence[str] = ()
    at: float = 0.0  # seconds of the monotonic clock


@dataclass(frozen=True)
class Status:
    """Asks those who know."""

    resilient: bool
    prober: Prober
    weights: Weights
    members: Members
    controllers: Controllers
    endpoints: Endpoints
    chronicle: Chronicle
    since: Since
    plans: Plans
    started: Moment  # when the daemon was

    def of(self, look: Look) -> dict[str, Any]:
        """The answer to a request for the status."""
        return {
            "schema": 1,
            "started": self.started.unix(),
            "resilient": self.resilient,
            "problems": list(look.problems),
            "configured": dict(self.plans.configured),
            "bundles": {plan.bundle: self._bundle(look, plan) for plan in look.plans},
        }

    def _bundle(self, look: Look, plan: Plan) -> dict[str, Any]:
        unrouted = {**look.blocked.prefixes.get(plan.bundle, {}), **plan.nowhere}
        standing = {route.prefix for route in look.have.routes if route.nexthop_id}
        return {
            "state": bundle_state((look.states[path.nexthop_id] for path in plan.paths), bool(unrouted)),
            "instances": [self._instance(look, plan, instance) for instance in plan.instances],
            "paths": [self._path(look, plan, path) for path in plan.paths],
            "controller": self.controllers.status(plan),
            "endpoint_faults": self.endpoints.faults(plan),
            "unrouted": [{"prefix": prefix, "why": why} for prefix, why in unrouted.items()],
            "routes": sorted(route.prefix for route in plan.routes if route.prefix in standing),
        }

    def _instance(self, look: Look, plan: Plan, instance: InstancePlan) -> dict[str, Any]:
        use = self.weights.use(instance.unit)
        return {
            "instance": instance.number,
            "device": instance.device,
            "device_present": instance.device in look.have.links,
            "network_state": self.members.word(instance.device),
            "load": None if use is None else round(use, 3),
            "revivals": self.chronicle.revivals(plan.bundle, instance.number),
        }

    def _path(self, look: Look, plan: Plan, path: PathPlan) -> dict[str, Any]:
        rtt, loss = self.prober.measures(path.nexthop_id)
        return {
            "remote": path.remote,
            "instance": path.instance,
            "family": path.family,
            "device": path.device,
            "via": path.via,
            "state": look.states[path.nexthop_id],
            "since": self.since.unix(path.nexthop_id, time.time()),
            "changes": self.chronicle.changes(path.nexthop_id),
            "falls": self.chronicle.falls(path.nexthop_id),
            "cause": self._cause(look, plan, path),
            "rtt_ms": None if rtt is None else round(rtt * 1000, 3),
            "loss": None if loss is None else round(loss, 4),
            "wait_ms": round(1000 * self.prober.wait(path.nexthop_id), 1),
            "weight": self._weight(plan, path),
            "backup": path.backup or self.prober.is_backup(path.nexthop_id),
            "twin": self.prober.twin(path.nexthop_id),
            "passes": self.prober.passes(path.nexthop_id),
        }

    def _cause(self, look: Look, plan: Plan, path: PathPlan) -> str | None:
        faults = [] if path.nexthop_id in look.up else self.endpoints.faults(plan, path)
        faults += unanswered(self.prober.silence(path.nexthop_id))
        return "; ".join(filter(None, [self.chronicle.cause(path.nexthop_id), *faults])) or None

    def _weight(self, plan: Plan, path: PathPlan) -> int:
        group = next((g.group_id for g in plan.groups if path.nexthop_id in g.members), 0)
        return (self.weights.of(group) or {}).get(path.nexthop_id, path.weight)


def unanswered(silence: Silence | None) -> list[str]:
    """Why probes may have no answers while those of the remote come over the path."""
    if silence is None or silence.heard_since is None:
        return []
    if not silence.refused:
        return ["probes of the remote come over it, so a firewall may drop echo requests or replies"]
    return [
        "probes of the remote come over it and say that it hears nothing from here, so UDP to its port may be blocked, "
        "or its firewall drops ICMP on the member devices"
    ]
