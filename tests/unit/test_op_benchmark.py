"""What a short run between two routers comes to: what is full, how many instances are of use, and the lines for that."""

from __future__ import annotations

import json
import re
import runpy
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.op_box import PLAN
from zerotier_multi.cpu import Cpu, placement_order
from zerotier_multi.op import gather
from zerotier_multi.op.benchmark import drive, serve, wire
from zerotier_multi.op.benchmark.decide import End, Full, Limit, Step, Use, better_cpus, decide, enough, full, numbers
from zerotier_multi.op.benchmark.drive import made_step, result, usable
from zerotier_multi.op.benchmark.text import text
from zerotier_multi.op.benchmark.usage import Look, between, busy, from_json
from zerotier_multi.op.errors import NotConfigured, Unavailable, WrongValue
from zerotier_multi.pathd.control import PathdError
from zerotier_multi.plans import Published
from zerotier_multi.systemd import UnitState

ROOT = Path(__file__).resolve().parents[2]


def end(name: str = "R1", instances: int = 4, cpus: int = 8) -> End:
    """A router whose instance K is pinned to CPU K, the way ``cpu affinity auto`` does it."""
    order = (*range(1, cpus), 0)
    return End(name, {k: (order[(k - 1) % cpus],) for k in range(1, instances + 1)}, order)


def use(count: int, share: float = 0.5, *, others: Mapping[int, float] | None = None, cpus: int = 8) -> Use:
    """Instances 1 to ``count`` on CPUs 1 to ``count``, each using ``share`` in one thread; ``others`` use CPUs besides."""
    loads = {k: share for k in range(1, count + 1)}
    whole = {cpu: min(1.0, loads.get(cpu, 0.0) + (others or {}).get(cpu, 0.05)) for cpu in range(cpus)}
    return Use(whole, loads, loads)


def step(count: int, mbit: float, near: Use | None = None, far: Use | None = None) -> Step:
    return Step(tuple(range(1, count + 1)), 2.0, mbit, 0.001, near or use(count), far or use(count))


def curve(rates: Sequence[float], share: float = 0.5) -> list[Step]:
    return [step(n, rate, use(n, share), use(n, share)) for n, rate in zip(numbers(len(rates)), rates, strict=True)]


def test_one_two_three_then_wider_steps_and_always_all() -> None:
    assert numbers(1) == [1] and numbers(4) == [1, 2, 3, 4] and numbers(5) == [1, 2, 3, 4, 5]
    assert numbers(9) == [1, 2, 3, 4, 6, 8, 9] and numbers(32) == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32]


def test_the_fewest_that_carry_nearly_the_most_are_enough() -> None:
    assert enough(curve([1000, 1900, 1990, 2000])) == 2
    assert enough(curve([1000, 1880, 1990, 2000])) == 3
    assert enough(curve([500, 490, 480, 470])) == 1  # more disturb each other


def test_a_line_that_two_fill_gets_two_at_both_routers() -> None:
    made = decide("zt0", 4, curve([600, 940, 941, 940]), end(), end("R2"))
    assert made.instances == 2 and made.full.limit is Limit.LINK
    assert made.near == made.far == ("set interfaces zerotier zt0 instances 2",)
    assert made.sentences[0] == "2 instances carry 940 Mbit/s." and "All 4 carried 940" in made.sentences[2]
    assert "limit is the network" in made.sentences[1]


def test_the_other_router_may_have_another_number() -> None:
    made = decide("zt0", 2, curve([600, 940]), end(instances=2), end("R2", 4))
    assert made.near == () and made.far == ("set interfaces zerotier zt0 instances 2",)


def test_instances_that_are_full_are_joined_by_as_many_as_both_routers_have_cpus_for() -> None:
    steps = curve([1000, 2000, 3000, 4000], share=0.97)
    made = decide("zt0", 4, steps, end(), end("R2"))
    assert made.full == Full(Limit.INSTANCE, "R1", "instance 1")
    assert made.instances == 8 and made.near == ("set interfaces zerotier zt0 instances 8",)
    few = replace(steps[-1], far=use(4, 0.97, cpus=5))
    made = decide("zt0", 4, [*steps[:-1], few], end(), end("R2", cpus=5))
    assert made.instances == 5, "the smaller router has one CPU left"
    none = replace(steps[-1], far=use(4, 0.97, cpus=4, others={0: 0.9}))
    made = decide("zt0", 4, [*steps[:-1], none], end(), end("R2", cpus=4))
    assert made.instances == 4 and made.near == made.far == ()


