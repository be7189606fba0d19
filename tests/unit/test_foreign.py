"""What other programs do to our next hops and routes: what is ours is known by value, and what the kernel does is what is told."""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.configuration import EXAMPLE
from tests.unit.test_pathd import BOTH, GROUP, PLAN, SIX, all_taps, bundle, settle, step
from zerotier_multi import names
from zerotier_multi.netlink.links import Link
from zerotier_multi.netlink import messages
from zerotier_multi.cpu import Cpu
from zerotier_multi.netlink.messages import Message, attribute, nested
from zerotier_multi.netlink.sockets import KernelError
from zerotier_multi.netlink.nexthops import FORCED_AFTER, NextHop, NextHopGroup, Stray, parse
from zerotier_multi.op.data import bundle_entry, path_state
from zerotier_multi.pathd.kernel.actions import AddDevice, DeleteDevice, Put, PutRoute, Remove, SetDevice, actions
from zerotier_multi.pathd.kernel.desired import desired_state, group_id
from zerotier_multi.netlink.state import KernelState
from zerotier_multi.pathd.tell.events import Seen, contested, events, path_cause, repaired
from zerotier_multi.pathd.kernel.forwarding import ask, blocked, samples
from zerotier_multi.pathd.kernel.commands import names_of
from zerotier_multi.pathd.kernel.sysctls import Sysctls
from zerotier_multi.pathd.kernel.apply import carry_out, perform, supports_resilient_groups
from zerotier_multi.pathd.kernel.sysctls import Sysctls
from zerotier_multi.pathd.kernel.notices import Neighbours, Prefixes, concerns_us
from zerotier_multi.pathd.kernel.repairs import FREE, PAUSE, WINDOW, Repairs
from zerotier_multi.planner import make_plan
from zerotier_multi.netlink.routes import Match, Route

MEMBERS = PLAN.groups[0].members
SPARE = GROUP + names.GROUP_ALTERNATE


def hop(number: int = 1, protocol: int = names.RT_PROTO, flags: int = 0, *more: bytes, via: bytes = bytes([10, 14, 0, 2])) -> bytes:
    """A next hop as the kernel tells it."""
    body = struct.pack("=BBBxI", 2, 0, protocol, flags) + attribute(1, number)
    return body + attribute(5, 11) + attribute(6, via) + b"".join(more)


def group(
    protocol: int = names.RT_PROTO,
    idle: int = 1000,
    forced: int = 0,
    buckets: int = 8,
    weight: tuple[int, int] = (0, 0),
    *more: bytes,
) -> bytes:
    entries = struct.pack("=IBBH", 1, *weight, 0) + struct.pack("=IBBH", 2, 0, 0, 0)
    body = (
        struct.pack("=BBBxI", 0, 0, protocol, 0)
        + attribute(1, 9)
        + attribute(2, entries)
        + attribute(3, struct.pack("=H", buckets > 0))
    )
    timers = attribute(1, struct.pack("=H", buckets)), attribute(2, idle), attribute(3, forced), attribute(4, struct.pack("=Q", 77))
    return body + (nested(12, *timers) if buckets else b"") + b"".join(more)


# -- by value


def test_next_hops_are_ours_only_when_all_of_them_is() -> None:
    assert parse(hop()) == NextHop(1, 11, "10.14.0.2")
    assert parse(hop(1, 0)) == Stray(1, "a next hop via 10.14.0.2 dev if11", False, False)
    assert parse(hop(1, names.RT_PROTO, 4)) == Stray(1, "a next hop via 10.14.0.2 dev if11 onlink", False, True)
    assert parse(hop(1, names.RT_PROTO, 0, attribute(11, b""))) == Stray(1, "a next hop via 10.14.0.2 dev if11 fdb", False, True)
    assert isinstance(parse(hop(1, names.RT_PROTO, 0, attribute(7, b"\1\0"))), Stray), "with an encapsulation"
    black = struct.pack("=BBBxI", 2, 0, names.RT_PROTO, 0) + attribute(1, 1) + attribute(4, b"")
    assert parse(black) == Stray(1, "a blackhole", False, True)


def test_groups_are_compared_with_all_that_they_have() -> None:
    ours = NextHopGroup(9, (1, 2), 8, 10)
    assert parse(group()) == ours
    assert parse(group(0)) == Stray(9, "a resilient group of 1/2", True, False)
    differ = [group(idle=1050), group(forced=5), group(buckets=16), group(buckets=0), group(weight=(1, 0)), group(weight=(0, 1))]
    assert all(isinstance(parse(one), NextHopGroup) and parse(one) != ours for one in differ)
    assert parse(group(names.RT_PROTO, 1000, 0, 8, (0, 1))).weights == (257, 1)  # type: ignore[union-attr]
    assert [parse(group(forced=ticks)).unbalanced for ticks in (0, 4, 6000)] == [0, FORCED_AFTER, 60]  # type: ignore[union-attr]
    assert isinstance(parse(group(names.RT_PROTO, 1000, 0, 8, (0, 0), attribute(11, b""))), Stray), "for a bridge's table"


