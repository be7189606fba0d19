"""A commit of one bundle: check, write, start. It declares and starts; it does not wait for TAPs or peers, except
between two instances that carry traffic and have to be restarted.

Every step compares with what stands, so that an unchanged commit touches nothing and an interrupted one is
finished by the next.
"""

from __future__ import annotations

import syslog
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

from zerotier_multi import box, dependents, invite, names, restarts, systemd, turn, usage
from zerotier_multi.box_checks import check_on_box, on_these_cpus, tolerable, warnings, with_usable_homes, without_home
from zerotier_multi.bundle import Bundle
from zerotier_multi.bundle_parser import parse_bundle
from zerotier_multi.configured_identity import coming_identity, settle
from zerotier_multi.checks import check_bundle, check_together
from zerotier_multi.cpu import format_cpu_list
from zerotier_multi.engine import IdentityError, generate_identities
from zerotier_multi.engine_choice import Choice, choose_engine
from zerotier_multi.errors import ConfigProblems, plain, refuse_if_any
from zerotier_multi.facts import device_addresses, read_facts
from zerotier_multi.files import Before, write_atomic
from zerotier_multi.homefiles import HomeFiles
from zerotier_multi.homes import HomeBefore, keep_secrets, make_home, own_identity, sync_home, token_renewals
from zerotier_multi.hosts import current_files, read_hosts
from zerotier_multi.identity import SecretIdentity
from zerotier_multi.pathd.control import PathdError, ask
from zerotier_multi.pathd.failures import Failures
from zerotier_multi.pathd.kernel.sysctls import HASH_POLICIES
from zerotier_multi.plan import InstancePlan, Plan, to_json
from zerotier_multi.planner import HASH_POLICY, cpu_offset, make_plan
from zerotier_multi.plans import published_plans
from zerotier_multi.units import dropin

SOON = 0.5  # seconds in which the device of an instance is usually there; until then systemd is not asked what became of it
HASH_POLICY_OF = {"ip": HASH_POLICIES[0], "ipv6": HASH_POLICIES[1]}


class CommitError(RuntimeError):
    """The router could not follow a good configuration; the text is one sentence."""

    def __init__(self, text: str):
        super().__init__(plain(text))


class NotNow(RuntimeError):
    """Op mode may not change a bundle just now, and has changed nothing; the text is one sentence."""

    @classmethod
    def overtaken(cls, what: str) -> NotNow:
        """Somebody was faster with ``what``, such as zt0 or zt0/2."""
        return cls(f"{what} was changed meanwhile; try again")


class Keep(Enum):
    """In place of a value: what stands stays."""

    KEPT = "kept"


_turn = turn.Turn()  # from generate() to the end of apply(), which a conf script calls one after the other
_before: list[HomeBefore] = []  # from there to the first process that apply() touches: a commit that is refused changes nothing


@dataclass(frozen=True)
class Change:
    """A checked change of one bundle; ``plan`` None means that the bundle is deleted.

    What is in the configuration alone stays as it is unless it is given: who has a plan only does not know it.
    """

    bundle: str
    plan: Plan | None
    warnings: tuple[str, ...] = ()
    secrets: Mapping[int, SecretIdentity] = field(default_factory=dict, repr=False)  # of the configuration, by instance
    api_key: str | Keep | None = field(default=Keep.KEPT, repr=False)  # of its controller; None: it has none
    leaving: tuple[str, ...] = ()  # bundles that go with the same commit, each before this change is carried out
    settings: Mapping[str, str] = field(default_factory=dict)  # below /proc/sys, as the rest of the configuration wants them


def check(
    name: str, bundles: Mapping[str, Mapping[str, Any]], layer4: Iterable[str] = (), elsewhere: dependents.Sections | None = None
) -> Change:
    """Check what is configured below ``interfaces zerotier`` as far as it concerns bundle ``name``.

    ``bundles`` is the whole proposed configuration of all bundles; a bundle that is not in it is deleted. ``layer4`` names the
    families (``ip``, ``ipv6``) with ``system ip multipath layer4-hashing``; ``elsewhere`` has other parts of the configuration
    that may name devices of the bundle. Reads only. Raises :class:`ConfigProblems`.
    """
    try:
        change = _checked(name, bundles, layer4, elsewhere or {})
    except ConfigProblems as problems:
        _tell_where_nobody_reads(str(problems).splitlines(), syslog.LOG_ERR)
        raise
    _tell_where_nobody_reads(change.warnings, syslog.LOG_WARNING)
    return change