def partly(count: int, mbit: float, left_out: int, share: float = 0.5, **alike: Use) -> Step:
    """A step over ``count`` instances, without one."""
    measured = tuple(k for k in range(1, count + 2) if k != left_out)
    return replace(step(count, mbit, use(count + 1, share), use(count + 1, share)), instances=measured, **alike)


def test_an_instance_that_was_not_measured_is_not_deleted() -> None:
    steps = [partly(count, 1000 * count, 3) for count in (1, 2, 3)]
    made = decide("zt0", 4, steps, end(), end("R2"))
    assert made.near == made.far == () and made.instances == 4
    assert made.sentences[-1] == "Instance 3 was not measured, because no path of it to R2 is up (show zerotier zt0 paths)."
    made = decide("zt0", 4, [partly(1, 990, 1), partly(2, 1000, 1), partly(3, 1000, 1)], end(), end("R2"))
    assert made.near == made.far == ("set interfaces zerotier zt0 instances 1",), "more than that is not needed"
    made = decide("zt0", 4, steps[:2], end(), end("R2", 2))
    assert made.near == made.far == ()
    assert made.sentences[-1].startswith("Instances 3, 4 were not measured, because no path of them to R2 is up")


def test_more_than_were_measured_are_more_than_there_are() -> None:
    full_ones = [partly(count, 1000 * count, 3, share=0.97) for count in (1, 2, 3)]
    made = decide("zt0", 4, full_ones, end(), end("R2"))
    assert made.near == made.far == ("set interfaces zerotier zt0 instances 8",)
    assert "with room for 4 more: configure 8" in made.sentences[-2]
    five = use(4, 0.97, cpus=5)
    made = decide("zt0", 4, [replace(one, near=five) for one in full_ones], end(cpus=5), end("R2"))
    assert made.near == made.far == ("set interfaces zerotier zt0 instances 5",)
    none = use(4, 0.97, cpus=4)
    made = decide("zt0", 4, [replace(one, far=none) for one in full_ones], end(), end("R2", cpus=4))
    assert made.near == made.far == () and not any("more" in sentence for sentence in made.sentences)


def test_the_affinity_has_a_cpu_for_those_that_were_not_measured() -> None:
    card = use(4, 0.55, others={1: 0.6})
    made = decide("zt0", 4, [partly(3, 2000, 2, far=card)], end(), end("R2"))
    assert made.near == () and made.far == ("set interfaces zerotier zt0 cpu affinity 2-5",)
    assert "change the affinity" in made.sentences[-2]
    small = use(4, 0.55, others={1: 0.6}, cpus=4)
    made = decide("zt0", 4, [partly(3, 2000, 2, far=small)], end(), end("R2", cpus=4))
    assert made.far == () and not any("affinity" in sentence for sentence in made.sentences), "every CPU is taken"


# 6 performance cores with a sibling each (CPUs 0 to 11), 8 efficiency cores.
HYBRID = tuple(Cpu(n, n - n % 2 if n < 12 else n, n >= 12) for n in range(20))


def hybrid(name: str, instances: int, known: bool = True) -> End:
    order = placement_order(HYBRID)
    cores = {cpu.number: cpu.core for cpu in HYBRID} if known else {}
    return End(name, {k: (order[k - 1],) for k in range(1, instances + 1)}, order, cores=cores)


def busy_hybrid(instances: int, others: Mapping[int, float] | None = None) -> Use:
    order, shares = placement_order(HYBRID), dict.fromkeys(range(1, instances + 1), 0.97)
    taken = dict(zip(order, shares.values(), strict=False))
    return Use({cpu.number: taken.get(cpu.number, (others or {}).get(cpu.number, 0.0)) for cpu in HYBRID}, shares, shares)


@pytest.mark.parametrize(
    ("instances", "others", "known", "wanted"),
    [
        (6, {}, True, 14),  # the efficiency cores; the siblings of the six have no core of their own
        (4, {}, True, 14),  # a core with two free threads is one
        (6, {12: 0.9, 13: 0.6}, True, 12),
        (4, {11: 0.9}, True, 13),  # of its core one thread is busy, so the other is no room either
        (6, {}, False, 20),  # an earlier version does not tell its cores
    ],
)
def test_room_is_a_core_of_its_own(instances: int, others: Mapping[int, float], known: bool, wanted: int) -> None:
    used = busy_hybrid(instances, others)
    near, far = hybrid("R1", instances, known), hybrid("R2", instances, known)
    made = decide("zt0", instances, [Step(tuple(range(1, instances + 1)), 2.0, 9000, 0.0, used, used)], near, far)
    assert made.instances == wanted and f"room for {wanted - instances} more" in made.sentences[-1]