def test_routes_of_our_protocol_that_somebody_has_changed_are_put_right() -> None:
    have = settle(KernelState(links=all_taps()))
    real = next(route for route in have.routes if route.nexthop_id)
    have.routes = have.routes - {real} | {Route(real.prefix, 0, None, real.table, real.metric, odd="blackhole")}
    assert step(have)[1] == [PutRoute(real, True)]
    settle(have)
    # Where both are there, the kernel's first may be either.
    extra = replace(real, odd="metrics")
    have.routes = have.routes | {extra}
    assert step(have)[1] == [Remove(extra)]


def stray(number: int, group: bool = False, ours: bool = False) -> Stray:
    return Stray(number, "a blackhole", group, ours)


@pytest.mark.parametrize("six", [False, True], ids=["ipv4", "ipv6"])
def test_a_foreign_object_on_a_group_s_id_makes_the_group_take_another(six: bool) -> None:
    have = settle(KernelState(links=all_taps()), plans=(SIX,), first=-100.0)
    plan = SIX.groups[six]
    # The kernel takes the routes along with a group that is deleted.
    have.routes = {r for r in have.routes if r.nexthop_id != plan.group_id}
    del have.groups[plan.group_id]
    have.strays[plan.group_id] = stray(plan.group_id)
    want, todo = step(have, plans=(SIX,), first=-100.0)
    other = plan.group_id + names.GROUP_ALTERNATE
    assert [type(a) for a in todo] == [Put, PutRoute] and todo[0].what.id == other and todo[1].route.nexthop_id == other
    assert want.standing[plan.group_id] == other
    assert want.notes == [
        f"zt0: next hop {plan.group_id} is a blackhole of another program, so the group to R2 (IPv{6 if six else 4}) is {other}; "
        f"remove it with: ip nexthop del id {plan.group_id}"
    ]
    settle(have, plans=(SIX,), first=-100.0)
    # Nothing is moved back, nor is the object touched, and when it has gone nothing is left to tell.
    assert step(have, plans=(SIX,), first=-100.0)[1] == []
    del have.strays[plan.group_id]
    want, todo = step(have, plans=(SIX,), first=-100.0)
    assert todo == [] and want.notes == []


def test_a_route_that_is_bound_to_a_foreign_object_moves_to_the_group() -> None:
    """``ip nexthop replace`` leaves the routes where they are, and what they are bound to is another program's."""
    have = settle(KernelState(links=all_taps()))
    have.strays[GROUP] = stray(GROUP, group=True)
    del have.groups[GROUP]
    todo = step(have)[1]
    assert [type(a) for a in todo] == [Put, PutRoute] and todo[1].replace and todo[1].route.nexthop_id == SPARE


def test_all_ids_taken_takes_the_route_away_and_says_so() -> None:
    have = settle(KernelState(links=all_taps()))
    del have.groups[GROUP]
    have.strays = {GROUP + n: stray(GROUP + n) for n in names.GROUP_OFFSETS}
    want, todo = step(have)
    assert group_id(PLAN.groups[0], True, have) is None
    assert want.problems == [
        "zt0: all next-hop ids for the group to R2 (IPv4) are taken by other programs, so nothing is routed; "
        f"remove one with: ip nexthop del id {GROUP}"
    ]
    assert {a.what for a in todo if isinstance(a, Remove) and isinstance(a.what, Route)} == have.routes
    assert all(MEMBERS[0] <= number for number in blocked([PLAN], want, have, {}).paths)


def test_the_ids_of_groups_are_nobody_else_s() -> None:
    every = [
        names.nexthop_id("zt0", family, site, k) for family in (4, 6) for site in (1, 2) for k in range(1, names.MAX_INSTANCES + 1)
    ]
    groups = [names.nexthop_id("zt0", family, site, 0) + n for family in (4, 6) for site in (1, 2) for n in names.GROUP_OFFSETS]
    assert len({*every, *groups}) == len(every) + len(groups)
    assert {names.first_group_id(number) for number in groups[:32]} == {names.nexthop_id("zt0", 4, 1, 0)}


def test_a_foreign_object_on_a_next_hop_s_id_is_replaced() -> None:
    have = settle(KernelState(links=all_taps()))
    wanted = have.nexthops.pop(MEMBERS[0])
    have.groups[GROUP] = NextHopGroup(GROUP, MEMBERS[1:], 128, 10)
    have.strays[MEMBERS[0]] = stray(MEMBERS[0])
    assert step(have)[1] == [Put(wanted), Put(NextHopGroup(GROUP, MEMBERS, 128, 10, unbalanced=60))]
    # The kernel puts no next hop in the place of a group.
    have.strays[MEMBERS[0]] = stray(MEMBERS[0], group=True)
    assert step(have)[1][:2] == [Remove(have.strays[MEMBERS[0]]), Put(wanted)]


