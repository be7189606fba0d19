"""Reads the box: plans, daemon, units, processes, counters, kernel tables, and the instances' own APIs."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from zerotier_multi import names, systemd
from zerotier_multi.homes import own_identity
from zerotier_multi.listener import crowd, others, rows
from zerotier_multi.op.errors import NotAllowed, NotConfigured, Unavailable, disabled
from zerotier_multi.op.marks import Diverted, diverted
from zerotier_multi.op.snapshot import Answer, Counters, Process, Sample, Snapshot
from zerotier_multi.pathd.control import PathdError, ask
from zerotier_multi.pathd.kernel.sysctls import HASH_POLICIES
from zerotier_multi.pathd.plans import is_bundle, remedy
from zerotier_multi.plan import InstancePlan, Plan
from zerotier_multi.plans import read_plans
from zerotier_multi.ports import in_the_way
from zerotier_multi.netlink.links import Link
from zerotier_multi.netlink.rtnl import Rtnl
from zerotier_multi.netlink.state import KernelState, observe
from zerotier_multi.systemd import UnitState
from zerotier_multi.usage import SYSFS, cpu_seconds, device_counters
from zerotier_multi.values import shown
from zerotier_multi.ztapi import ApiError, ZeroTierApi

WINDOW = 0.5  # seconds between the two readings that a rate is made of
API_PATIENCE = 1.0  # seconds for one answer of an instance
_GONE = " (deleted)"  # what the kernel puts behind the name of a program whose file has it no more
_UNREADABLE = "the kernel's tables cannot be read ({})"


def require_root() -> None:
    """Raises :class:`NotAllowed` for another user, because the homes are closed to all but root."""
    if os.geteuid() != 0:
        raise NotAllowed("root is required, because only root can read the homes of the instances; use sudo")


def plan_of(bundle: str) -> Plan:
    """The plan in force.

    Raises :class:`NotConfigured` for a bundle that is not configured, :class:`Unavailable` where its plan cannot be used.
    """
    published = read_plans()
    if bundle in published.plans:
        return published.plans[bundle]
    faults = _bundles(published.faults)
    if bundle in faults:
        raise Unavailable(_unusable(bundle, faults[bundle]))
    configured = ", ".join(sorted({*published.plans, *faults}, key=names.bundle_number)) or "none"
    raise NotConfigured(f"interfaces zerotier {shown(bundle)} is not configured; configured bundles: {configured}")


def enabled_plan_of(bundle: str) -> Plan:
    """As :func:`plan_of`, for what needs instances. Raises :class:`Unavailable` also for a bundle that is disabled."""
    plan = plan_of(bundle)
    if not plan.instances:
        raise Unavailable(disabled(bundle))
    return plan


def plans_in_force() -> tuple[list[Plan], list[str]]:
    """All plans in force, bundles in order, and a sentence for each plan that cannot be used: its bundle may run still."""
    published = read_plans()
    plans = [published.plans[bundle] for bundle in sorted(published.plans, key=names.bundle_number)]
    return plans, [_unusable(bundle, fault) for bundle, fault in _bundles(published.faults).items()]


def known_bundles() -> set[str]:
    """Bundles of this router: those with a plan, be it unusable, and those that have left their homes."""
    published = read_plans()
    homes = (place.name for place in names.HOME_ROOT.glob("zt*"))
    return {name for name in (*published.plans, *published.faults, *homes) if is_bundle(name)}


def _bundles(faults: Mapping[str, str]) -> dict[str, str]:
    return {bundle: fault for bundle, fault in faults.items() if is_bundle(bundle)}


def _unusable(bundle: str, fault: str) -> str:
    return f"plan {names.plan_file(bundle)} is unusable: {fault}; {remedy(bundle)}"


def instance_of(plan: Plan, number: str) -> InstancePlan:
    """An instance of a plan, by its number as somebody has typed it. Raises :class:`NotConfigured`."""
    instance = next((i for i in plan.instances if str(i.number) == number), None)
    if instance is None:
        known = ", ".join(str(i.number) for i in plan.instances) or "none"
        raise NotConfigured(f"{plan.bundle} has no instance {shown(number)}; its instances: {known}")
    return instance


@dataclass(frozen=True)
class _Slow:
    """What costs a program or a conversation to read, and changes little."""

    units: Mapping[str, UnitState]
    pathd_unit: UnitState
    answers: Mapping[str, Answer]
    nodes: Mapping[str, str]
    broken: tuple[str, ...]
    obstacles: Mapping[str, str]
    sunk: Mapping[str, tuple[str, ...]]


class Watcher:
    """Looks at bundles again and again; rates are those since the look before."""

    def __init__(self, plans: Sequence[Plan], refresh: float = 5.0) -> None:
        """``refresh`` is how old, in seconds, may be what is costly to read."""
        require_root()
        self._plans, self._refresh = tuple(plans), refresh
        self._instances = [i for plan in self._plans for i in plan.instances]
        self._slow: _Slow | None = None
        self._read_at = 0.0
        self._first = self._sample(self._read_units())

    def look(self) -> Snapshot:
        """What is seen now."""
        if self._slow is None or time.monotonic() - self._read_at >= self._refresh:
            self._slow, self._read_at = self._read_slow(), time.monotonic()
        slow = self._slow
        pathd, fault = _ask_pathd(slow.pathd_unit)
        kernel = _read_kernel()
        rest = self._first.at + WINDOW - time.monotonic()
        if rest > 0:
            time.sleep(rest)
        last = self._sample(slow.units)
        found = Snapshot(
            now=time.time(),
            plans=self._plans,
            pathd=pathd,
            pathd_fault=fault,
            units=slow.units,
            answers=slow.answers,
            nodes=slow.nodes,
            broken_identities=slow.broken,
            obstacles=slow.obstacles,
            sunk=slow.sunk,
            kernel=kernel,
            hash_policy=_hash_policy(),
            first=self._first,
            last=last,
        )
        self._first = last
        return found

    def _read_units(self) -> dict[str, UnitState]:
        return _read_units([*(i.unit for i in self._instances), names.PATHD_UNIT])

    def _read_slow(self) -> _Slow:
        units = self._read_units()
        nodes, broken = _read_nodes(self._instances)
        running = [i for i in self._instances if units[i.unit].pid]
        answers = _ask_instances(running)
        silent = [i for i in self._instances if i.unit not in answers or answers[i.unit].status is None]
        obstacles = {i.unit: why for i in silent if (why := obstacle(i, units[i.unit]))}
        return _Slow(units, units[names.PATHD_UNIT], answers, nodes, tuple(broken), obstacles, _read_sunk(self._plans))

    def _sample(self, units: Mapping[str, UnitState]) -> Sample:
        devices = [*(device for i in self._instances for device in i.devices), *(plan.bundle for plan in self._plans)]
        processes = {i.unit: read_process(units[i.unit].pid) for i in self._instances if units[i.unit].pid}
        counters = {device: read_counters(device) for device in devices}
        return Sample(
            time.monotonic(),
            {unit: process for unit, process in processes.items() if process},
            {device: counter for device, counter in counters.items() if counter},
        )


def snapshot(plans: Sequence[Plan], unusable: Collection[str] = ()) -> Snapshot:
    """One look at bundles, with rates over :data:`WINDOW`. Raises :class:`NotAllowed`.

    ``unusable``: what is wrong with other plans, which are a reason to look too.
    """
    require_root()
    return Watcher(plans).look() if plans or unusable else Snapshot(time.time())


def _read_units(units: Sequence[str]) -> dict[str, UnitState]:
    try:
        return systemd.unit_states(units)
    except (systemd.SystemdError, OSError) as error:
        reason = str(error).partition(": ")[2]
        raise Unavailable(f"systemd did not return the state of the instances: {reason}") from None


def read_process(pid: int, proc: Path = Path("/proc")) -> Process | None:
    """A process, or None when it is gone."""
    try:
        seconds = cpu_seconds(proc / str(pid))
        status = (proc / str(pid) / "status").read_text()
    except OSError:
        return None
    values = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    resident = values.get("VmRSS", "0").split()[0]
    cpus = values.get("Cpus_allowed_list", "").strip()
    return Process(seconds, int(resident) * 1024, cpus, _is_replaced(proc / str(pid)))


def _is_replaced(process: Path) -> bool:
    """Whether an upgrade has put another program in the place of the one that a process runs."""
    try:
        program = os.readlink(process / "exe")
    except OSError:
        return False
    return program.endswith(_GONE) and Path(program.removesuffix(_GONE)).exists()


def read_counters(device: str, sysfs: Path = SYSFS) -> Counters | None:
    """Counters of a device, or None while it is not there."""
    found = device_counters(device, (f.name for f in fields(Counters)), sysfs)
    return Counters(**found) if found else None


def _ask_pathd(unit: UnitState) -> tuple[dict[str, Any] | None, str | None]:
    try:
        return ask({"op": "status"}, timeout=2.0), None
    except PathdError as error:
        return None, silence_of_pathd(error, unit)


def silence_of_pathd(error: PathdError, unit: UnitState | None = None) -> str:
    """Why the daemon has no answer, in one sentence; ``unit`` is its own as systemd has it, asked for by default."""
    unit = unit or _read_units([names.PATHD_UNIT])[names.PATHD_UNIT]
    if unit.running:
        return str(error)
    start = f"sudo systemctl start {names.PATHD_UNIT.removesuffix('.service')}"
    return f"zerotier-pathd is not running, so the paths are not monitored; start it with: {start}"


def _read_nodes(instances: Iterable[InstancePlan]) -> tuple[dict[str, str], list[str]]:
    nodes, broken = {}, []
    for instance in instances:
        try:
            identity = own_identity(Path(instance.home))
        except (OSError, ValueError):
            broken.append(instance.unit)
            continue
        if identity:
            nodes[instance.unit] = identity.address
    return nodes, broken


def _ask_instances(instances: Sequence[InstancePlan]) -> dict[str, Answer]:
    """Ask all at once, so that one that hangs holds nobody up but for :data:`API_PATIENCE`."""
    if not instances:
        return {}
    with ThreadPoolExecutor(max_workers=len(instances)) as pool:
        return dict(zip((i.unit for i in instances), pool.map(ask_instance, instances), strict=True))


def ask_instance(instance: InstancePlan) -> Answer:
    """Status, networks and peers as an instance tells them; nothing when it does not answer."""
    api = ZeroTierApi(Path(instance.home), instance.port, timeout=API_PATIENCE)
    status, networks, peers = None, None, None
    try:
        status = api.status()
        networks = api.networks()
        peers = api.peers()
    except (ApiError, TypeError, ValueError):
        pass
    return understood(status, networks, peers)


def understood(status: Any, networks: Any, peers: Any) -> Answer:
    """Answers as they arrived, with what op mode can make use of; pure."""
    return Answer(
        status if isinstance(status, dict) and isinstance(status.get("address", ""), str) else None,
        tuple(p for p in peers if isinstance(p, dict)) if isinstance(peers, list) else None,
        tuple(n for n in networks if isinstance(n, dict)) if isinstance(networks, list) else None,
    )


def obstacle(instance: InstancePlan, unit: UnitState) -> str | None:
    """What others do that keeps an instance from running or answering; None where nothing is seen of that kind."""
    if not unit.pid:
        found = in_the_way(instance)
        return f"{found.protocol} port {instance.port} is taken by {found}" if found else None
    crowded = others(instance.port, rows())
    return f"{crowd(crowded)} to TCP port {instance.port} keep its API from answering" if crowded else None


def _read_sunk(plans: Sequence[Plan]) -> dict[str, tuple[str, ...]]:
    """Prefixes that others route into the devices of bundles, which carry nothing themselves."""
    found = {}
    with suppress(OSError), Rtnl() as rtnl:  # without netlink, _read_kernel says so
        for plan in plans:
            with suppress(OSError):  # the device is not there
                found[plan.bundle] = tuple(rtnl.prefixes_over(socket.if_nametoindex(plan.bundle)))
    return found


def read_diverted(plan: Plan, devices: Mapping[str, Link]) -> Diverted:
    """What packets with firewall marks do not reach over a bundle. Raises :class:`Unavailable`."""
    link = devices.get(plan.vrf or "")
    try:
        with Rtnl() as rtnl:
            return diverted(rtnl, plan, link.index if link else 0)
    except OSError as error:
        raise Unavailable(_UNREADABLE.format(error.strerror)) from None


def _read_kernel() -> KernelState:
    try:
        with Rtnl() as rtnl:
            return observe(rtnl)
    except OSError as error:
        raise Unavailable(_UNREADABLE.format(error.strerror)) from None


def _hash_policy() -> int | None:
    try:
        return int((Path("/proc/sys") / HASH_POLICIES[0]).read_text())
    except (OSError, ValueError):
        return None