def test_an_end_tells_its_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve.box, "read_topology", lambda: HYBRID)
    said = json.loads(json.dumps(serve.describe(PLAN)))
    assert drive.far_end("R2", said).cores == hybrid("R2", 4).cores
    assert drive.far_end("R2", {k: v for k, v in said.items() if k != "cores"}).cores == {}
    with pytest.raises((AttributeError, ValueError)):
        drive.far_end("R2", {**said, "cores": [1]})


def test_the_lines_never_ask_for_more_instances_than_there_can_be() -> None:
    shares = {k: 0.99 for k in range(1, 31)}
    many = Use({cpu: shares.get(cpu, 0.0) for cpu in range(64)}, shares, shares)
    near = End("R1", {k: (k,) for k in range(1, 31)}, tuple(range(64)))
    made = decide("zt0", 30, [Step(tuple(range(1, 31)), 2.0, 9000, 0.0, many, many)], near, near)
    assert made.instances == 32


@pytest.mark.parametrize(
    ("near", "far", "found"),
    [
        (use(2), use(2), Full(Limit.LINK)),
        (use(2, 0.95), use(2), Full(Limit.INSTANCE, "R1", "instance 1")),
        (use(2), use(2, 0.95), Full(Limit.INSTANCE, "R2", "instance 1")),
        (use(2), use(2, 0.5, others={2: 0.5}), Full(Limit.CPU, "R2", "CPU 2")),
        (use(2), use(2, others=dict.fromkeys(range(8), 0.95)), Full(Limit.MACHINE, "R2", "every CPU")),
    ],
)
def test_what_is_full_is_named(near: Use, far: Use, found: Full) -> None:
    assert full(step(2, 900, near, far), end(), end("R2")) == found


def test_an_instance_of_two_threads_is_not_full_before_one_of_them_is() -> None:
    two = Use(dict.fromkeys(range(8), 0.3), {1: 1.2}, {1: 0.6})
    assert full(step(1, 900, two), replace(end(), cpus={1: ()}), end("R2")).limit is Limit.LINK


def test_an_instance_whose_threads_fill_its_cpu_together_is_full() -> None:
    """Of a pinned instance no thread can have all of a CPU, while the kernel's part of the work is others' time."""
    two = Use({cpu: 1.0 if cpu == 1 else 0.1 for cpu in range(8)}, {1: 0.85}, {1: 0.6})
    assert full(step(1, 900, two, two), end(), end("R2")) == Full(Limit.INSTANCE, "R1", "instance 1")
    assert decide("zt0", 1, [step(1, 900, two, two)], end(instances=1), end("R2", 1)).instances == 8


def test_a_cpu_that_others_fill_leaves_room_on_the_others() -> None:
    alike = use(2, 0.55, others=dict.fromkeys(range(8), 0.45))
    made = decide("zt0", 2, [step(1, 900, alike), step(2, 1800, alike)], end(instances=2), end("R2", 2))
    assert made.full == Full(Limit.CPU, "R1", "CPU 1") and made.instances == 8
    card = use(2, 0.55, others={1: 0.6})
    made = decide("zt0", 2, [step(1, 900, card), step(2, 1800, card)], end(instances=2), end("R2", 2))
    assert made.instances == 2 and made.near == ("set interfaces zerotier zt0 cpu affinity 2-3",)
    assert "change the affinity" in made.sentences[-1]


def test_cpus_that_others_fill_are_left_to_them() -> None:
    """The interrupts of a card keep CPU 1 busy; CPU 0 comes last in the order, but it is free."""
    busy_card = use(4, 0.55, others={1: 0.6, 5: 0.4, 6: 0.3})
    assert better_cpus(end(), busy_card, 4) == (2, 3, 4, 7)
    assert better_cpus(end(), use(4, 0.97), 4) == (), "full by the instances alone: no other CPU is better"
    assert better_cpus(end(cpus=4), use(4, 0.55, others={1: 0.6}, cpus=4), 4) == (), "every CPU is taken"
    everywhere = dict.fromkeys(range(8), 0.6)
    assert better_cpus(end(), use(4, 0.55, others=everywhere), 4) == (), "as busy everywhere"