def test_a_next_hop_that_cannot_be_had_is_left_out_and_the_others_carry() -> None:
    have = settle(KernelState(links=all_taps()))
    want = desired_state([PLAN], have, (), True, {}, 100.0, refused={MEMBERS[0]})
    assert want.groups[GROUP].members == MEMBERS[1:] and MEMBERS[0] not in want.ready
    want = desired_state([PLAN], have, (), True, {}, 100.0, refused={GROUP})
    assert want.groups[GROUP].members == MEMBERS, "what is left of it goes on carrying traffic"
    del have.groups[GROUP]
    want = desired_state([PLAN], have, (), True, {}, 100.0, refused={GROUP})
    assert want.groups == {} and want.routes == set()


def test_objects_of_our_protocol_that_nobody_wants_go_and_others_stay() -> None:
    have = settle(KernelState(links=all_taps()))
    have.strays = {5: stray(5, ours=True), SPARE + 1: stray(SPARE + 1)}
    assert step(have)[1] == [Remove(have.strays[5])]


# -- what the kernel refuses


class Refusing:
    """A kernel that refuses some requests, and remembers the others."""

    def __init__(self, **errors: int) -> None:
        self.errors, self.done = errors, []

    def __getattr__(self, name: str):
        def call(what: object) -> None:
            if error := self.errors.get(name):
                raise KernelError(error, "File exists" if error == errno.EEXIST else "no")
            self.done.append((name, what))

        return call


def from_nothing() -> tuple[KernelState, list]:
    have = settle(KernelState(links=all_taps()))
    have.nexthops, have.groups, have.routes = {}, {}, set()
    return have, step(have)[1]


def test_no_route_is_bound_to_a_group_that_could_not_be_made() -> None:
    have, todo = from_nothing()
    kernel = Refusing(set_group=errno.EINVAL)
    done = carry_out(kernel, todo, have)
    assert [name for name, _ in kernel.done] == ["set_nexthop"] * 4 and len(done.problems) == 1
    kernel = Refusing(set_nexthop=errno.EINVAL)
    done = carry_out(kernel, todo, have)
    assert kernel.done == [] and done.refused == set(MEMBERS) and not done.anything


def test_a_place_that_another_program_s_route_has_is_told_and_frr_hears_of_no_route() -> None:
    have, todo = from_nothing()
    twin = next(a.route for a in todo if isinstance(a, PutRoute) and not a.route.nexthop_id)
    have.routes = {twin}
    kernel = Refusing(add_route=errno.EEXIST)
    done = carry_out(kernel, actions(step(have)[0], have), have)
    assert done.problems == [] and done.notes == [
        "the route to 10.0.55.2/32 cannot be made, because another program has one in its place; see: ip route show 10.0.55.2/32"
    ]
    assert ("delete_route", twin) in kernel.done


def test_nothing_is_taken_away_before_its_successor_is_there() -> None:
    have = settle(KernelState(links=all_taps()))
    bigger = make_plan(bundle(BOTH + "balance resilient buckets 256"), tuple(Cpu(n, n) for n in range(4)), "x")
    todo = step(have, plans=(bigger,), first=-100.0)[1]
    assert any(isinstance(a, Remove) for a in todo)
    kernel = Refusing(set_group=errno.EINVAL)
    carry_out(kernel, todo, have)
    assert not [name for name, _ in kernel.done if name.startswith("delete")]


# -- repairs


def look_again(repairs: Repairs, have: KernelState, now: float, plan=PLAN):
    want = desired_state([plan], have, (), True, {}, now, refused=repairs.refused(now))
    return repairs.look(want, have, now)


def test_what_stood_and_does_not_any_more_is_told_when_it_stands_again() -> None:
    have, repairs = settle(KernelState(links=all_taps())), Repairs()
    assert look_again(repairs, have, 0.0).repaired == ()
    lost = have.nexthops.pop(MEMBERS[0])
    have.strays[MEMBERS[0]] = stray(MEMBERS[0])
    assert look_again(repairs, have, 1.0).repaired == ()
    have.nexthops[MEMBERS[0]] = lost
    del have.strays[MEMBERS[0]]
    (event,) = repaired(look_again(repairs, have, 1.1).repaired)
    assert event.fields() == {
        "ZEROTIER_EVENT": "repaired", "ZEROTIER_BUNDLE": "zt0", "ZEROTIER_CAUSE": f"next hop {MEMBERS[0]} was replaced by a blackhole",
    }  # fmt: skip
    assert look_again(repairs, have, 1.2).repaired == ()