def _tell_where_nobody_reads(sentences: Sequence[str], priority: int) -> None:
    """VyOS keeps nothing of what a commit says at boot where one is refused, so the journal has it."""
    if sentences and systemd.vyos_is_booting():
        for sentence in sentences:
            syslog.syslog(priority, f"zerotier-multi: {sentence}")


def _checked(name: str, bundles: Mapping[str, Mapping[str, Any]], layer4: Iterable[str], elsewhere: dependents.Sections) -> Change:
    settings = {HASH_POLICY_OF[family]: str(HASH_POLICY["layer4"]) for family in layer4}
    if name not in bundles:
        return Change(name, None, tuple(dependents.warnings(name, (), elsewhere)), settings=settings)
    bundle = parse_bundle(name, bundles[name])
    others = {other: _parse_other(other, tree) for other, tree in bundles.items() if other != name}
    known = [b for b in others.values() if b is not None]
    topology = box.own_topology()
    refuse_if_any(check_bundle(bundle, topology))
    refuse_if_any(p for p in check_together([*known, bundle], topology) if p.path.startswith(f"{bundle.path} "))
    # VyOS commits each bundle by itself, and one that is refused stays as it is.
    coming = {other: b if b and not check_bundle(b, topology) else None for other, b in others.items()}
    facts = read_facts(bundle, topology, coming)
    problems = check_on_box(bundle, facts, known)
    tolerated = tolerable(bundle, facts, known) if problems and systemd.is_booting() else []
    refuse_if_any(problem for problem in problems if problem not in tolerated)
    off = without_home(bundle, facts)
    if tolerated:
        bundle = with_usable_homes(on_these_cpus(bundle, facts), facts) or bundle
    choice = choose_engine(bundle, facts.engines, facts.own_addresses) or Choice("")  # none: a disabled bundle
    offset = cpu_offset(bundle, known, topology)
    plan = make_plan(bundle, topology, choice.program, offset, choice.reason, facts.planet, tuple(facts.moons.values()))
    plan = replace(plan, left_out=tuple(off))
    secrets = {i.number: own for i in plan.instances if (own := bundle.override(i.number).identity)}
    api_key = bundle.controller.api_key if bundle.controller and plan.controller else None
    published = {standing.bundle: standing for standing in published_plans()}
    leaving = tuple(standing for standing in published if standing not in bundles)
    invited = list(invite.warnings(bundle.path, bundles[name].get("remote") or {}, plan, published.get(name)))
    devices = (name, *(device for instance in plan.instances for device in instance.devices))
    told = [
        *map(str, tolerated),
        *(_without(bundle, off) if off else ()),
        *warnings(bundle, facts),
        *_other_nodes(plan, leaving),
        *_lost_nodes(plan, published.get(name)),
        *(() if invited and systemd.is_booting() else invited),  # at a boot nothing is published, and nobody has pasted one
        *dependents.warnings(name, devices, elsewhere),
    ]
    return Change(name, plan, tuple(map(plain, told)), secrets, api_key, leaving, settings)


def _without(bundle: Bundle, off: Sequence[int]) -> list[str]:
    return [
        f"{bundle.path} runs without instance {format_cpu_list(off)}; when its home is repaired, reboot, or commit a change of "
        f"{bundle.name}, such as its description"
    ]


def _other_nodes(plan: Plan, leaving: Sequence[str]) -> list[str]:
    """A bundle that gets another name (``rename``) leaves its homes behind, and with them its identities."""
    left = [name for name in leaving if any((names.HOME_ROOT / name).glob("*/identity.secret"))]
    if not left or not plan.instances or any((Path(i.home) / "identity.secret").exists() or i.identity for i in plan.instances):
        return []
    old, new = names.HOME_ROOT / left[0], names.HOME_ROOT / plan.bundle
    return [
        f"interfaces zerotier {plan.bundle} gets new identities, which no remote and no controller knows; to keep those of "
        f"{left[0]}, discard this, delete {left[0]} in a commit of its own, and before you set {plan.bundle}: mv {old} {new}"
    ]