def test_instances_that_share_a_full_cpu_are_parted() -> None:
    shared = End("R1", {1: (1,), 2: (1,)}, (1, 2, 3, 0))
    both = Use({0: 0.1, 1: 1.0, 2: 0.0, 3: 0.0}, {1: 0.5, 2: 0.5}, {1: 0.5, 2: 0.5})
    assert better_cpus(shared, both, 2) == (1, 2)
    assert better_cpus(shared, both, 1) == (), "one alone has it for itself"


def test_who_lets_the_scheduler_choose_is_left_alone() -> None:
    free = End("R1", {1: (), 2: ()}, (1, 2, 3, 0))
    assert better_cpus(free, use(2, 0.5, others={1: 0.6}, cpus=4), 2) == ()


def test_the_affinity_is_a_line_of_the_router_that_needs_it() -> None:
    card = use(4, 0.55, others={1: 0.6})
    made = decide("zt1", 4, [step(4, 2000, use(4), card)], end(), end("R2"))
    assert made.near == () and made.far == ("set interfaces zerotier zt1 cpu affinity 2-5",)


def test_what_was_used_between_two_looks() -> None:
    first = Look(10.0, {0: 1.0, 1: 5.0}, {1: {100: 1.0, 101: 2.0}}, {1: 0})
    last = Look(12.0, {0: 1.5, 1: 7.5}, {1: {100: 2.0, 101: 2.2, 102: 9.0}}, {1: 250_000_000})
    used = between(first, last)
    assert used.busy == {0: 0.25, 1: 1.0}, "no more than a whole CPU, whatever the clocks of the kernel add up to"
    assert used.instances[1] == pytest.approx(0.6) and used.threads[1] == pytest.approx(0.5)
    made = made_step([1], (first, first, 100, 1), (last, last, 1100, 11))
    assert made.mbit == 1000 and made.lost == 0.01 and made.seconds == 2.0
    assert from_json(json.loads(json.dumps(last.to_json()))) == last


def test_idle_and_waiting_and_stolen_time_is_not_busy() -> None:
    stat = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 100 10 20 5000 400 3 7 900 0 0\ncpu11 1 0 0 0 0 0 0 0 0 0\nintr 1 2\n"
    assert busy(stat, 64.4) == {0: pytest.approx(1.4), 11: pytest.approx(64.4)}


def test_work_between_the_ticks_counts() -> None:
    """The kernel saw none of it: user and system stay as they were."""
    first, last = ("cpu0 100 0 20 " + idle + " 0 0 0 0 0 0\n" for idle in ("5000", "5030"))
    assert busy(last, 71.0)[0] - busy(first, 70.0)[0] == pytest.approx(0.7)


LOOK = {"at": 1, "busy": {"0": 0.5}, "instances": {"1": {"100": 0.5}}, "received": {"1": 5}}
ODD = [float("nan"), float("inf"), -float("inf"), 10**400, 1 << 64]


@pytest.mark.parametrize(
    "data",
    [
        {}, {"at": "x"}, {"at": 1, "busy": [], "instances": {}, "received": {}}, {**LOOK, "received": {"1": -1}}, {**LOOK, "busy": {"-1": 1}},
        *({**LOOK, "at": odd} for odd in ODD),
        *({**LOOK, "busy": {"0": odd}} for odd in ODD),
        *({**LOOK, "instances": {"1": {"100": odd}}} for odd in ODD),
        *({**LOOK, "received": {"1": odd}} for odd in ODD),
    ],
)  # fmt: skip
def test_what_another_program_says_is_no_look(data: dict) -> None:
    """Python takes NaN and Infinity for JSON, and an integer of any size."""
    assert from_json(LOOK).received == {1: 5}
    with pytest.raises((KeyError, TypeError, ValueError, AttributeError)):
        from_json(json.loads(json.dumps(data)))


@pytest.mark.parametrize(
    "odd",
    [
        *({"instances": {"1": [odd]}} for odd in ODD),
        *({"order": [odd]} for odd in ODD),
        *({"cores": {"0": odd}} for odd in ODD),
        {"order": [-1]},
    ],
)  # fmt: skip
def test_what_no_router_says_is_no_far_end(odd: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve.box, "read_topology", lambda: HYBRID)
    with pytest.raises((KeyError, TypeError, ValueError, AttributeError)):
        drive.far_end("R2", json.loads(json.dumps({**serve.describe(PLAN), **odd})))