def test_every_kind_of_thing_that_is_changed_is_noticed() -> None:
    have, repairs = settle(KernelState(links=all_taps())), Repairs()
    look_again(repairs, have, 0.0)
    whole = replace(have, links=dict(have.links), groups=dict(have.groups), routes=set(have.routes), addresses=set(have.addresses))
    have.groups[GROUP] = replace(have.groups[GROUP], members=MEMBERS[:1])
    have.routes = {route for route in have.routes if not route.nexthop_id}
    have.links = {**have.links, "zt0p2": replace(have.links["zt0p2"], master=99)}
    have.addresses = {a for a in have.addresses if a.interface != "10.0.55.1/32"}
    look_again(repairs, have, 1.0)
    found = {str(change) for change in look_again(repairs, whole, 1.1).repaired}
    assert found == {
        f"next-hop group {GROUP} was changed",
        "the route to 10.0.55.2/32 (table 254, metric 0) was deleted",
        "device zt0p2 was set otherwise",
        "address 10.0.55.1/32 on zt0 was deleted",
    }


def test_an_mtu_that_an_engine_has_raised_is_lowered_without_a_word() -> None:
    """It writes that of its network, at each start and each change; a fight is told all the same."""
    have, repairs, told = settle(KernelState(links=all_taps())), Repairs(), []

    def change(now: float, name: str, **what: int) -> list[str]:
        whole = have.links
        look_again(repairs, have, now)
        have.links = {**whole, name: replace(whole[name], **what)}
        assert [a.mtu for a in step(have)[1] if isinstance(a, SetDevice)] == [1500 if name == "zt0" else 1394]
        told.extend(map(str, look_again(repairs, have, now + 0.1).contested))
        have.links = whole
        return [str(change) for change in look_again(repairs, have, now + 0.2).repaired]

    assert change(0.0, "zt0p1", mtu=2800) == []
    assert change(1.0, "zt0p1", mtu=2800, master=99) == ["device zt0p1 was set otherwise"]
    assert change(2.0, "zt0", mtu=2800) == ["device zt0 was set otherwise"]
    assert not told
    for round in range(FREE + 1):
        assert change(10.0 + round, "zt0p2", mtu=2800) == []
    assert told == ["device zt0p2 was set otherwise"]


def test_a_member_device_is_no_port_of_a_bridge() -> None:
    have, repairs = settle(KernelState(links=all_taps())), Repairs()
    look_again(repairs, have, 0.0)
    whole = replace(have, links=dict(have.links))
    have.links = {
        **have.links,
        "br0": Link(99, "br0", "bridge", 1500, True, True),
        "zt0p2": replace(have.links["zt0p2"], master=99),
    }
    look_again(repairs, have, 1.0)
    (change,) = look_again(repairs, whole, 1.1).repaired
    assert str(change) == (
        "device zt0p2 was made a port of bridge br0, which a routed device cannot be; use VXLAN over the bundle for layer 2"
    )


def test_what_we_want_otherwise_ourselves_is_no_repair() -> None:
    have, repairs = settle(KernelState(links=all_taps())), Repairs()
    down: set[int] = set()

    def look(now: float) -> int:
        want = desired_state([PLAN], have, down, True, {}, now)
        found = repairs.look(want, have, now)
        for action in actions(want, have):
            match action:
                case Put(NextHop() as one):
                    have.nexthops[one.id] = one
                case Put(NextHopGroup() as one):
                    have.groups[one.id] = one
                case Remove(NextHop(number)):
                    del have.nexthops[number]
        return len(found.repaired) + len(found.contested)

    for n in range(100):
        down = {MEMBERS[0]} if n % 2 else set()
        assert look(n / 10) == look(n / 10 + 0.05) == 0
    assert repairs.left_alone(11.0) == set()
    # Nor is another plan.
    repairs.forget()
    have.routes = set()
    look(12.0)
    have.routes = set(settle(KernelState(links=all_taps())).routes)
    assert look(13.0) == 0


def test_a_fight_is_given_up_for_a_while_and_told() -> None:
    have, repairs, now, told = settle(KernelState(links=all_taps())), Repairs(), 0.0, []
    whole = have.nexthops[MEMBERS[0]]
    rounds = 0
    while now < 60:
        have.nexthops[MEMBERS[0]] = whole
        have.groups[GROUP] = NextHopGroup(GROUP, MEMBERS, 128, 10)
        look_again(repairs, have, now)
        del have.nexthops[MEMBERS[0]]
        # The kernel takes it out of the group, over which nobody fights.
        have.groups[GROUP] = NextHopGroup(GROUP, MEMBERS[1:], 128, 10)
        told += look_again(repairs, have, now + 0.01).contested
        rounds += 1
        if repairs.refused(now + 0.01):
            assert repairs.refused(now + 0.01) == {MEMBERS[0]} == repairs.ignored(now + 0.01)
            assert repairs.notes(now + 0.01) == [
                f"zt0: another program keeps changing next hop {MEMBERS[0]}; it is restored once in 10 s"
            ]
            assert repairs.wake(now + 0.01) == now + 0.01 + PAUSE
            now += PAUSE
        now += 0.02
    assert FREE < rounds <= FREE + 60 / PAUSE + 1
    (event,) = contested(told)
    assert event.cause == f"next hop {MEMBERS[0]} was deleted more than {FREE} times in {WINDOW:g} s"
    assert repairs.wake(now + 100) is None and repairs.notes(now + 100) == []


