"""What breaks, and what flows notice of it: those on other paths nothing, those that are hit a short gap.

The limits are generous, for figures see ``make bench-faults``; here counts who is hit at all, and that both routers
are what their plans say afterwards. Steps of the wall clock are played to the prober alone: a container's clock is
the machine's.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import time
from collections.abc import Iterator

import pytest
from zerotier_multi.pathd.probe import wire
from zerotier_multi.pathd.probe.prober import Prober, Target

from lab import Lab, Router
from lab import faults
from lab.faults import Fault, wait_fallen, wait_reborn
from lab.link import Link, Traffic, Witness, deviations, look
from tests.lab.conftest import ENGINE

GAP = 2.0  # seconds that a flow may pause when its path dies; 0.65 is usual
ZT = "set interfaces zerotier zt0"
EVERY = os.environ.get("FAULTS") == "all"  # make test-faults: every shape, an hour


def _shape(shape: tuple[int, int]) -> str:
    return "{}-ipv{}".format(*shape)


SHAPES = [pytest.param(shape, id=_shape(shape)) for shape in (itertools.product((1, 2, 4, 8), (4, 6)) if EVERY else [(4, 4)])]
COMMITS = 100 if EVERY else 20
_turn = itertools.count()


@pytest.fixture(scope="module")
def pair(lab: Lab) -> list[Router]:
    routers = lab.add_routers(["R1", "R2"])
    for router in routers:
        faults.own_config_disk(router)
    return routers


def _link(lab: Lab, pair: list[Router], instances: int, family: int = 4) -> Iterator[Link]:
    link = Link(lab, pair[0], pair[1], instances, family)
    link.connect(engine=ENGINE.rpartition("/")[2])
    yield link
    link.delete()


@pytest.fixture(scope="module", params=SHAPES)
def link(request: pytest.FixtureRequest, lab: Lab, pair: list[Router]) -> Iterator[Link]:
    """The pair with a bundle between them: four instances over IPv4, or every shape in turn."""
    yield from _link(lab, pair, *request.param)


@pytest.fixture(scope="module", params=[(1, 4), (8, 4), (2, 6)], ids=_shape)
def other_shape(request: pytest.FixtureRequest, lab: Lab, pair: list[Router]) -> Iterator[Link]:
    """The pair with other numbers of instances, one of them over IPv6."""
    yield from _link(lab, pair, *request.param)


def _fresh(link: Link) -> None:
    """Daemons that know of no earlier fall: a path that falls again and again is held down."""
    for router in link.routers:
        router.run(["systemctl", "restart", "zerotier-pathd"])
    link.settle()


def suffer(link: Link, fault: Fault, far: bool = False) -> tuple[list[Witness], int, float]:
    """Let a fault strike under traffic and repair it, wait until all is as planned, and check what holds for every fault.

    Returns what the flows saw, the path, and the seconds that it all took.
    """
    _fresh(link)
    router, path = link.routers[far], next(_turn) % link.instances + 1
    before = link.pids()
    traffic = Traffic(link)
    try:
        begin = time.monotonic()
        fault.strike(link, router, path)
        if fault.lasting:
            wait_fallen(link, path if fault.hits == "path" else None)
        elif fault.victim == "instance":
            wait_reborn(router, faults.unit(path), before[router.name, faults.unit(path)])
        elif fault.hits == "none":
            link.exchange(0.5)
        fault.repair(link, router, path)
        link.settle(fault.patience)
        took = time.monotonic() - begin
        witnesses = traffic.end()
    finally:
        traffic.kill()
    changed = {key for key, pid in link.pids().items() if pid != before[key]}
    struck = {(router.name, faults.unit(path))} if fault.victim else set()
    assert struck <= changed <= struck | _begun_anew(link, fault, path)
    judge(link, fault, path, witnesses, took)
    return witnesses, path, took


def _begun_anew(link: Link, fault: Fault, path: int) -> set[tuple[str, str]]:
    """Units that zerotier-pathd may restart: a zerotier-one whose path is silent, at either end, for the other may have moved."""
    if ENGINE.rpartition("/")[2] == "ztnode" or fault.hits == "none":
        return set()
    paths = [path] if fault.hits == "path" else range(1, link.instances + 1)
    return {(router.name, faults.unit(k)) for router in link.routers for k in paths}


def judge(link: Link, fault: Fault, path: int, witnesses: list[Witness], took: float) -> None:
    """Whose packets were lost, and for how long."""
    device = f"zt0p{path}"
    hit = [w for w in witnesses if fault.hits == "all" or (fault.hits == "path" and device in w.before)]
    spared = [w for w in witnesses if w not in hit]
    assert [w for w in spared if w.seen.lost] == []
    assert [w for w in spared if w.after != w.before] == []
    # With all paths down there is nowhere to go; but as soon as a path is said to be up it has to carry traffic.
    limit = GAP if fault.hits == "path" and link.instances > 1 else took + 0.5
    assert [w for w in hit if w.seen.gap > limit or (fault.gentle and link.instances > 1 and w.seen.lost)] == []


SIDES = pytest.mark.parametrize("far", [False, True], ids=["here", "there"])


def named(*chosen: Fault) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("fault", chosen, ids=[fault.name for fault in chosen])


@SIDES
@named(faults.KILL, faults.STOP)
def test_an_instance_that_dies(link: Link, fault: Fault, far: bool) -> None:
    suffer(link, fault, far)


@named(faults.CUT_OUT, faults.CUT_IN)
def test_a_path_that_is_cut_one_way(link: Link, fault: Fault) -> None:
    suffer(link, fault)


@named(faults.TAP, faults.RESTART)
def test_an_instance_that_has_to_begin_anew(link: Link, fault: Fault) -> None:
    suffer(link, fault)


def test_a_nat_that_forgets_a_mapping(link: Link) -> None:
    suffer(link, faults.NAT)


@SIDES
def test_the_whole_underlay_down_and_up(link: Link, far: bool) -> None:
    suffer(link, faults.UNDERLAY, far)


def test_the_daemon_is_not_in_the_way_of_traffic(link: Link) -> None:
    unnoticed(link, [(faults.PATHD_KILL, link.near), (faults.PATHD_STOP, link.far), (faults.PATHD_FREEZE, link.near),
                     (faults.PATHD_RESTART, link.far)])  # fmt: skip


def test_what_traffic_does_not_notice(link: Link) -> None:
    unnoticed(link, [(faults.MTU, link.near), (faults.JOURNALD, link.near)])


def unnoticed(link: Link, chosen: list[tuple[Fault, Router]]) -> None:
    """Faults one after another under the same flows, which must neither lose a packet nor move."""
    traffic = Traffic(link)
    try:
        for fault, router in chosen:
            before = link.pids()
            fault.strike(link, router, 1)
            link.exchange(0.5)
            fault.repair(link, router, 1)
            link.settle(fault.patience)
            changed = {key for key, pid in link.pids().items() if pid != before[key]}
            assert changed == ({(router.name, "zerotier-pathd.service")} if fault.victim else set()), fault.name
        witnesses = traffic.end()
    finally:
        traffic.kill()
    assert [w for w in witnesses if w.seen.lost or w.after != w.before] == []


# -- loss and delay


def falls(link: Link, before: dict[str, dict[str, float]]) -> int:
    """How many paths have changed their state since an earlier look; both ends tell of the same paths."""
    return sum(at != before[r.name][name] for r in link.routers for name, at in look(r).since.items())


def lossy(link: Link, fault: Fault, seconds: float) -> tuple[list[Witness], int]:
    """What flows see while packets get lost or late, and the falls of paths meanwhile."""
    _fresh(link)
    before = {router.name: look(router).since for router in link.routers}
    fault.strike(link, link.near, 1)
    try:
        traffic = Traffic(link, 16)
        try:
            link.near.run(["ping", "-q", "-c", str(int(seconds * 10)), "-i", "0.1", link.far.underlay4])
            witnesses = traffic.end()
        finally:
            traffic.kill()
        fallen = falls(link, before)
    finally:
        fault.repair(link, link.near, 1)
    link.settle(fault.patience)
    return witnesses, fallen


def test_five_per_cent_loss_makes_no_path_flap(link: Link) -> None:
    witnesses, fallen = lossy(link, faults.LOSS_5, 2)
    assert fallen <= 2  # three probes in a row may be lost, once in some minutes; both ends tell of it
    sent, lost = sum(w.seen.sent for w in witnesses), sum(w.seen.lost for w in witnesses)
    assert 0 < lost < sent * 0.15
    assert max(w.seen.gap for w in witnesses) < GAP


def test_with_twenty_per_cent_loss_traffic_passes(link: Link) -> None:
    witnesses, _ = lossy(link, faults.LOSS_20, 3)
    sent, lost = sum(w.seen.sent for w in witnesses), sum(w.seen.lost for w in witnesses)
    assert sent * 0.2 < lost < sent * 0.6  # of the echoes that come both ways, 64 % are left
    assert max(w.seen.gap for w in witnesses) < GAP


def test_a_long_way_and_packets_that_overtake_each_other(link: Link) -> None:
    _fresh(link)
    faults.OVERTAKING.strike(link, link.near, 1)
    try:
        # To put the underlay in place costs a moment of loss, so what counts begins when all is steady.
        link.near.wait(lambda: far_away(link.near), timeout=15, what="all paths up, with the delay")
        link.settle(still=1.0)
        before = {router.name: look(router).since for router in link.routers}
        traffic = Traffic(link, 8)
        try:
            link.exchange()
            witnesses = traffic.end()
        finally:
            traffic.kill()
        assert falls(link, before) == 0
        assert [w for w in witnesses if w.seen.lost or w.before != w.after] == []
    finally:
        faults.OVERTAKING.repair(link, link.near, 1)
    link.settle()


def far_away(router: Router) -> bool:
    """Whether all paths are up, each with the delay of the underlay."""
    paths = look(router).data["status"]["bundles"]["zt0"]["paths"]
    return all(path["state"] == "up" and (path["rtt_ms"] or 0) > 70 for path in paths)


# -- a full disk, and commits


def running(router: Router) -> tuple[object, ...]:
    """All that a refused commit has to leave as it is."""
    seen = look(router)
    homes = [f"/config/zerotier-multi/zt0/{k}" for k in range(1, look(router).data["plans"]["zt0"]["instances"][-1]["number"] + 1)]
    files = router.run(["find", *homes, "-type", "f", "-not", "-path", "*/peers.d/*", "-printf", "%p %s %i\n"]).stdout
    return seen.kernel, seen.pids, seen.data["plans"], router.read("/run/ztsh/active.boot"), files


def refused(router: Router, lines: str) -> str:
    """Commit, expect a refusal of one sentence that leaves all as it was; returns the sentence."""
    before = running(router)
    result = router.configure(lines)
    assert not result.ok and "Traceback" not in result.output, result.output
    assert running(router) == before
    # Warnings stand before, the node and the result around the sentence.
    refusal = result.output.rpartition(": commit\n")[2]
    told = [line for line in refusal.splitlines() if line and not line.startswith(("[", "Commit failed"))]
    assert len(told) == 1, result.output
    return told[0]


@pytest.mark.parametrize(
    ("fault", "change", "place"),
    [(faults.CONFIG_FULL, "one more", "/config/"), (faults.RUN_FULL, "description full", "/run/")],
    ids=["config", "run"],
)
def test_a_full_disk_refuses_the_commit_and_spares_traffic(link: Link, fault: Fault, change: str, place: str) -> None:
    router = link.near
    lines = f"{ZT} {change}" if change != "one more" else f"{ZT} instances {link.instances + 1}"
    traffic = Traffic(link)
    try:
        fault.strike(link, router, 1)
        try:
            sentence = refused(router, lines)
        finally:
            fault.repair(link, router, 1)
        link.settle()
        witnesses = traffic.end()
    finally:
        traffic.kill()
    assert "No space left on device" in sentence and place in sentence, sentence
    assert [w for w in witnesses if w.seen.lost or w.after != w.before] == []
    router.must_configure(f"{lines}\ncommit\n{ZT} instances {link.instances}\n{ZT} description none")
    link.settle()


@named(faults.CONFIG_FULL, faults.RUN_FULL)
def test_what_dies_while_the_disk_is_full_comes_back(link: Link, fault: Fault) -> None:
    router = link.near
    fault.strike(link, router, 1)
    try:
        before = look(router).pids
        for one, name in ((faults.KILL, faults.unit(1)), (faults.PATHD_KILL, "zerotier-pathd.service")):
            one.strike(link, router, 1)
            wait_reborn(router, name, before[name])
        link.settle(30, spared="since.json cannot be written (No space left on device)")
    finally:
        fault.repair(link, router, 1)
    link.settle()


def test_many_commits_in_a_row_lose_nothing(link: Link) -> None:
    _fresh(link)
    before, traffic = link.pids(), Traffic(link)
    prefix = f"interfaces zerotier zt0 remote {link.far.name} prefix 192.0.2.0/24"
    try:
        # A route comes and goes; every other commit changes nothing that the router has to follow.
        changes = [f"set {prefix}", f"{ZT} description a", f"delete {prefix}", f"{ZT} description b"]
        link.near.must_configure("\ncommit\n".join(changes * (COMMITS // 4)))
        link.near.must_configure("delete interfaces zerotier zt0 description")
        link.settle()
        witnesses = traffic.end()
    finally:
        traffic.kill()
    assert [w for w in witnesses if w.seen.lost or w.after != w.before] == []
    assert link.pids() == before


def up(router: Router) -> int:
    """How many paths are up."""
    return list(look(router).states.values()).count("up")


def test_the_far_end_gives_up_half_of_its_instances_and_takes_them_back(link: Link) -> None:
    if link.instances == 1:
        return  # half of one is none
    half = link.instances // 2
    _fresh(link)
    traffic = Traffic(link)
    try:
        link.far.must_configure(f"{ZT} instances {half}")
        link.near.wait(lambda: up(link.near) == half, what="half of the paths up")
        assert deviations(look(link.far)) == []
        link.far.must_configure(f"{ZT} instances {link.instances}")
        link.settle()
        witnesses = traffic.end()
    finally:
        traffic.kill()
    kept = {f"zt0p{k}" for k in range(1, half + 1)}
    assert [w for w in witnesses if w.seen.lost] == []
    assert [w for w in witnesses if set(w.before) <= kept and w.after != w.before] == []


def test_the_far_end_loses_its_power(link: Link) -> None:
    _fresh(link)
    link.far.must_configure("", commit=False, save=True)
    near = look(link.near).pids
    faults.POWER.strike(link, link.far, 1)
    # Whoever has another way to those prefixes shall use it.
    link.near.wait(lambda: not look(link.near).data["routes"], what="no route while nobody is there")
    faults.POWER.repair(link, link.far, 1)
    link.settle(faults.POWER.patience)
    link.reach()
    restarted = {unit for unit, pid in look(link.near).pids.items() if pid != near.get(unit)}
    assert restarted <= {unit for name, unit in _begun_anew(link, faults.POWER, 1) if name == link.near.name}


# -- other shapes

if not EVERY:

    @named(faults.KILL, faults.CUT_IN, faults.UNDERLAY)
    def test_other_shapes(other_shape: Link, fault: Fault) -> None:
        suffer(other_shape, fault, far=fault is faults.UNDERLAY)


# -- the prober alone, over the loopback device of this machine


@pytest.fixture
def probing() -> Iterator[tuple[Prober, asyncio.AbstractEventLoop]]:
    loop = asyncio.new_event_loop()
    made = Prober(loop, lambda: None)
    index = socket.if_nametoindex("lo")
    made.configure([Target(1, "zt0", "R2", 1, 4, index, "127.0.0.1", "127.0.0.1", 0.05, 3)], set(), set())
    yield made, loop
    loop.close()


def run_probes(made: Prober, loop: asyncio.AbstractEventLoop, seconds: float) -> list[str]:
    """Run the prober as the daemon does; returns the verdicts that it came to."""
    found = [made.verdict(1)]

    async def watch() -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            await asyncio.sleep(0.005)
            if made.verdict(1) != found[-1]:
                found.append(made.verdict(1))

    loop.run_until_complete(watch())
    return found


def test_steps_of_the_wall_clock_move_no_path(
    probing: tuple[Prober, asyncio.AbstractEventLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_probes(*probing, 0.5)[-1] == "up"
    real, step = time.clock_gettime, 0.0
    # The kernel's stamps stay where they are, so what waits in the sockets seems to have come before or after its time.
    monkeypatch.setattr(time, "clock_gettime", lambda clock: real(clock) + step)
    for step in (3600.0, -3600.0, 0.3, -0.3, 0.0):
        assert run_probes(*probing, 0.3) == ["up"]
        rtt, _ = probing[0].measures(1)
        assert rtt is not None and rtt < 0.1


def test_what_a_remote_said_earlier_does_not_count_when_it_arrives_late(
    probing: tuple[Prober, asyncio.AbstractEventLoop],
) -> None:
    made, _ = probing
    assert run_probes(*probing, 0.5)[-1] == "up"
    now, index = time.monotonic(), socket.if_nametoindex("lo")

    def hear(heard: int, number: int, sent: float, arrival: float, echo: int = 0) -> None:
        trust = made._states[1].trust  # both ends are this prober
        told = wire.Probe(number, False, 1, 800, int(sent * 1e9), heard, heard, heard, token=trust.token, echo=echo or trust.token)
        made._take((False, 0, told), index, "127.0.0.1", 255, arrival)

    hear(1, 9, now, now)
    hear(0, 8, now - 0.4, now + 0.001)  # waited somewhere, such as in an engine that was looking for its peer
    assert made.verdict(1) == "up"
    hear(0, 10, now + 0.1, now + 0.1, echo=1)
    assert made.verdict(1) == "up", "somebody else with the remote's address is not believed"
    hear(0, 10, now + 0.1, now + 0.1)
    assert made.verdict(1) == "remote down"