def test_a_count_that_falls_is_nothing_received() -> None:
    first, last = from_json(LOOK), from_json({**LOOK, "at": 2, "received": {"1": 0}})
    made = made_step([1], (first, first, 1, 0), (last, last, 2, 0))
    assert made.mbit == 0 and enough([made]) == 1


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"why": "another run is under way"}, "another run is under way"),
        ({"why": "\x1b]0;owned\x07\x1b[2J\nset system\r\x9b31m"}, "?]0;owned??[2J set system ?31m"),
        ({"why": "x" * 500}, "x" * 200),
        ({"why": {"a": 1}}, "it does not say why"),
        ({}, "it does not say why"),
    ],
)
def test_the_far_end_says_why_not_in_one_line_that_a_terminal_does_not_obey(
    answer: dict, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drive.Run, "_connect", lambda self, path: socket.socket())
    monkeypatch.setattr(drive.Run, "_ask", lambda self, message: {"ok": False, **answer})
    with ExitStack() as stack, pytest.raises(Unavailable) as refused:
        drive.Run(PLAN, "R2", PLAN.paths[:1], stack)
    assert str(refused.value) == f"R2 does not take part: {told}"


@pytest.mark.parametrize(
    "odd", [{"instances": {"1": [float("inf")]}}, {"at": float("inf"), "busy": {}, "instances": {}, "received": {}}]
)
def test_a_far_end_without_figures_ends_the_run_in_a_sentence(odd: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drive, "pids_of", lambda plan: {})
    monkeypatch.setattr(drive, "leave_instances_alone", lambda plan, stack: None)
    monkeypatch.setattr(drive.Run, "_connect", lambda self, path: socket.socket())
    answer = serve.describe(PLAN)
    monkeypatch.setattr(
        drive.Run, "_ask", lambda self, message: {**answer, **odd} if "at" not in odd or "op" in message else answer
    )
    with ExitStack() as stack, pytest.raises(Unavailable, match="another program|its answer is not as expected"):
        drive.Run(PLAN, "R2", PLAN.paths[:1], stack)._look([])


def test_each_router_has_lines_with_its_own_name_of_the_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve.box, "read_topology", lambda: ())
    said = json.loads(json.dumps(serve.describe(replace(PLAN, bundle="zt3"))))
    far = drive.far_end("R2", said)
    assert far.bundle == "zt3" and far.cpus.keys() == {i.number for i in PLAN.instances}
    far = replace(far, cpus=end().cpus, order=end().order)
    made = decide("zt0", 4, curve([600, 940, 941, 940]), replace(end(), bundle="zt0"), far)
    assert made.near == ("set interfaces zerotier zt0 instances 2",) and made.far == ("set interfaces zerotier zt3 instances 2",)
    made = decide("zt0", 4, [step(4, 2000, use(4), use(4, 0.55, others={1: 0.6}))], end(), far)
    assert made.far == ("set interfaces zerotier zt3 cpu affinity 2-5",)
    assert drive.far_end("R2", {k: v for k, v in said.items() if k != "bundle"}).bundle == ""
    for strange in ("zt0\nset system", "eth0", [], 7):
        with pytest.raises(ValueError):
            drive.far_end("R2", {**said, "bundle": strange})


# -- what is said on the wire


def test_a_message_ends_at_its_line_and_what_follows_stays() -> None:
    one, other = socket.socketpair()
    with one, other:
        other.settimeout(2)
        one.sendall(b'{"role": "data"}\nbytes that follow')
        assert wire.hear(other) == {"role": "data"} and other.recv(100) == b"bytes that follow"
        one.sendall(b"[1]\n")
        with pytest.raises(wire.WireError, match="another program"):
            wire.hear(other)
        one.sendall(b"{" * 100 + b"\n")
        with pytest.raises(wire.WireError):
            wire.hear(other)
        one.close()
        with pytest.raises(wire.WireError, match="ended"):
            wire.hear(other)


def test_a_line_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "LINE", 64)
    one, other = socket.socketpair()
    with one, other:
        one.sendall(b"x" * 100)
        with pytest.raises(wire.WireError):
            wire.hear(other)


def test_segments_are_counted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        with accepted:
            before = wire.segments(client)
            client.sendall(b"x" * 1000)
            assert accepted.recv(2000, socket.MSG_TRUNC)
            assert wire.segments(client)[0] > before[0] and wire.segments(client)[1] == 0