def _lost_nodes(plan: Plan, standing: Plan | None) -> list[str]:
    """Instances that get new identities, though remotes are configured that know the earlier ones: the homes were lost.

    A new bundle may know its remotes already, so it is said of instances that ran, and at a boot.
    """
    known = {peer.instance for peer in plan.peers}
    lost = {i.number for i in plan.instances if i.number in known and not i.identity and not coming_identity(Path(i.home), None)}
    ran = {i.number for i in standing.instances} if standing else set()
    told = lost if lost <= ran or systemd.is_booting() else lost & ran
    if not told:
        return []
    remotes = ", ".join(dict.fromkeys(peer.remote for peer in plan.peers if peer.instance in told))
    return [
        f"interfaces zerotier {plan.bundle} instance {format_cpu_list(told)} gets a new identity, which no remote knows; bring the "
        f"earlier one back with 'import zerotier archive', or set the line of 'show zerotier {plan.bundle} invite' on {remotes}"
    ]


def _parse_other(name: str, tree: Mapping[str, Any]) -> Bundle | None:
    """Another bundle; one that cannot be read is refused when its own turn comes."""
    try:
        return parse_bundle(name, tree)
    except ConfigProblems:
        return None


def generate(change: Change) -> None:
    """Make the homes, identities and files of the instances. Raises :class:`CommitError`.

    Op mode changes no instance from here until :func:`apply` has returned.
    """
    try:
        _take_turn(change.bundle)
        _generate(change)
    except BaseException:
        _restore_homes()
        _turn.end()
        raise


def apply(change: Change) -> list[str]:
    """Publish the plan and start, restart and stop what differs; returns what the daemon could not do yet.

    Order: paths that go are drained before their processes stop. Raises :class:`CommitError`.
    """
    try:
        _take_turn(change.bundle)
        return _apply(change)
    finally:
        _before.clear()
        _turn.end()