@pytest.mark.parametrize(("gap", "fight"), [(6.5, False), (5.9, True)])
def test_what_is_changed_now_and_then_is_always_put_right_at_once(gap: float, fight: bool) -> None:
    have, repairs = settle(KernelState(links=all_taps())), Repairs()
    whole, told = have.addresses, []
    for round in range(3 * FREE):
        have.addresses = whole
        look_again(repairs, have, round * gap)
        have.addresses = {a for a in whole if a.interface != "10.0.55.1/32"}
        told += look_again(repairs, have, round * gap + 0.01).contested
        assert bool(repairs.left_alone(round * gap + 0.02)) == (fight and round >= FREE)
    assert [str(change) for change in told] == ["address 10.0.55.1/32 on zt0 was deleted"] * fight
    assert all(change.bundle == "zt0" for change in told)


def test_in_a_fight_for_a_group_none_of_its_ids_is_a_reason_to_look() -> None:
    have, repairs, told = settle(KernelState(links=all_taps())), Repairs(), []
    group, hop = have.groups[GROUP], have.nexthops[MEMBERS[0]]
    for round in range(FREE + 2):
        have.groups[GROUP] = group
        look_again(repairs, have, round)
        have.groups[GROUP] = replace(group, idle_timer=77)
        told += look_again(repairs, have, round + 0.1).contested
    now = FREE + 1.1
    assert [(change.bundle, str(change)) for change in told] == [("zt0", f"next-hop group {GROUP} was changed")]
    assert repairs.refused(now) == {GROUP} and repairs.ignored(now) == {GROUP + offset for offset in names.GROUP_OFFSETS}
    # Another one a little later: each is put right in its time.
    for round in range(FREE + 2):
        have.nexthops[MEMBERS[0]] = hop
        look_again(repairs, have, now + 0.1)
        have.nexthops[MEMBERS[0]] = replace(hop, via="10.14.0.9")
        look_again(repairs, have, now + 0.2)
    assert repairs.ignored(now + 0.2) == {*(GROUP + offset for offset in names.GROUP_OFFSETS), MEMBERS[0]}
    assert repairs.wake(now + 0.2) == now + PAUSE and repairs.refused(now + PAUSE + 0.1) == {MEMBERS[0]}


def test_a_device_of_ours_that_is_deleted_is_told_when_it_is_there_again() -> None:
    have, repairs = settle(KernelState(links=all_taps())), Repairs()
    look_again(repairs, have, 0.0)
    whole, have.links = have.links, {name: link for name, link in have.links.items() if name != "zt0"}
    look_again(repairs, have, 1.0)
    have.links = whole
    assert [(change.bundle, str(change)) for change in look_again(repairs, have, 1.1).repaired] == [
        ("zt0", "device zt0 was deleted")
    ]


def test_what_is_left_alone_is_not_touched() -> None:
    have, todo = from_nothing()
    kernel = Refusing()
    alone = {("group", GROUP), ("device", "zt0p1")}
    done = carry_out(kernel, [SetDevice("zt0p1", 11, True, None, None), *todo], have, alone)
    assert {name for name, _ in kernel.done} == {"set_nexthop"} and done.problems == []


# -- what the kernel does


def carried(*matches: Match, have: KernelState | None = None, plan=PLAN):
    have = have or settle(KernelState(links=all_taps()))
    want = desired_state([plan], have, (), True, {}, 100.0)
    return blocked([plan], want, have, {("zt0", r.prefix): matches for r in plan.routes})


RIGHT = Match("10.0.55.2/32", GROUP, names.RT_PROTO)