# -- the command


def test_the_end_that_receives_leaves_the_cpus_of_instances_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its threads have the CPUs that it has when they start."""
    cpus = [{0, 1, 2, 3, 8, 9}]
    monkeypatch.setattr(serve.os, "sched_getaffinity", lambda pid: cpus[-1])
    monkeypatch.setattr(serve.os, "sched_setaffinity", lambda pid, wanted: cpus.append(wanted))
    monkeypatch.setattr(serve, "require_root", lambda: None)
    monkeypatch.setattr(serve, "enabled_plan_of", lambda bundle: PLAN)
    monkeypatch.setattr(serve, "open_listeners", lambda plan, stack: [])
    during = []
    monkeypatch.setattr(serve.Server, "run", lambda self, waiting: during.append(cpus[-1]) or True)
    serve.serve("zt0", say=lambda sentence: None)
    assert {cpu for i in PLAN.instances for cpu in i.cpus} == {0, 1, 2, 3}
    assert during == [{8, 9}] and cpus[-1] == cpus[0]


def test_which_paths_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    up = {k: {("R2", 4)} for k in (1, 2, 4)}
    monkeypatch.setattr(drive, "paths_up", lambda bundle: up)
    assert [(path.instance, path.device) for path in usable(PLAN, "R2")] == [(1, "zt0p1"), (2, "zt0p2"), (4, "zt0p4")]
    with pytest.raises(NotConfigured, match="zt0 has no remote R9; its remotes: R2"):
        usable(PLAN, "R9")
    monkeypatch.setattr(drive, "paths_up", lambda bundle: {})
    with pytest.raises(Unavailable, match="no path of zt0 to R2 is up; see: show zerotier zt0 paths"):
        usable(PLAN, "R2")


def test_a_benchmark_without_zerotier_pathd_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(bundle: str) -> None:
        raise PathdError("zerotier-pathd does not answer")

    monkeypatch.setattr(drive, "paths_up", silent)
    monkeypatch.setattr(gather.systemd, "unit_states", lambda units: {unit: UnitState("inactive") for unit in units})
    with pytest.raises(Unavailable, match="not started: zerotier-pathd is not running, .*: sudo systemctl start zerotier-pathd$"):
        usable(PLAN, "R2")


@pytest.mark.parametrize("seconds", ["0", "2", "61", "-5", "1000000000", "abc", "", "²", "4.5"])
def test_a_run_has_a_length_that_it_can_have(seconds: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drive, "require_root", lambda: None)
    with pytest.raises(WrongValue, match=f"^duration {seconds} is not a number of seconds from 3 to 60$"):
        drive.measure("zt0", "R2", seconds)


def test_the_script_says_what_is_wrong_in_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(gather, "read_plans", lambda: Published({"zt0": PLAN}))
    known = ["--bundle=zt0", "--remote=R2"]
    for arguments in (
        ["--bundle=zt9", "--server"], ["--bundle=zt9", "--remote=R2"], ["--bundle=zt0", "--remote=\x1b[2Jx"],
        [*known, "--duration=abc"], [*known, "--duration=-5"], [*known, "--duration=--"],
    ):  # fmt: skip
        monkeypatch.setattr(sys, "argv", ["zerotier_benchmark.py", *arguments])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(ROOT / "src/op_mode/zerotier_benchmark.py"), run_name="__main__")
        told = capsys.readouterr().out.strip()
        assert ended.value.code == 1 and told.isprintable() and re.search("not configured|no remote|^duration", told)


def test_the_answer_is_a_table_sentences_and_lines() -> None:
    steps = curve([600, 940, 941, 940])
    near, far = end(), end("R2")
    data = result(PLAN, "R2", steps, near, far, decide("zt0", 4, steps, near, far))
    assert json.loads(json.dumps(data)) == data
    told = text(data)
    assert all(len(line) <= 80 for line in told.splitlines())
    assert "At R1:\nset interfaces zerotier zt0 instances 2\n" in told and "At R2:\n" in told
    row = next(line for line in told.splitlines() if line.lstrip().startswith("2 "))
    assert row.split() == ["2", "940", "0.1", "1.064", "1.064", "1:", "55", "%", "1:", "55", "%", "link"]
    nothing = replace_commands(data)
    assert text(nothing).endswith("Nothing needs to be changed.")


def replace_commands(data: dict) -> dict:
    return {**data, "commands": [], "remote_commands": []}
