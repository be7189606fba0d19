"""Measured weights: what is read, and what becomes of the buckets, in a kernel and instances in miniature."""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.configuration import EXAMPLE, bundle
from tests.unit.loop import Loop
from zerotier_multi.cpu import Cpu
from zerotier_multi.pathd.balance import weights
from zerotier_multi.pathd.balance.load import Counters, Instance, Load, Loads, load, socket_drops
from zerotier_multi.pathd.probe.delay import MEMORY, Delay
from zerotier_multi.pathd.balance.spread import (
    FULL, LEAST, NEARLY, PACE, PRESSED, QUEUE, SPREAD, WORK, Capacity, Line, Member, Spread, apportion, bases, capacity, sizes,
)  # fmt: skip
from zerotier_multi.pathd.balance.weights import AGAIN, FORCED, LONGEST_FORCED, LOOK, WINDOW, Weights
from zerotier_multi.planner import make_plan
from zerotier_multi.netlink.nexthops import FORCED_AFTER, Bucket, NextHopGroup
from zerotier_multi.systemd import UnitState

PLAN = make_plan(bundle(EXAMPLE + "balance weights auto"), tuple(Cpu(n, n) for n in range(4)), "/usr/sbin/ztnode")
GROUP = PLAN.groups[0]
PATHS = GROUP.members
LOOP = Loop()