@pytest.mark.parametrize(
    ("match", "why"),
    [
        (Match(error=errno.EINVAL), "a blackhole route drops it"),
        (Match(error=errno.EHOSTUNREACH), "an unreachable route rejects it"),
        (Match(error=errno.EACCES), "a prohibit route or rule rejects it"),
        (Match(error=errno.ENETUNREACH), "there is no route, or a rule refuses it"),
        (Match(error=errno.ENOBUFS), "ENOBUFS"),
        (Match("10.0.55.2/32", 0, 3, 12), "the route 10.0.55.2/32 over zt0p2 of another program (protocol boot) is used instead"),
        (Match("10.0.55.2/32", 7, 11), "the route 10.0.55.2/32 of another program (protocol zebra) is used instead"),
        (Match("0.0.0.0/0", 0, 16), "the default route of another program (protocol dhcp) is used instead"),
        (Match("10.0.55.2/32", 0, names.RT_PROTO, 3), "the route is not over the right next-hop group"),
    ],
)
def test_up_means_that_the_kernel_forwards_over_it(match: Match, why: str) -> None:
    assert not carried(RIGHT).paths and not carried(RIGHT).prefixes
    found = carried(match)
    assert found.prefixes == {"zt0": {"10.0.55.2/32": why}}
    assert found.paths == dict.fromkeys(MEMBERS, f"10.0.55.2/32 does not go over it: {why}")


def test_a_more_specific_route_within_a_prefix_is_the_user_s_own_affair() -> None:
    elsewhere = Match("10.0.55.2/32", 0, 2, 1)
    assert not carried(elsewhere, RIGHT).prefixes
    halves = carried(Match("10.0.55.0/25", 0, 3, 1), Match("10.0.55.128/25", 0, 3, 1))
    assert list(halves.prefixes["zt0"].values()) == ["the route 10.0.55.0/25 of another program (protocol boot) is used instead"]


class Bogons:
    """A kernel that drops what nobody may send to, and leads everything else as ``else_`` says."""

    def __init__(self, else_: Match) -> None:
        self.else_ = else_

    def match(self, address: str, oif: int) -> Match:
        dropped = ("192.0.2.", "198.51.100.", "203.0.113.", "2001:db8:", "3fff:")
        return Match(error=errno.EINVAL) if address.startswith(dropped) else self.else_


@pytest.mark.parametrize("default", ["0.0.0.0/0", "::/0"])
def test_a_full_tunnel_is_up_beside_blackholes_for_bogons(default: str) -> None:
    plan = make_plan(bundle(f"{BOTH}remote R2 prefix {default}"), tuple(Cpu(n, n) for n in range(4)), "x")
    have = settle(KernelState(links=all_taps()), plans=(plan,), first=-100.0)
    want = desired_state([plan], have, (), True, {}, 100.0)
    number = next(want.standing[r.group_id] for r in plan.routes if r.prefix == default)

    def reason(match: Match) -> str:
        answers = ask(Bogons(match), [plan], want, have)  # type: ignore[arg-type]
        return blocked([plan], want, have, answers).prefixes["zt0"].get(default, "")

    assert reason(Match(default, number, names.RT_PROTO)) == ""
    assert reason(Match(default, 0, 16)) == "the default route of another program (protocol dhcp) is used instead"
    assert reason(Match(error=errno.EHOSTUNREACH)) == "an unreachable route rejects it"
    half = default.replace("/0", "/1")
    assert reason(Match(half, number + 1, names.RT_PROTO)) == "", "of another remote"
    assert reason(Match(half, 0, 3)) == f"the route {half} of another program (protocol boot) is used instead"


def test_a_shorter_prefix_of_a_backup_is_no_fault_where_our_own_routes_cover_it() -> None:
    text = (
        EXAMPLE.replace("0/28", "0/26")
        + "transit subnet-length 29\nremote R2 site 2\nremote R3 site 3\nremote R3 prefix 192.168.0.0/23\n"
    )
    text += "remote R2 prefix 192.168.0.0/24\nremote R2 prefix 192.168.1.0/24\n"
    plan = make_plan(bundle(text), tuple(Cpu(n, n) for n in range(4)), "x")
    have = settle(KernelState(links=all_taps()), plans=(plan,), first=-100.0)
    want = desired_state([plan], have, (), True, {}, 100.0)
    answers = {("zt0", r.prefix): (Match(r.prefix, want.standing[r.group_id], names.RT_PROTO),) for r in plan.routes}
    parts = (*answers["zt0", "192.168.0.0/24"], *answers["zt0", "192.168.1.0/24"] * 2)
    answers["zt0", "192.168.0.0/23"] = parts
    assert not blocked([plan], want, have, answers).prefixes and not blocked([plan], want, have, answers).paths
    # What another program takes is told all the same, and so is a shorter route of ours, which leads to another remote.
    answers["zt0", "192.168.0.0/23"] = (parts[0], Match(error=errno.EINVAL))
    assert blocked([plan], want, have, answers).prefixes == {"zt0": {"192.168.0.0/23": "a blackhole route drops it"}}
    answers["zt0", "192.168.0.0/24"] = answers["zt0", "192.168.0.0/23"] = (Match("192.168.0.0/22", 9, names.RT_PROTO),)
    assert len(blocked([plan], want, have, answers).prefixes["zt0"]) == 2


