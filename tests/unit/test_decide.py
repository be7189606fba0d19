"""What the daemon decides: one look's values in, what follows from them out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import pytest
from tests.unit.test_pathd import GROUP, PLAN, all_taps, settle
from zerotier_multi.netlink.links import Address, Link
from zerotier_multi.netlink.state import KernelState
from zerotier_multi.pathd.decide import Drain, Inputs, decide, path_states, probing, standing, still_drained, unusable
from zerotier_multi.pathd.kernel.actions import Put, PutRoute, Remove
from zerotier_multi.pathd.kernel.desired import GROUP_GRACE, Share
from zerotier_multi.pathd.kernel.imagined import after
from zerotier_multi.pathd.kernel.sysctls import HASH_POLICIES
from zerotier_multi.states import PathState

MEMBERS = PLAN.groups[0].members
UP = dict.fromkeys(MEMBERS, PathState.UP)
NOW = 1000.0
QUIET = replace(PLAN, health=replace(PLAN.health, enabled=False))


def router() -> KernelState:
    """Everything of the plan is there."""
    return settle(KernelState(links=all_taps()))


def seen(**changes: object) -> Inputs:
    return replace(Inputs(NOW, [PLAN], router(), verdicts=UP), **changes)  # type: ignore[arg-type]


def test_nothing_is_done_where_all_is_as_it_shall_be() -> None:
    made = decide(seen())
    assert not made.todo and made.used == made.up == set(MEMBERS) and made.wake is None
    assert made.managed == {link.index for link in router().links.values()}
    assert made.settings[HASH_POLICIES[0]] == "1" and "chain zt0" in made.nftables and not made.vrfs


DOWN = {**UP, MEMBERS[1]: PathState.DOWN}


@pytest.mark.parametrize(
    ("changes", "up", "kinds"),
    [
        ({"verdicts": DOWN}, [0, 2, 3], ["Put", "Remove"]),
        ({"verdicts": {**UP, MEMBERS[1]: PathState.REMOTE_DOWN}}, [0, 2, 3], ["Put", "Remove"]),
        ({"verdicts": {}}, [], ["Remove"] * 7),
        ({"drains": {"zt0p1": Drain(11, NOW + 1)}}, [1, 2, 3], ["Put", "Remove"]),
        ({"plans": [QUIET], "verdicts": {}}, [0, 1, 2, 3], []),
        ({"plans": [QUIET], "verdicts": {}, "drains": {"zt0p1": Drain(11, NOW + 1)}}, [1, 2, 3], ["Put", "Remove"]),
        ({"refused": {MEMBERS[0]}}, [1, 2, 3], ["Put", "Remove"]),
        ({"shares": {GROUP: Share({MEMBERS[0]: 5})}}, [0, 1, 2, 3], ["Put"]),
        ({"plans": [], "verdicts": {}}, [], ["Remove"] * 7 + ["DeleteDevice"]),
    ],
)
def test_what_follows(changes: dict[str, object], up: list[int], kinds: list[str]) -> None:
    made = decide(seen(**changes))
    assert made.up == {MEMBERS[n] for n in up}
    assert [type(action).__name__ for action in made.todo] == kinds


def test_the_same_values_give_the_same_decision() -> None:
    inputs = seen(verdicts=DOWN)
    assert decide(inputs) == decide(inputs)


def test_what_is_decided_is_there_at_the_next_look_and_nothing_follows_then() -> None:
    inputs = seen(verdicts=DOWN)
    have = inputs.have
    for action in decide(inputs).todo:
        have = after(have, action)
    assert not decide(replace(inputs, have=have)).todo


def test_a_group_waits_for_its_members_and_no_longer() -> None:
    bare = router()
    for action in decide(seen(verdicts={})).todo:
        bare = after(bare, action)
    one = seen(have=bare, verdicts={MEMBERS[0]: PathState.UP})
    made = decide(one)
    assert made.waiting_since == {GROUP: NOW} and made.wake == NOW + GROUP_GRACE and not made.up
    late = decide(replace(one, now=NOW + GROUP_GRACE, waiting_since=made.waiting_since))
    assert late.up == {MEMBERS[0]} and late.wake is None and not late.waiting_since
    assert {type(action) for action in late.todo} == {Put, PutRoute} and Remove not in {type(action) for action in late.todo}


@pytest.mark.parametrize(
    ("drain", "lasts"),
    [(Drain(11, NOW + 1), True), (Drain(12, NOW + 1), False), (Drain(11, NOW), False)],
    ids=["as it was", "another device of that name", "for too long"],
)
def test_a_drain_lasts_while_its_device_is_the_same(drain: Drain, lasts: bool) -> None:
    assert bool(still_drained({"zt0p1": drain}, router(), NOW)) == lasts
    assert not still_drained({"zt0p9": drain}, router(), NOW)


def test_what_an_earlier_daemon_used_is_probed_as_up() -> None:
    known = {MEMBERS[0]: PathState.NO_ROUTE, MEMBERS[1]: PathState.DOWN, MEMBERS[2]: PathState.UP}
    found = probing([PLAN], router(), ["zt0p4"], known)
    assert [target.path for target in found.targets] == list(MEMBERS) and found.drained == {MEMBERS[3]}
    assert found.in_use == set(MEMBERS) - {MEMBERS[1]}
    assert probing([PLAN], router(), [], {**known, MEMBERS[3]: PathState.BACKUP}).spared == {MEMBERS[3]}
    assert not probing([QUIET], router(), [], {}).targets


def test_groups_that_stand_go_by_the_ids_of_the_plan() -> None:
    assert standing([PLAN], router(), True) == {GROUP: router().groups[GROUP]}
    assert standing([PLAN], KernelState(), True) == {}


@pytest.mark.parametrize(
    ("verdict", "up", "links", "drained", "blocked", "state"),
    [
        (PathState.UP, True, True, False, False, "up"),
        (PathState.UP, True, True, False, True, "no route"),
        (PathState.UP, False, True, False, False, "waiting"),
        (PathState.UP, False, True, False, True, "no route"),
        (PathState.DOWN, False, True, False, True, "down"),
        (PathState.DOWN, False, True, False, False, "down"),
        (PathState.HELD, False, True, False, False, "held down"),
        (PathState.REMOTE_DOWN, False, True, False, False, "remote down"),
        (PathState.NARROW, False, True, False, False, "narrow"),
        (PathState.UP, False, True, True, True, "drained"),
        (PathState.UP, False, False, True, True, "no device"),
        (None, False, True, False, False, "waiting"),
    ],
)
def test_the_state_of_a_path(verdict: PathState | None, up: bool, links: bool, drained: bool, blocked: bool, state: str) -> None:
    first = MEMBERS[0]
    have = KernelState(links=all_taps() if links else {})
    verdicts: Mapping[int, PathState] = {first: verdict} if verdict else {}
    drains: Collection[str] = ["zt0p1"] if drained else []
    assert path_states([PLAN], have, [first] if up else [], verdicts, drains, [first] if blocked else [])[first] == state


def test_without_a_health_check_no_verdict_counts() -> None:
    assert unusable([QUIET], {}, [], KernelState()) == set() and unusable([PLAN], {}, [], KernelState()) == set(MEMBERS)
    assert set(path_states([QUIET], router(), [], dict.fromkeys(MEMBERS, PathState.DOWN), [], []).values()) == {"waiting"}


def test_a_narrow_path_serves_while_there_is_no_better_one() -> None:
    narrow = dict.fromkeys(MEMBERS, PathState.UP) | {MEMBERS[1]: PathState.NARROW}
    assert unusable([PLAN], narrow, [], router()) == {MEMBERS[1]}
    others = set(MEMBERS) - {MEMBERS[1]}
    assert unusable([PLAN], narrow, [], router(), others) == set(), "the kernel takes no other"
    assert unusable([PLAN], narrow, [], KernelState()) == set(), "no other has a device"
    assert unusable([PLAN], narrow, ["zt0p1", "zt0p3", "zt0p4"], router()) == others, "all others are drained"


SPARE = replace(PLAN, paths=(*PLAN.paths[:3], replace(PLAN.paths[3], backup=True)))
LAST = MEMBERS[3]
FALLEN = {**dict.fromkeys(MEMBERS, PathState.DOWN), LAST: PathState.UP}


@pytest.mark.parametrize(
    ("changes", "used"),
    [
        ({}, [0, 1, 2]),
        ({"plans": [PLAN], "backups": {LAST}}, [0, 1, 2]),
        ({"verdicts": {**UP, MEMBERS[0]: PathState.DOWN}}, [1, 2]),
        ({"verdicts": FALLEN}, [3]),
        ({"verdicts": {**FALLEN, MEMBERS[1]: PathState.NARROW}}, [3]),
        ({"verdicts": {**FALLEN, MEMBERS[1]: PathState.NARROW, LAST: PathState.NARROW}}, [1]),
        ({"drains": {f"zt0p{n}": Drain(10 + n, NOW + 1) for n in (1, 2, 3)}}, [3]),
        ({"refused": set(MEMBERS[:3])}, [3]),
        ({"verdicts": {**UP, LAST: PathState.DOWN}}, [0, 1, 2]),
    ],
    ids=["all work", "for the remote", "one of the others", "none", "a narrow one", "all narrow", "restarts", "kernel", "dead"],
)
def test_a_backup_serves_while_no_other_path_does(changes: dict[str, object], used: list[int]) -> None:
    made = decide(seen(**{"plans": [SPARE], **changes}))
    assert made.up == {MEMBERS[n] for n in used}
    assert made.want.groups[GROUP].members == tuple(MEMBERS[n] for n in used)


def test_a_backup_that_has_nothing_to_carry_says_so() -> None:
    def states(verdicts: Mapping[int, PathState], up: Collection[int], links: bool = True) -> PathState:
        have = router() if links else KernelState()
        return path_states([SPARE], have, up, verdicts, [], [])[LAST]

    assert states(UP, MEMBERS[:3]) == PathState.BACKUP
    assert path_states([PLAN], router(), MEMBERS[:3], UP, [], [], [LAST])[LAST] == PathState.BACKUP
    assert states(FALLEN, [LAST]) == PathState.UP
    assert states(FALLEN, []) == PathState.WAITING, "it is about to be used"
    assert states({**UP, LAST: PathState.DOWN}, MEMBERS[:3]) == PathState.DOWN
    assert states(UP, MEMBERS[:3], links=False) == PathState.NO_DEVICE


def test_backups_alone_share_the_traffic_and_it_is_told() -> None:
    made = decide(seen(plans=[SPARE], backups=set(MEMBERS[:3])))
    (note,) = [note for note in made.want.notes if "backup" in note]
    assert made.up == set(MEMBERS)
    assert note == "zt0: each path to R2 is a backup for this router or for R2, so all share the traffic; make one of them none"
    assert not [note for note in decide(seen(plans=[SPARE])).want.notes if "backup" in note]


def test_no_group_waits_for_a_backup_but_the_backup_waits_for_the_others() -> None:
    bare = router()
    for action in decide(seen(verdicts={})).todo:
        bare = after(bare, action)
    first = {member: PathState.UP for member in MEMBERS[:3]}
    assert decide(seen(plans=[SPARE], have=bare, verdicts=first)).up == set(MEMBERS[:3])
    assert decide(seen(plans=[SPARE], have=bare, verdicts=FALLEN)).waiting_since == {GROUP: NOW}


def test_an_uplink_takes_packets_from_everywhere() -> None:
    kept = replace(PLAN, instances=(replace(PLAN.instances[0], source_interface="eth1"), *PLAN.instances[1:]))
    have = router()
    have.links = {**have.links, "eth1": Link(30, "eth1", None, 1500, True, True)}
    have.local = {Address(30, "203.0.113.1/24")}
    made = decide(seen(plans=[kept], have=have, gateways={("eth1", 4): "203.0.113.254"}, rp_filters={"all": "1", "eth1": "1"}))
    assert made.settings["net/ipv4/conf/eth1/rp_filter"] == "2"
    assert made.want.sysctls["net/ipv4/conf/zt0p1/rp_filter"] == "2"


def test_a_next_hop_that_the_kernel_refuses_is_not_waited_for() -> None:
    """At boot: the group comes with the others, and without the pause for those that are late."""
    have = settle(KernelState(links=all_taps()), plans=())
    taps = settle(KernelState(links=all_taps()))
    bare = replace(have, addresses=taps.addresses, neighbours=taps.neighbours)
    made = decide(seen(have=bare, refused={MEMBERS[3]}, verdicts={**UP, MEMBERS[3]: PathState.UP}))
    assert not made.waiting_since and GROUP in made.want.groups and made.want.groups[GROUP].members == MEMBERS[:3]


def test_vrfs_are_told_from_other_devices() -> None:
    """Entries of theirs in the map of conntrack zones are the router's own."""
    have = router()
    have.links["zt9"] = Link(40, "zt9", "vrf", 65575, True, True, table=100)
    assert decide(seen(have=have)).vrfs == {"zt9"}