@dataclass
class World:
    """Four instances of a capacity each, flows of a rate each on a bucket each, and the kernel's table of buckets."""

    flows: dict[int, float]  # bucket -> wanted rate
    capacities: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0)
    table: list[int] = field(default_factory=lambda: [PATHS[n // 32] for n in range(128)])
    now: float = 1000.0
    said: list[str] = field(default_factory=list)
    ours: float = 1.0  # share of the traffic that goes to the remote
    rtts: tuple[float, ...] = (0.001, 0.001, 0.001, 0.001)  # seconds
    unbalanced_since: float | None = None
    upkeep_at: float | None = None
    migrated: dict[int, float] = field(default_factory=dict)  # when a bucket was moved

    def __post_init__(self) -> None:
        self.weights = Weights(LOOP, self, self.layout, self.apply, self)
        self.weights.configure([PLAN], True)

    # what the prober and the readings tell

    def measures(self, path: int) -> tuple[float, float]:
        return self.rtts[PATHS.index(path)], 0.0

    def remote_use(self, _path: int) -> None:
        return None

    def wait(self, _path: int) -> float:
        return 0.0

    def read(self, _instances, _now) -> dict[str, Load]:
        wanted = self.wanted()
        found = {}
        for instance, path, limit in zip(PLAN.instances, PATHS, self.capacities, strict=True):
            carried = min(wanted[path], limit)
            found[instance.unit] = Load(carried / limit, carried * 1e9, 0, carried * 1e9 * self.ours)
        return found

    def wanted(self) -> Counter:
        """Rate that the flows want of each path."""
        total: Counter = Counter()
        for number, rate in self.flows.items():
            total[self.table[number]] += rate
        return total

    def carried(self) -> float:
        return sum(min(self.wanted()[path], limit) for path, limit in zip(PATHS, self.capacities, strict=True))

    # the kernel

    def layout(self, _group: int) -> list[Bucket]:
        """Linux tells the time since a bucket was used or moved, whichever was later."""
        idle = {n: min(60.0, self.now - self.migrated.get(n, 0.0)) for n in range(128) if n not in self.flows}
        return [Bucket(n, path, idle.get(n, 0.0)) for n, path in enumerate(self.table)]

    def apply(self, sentence: str) -> None:
        """A replaced group: the kernel looks at once, and again when buckets that are left may be moved."""
        if sentence:
            self.said.append(sentence)
        self.upkeep()

    def upkeep(self) -> None:
        """What nh_res_table_upkeep() of Linux does with the weights, in the order of the buckets.

        Busy ones are moved when the table has been unbalanced for FORCED_AFTER, and it looks again no sooner than after
        half a second (NH_RES_UPKEEP_MIN_INTERVAL). One that was not used since it was moved is idle for it at once.
        """
        weights = self.weights.of(GROUP.group_id) or dict.fromkeys(PATHS, 32)
        assert sum(weights.values()) == 128 and min(weights.values()) >= 1, weights
        have, forced = Counter(self.table), self.weights.forced(GROUP.group_id)
        overdue = forced and self.unbalanced_since is not None and self.now - self.unbalanced_since > FORCED_AFTER
        for number, path in enumerate(self.table):
            taker = next((p for p in PATHS if have[p] < weights[p]), None)
            if taker and have[path] > weights[path] and (overdue or number not in self.flows):
                have[path] -= 1
                have[taker] += 1
                self.table[number] = taker
                self.migrated[number] = self.now
        if have == weights:
            self.unbalanced_since = self.upkeep_at = None
        else:
            self.unbalanced_since = self.unbalanced_since or self.now
            self.upkeep_at = self.now + 0.5

    def run(self, seconds: float) -> World:
        end = self.now + seconds
        self.weights.standing({GROUP.group_id: NextHopGroup(GROUP.group_id, PATHS, 128, 10)})
        while self.now < end:
            self.now = max(self.now, self.weights.wake or 0.0)
            if self.upkeep_at is not None and self.upkeep_at <= self.now:
                self.upkeep()
            self.weights.work(self.now)
        return self


def test_two_big_flows_on_one_path_are_parted() -> None:
    world = World({3: 1.0, 17: 1.0})
    assert world.carried() == 1.0
    assert world.run(10).carried() == 2.0
    moved = len(world.said)
    assert world.run(600).carried() == 2.0
    assert not [s for s in world.said[moved:] if "busy" in s], "once they are parted, they stay"


def test_they_are_parted_where_there_are_so_many_groups_that_looks_are_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "LOOK_MOST", 2.5 * WINDOW / len(PLAN.groups))
    assert World({3: 1.0, 17: 1.0}).run(60).carried() == 2.0


def test_four_big_flows_on_one_path_get_one_each() -> None:
    assert World({n: 1.0 for n in (1, 5, 9, 30)}).run(60).carried() == 4.0


@settings(deadline=None)
@given(st.sets(st.integers(0, 127), min_size=2, max_size=40))
def test_whatever_the_flows_are_they_carry_no_less_for_it(numbers: set[int]) -> None:
    world = World(dict.fromkeys(numbers, 0.6))
    before = world.carried()
    assert world.run(120).carried() >= before - 1e-9
    least, most = min(world.wanted()[p] for p in PATHS), max(world.wanted()[p] for p in PATHS)
    assert most <= 1.2 + 1e-9 or least > 0.5, (world.wanted(), world.said)


def test_a_flow_that_fills_any_path_is_not_sent_to_and_fro() -> None:
    """It shares its path with a trickle that cannot be told from it, so it is moved once, and perhaps back, and rests."""
    world = World({3: 1.0, 17: 0.001, 40: 0.001, 70: 0.001, 100: 0.001})
    world.run(3600)
    assert len([s for s in world.said if "busy" in s]) <= 12


def test_other_flows_after_a_move_are_not_taken_for_the_one_that_was_moved() -> None:
    """A path that a flow has been moved to is full of others next: they are moved off at once."""
    world = World({0: 0.6, 1: 0.6}).run(15)
    taker = next(world.table[n] for n in (0, 1) if world.table[n] != PATHS[0])
    others = [n for n, path in enumerate(world.table) if path == taker][:10]
    world.flows = dict.fromkeys(others, 0.2)
    assert world.run(25).carried() == pytest.approx(2.0), world.said


@pytest.mark.parametrize("busy", [128, 127, 100])
def test_paths_that_come_back_under_full_load_get_their_part(busy: int) -> None:
    """All buckets are where the last path was, and as long as they are busy the kernel moves none by itself."""
    world = World(dict.fromkeys(range(busy), 3.2 / busy), table=[PATHS[0]] * 128)
    assert world.carried() == 1.0
    assert world.run(60).carried() > 3.0, world.said


def test_weaker_instances_get_less_when_there_are_many_flows() -> None:
    """Two performance cores and two efficiency cores at half the speed."""
    world = World({n: 3.2 / 128 for n in range(128)}, (1.0, 1.0, 0.5, 0.5))
    assert world.carried() < 2.7
    assert world.run(300).carried() > 2.75


def test_the_end_that_receives_leaves_its_acknowledgements_where_they_are() -> None:
    world = World({3: 1.0, 17: 1.0}, ours=0.02).run(300)
    assert not world.said


def test_many_flows_are_laid_evenly_before_a_path_is_full() -> None:
    world = World({n: 0.04 for n in range(20)}).run(60)
    assert max(world.wanted()[path] for path in PATHS) <= PRESSED, world.said


def test_two_flows_that_fill_no_path_stay_together() -> None:
    assert not World({3: 0.4, 17: 0.001}).run(60).said


def test_many_equal_flows_come_to_lie_evenly() -> None:
    """20, 18, 14 and 12 flows that want 95 % of what all carry."""
    numbers = [path * 32 + n for path, flows in enumerate((20, 18, 14, 12)) for n in range(flows)]
    world = World(dict.fromkeys(numbers, 3.8 / 64)).run(60)
    assert max(world.wanted()[path] for path in PATHS) <= 1.05, world.said
    moved = len(world.said)
    world.run(300)
    assert not [s for s in world.said[moved:] if "busy" in s], "and stay so"
    world.flows = {}
    counts = Counter(world.run(20).table)
    assert all(abs(counts[path] - 32) <= 4 for path in PATHS), f"new flows find all paths alike: {counts}"


def test_calm_brings_the_spread_back() -> None:
    world = World({3: 1.0, 17: 1.0}).run(60)
    world.flows = {}
    world.run(300)
    counts = Counter(world.table)
    assert all(abs(counts[path] - 32) <= 4 for path in PATHS), counts


def test_nothing_happens_while_paths_have_hardly_any_work() -> None:
    world = World({n: WORK / 40 for n in range(32)})
    world.run(120)
    assert not world.said and world.weights.of(GROUP.group_id) is None


@pytest.mark.parametrize(
    "counts", [(32, 0, 0, 0), (20, 18, 14, 12), (17, 17, 15, 15), (18, 16, 16, 15), (5, 4, 4, 3), (3, 2, 2, 1)]
)
def test_many_flows_are_laid_evenly_without_any_pressure(counts: tuple[int, ...]) -> None:
    numbers = [path * 32 + n for path, flows in enumerate(counts) for n in range(flows)]
    world = World(dict.fromkeys(numbers, 0.3 / max(counts))).run(40)
    flows = Counter(world.table[n] for n in numbers)
    assert max(flows.values()) - min(flows[path] for path in PATHS) <= 1, world.said
    moved = len(world.said)
    world.run(600)
    assert not [s for s in world.said[moved:] if "busy" in s], "and stay so"


@pytest.mark.parametrize("seed", [4, 13, 19, 25, 28, 36, 38, 39])
def test_flows_are_laid_evenly_where_some_share_a_bucket(seed: int) -> None:
    """64 flows of 70 % of what all carry, each on a bucket by chance; the first one of a path is often one of two or three."""
    flows = Counter(random.Random(seed).choices(range(128), k=64))
    world = World({number: count * 2.8 / 64 for number, count in flows.items()}).run(60)
    assert max(world.wanted().values()) == pytest.approx(0.7), world.said
    moved = len(world.said)
    world.run(600)
    assert not [s for s in world.said[moved:] if "busy" in s], "and stay so"


def test_many_flows_are_laid_by_what_the_paths_carry() -> None:
    """Two instances have half the CPU; capacities are known since the paths were full."""
    world = World(dict.fromkeys(range(0, 128, 2), 3.2 / 64), (1.0, 1.0, 0.5, 0.5)).run(120)
    world.flows = dict.fromkeys(range(0, 128, 2), 1.5 / 64)
    world.run(120)
    wanted = [world.wanted()[path] for path in PATHS]
    assert wanted == pytest.approx([0.5, 0.5, 0.25, 0.25], abs=1.5 * 1.5 / 64), world.said


def test_flows_are_not_laid_onto_a_slow_path_for_evenness() -> None:
    """One of four paths has a round-trip time of 40 ms, the others one of 5 ms; nothing is full."""
    world = World(dict.fromkeys(range(0, 96, 2), 0.3 / 16), rtts=(0.005, 0.005, 0.005, 0.040))
    assert world.run(120).wanted()[PATHS[3]] <= 0.3 / 3, world.said


def test_a_path_that_is_busy_for_a_moment_is_not_a_slow_one() -> None:
    numbers = [path * 32 + n for path, flows in enumerate((20, 18, 14, 12)) for n in range(flows)]
    world = World(dict.fromkeys(numbers, 0.3 / 20)).run(3)
    world.rtts = (0.010, 0.006, 0.003, 0.001)
    world.run(60)
    assert max(world.wanted()[path] for path in PATHS) == pytest.approx(0.3 / 20 * 16), world.said


def test_flows_that_are_not_alike_are_soon_left_alone() -> None:
    """One of many sends half of all: its path sends most, wherever it is."""
    world = World({**dict.fromkeys(range(1, 128, 3), 0.005), 0: 0.2})
    world.run(3600)
    assert len([s for s in world.said if "busy" in s]) <= 40, world.said


def test_a_rest_ends_with_the_traffic_that_it_was_for() -> None:
    """Flows of which one sends half of all rest for a minute more; then some seconds without any, then as much of equal flows."""
    world = World({**dict.fromkeys(range(1, 128, 3), 0.005), 0: 0.2}).run(200)
    world.flows = {}
    world.run(3)
    world.flows = dict.fromkeys([n for n, path in enumerate(world.table) if path == PATHS[0]][:8], 0.05)
    world.run(45)
    assert max(world.wanted().values()) == pytest.approx(0.1), world.said


def test_without_pressure_buckets_are_looked_at_rarely_where_no_flow_is_to_be_moved() -> None:
    world = World({3: 0.3})
    looks: list[int] = []
    world.weights = Weights(LOOP, world, lambda group: looks.append(group) or world.layout(group), world.apply, world)
    world.weights.configure([PLAN], True)
    world.run(120)
    assert 0 < len(looks) <= 200, "of five in a second less than two"


def test_weights_of_an_earlier_daemon_are_taken_over() -> None:
    world = World({})
    world.weights.standing({GROUP.group_id: NextHopGroup(GROUP.group_id, PATHS, 128, 10, (20, 40, 34, 34))})
    assert world.weights.of(GROUP.group_id) == dict(zip(PATHS, (20, 40, 34, 34), strict=True))


def test_weights_of_an_earlier_daemon_stay_until_a_path_is_full() -> None:
    """It knew what the paths carry, which this one has to learn yet: two of them half as much."""
    world = World({n: 0.01 for n in range(0, 128, 8)})
    world.capacities = (1.0, 1.0, 0.5, 0.5)
    known = dict(zip(PATHS, (43, 43, 21, 21), strict=True))
    world.weights.standing({GROUP.group_id: NextHopGroup(GROUP.group_id, PATHS, 128, 10, tuple(known.values()))})
    world.upkeep()
    world.run(600)
    assert world.weights.of(GROUP.group_id) == known and not world.said
    world.flows = dict.fromkeys(range(0, 128, 2), 0.05)
    world.run(60)
    world.flows = {}
    world.run(200)
    left = world.weights.of(GROUP.group_id)
    assert left and abs(left[PATHS[0]] - 43) <= 5 and abs(left[PATHS[3]] - 21) <= 5, "now it knows by itself"


def test_what_is_known_of_paths_lasts_as_long_as_their_group_and_instances() -> None:
    """A commit of another bundle, or of what does not concern them, forgets nothing."""
    world, known = World({3: 1.0}), dict(zip(PATHS, (20, 40, 34, 34), strict=True))
    standing = {GROUP.group_id: NextHopGroup(GROUP.group_id, PATHS, 128, 10, tuple(known.values()))}
    world.weights.standing(standing)
    world.run(10)
    unit = PLAN.instances[0].unit
    for plan in (PLAN, replace(PLAN, description="other")):
        world.weights.configure([plan], True)
        assert world.weights.of(GROUP.group_id) == known and world.weights.use(unit) is not None
    world.weights.standing({GROUP.group_id: replace(standing[GROUP.group_id], weights=(32, 32, 32, 32))})
    assert world.weights.of(GROUP.group_id) == known, "what the kernel has not got yet is no other knowledge"
    first = replace(PLAN.instances[0], port=20000)
    world.weights.configure([replace(PLAN, instances=(first, *PLAN.instances[1:]))], True)
    assert world.weights.use(unit) is None, "another process"
    world.weights.configure([replace(PLAN, groups=(replace(GROUP, idle_timer=77),))], True)
    assert world.weights.of(GROUP.group_id) != known
    world.weights.standing({**standing, 5: NextHopGroup(5, (1,), 8, 10)})
    for plans, resilient in (([PLAN], False), ([replace(PLAN, auto_weights=False)], True), ([], True)):
        world.weights.configure(plans, resilient)
        assert world.weights.of(GROUP.group_id) is None is world.weights.use(unit) is world.weights.wake


def forcing() -> World:
    """One whose kernel was just told to move a busy bucket, and moves nothing from now on."""
    world = World({3: 1.0, 5: 1.0})
    while not world.weights.forced(GROUP.group_id):
        assert world.now < 2000.0
        world.run(0.01)
    world.said = []
    world.apply = world.said.append  # type: ignore[method-assign]
    world.weights._changed = world.apply
    return world


def look_until(world: World, moment: float) -> None:
    for _ in range(100):
        if (world.weights.wake or moment) >= moment:
            return
        world.now = max(world.now, world.weights.wake or 0.0)
        world.weights.work(world.now)
    raise AssertionError("it looks without end")


def test_force_ends_as_soon_as_the_kernel_has_moved_what_it_was_told() -> None:
    world = forcing()
    began = world.now
    look_until(world, began + FORCED + 0.5)
    assert world.weights.forced(GROUP.group_id) and world.said == [], "nothing else meanwhile"
    counts = world.weights.of(GROUP.group_id)
    assert counts
    world.table = [path for path in PATHS for _ in range(counts[path])]
    look_until(world, world.now + 2 * AGAIN)
    assert not world.weights.forced(GROUP.group_id) and world.said[:1] == [""], "the group is to have its own timer again"


def test_force_ends_where_the_kernel_does_not_move_anything() -> None:
    world = forcing()
    began = world.now
    look_until(world, began + LONGEST_FORCED)
    assert world.weights.forced(GROUP.group_id)
    look_until(world, began + LONGEST_FORCED + 2 * AGAIN)
    assert not world.weights.forced(GROUP.group_id)
    gone = forcing()
    gone.weights.standing({})
    look_until(gone, gone.now + FORCED + AGAIN)
    assert not gone.weights.forced(GROUP.group_id), "nor where the group does not stand"


def test_weights_of_the_configuration_are_not_taken_for_measured_ones() -> None:
    """A commit from weights that somebody has set to ``auto``, under a daemon that runs."""
    world = World({n: 0.01 for n in range(0, 128, 8)})
    world.weights.configure([replace(PLAN, auto_weights=False)], True)
    world.weights.configure([PLAN], True)
    world.weights.standing({GROUP.group_id: NextHopGroup(GROUP.group_id, PATHS, 128, 10, (100, 9, 9, 10))})
    world.run(600)
    assert max(world.weights.of(GROUP.group_id).values()) <= 40


def test_a_path_that_was_away_when_weights_were_taken_comes_back_with_a_fair_one() -> None:
    world = World({})
    world.weights.standing({GROUP.group_id: NextHopGroup(GROUP.group_id, PATHS[:3], 128, 10, (30, 40, 20))})
    assert world.weights.of(GROUP.group_id) == dict(zip(PATHS, (30, 40, 20, 30), strict=True))


def test_the_buckets_are_looked_at_all_the_time_while_a_path_is_full_only() -> None:
    world = World({3: 1.0})
    world.weights.standing({GROUP.group_id: NextHopGroup(GROUP.group_id, PATHS, 128, 10)})
    world.weights.work(world.now)
    assert world.weights.wake == pytest.approx(world.now + LOOK)
    world.flows = {}
    world.weights.work(world.now + WINDOW)
    assert world.weights.wake == pytest.approx(world.now + 2 * WINDOW)
    world.weights.configure([], True)
    assert world.weights.wake is None
    world.weights.configure([PLAN], False)
    assert world.weights.wake is None, "a kernel without resilient groups"


@given(st.dictionaries(st.integers(0, 31), st.floats(0.01, 1e9), min_size=1), st.integers(32, 4096))
def test_buckets_are_apportioned_whole(shares: dict[int, float], buckets: int) -> None:
    found = apportion(shares, buckets)
    assert sum(found.values()) == buckets and min(found.values()) >= 1
    for one in shares:
        for other in shares:
            assert shares[one] <= shares[other] or found[one] >= found[other] - 1


def test_the_base_follows_capacity_and_latency_and_loss() -> None:
    none = dict.fromkeys((1, 2))
    assert bases({1: 2e9, 2: 1e9}, none, none) == {1: 2e9, 2: 1e9}
    assert bases({1: None, 2: 1e9}, none, none) == {1: 1e9, 2: 1e9}
    slow = bases({1: None, 2: None}, {1: 0.008, 2: 0.018}, none)
    assert slow[1] / slow[2] == pytest.approx(2.0)
    assert bases({1: None, 2: None}, {1: 0.0002, 2: 0.0004}, none)[2] > 0.9
    lossy = bases({1: None, 2: None}, none, {1: 0.0, 2: 0.3})
    assert lossy[2] / lossy[1] == pytest.approx(0.49)
    assert bases({1: 1e9, 2: 1e6}, none, none)[2] == 1e9 / SPREAD


def test_capacity_is_known_near_the_limit_only() -> None:
    assert capacity(None, Load(0.1, 1e6, 0)) is None
    assert capacity(None, Load(0.5, 1e8, 0)) == 2e8
    assert capacity(4e8, Load(0.5, 1e8, 0)) == 4e8, "small batches say less"
    assert 3e8 < (capacity(4e8, Load(1.0, 1e8, 0)) or 0) < 4e8
    assert (capacity(4e8, Load(0.5, 4e8, 0)) or 0) > 4e8
    assert capacity(4e8, Load(0.5, 4e8, 0, waited=0.3)) == 4e8, "others use its CPU, and will use more of it"
    assert 3e8 < (capacity(4e8, Load(0.9, 1e8, 0, waited=0.5)) or 0) < 4e8


def test_a_step_waits_for_the_effect_of_the_last() -> None:
    spread = Spread(128, 10)
    layout = [Bucket(n, PATHS[n // 32], 60.0) for n in range(128)]
    members = [Member(path, 1.0 if path == PATHS[0] else 0.1) for path in PATHS]
    assert spread.look(members, layout, [], 100.0)
    assert spread.look(members, layout, [], 100.0 + PACE / 2) is None
    assert spread.look(members, layout, [], 100.0 + PACE) is None, "the buckets have not moved yet"
    assert spread.look(members, layout[3:], [], 100.0 + PACE)
    assert Spread(128, 10).look(members[:1], layout, [], 100.0) is None


# -- lines of the underlay


@dataclass
class Wans(World):
    """Two lines, each under two of the instances, whose CPUs are hardly used. Rates in units of 1e9 bytes per second."""

    lines: tuple[float, float] = (0.3, 0.1)
    greedy: bool = False  # flows take what they get, and keep the queue of every line filled

    def load_of(self, line: int) -> float:
        return sum(self.wanted()[path] for path in PATHS[2 * line : 2 * line + 2])

    def wait(self, path: int) -> float:
        line = PATHS.index(path) // 2
        return 0.03 if self.load_of(line) >= self.lines[line] or (self.greedy and self.wanted()[path]) else 0.001

    def rate(self, path: int) -> float:
        line = PATHS.index(path) // 2
        demand = self.load_of(line)
        return self.wanted()[path] * (self.lines[line] / demand if self.greedy else min(1.0, self.lines[line] / (demand or 1.0)))

    def read(self, _instances, _now) -> dict[str, Load]:
        rates = {i.unit: self.rate(path) * 1e9 for i, path in zip(PLAN.instances, PATHS, strict=True)}
        return {unit: Load(rate / 2e9, rate, 0, rate) for unit, rate in rates.items()}

    def carried(self) -> float:
        return sum(self.rate(path) for path in PATHS if self.wanted()[path])


@pytest.mark.parametrize("numbers", [range(0, 128, 4), range(128), [n for n in range(128) if n % 32 < 8]])
def test_two_uneven_lines_carry_what_they_can(numbers: range | list[int]) -> None:
    """Flows that want 95 % of both together, evenly spread at first: the slow line has twice what it carries."""
    world = Wans({n: 0.38 / len(numbers) for n in numbers})
    assert world.carried() < 0.3
    world.run(60)
    assert world.carried() > 0.9 * 0.4, world.said
    least = world.carried()
    for _ in range(300):
        least = min(least, world.run(1).carried())
    assert least > 0.85 * 0.4, "and go on so"


def test_greedy_flows_on_full_lines_stay_where_they_are() -> None:
    world = Wans(dict.fromkeys(range(0, 128, 4), 0.01), greedy=True).run(300)
    assert not [s for s in world.said if "busy" in s] and world.carried() == pytest.approx(0.4)


def test_new_flows_find_most_buckets_on_the_line_that_carries_most() -> None:
    world = Wans({n: 0.38 / 32 for n in range(0, 128, 4)}).run(120)
    world.flows = {}
    counts = Counter(world.run(300).table)
    assert 0.65 < sum(counts[path] for path in PATHS[:2]) / 128 < 0.85, counts


class Waiting(World):
    """Others have the CPUs of the first two instances for a while."""

    until: float = 0.0

    def read(self, instances, now) -> dict[str, Load]:
        found = super().read(instances, now)
        for instance in PLAN.instances[:2] if self.now < self.until else ():
            seen = found[instance.unit]
            found[instance.unit] = Load(0.9, seen.rate, 0, seen.sent, waited=0.9 - seen.use)
        return found


UNEVEN = [path * 32 + n for path, flows in enumerate((20, 18, 14, 12)) for n in range(flows)]


@pytest.mark.parametrize(("first", "others"), [(0.02, 2), (0.3, 60)])
def test_a_capacity_that_was_taken_while_others_had_the_cpu_is_not_for_good(first: float, others: float) -> None:
    world = Waiting(dict.fromkeys(UNEVEN, first / 20))
    world.until = world.now + others
    world.run(others)
    world.flows = dict.fromkeys(UNEVEN, 0.3 / 20)
    world.run(150)
    assert max(world.wanted().values()) == pytest.approx(0.3 / 20 * 16)


class Weak(World):
    """The last two instances get a part of a CPU each, and wait for it the more, the more they have to do."""

    def read(self, instances, now) -> dict[str, Load]:
        wanted, found = self.wanted(), {}
        for instance, path, limit in zip(PLAN.instances, PATHS, self.capacities, strict=True):
            carried = min(wanted[path], limit)
            use = carried + (1 - limit) * (carried / limit) ** 4
            found[instance.unit] = Load(min(1.0, use), carried * 1e9, 0, carried * 1e9, max(0.0, use - carried))
        return found


@pytest.mark.parametrize("limit", [1 / 3, 1 / 2])
@pytest.mark.parametrize("part", [0.5, 0.8])
def test_instances_with_less_of_a_cpu_have_less_and_no_flow_goes_to_and_fro(limit: float, part: float) -> None:
    capacities = (1.0, 1.0, limit, limit)
    world = Weak(dict.fromkeys(range(128), part * sum(capacities) / 128), capacities).run(120)
    moved = len(world.said)
    world.run(300)
    assert not [said for said in world.said[moved:] if "busy" in said]
    assert world.carried() == pytest.approx(part * sum(capacities))


def test_two_flows_are_parted_although_probes_go_over_the_other_paths() -> None:
    class Probed(World):
        def read(self, instances, now) -> dict[str, Load]:
            found = super().read(instances, now)
            return {unit: Load(seen.use, seen.rate + 3e3, 0, seen.sent + 3e3) for unit, seen in found.items()}

    world = Probed({3: 0.35, 17: 0.35}).run(60)
    assert max(world.wanted().values()) == 0.35


def test_what_is_known_of_a_capacity_is_trusted_less_while_the_work_is_done_with_less() -> None:
    known = Capacity()
    known.window(Load(0.9, 2e7, 0, waited=0.8))
    assert known.known == known.among(1e9) == pytest.approx(2e7 / 0.9)
    for _ in range(120):
        known.window(Load(0.3, 1e8, 0, waited=0.1))
    assert known.known == pytest.approx(2e7 / 0.9) and known.among(5e8) == 5e8
    for _ in range(60):
        known.window(Load(0.9, 2e7, 0, waited=0.1))
    assert (known.among(5e8) or 0.0) < 1.1 * known.known
    assert Capacity().among(1e9) is None


def test_a_line_that_jitters_is_not_full_for_that() -> None:
    line = Line()
    assert line.window(LEAST / 2, 0.05) == 0.0 and line.capacity is None
    assert line.window(1e9, QUEUE / 2) == 0.0 and line.capacity is None
    assert line.window(1e9, 0.012, 0.010) == 0.0, "busy routers make packets wait on every path"
    assert line.window(1e9, 0.030, 0.030) == 1.0, "but not for so long"


def test_a_line_tells_its_capacity_when_it_is_full() -> None:
    line = Line()
    assert line.window(1e7, QUEUE) == 1.0 and line.capacity == 1e7
    assert line.window(5e6, 0.0) == 0.5
    assert line.window(1e7, 0.0) == NEARLY < FULL
    assert line.window(2e7, 0.0) == NEARLY and line.capacity == 2e7, "it carries more than it did"
    line.window(1e7, 0.1)
    assert 1e7 < (line.capacity or 0) < 2e7, "and less again"


def test_a_line_that_carries_its_capacity_without_a_queue_is_doubted() -> None:
    line = Line()
    line.window(1e7, QUEUE)
    assert min(line.window(1e7, 0.0) for _ in range(120)) < 0.6 and line.capacity == 1e7
    line.window(1e7, QUEUE)
    assert line.window(1e7, 0.0) == NEARLY


def test_a_path_carries_what_its_instance_and_its_line_do() -> None:
    assert sizes({1: Capacity(1e9), 2: Capacity(1e9)}, {1: Line(3e7), 2: Line()}) == {1: 3e7, 2: 1e9}
    assert sizes({1: Capacity(), 2: Capacity()}, {1: Line(1e7), 2: Line(None, 3e7)}) == {1: 1e7, 2: 3e7}
    assert sizes({1: Capacity(), 2: Capacity()}, {1: Line(), 2: Line()}) == {1: 1.0, 2: 1.0}


def test_what_packets_wait_needs_no_common_clock() -> None:
    delay = Delay()
    for n in range(50):
        delay.came(5000.0 + n / 5, 77.0 + n / 5 + 0.020)
    assert delay.least == pytest.approx(0.0, abs=1e-6)
    for n in range(50, 75):
        delay.came(5000.0 + n / 5, 77.0 + n / 5 + 0.060)
    assert delay.least == pytest.approx(0.040) and delay.mean == pytest.approx(0.040)
    delay.came(5015.0, 92.0 + 0.021)
    assert delay.least == pytest.approx(0.001) and delay.mean > 0.03, "a queue that ends is none of a full line"
    delay.came(5000.0, 999.0)
    delay.came(0.1, 999.2)
    assert delay.least == 0.0, "the remote has booted anew"


def test_another_way_through_the_internet_is_the_best_in_the_end() -> None:
    delay, now = Delay(), 0.0
    for took in (0.010, 0.030):
        until = now + 2.1 * MEMORY
        while now < until:
            delay.came(now, now + took)
            now += 1.0
    assert delay.least == pytest.approx(0.0, abs=1e-6)


# -- readings


UDP_HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n"
UDP_LINE = " 1: 0100007F:{port:04X} 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 99 2 0000 {drops}\n"


def process(tmp_path: Path, ran: int, waited: int, *, schedstat: bool = True) -> None:
    task = tmp_path / "proc" / "77" / "task" / "77"
    task.mkdir(parents=True, exist_ok=True)
    if schedstat:
        (task / "schedstat").write_text(f"{ran} {waited} 5\n")
    ticks = ran * os.sysconf("SC_CLK_TCK") // 10**9
    (task / "stat").write_text(f"77 (a ) b) S {' '.join('1' * 10)} {ticks} 0 0\n")
    (tmp_path / "proc" / "net").mkdir(exist_ok=True)


def statistics(tmp_path: Path, carried: int, dropped: int = 0) -> None:
    directory = tmp_path / "sys" / "zt0p1" / "statistics"
    directory.mkdir(parents=True, exist_ok=True)
    for name, value in {"rx_bytes": carried, "tx_bytes": 0, "tx_dropped": dropped}.items():
        (directory / name).write_text(f"{value}\n")


@pytest.mark.parametrize("schedstat", [True, False])
def test_use_counts_the_time_that_a_thread_waited_where_the_kernel_tells(tmp_path: Path, schedstat: bool) -> None:
    asked = []

    def states(units: list[str]) -> dict[str, UnitState]:
        asked.append(units)
        return {unit: UnitState("active", 77, 0) for unit in units}

    loads = Loads(tmp_path / "proc", tmp_path / "sys", states)
    watched = [Instance("u", "zt0p1", 9993)]
    process(tmp_path, 10**9, 0, schedstat=schedstat)
    statistics(tmp_path, 1000)
    assert loads.read(watched, 10.0) == {}
    process(tmp_path, 2 * 10**9, 5 * 10**8, schedstat=schedstat)
    statistics(tmp_path, 5000, 3)
    assert loads.read(watched, 12.0)["u"] == Load(
        pytest.approx(0.75 if schedstat else 0.5), 2000.0, 3, waited=pytest.approx(0.25 if schedstat else 0.0)
    )
    assert loads.read(watched, 13.0)["u"] == Load(0.0, 0.0, 0)
    assert asked == [["u"]], "systemd is asked for a process that is not known only"


def test_the_busiest_thread_counts_and_each_counter_is_of_its_own_time() -> None:
    before = Counters(10.0, {"1": (1.0, 0.0), "2": (5.0, 1.0), "3": (0.0, 0.0)}, 1000, 4, 600)
    after = Counters(12.0, {"1": (1.8, 0.0), "2": (5.6, 1.4), "4": (9.0, 9.0)}, 5000, 10, 1600)
    assert load(before, after) == Load(pytest.approx(0.5), 2000.0, 6, 500.0, pytest.approx(0.2))
    assert load(before, replace(after, drops=1, sent=0)) == Load(pytest.approx(0.5), 2000.0, 0, 0.0, pytest.approx(0.2)), "set back"
    full = replace(after, threads={"2": (9.0, 3.0)})
    assert load(before, full) == Load(1.0, 2000.0, 6, 500.0, 1.0), "no more than all of the time"
    assert load(before, replace(after, at=10.0)) is None is load(before, replace(after, at=9.0))


def test_what_is_sent_and_dropped_is_read_from_the_device_and_the_socket(tmp_path: Path) -> None:
    loads = Loads(tmp_path / "proc", tmp_path / "sys", lambda units: {unit: UnitState("active", 77, 0) for unit in units})
    both = [Instance("u", "zt0p1", 9993), Instance("none", "zt0p2", 9994)]
    for at, ran, carried, sent, drops in ((10.0, 1, 1000, 600, 4), (12.0, 2, 2000, 1600, 9)):
        process(tmp_path, ran * 10**9, 0)
        statistics(tmp_path, carried, drops)
        (tmp_path / "sys/zt0p1/statistics/tx_bytes").write_text(f"{sent}\n")
        (tmp_path / "proc/net/udp6").write_text(UDP_HEAD + UDP_LINE.format(port=9993, drops=10 * drops))
        found = loads.read(both, at)
    assert found == {"u": Load(pytest.approx(0.5), 1000.0, 5 + 50, 500.0)}, "also where there is no table of IPv4"


def test_a_process_that_was_started_again_has_no_load_yet() -> None:
    assert load(Counters(1.0, {"5": (1.0, 0.0)}, 10), Counters(2.0, {"6": (0.5, 0.0)}, 10)) is None
    assert load(Counters(1.0, {"5": (1.0, 0.0)}, 10), Counters(2.0, {"5": (1.5, 0.0)}, 5)) is None, "a new device"
    assert load(Counters(1.0), Counters(2.0)) is None


def test_drops_are_those_of_the_port() -> None:
    text = UDP_HEAD + UDP_LINE.format(port=9993, drops=4) + UDP_LINE.format(port=9994, drops=0)
    assert socket_drops([text, UDP_HEAD + UDP_LINE.format(port=9993, drops=3)]) == {9993: 7, 9994: 0}
    cut = UDP_LINE.format(port=9993, drops=3)
    assert socket_drops(["", "nonsense", UDP_HEAD + "\n" + cut[:40] + "\n" + cut.replace("3\n", "x\n")]) == {}


def test_paths_that_bring_no_probe_back_are_taken_for_equal() -> None:
    found = bases({1: 1e9, 2: 5e8}, {1: 0.001}, {1: 1.0, 2: 1.0})
    assert found[1] == found[2] > 0 and apportion(found, 128) == {1: 64, 2: 64}


def test_the_clocks_of_two_routers_drift_and_nothing_waits_less_than_not_at_all() -> None:
    delay = Delay()
    for n in range(5):
        delay.came(n / 5, n / 5 + 0.012)
    for left in (400.0, 800.0):
        delay.came(left, left + 0.012 + left * 30e-6)
        assert delay.least >= 0.0 and delay.mean >= 0.0


def test_a_wait_that_stays_when_much_less_is_sent_is_no_queue() -> None:
    """The way has become longer: the same wait, whatever goes over it."""
    line = Line(capacity=None)
    sent, pressures = 1e7, []
    for _ in range(120):
        pressures.append(line.window(sent, line.queue(0.007)))
        if pressures[-1] == 1.0:
            sent *= 0.9  # what the balancer takes away
    assert pressures[0] == 1.0 and pressures[-1] == 0.0 and sent > 3e6
    assert line.capacity is None and line.lasting == pytest.approx(0.007)
    assert line.window(2e7, line.queue(0.007 + QUEUE)) == 1.0, "a queue on the longer way"
    assert line.queue(0.001) == 0.0 and line.window(2e7, line.queue(0.001 + QUEUE)) == 1.0, "the short way is back"


def test_a_queue_that_ends_with_the_traffic_says_what_the_line_carries() -> None:
    line = Line()
    for sent in (1e7, 1e7, 4e6):
        assert line.window(sent, line.queue(0.03)) == 1.0
    assert line.window(4e6, line.queue(0.0)) < 0.6 and (line.capacity or 0) > 8e6 and line.lasting == 0.0


def test_others_that_fill_a_line_are_not_tried_again_and_again() -> None:
    line, full = Line(), 0
    for n in range(240):
        full += line.window(1e7 if n % 10 < 5 else 4e6, line.queue(0.01 if line.lasting == 0.0 else line.lasting + 0.01)) == 1.0
    assert full > 220


@dataclass
class Waiting(World):
    """Paths that wait so many seconds."""

    waits: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0)

    def wait(self, path: int) -> float:
        return self.waits[PATHS.index(path)]


def test_a_path_that_is_down_does_not_make_lines_of_busy_routers() -> None:
    world = Waiting({n: 0.01 for n in range(40)}, waits=(0.0, 0.008, 0.009, 0.008))
    world.weights.standing({GROUP.group_id: NextHopGroup(GROUP.group_id, PATHS[1:], 128, 10)})
    for _ in range(3):
        world.now = max(world.now, world.weights.wake or 0.0)
        world.weights.work(world.now)
    group = world.weights._groups[GROUP.group_id]
    assert {group.beyond[path][-1] for path in PATHS[1:]} == {0.0}


def test_an_instance_that_lets_packets_fall_is_full_and_told_with_what_it_works() -> None:
    world = World({})
    unit = PLAN.instances[0].unit
    world.weights._instances[unit].loads.extend([Load(0.1, 1e8, 5, 1e8), Load(0.3, 1e8, 0, 1e8)])
    assert world.weights.use(unit) == pytest.approx(0.2) and world.weights.pressure(unit) == pytest.approx(0.65)