def test_a_remote_with_one_prefix_of_two_keeps_its_paths_and_the_bundle_is_degraded() -> None:
    plan = make_plan(bundle(BOTH + "remote R2 prefix 192.168.2.0/24"), tuple(Cpu(n, n) for n in range(4)), "x")
    have = settle(KernelState(links=all_taps()), plans=(plan,), first=-100.0)
    want = desired_state([plan], have, (), True, {}, 100.0)
    answers = {("zt0", r.prefix): (Match(r.prefix, want.standing[r.group_id]),) for r in plan.routes}
    answers["zt0", "192.168.2.0/24"] = (Match(error=errno.EINVAL),)
    found = blocked([plan], want, have, answers)
    assert not found.paths and found.prefixes == {"zt0": {"192.168.2.0/24": "a blackhole route drops it"}}
    words = dict.fromkeys((p.nexthop_id for p in plan.paths), "up")
    (event,) = events([plan], Seen(words), Seen(words, unrouted=found.prefixes))
    assert (event.kind, event.cause) == (
        "bundle-degraded",
        "8 of 8 paths are up; 192.168.2.0/24 does not go over it: a blackhole route drops it",
    )


def test_groups_and_next_hops_that_do_not_stand_are_blocked() -> None:
    have = settle(KernelState(links=all_taps()))
    del have.nexthops[MEMBERS[0]]
    have.groups[GROUP] = replace(have.groups[GROUP], members=(MEMBERS[0], *MEMBERS[2:]))
    assert carried(RIGHT, have=have).paths == {
        MEMBERS[0]: f"next hop {MEMBERS[0]} is not in the kernel", MEMBERS[1]: "it is not in a next-hop group",
    }  # fmt: skip
    assert carried(RIGHT, have=KernelState(links=have.links, addresses=have.addresses)).paths.keys() == set(MEMBERS)


@pytest.mark.parametrize(
    ("prefix", "addresses"),
    [
        ("10.0.55.2/32", ("10.0.55.2",)),
        ("10.0.0.0/31", ("10.0.0.0", "10.0.0.1")),
        ("192.168.2.0/24", ("192.168.2.1", "192.168.2.128", "192.168.2.254")),
        ("2001:db8::/64", ("2001:db8::1", "2001:db8:0:0:8000::", "2001:db8::ffff:ffff:ffff:fffe")),
        ("0.0.0.0/0", ("8.0.0.1", "77.0.0.1", "133.1.0.1", "192.0.2.1", "203.0.113.1", "198.51.100.1")),
    ],
)
def test_addresses_that_stand_for_a_prefix(prefix: str, addresses: tuple[str, ...]) -> None:
    assert samples(prefix) == addresses


def test_a_path_without_route_is_told_with_its_cause() -> None:
    path = PLAN.paths[0]
    before, after = (Seen({path.nexthop_id: word}, blocked={path.nexthop_id: "so it is"}) for word in ("up", "no route"))
    assert path_cause(PLAN, path, before, after) == "so it is"
    assert path_cause(PLAN, path, after, before) == "the kernel sends over it again"


# -- notifications


def next_hop(number: int, protocol: int) -> Message:
    return Message(messages.RTM_NEWNEXTHOP, hop(number, protocol))


def test_of_next_hops_ours_and_those_in_our_range_matter() -> None:
    assert concerns_us(next_hop(GROUP, 0), Neighbours()) and concerns_us(next_hop(5, names.RT_PROTO), Neighbours())
    assert not concerns_us(next_hop(5, 11), Neighbours()) and not concerns_us(next_hop(GROUP, 0), Neighbours(), {GROUP})


def route(prefix: str, length: int, family: int = 2) -> Message:
    data = bytes(int(n) for n in prefix.split(".")) if family == 2 else bytes.fromhex(prefix)
    return Message(
        messages.RTM_NEWROUTE,
        struct.pack("=BBBBBBBBI", family, length, 0, 0, 254, 3, 0, 1, 0) + attribute(15, 254) + attribute(1, data),
    )


def test_routes_of_others_matter_where_they_may_take_what_is_ours() -> None:
    prefixes = Prefixes(["10.0.55.2/32", "192.168.2.0/24", "2001:db8:2::/48", "0.0.0.0/0"])
    assert prefixes.touched_by(route("10.0.55.2", 32)) and prefixes.touched_by(route("192.168.2.128", 25))
    assert prefixes.touched_by(route("20010db8000200010000000000000000", 64, 10))
    assert not any(
        map(
            prefixes.touched_by,
            [route("10.0.55.3", 32), route("192.168.0.0", 16), route("20010db8000300010000000000000000", 64, 10)],
        )
    )
    assert not prefixes.touched_by(Message(messages.RTM_NEWLINK, b"")) and not Prefixes().touched_by(route("10.0.55.2", 32))
    assert not prefixes.touched_by(Message(messages.RTM_NEWROUTE, b"\2\x20"))


