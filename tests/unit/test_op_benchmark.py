"""What a short run between two routers comes to: what is full, how many instances are of use, and the lines for that."""

from __future__ import annotations

import json
import runpy
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.op_box import PLAN
from zerotier_multi.op import gather
from zerotier_multi.op.benchmark import drive, serve, wire
from zerotier_multi.op.benchmark.decide import End, Full, Limit, Step, Use, better_cpus, decide, enough, full, numbers
from zerotier_multi.op.benchmark.drive import made_step, result, usable
from zerotier_multi.op.benchmark.text import text
from zerotier_multi.op.benchmark.usage import Look, between, busy, from_json
from zerotier_multi.op.errors import NotConfigured, Unavailable, WrongValue
from zerotier_multi.plans import Published

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


@pytest.mark.parametrize("data", [{}, {"at": "x"}, {"at": 1, "busy": [], "instances": {}, "received": {}}])
def test_what_another_program_says_is_no_look(data: dict) -> None:
    with pytest.raises((KeyError, TypeError, ValueError, AttributeError)):
        from_json(data)


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


def test_which_paths_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    up = {k: {("R2", 4)} for k in (1, 2, 4)}
    monkeypatch.setattr(drive, "paths_up", lambda bundle: up)
    assert [(path.instance, path.device) for path in usable(PLAN, "R2")] == [(1, "zt0p1"), (2, "zt0p2"), (4, "zt0p4")]
    with pytest.raises(NotConfigured, match="zt0 has no remote R9; its remotes: R2"):
        usable(PLAN, "R9")
    monkeypatch.setattr(drive, "paths_up", lambda bundle: {})
    with pytest.raises(Unavailable, match="no path of zt0 to R2 is up; see: show zerotier zt0 paths"):
        usable(PLAN, "R2")


@pytest.mark.parametrize("seconds", [0, 2, 61, -5, 10**9])
def test_a_run_has_a_length_that_it_can_have(seconds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drive, "require_root", lambda: None)
    with pytest.raises(WrongValue, match="between 3 and 60 s"):
        drive.measure("zt0", "R2", seconds)


def test_the_script_says_what_is_wrong_in_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(gather, "read_plans", lambda: Published({"zt0": PLAN}))
    for arguments in (["--bundle=zt9", "--server"], ["--bundle=zt9", "--remote=R2"], ["--bundle=zt0", "--remote=\x1b[2Jx"]):
        monkeypatch.setattr(sys, "argv", ["zerotier_benchmark.py", *arguments])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(ROOT / "src/op_mode/zerotier_benchmark.py"), run_name="__main__")
        told = capsys.readouterr().out.strip()
        assert ended.value.code == 1 and told.isprintable() and ("not configured" in told or "no remote" in told)


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
