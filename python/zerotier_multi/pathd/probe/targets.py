"""Which paths are probed, from the plans and what stands in the kernel; pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator

from zerotier_multi.pathd.kernel.desired import ready
from zerotier_multi.netlink.state import KernelState
from zerotier_multi.pathd.probe.prober import Target
from zerotier_multi.plan import Plan


def targets(plans: Iterable[Plan], observed: KernelState) -> Iterator[Target]:
    """Every path of bundles with a health check whose device could send a probe now."""
    for plan in plans:
        for path in plan.paths if plan.health.enabled else ():
            instance = plan.instance(path.instance)
            link = ready(plan, path, instance, observed)
            if instance is None or link is None:
                continue
            own = (ipaddress.ip_interface(a) for a in instance.transit)
            source = next(str(a.ip) for a in own if a.version == path.family)
            yield Target(
                path.nexthop_id, plan.bundle, path.remote, path.instance, path.family, link.index, path.via, source,
                plan.health.interval_ms / 1000, plan.health.multiplier, link.master, link.mtu,
                path.backup,
            )  # fmt: skip