# -- what op mode says


def test_op_mode_says_what_the_kernel_does_with_and_without_the_daemon() -> None:
    from tests.unit.op_box import PLAN as plan
    from tests.unit.op_box import box, kernel, pathd

    told = pathd()
    told["bundles"]["zt0"]["unrouted"] = [{"prefix": "10.0.55.2/32", "why": "a blackhole route drops it"}]
    entry = bundle_entry(box(pathd=told), plan)
    assert (
        entry["state"] == "degraded"
        and "packets for 10.0.55.2/32 do not go over zt0: a blackhole route drops it" in entry["warnings"]
    )
    path, whole = plan.paths[0], kernel()
    assert path_state(box(pathd=None), plan, path) == "up"
    for broken in (
        replace(whole, routes=frozenset()),
        replace(whole, groups={}),
        replace(whole, nexthops={}),
        replace(whole, nexthops={**whole.nexthops, path.nexthop_id: NextHop(path.nexthop_id, 99, path.via)}),
    ):
        assert path_state(box(pathd=None, kernel=broken), plan, path) == "unknown"


# -- what the kernel can do


@pytest.mark.parametrize(("told", "can"), [
    ("Invalid nexthop id", True), ("nexthop id 2063597566 does not exist", True), ("Unsupported attribute", False), ("", False), (None, True),
])  # fmt: skip
def test_a_kernel_without_resilient_groups_complains_about_the_type_and_not_about_the_member(told: str | None, can: bool) -> None:
    asked: list[object] = []

    class Kernel:
        def set_group(self, group: NextHopGroup) -> None:
            asked.append((names.is_our_nexthop_id(group.id), group.buckets > 0))
            if told is not None:
                raise KernelError(errno.EINVAL, told)

        def delete_nexthop(self, number: int) -> None:
            asked.append(names.is_our_nexthop_id(number))

    assert supports_resilient_groups(Kernel()) is can  # type: ignore[arg-type]
    assert asked == [(True, True), *([True] if told is None else [])]


def test_a_setting_of_a_device_is_written_where_it_differs_and_exists(tmp_path: Path) -> None:
    sysctls = Sysctls(tmp_path / "memory.json", tmp_path)
    for name, value in (("same", "1"), ("other", "0")):
        (tmp_path / name).write_text(f"{value}\n")
    same = (tmp_path / "same").stat().st_mtime_ns
    (tmp_path / "directory").mkdir()
    assert sysctls.apply({"same": "1", "other": "2", "none": "1", "directory": "1"}) == []
    assert (tmp_path / "other").read_text() == "2" and (tmp_path / "same").stat().st_mtime_ns == same
    assert not (tmp_path / "none").exists()


class Says:
    """A kernel that answers every request with an error."""

    def __init__(self, number: int) -> None:
        self.number, self.asked = number, list[tuple[object, ...]]()

    def __getattr__(self, name: str) -> Callable[..., None]:
        def request(*given: object) -> None:
            self.asked.append((name, *given))
            if not (name == "add_link" and given[1] == "bridge"):
                raise KernelError(self.number, "it says")

        return request

    def links(self) -> dict[str, Link]:
        return {"zt0": Link(7, "zt0", "bridge", 1500, False, True)}

    def no_link_local(self, index: int) -> None:
        self.asked.append(("no_link_local", index))


@pytest.mark.parametrize("what", [DeleteDevice("zt0", 7), Remove(NextHop(MEMBERS[0], 11, "10.14.0.2"))])
@pytest.mark.parametrize(
    ("number", "gone"), [(errno.ENOENT, True), (errno.ESRCH, True), (errno.ENODEV, True), (errno.EBUSY, False)]
)
def test_what_has_gone_by_itself_needs_no_removal(what: DeleteDevice | Remove, number: int, gone: bool) -> None:
    assert (perform(Says(number), what, names_of([])) is None) is gone  # type: ignore[arg-type]
    assert perform(Says(number), Put(NextHop(MEMBERS[0], 11, "10.14.0.2")), names_of([])) is not None  # type: ignore[arg-type]


def test_where_the_kernel_has_no_dummy_driver_a_bundle_has_a_bridge_without_ports() -> None:
    kernel = Says(errno.EOPNOTSUPP)
    assert perform(kernel, AddDevice("zt0"), names_of([])) is None  # type: ignore[arg-type]
    assert [given[:3] for given in kernel.asked] == [
        ("add_link", "zt0", "dummy"),
        ("add_link", "zt0", "bridge"),
        ("no_link_local", 7),
    ]
    assert perform(Says(errno.EPERM), AddDevice("zt0"), names_of([])) is not None  # type: ignore[arg-type]