@contextmanager
def between(seen: Mapping[str, Plan | None], waits: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Between two commits; the next one waits until this is left.

    ``seen`` are the plans by which the caller has decided what to do, None for a bundle without one; ``waits`` is called
    where a commit is not done yet. Raises :class:`NotNow` where one takes too long or has changed a plan meanwhile, and OSError.
    """
    try:
        if not _turn.take(0.0):
            waits()
            if not _turn.take():
                raise NotNow(f"a commit was not done after {turn.PATIENCE:.0f} s, so nothing was changed; try again when it is")
        now = {plan.bundle: plan for plan in published_plans()}
        for bundle, plan in seen.items():
            if now.get(bundle) != plan:
                raise NotNow.overtaken(bundle)
        yield
    finally:
        _turn.end()


def renew(seen: Mapping[str, Plan | None], work: Callable[[], None]) -> None:
    """Between two commits, let op mode replace what is in homes, and bring the instances to their plans again.

    ``seen`` are the plans by which the caller has decided what to do, None for a bundle without one; ``work`` stops
    instances and replaces what is in their homes. Raises :class:`NotNow` before ``work`` where a commit takes too long or
    has changed a plan meanwhile; :class:`CommitError`, OSError and what ``work`` raises.
    """
    with between(seen):
        work()
        for plan in filter(None, seen.values()):
            change = Change(plan.bundle, plan)
            _generate(change)
            _before.clear()  # of the homes as ``work`` has left them; they are not to go back to that
            _apply(change)


def _take_turn(bundle: str) -> None:
    try:
        taken = _turn.take()
    except OSError as error:
        raise CommitError(_disk(bundle, error)) from None
    if not taken:
        raise CommitError(
            f"interfaces zerotier {bundle}: a command of op mode that restarts instances or replaces identities was not done after "
            f"{turn.PATIENCE:.0f} s; wait until it is, or end it, and commit again"
        )


def _restore_homes() -> None:
    for home in _before:
        home.restore()
    _before.clear()


def _generate(change: Change) -> None:
    _before.clear()
    if change.plan is None:
        return
    try:
        _before.extend(HomeBefore(Path(instance.home)) for instance in change.plan.instances)
        _refuse_twins(change)
        for instance in change.plan.instances:
            make_home(Path(instance.home))
            own = change.secrets.get(instance.number)
            if own or not instance.identity:  # who has a plan alone leaves a configured one where it is
                settle(Path(instance.home), own)
        if change.plan.controller_free and change.plan.instances:
            lacking = [Path(i.home) for i in change.plan.instances if own_identity(Path(i.home)) is None]
            generate_identities(change.plan.instances[0].engine, lacking)
        for instance, before in zip(change.plan.instances, _before, strict=True):
            files = _files(change.plan, instance)
            before.remember(files)
            sync_home(Path(instance.home), files)
    except OSError as error:
        raise CommitError(_disk(change.bundle, error)) from None
    except IdentityError as error:
        raise CommitError(f"interfaces zerotier {change.bundle}: {error}") from None


def _refuse_twins(change: Change) -> None:
    """VyOS goes on with the other bundles where one could not be deleted: what it runs still must not run twice."""
    taken = {own.public.address: number for number, own in change.secrets.items()}
    left = [plan for plan in published_plans() if taken and plan.bundle in change.leaving]
    for bundle, instance in ((plan.bundle, instance) for plan in left for instance in plan.instances):
        with suppress(OSError, ValueError):
            own = own_identity(Path(instance.home))
            if own and own.address in taken:
                raise CommitError(
                    f"interfaces zerotier {change.bundle} instance {taken[own.address]} identity secret is of node {own.address}, "
                    f"as that of {bundle}/{instance.number}, which was not deleted; delete interfaces zerotier {bundle} first"
                )


def _disk(bundle: str, error: OSError) -> str:
    return (
        f"interfaces zerotier {bundle}: {error.filename} cannot be written ({error.strerror}); "
        f"free space or repair the file system, then commit again"
    )


def _files(plan: Plan, instance: InstancePlan) -> HomeFiles:
    addresses = device_addresses() if instance.source_interface else {}
    return current_files(plan, instance, own_identity(Path(instance.home)), read_hosts(), addresses)


def _apply(change: Change) -> list[str]:
    instances = change.plan.instances if change.plan else ()
    units = {i.unit: i for i in instances}
    untouched, published = True, None
    try:
        published = _Published(change.bundle, units)
        gone = [unit for unit in systemd.loaded_instances(change.bundle) if unit not in units]
        _drain(change.bundle, gone)
        problems = _follow(change)
        if gone:
            untouched = False
            systemd.stop(*gone)
            systemd.systemctl("reset-failed", *gone, check=False)
        states = systemd.unit_states(list(units))
        problems += _keep_secrets(instances, states)
        files = {i.unit: _files(change.plan, i) for i in instances} if change.plan else {}
        for instance in instances:  # zerotier-pathd may have written them by the plan of before since generate()
            sync_home(Path(instance.home), files[instance.unit])
        digests = {i.unit: _digest(files[i.unit], i) for i in instances}
        outdated = any(state.outdated for state in states.values())
        systemd.apply_dropins({i.unit: dropin(i, digests[i.unit]) for i in instances}, gone, outdated)
        untouched = False
        _start(change.bundle, units, states, digests)
        _await_devices(instances)
        if not published_plans() and not problems:  # it still has something to take away
            systemd.stop(names.PATHD_UNIT)
    except BaseException as error:
        # What VyOS refuses is not configured: after ``exit discard`` no commit of this bundle would take a new plan away.
        if untouched:
            _restore_homes()
        if untouched and published:
            published.restore()
        if isinstance(error, OSError):
            raise CommitError(_disk(change.bundle, error)) from None
        if isinstance(error, systemd.SystemdError | PathdError):
            raise CommitError(f"interfaces zerotier {change.bundle}: {error}") from None
        raise
    return problems


def _keep_secrets(instances: Sequence[InstancePlan], states: Mapping[str, systemd.UnitState]) -> list[str]:
    """What is told is in the system log too."""
    told = [text for i in instances for text in keep_secrets(Path(i.home), bool(states[i.unit].pid))]
    for text in told:
        syslog.syslog(syslog.LOG_WARNING | syslog.LOG_AUTH, f"zerotier-multi: {text}")
    return told


def _digest(files: HomeFiles, instance: InstancePlan) -> str:
    """What a process has to be started under; one that has a token that was taken away is not."""
    digest = files.restart_digest
    renewals = token_renewals(Path(instance.home))
    return f"{digest}-{renewals}" if renewals else digest


def _drain(bundle: str, units: Collection[str]) -> None:
    """Have the far end leave paths that go, so that nothing of its own is under way to them when they are gone."""
    plan = next((plan for plan in published_plans() if plan.bundle == bundle), None)
    devices = [i.device for i in plan.instances if i.unit in units] if plan else []
    try:
        if devices:
            ask({"op": "drain", "devices": devices})
    except PathdError:
        return  # it does not run, or it will say so when it has to follow the new plan


def _follow(change: Change) -> list[str]:
    """Publish the plan and have zerotier-pathd follow it; what it cannot do yet."""
    _publish(change)
    # One that waits after failures would have the job fail in the end, though what made it fail may be what is changed here.
    systemd.systemctl("restart" if Failures().waits() else "start", names.PATHD_UNIT)
    return _sync(change.settings)


class _Published:
    """What of a bundle is published, and the drop-ins of its units, as they stand now. Raises OSError."""

    def __init__(self, bundle: str, units: Iterable[str]) -> None:
        self._files = Before([names.plan_file(bundle), names.controller_key(bundle)])
        self._places = [systemd.dropin_path(unit) for unit in units]
        self._dropins = Before(self._places)

    def restore(self) -> None:
        """Bring it back, as far as the disk lets it, and have systemd and zerotier-pathd follow it."""
        self._files.restore()
        if self._dropins.restore():
            for path in self._places:
                with suppress(OSError):  # something else is in it
                    path.parent.rmdir()
            systemd.systemctl("daemon-reload", check=False)
        # One that is only late may have read the new one already.
        systemd.systemctl("kill", "--kill-whom=main", "--signal=HUP", names.PATHD_UNIT, check=False)


def _publish_key(bundle: str, key: str | Keep | None) -> None:
    """The API key of a controller is in a file for root alone, where zerotier-pathd has it read when it is used."""
    if key is Keep.KEPT:
        return
    path = names.controller_key(bundle)
    if key is None:
        path.unlink(missing_ok=True)
        return
    for directory in (path.parent.parent, path.parent):
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomic(path, key.encode("ascii"), 0o600)


def _publish(change: Change) -> None:
    path = names.plan_file(change.bundle)
    _publish_key(change.bundle, change.api_key if change.plan else None)
    if change.plan is None:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, to_json(change.plan).encode())


def _sync(settings: Mapping[str, str]) -> list[str]:
    return [str(problem) for problem in ask({"op": "sync", "settings": dict(settings)}).get("problems", [])]


def _start(
    bundle: str, units: Mapping[str, InstancePlan], states: Mapping[str, systemd.UnitState], digests: Mapping[str, str]
) -> None:
    """Start what does not run, restart what runs under other settings, move what is pinned elsewhere."""
    everywhere = [cpu.number for cpu in box.own_topology()]
    idle = [unit for unit in units if not states[unit].running]
    stale = []
    for unit, instance in units.items():
        if unit in idle or not states[unit].pid:
            continue
        if systemd.started_digest(states[unit].pid) != digests[unit]:
            stale.append(instance)
        else:
            systemd.repin(states[unit].pid, instance.cpus, everywhere)
    if idle:
        systemd.start(idle)
    if stale:
        restarts.restart(bundle, stale)


def _await_devices(instances: Sequence[InstancePlan]) -> None:
    """Wait until the member devices are there, as far as an instance that starts knows its network.

    VyOS accepts a device in what is committed after the interfaces, ``protocols ospf`` for one, only while the device
    exists (vyos-1x: ``verify_interface_exists``), at boot too. A network whose controller has not admitted this node
    yet has no device, and what ends or is slow is not waited for: ``show zerotier`` says what became of it.
    """
    devices = {
        network.device: instance.unit
        for instance in instances
        for network in instance.joined
        if _is_known(Path(instance.home, "networks.d", f"{network.network_id}.conf"))
    }

    def missing() -> set[str]:
        return {unit for device, unit in devices.items() if not (usage.SYSFS / device).exists()}

    def all_there() -> bool:
        return not any(state.active == "active" for state in systemd.unit_states(sorted(missing())).values())

    if not restarts.wait(lambda: not missing(), SOON):
        restarts.wait(all_there, restarts.PATIENCE)


def _is_known(configuration: Path) -> bool:
    return configuration.exists() and configuration.stat().st_size > 0
