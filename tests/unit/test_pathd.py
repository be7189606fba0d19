"""The daemon's decisions: what shall stand, what to do about the difference, and when."""

from __future__ import annotations

import errno
import json
import socket
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.configuration import EXAMPLE, bundle
from zerotier_multi import names
from zerotier_multi.netlink import messages
from zerotier_multi.cpu import Cpu
from zerotier_multi.netlink.nexthops import FORCED_AFTER, NextHop, NextHopGroup
from zerotier_multi.netlink.messages import Message, attribute, attributes, packed, split
from zerotier_multi.pathd.kernel.actions import DeleteDevice, Put, PutRoute, Remove, SetDevice, actions
from zerotier_multi.pathd.kernel.notices import Neighbours, concerns_us
from zerotier_multi.pathd.kernel.imagined import after
from zerotier_multi.pathd.kernel.inotify import FileWatch
from zerotier_multi.pathd.kernel.desired import Share, desired_state, fitting, member_sysctls
from zerotier_multi.netlink.state import KernelState
from zerotier_multi.pathd.plans import Plans
from zerotier_multi.pathd.instances.revive import FIRST, LONGEST, Revival
from zerotier_multi.pathd.kernel.sysctls import GLOBAL, HASH_POLICIES, HASH_SEED, SEED, Sysctls, router_wide
from zerotier_multi.plan import Plan, to_json
from zerotier_multi.planner import make_plan
from zerotier_multi.netlink.links import NUD_PERMANENT, Address, Link, Neighbour
from zerotier_multi.netlink.routes import RT_TABLE_MAIN, Route

PLAN = make_plan(bundle(EXAMPLE), tuple(Cpu(n, n) for n in range(4)), "/usr/sbin/ztnode")
BOTH = EXAMPLE + "transit prefix 2001:db8:14::/124\nremote R2 prefix 2001:db8:55::2/128\n"
SIX = make_plan(bundle(BOTH), tuple(Cpu(n, n) for n in range(4)), "/usr/sbin/ztnode")
ONE = make_plan(bundle(EXAMPLE.replace("instances 4", "instances 1")), (Cpu(0, 0),), "/usr/sbin/ztnode")
GROUP = PLAN.groups[0].group_id


def tap(number: int, **changes: object) -> Link:
    return replace(Link(10 + number, f"zt0p{number}", "tun", 2800, True, True), **changes)


def always(*_: object) -> bool:
    return True


def step(have: KernelState, now: float = 100.0, usable=always, resilient: bool = True, plans=(PLAN,), first: float = 0.0):
    unusable = {path.nexthop_id for plan in plans for path in plan.paths if not usable(plan, path)}
    want = desired_state(plans, have, unusable, resilient, {GROUP: first}, now)
    return want, actions(want, have)


def settle(have: KernelState, **options) -> KernelState:
    """Carry actions out on the observed state itself until there are none."""
    for _ in range(10):
        _want, todo = step(have, **options)
        if not todo:
            return have
        for action in todo:
            vars(have).update(vars(after(have, action)))
    raise AssertionError(f"it does not settle: {step(have, **options)[1]}")


def all_taps() -> dict[str, Link]:
    return {f"zt0p{k}": tap(k) for k in range(1, 5)}


def test_from_nothing_to_the_plan_and_then_nothing_more() -> None:
    have = settle(KernelState(links=all_taps()))
    assert have.links["zt0"].up and have.links["zt0p1"].mtu == 1394
    assert Address(have.links["zt0"].index, "10.0.55.1/32") in have.addresses and Address(12, "10.14.0.5/30") in have.addresses
    assert have.groups[GROUP].members == PLAN.groups[0].members and have.groups[GROUP].buckets == 128
    real = Route("10.0.55.2/32", GROUP, "10.0.55.1", RT_TABLE_MAIN)
    assert have.routes == {real, replace(real, nexthop_id=0, metric=names.SEEN_METRIC, index=have.links["zt0"].index)}
    assert step(have)[1] == []


def test_addresses_that_no_plan_wants_go_and_those_of_the_kernel_stay() -> None:
    have = settle(KernelState(links=all_taps()))
    stale = {Address(12, "10.99.0.1/30"), Address(12, "169.254.10.1/30"), Address(12, "2001:db8::1/126")}
    have.addresses |= {*stale, Address(12, "fe80::1/64"), Address(99, "10.99.0.1/30")}
    assert {a.what for a in step(have)[1] if isinstance(a, Remove)} == stale


def test_weights_are_those_of_the_members_that_stand() -> None:
    heavy = make_plan(
        bundle(EXAMPLE + "instance 2 weight 3\ninstance 4 weight 2"), tuple(Cpu(n, n) for n in range(4)), "/usr/sbin/ztnode"
    )
    have = settle(KernelState(links=all_taps()), plans=(heavy,))
    assert have.groups[GROUP].weights == (1, 3, 1, 2)
    down = heavy.paths[0].nexthop_id
    want, _ = step(have, plans=(heavy,), usable=lambda _plan, path: path.nexthop_id != down)
    assert want.groups[GROUP].weights == (3, 1, 2)
    assert settle(KernelState(links=all_taps())).groups[GROUP].weights == ()


def test_weights_of_an_ipv6_group_that_a_path_leaves_need_no_replacement() -> None:
    heavy = make_plan(bundle(BOTH + "instance 2 weight 3"), tuple(Cpu(n, n) for n in range(4)), "x")
    have = settle(KernelState(links=all_taps()), plans=(heavy,), first=-100.0)
    for gone, weights in ((0, (3, 1, 1)), (1, ())):
        member = heavy.groups[1].members[gone]
        want, todo = step(have, plans=(heavy,), usable=lambda _plan, path, m=member: path.nexthop_id != m)
        assert want.groups[heavy.groups[1].group_id].weights == weights and todo == [Remove(have.nexthops[member])]


def test_routes_of_a_remote_without_paths_go_unless_they_shall_stay() -> None:
    have = settle(KernelState(links=all_taps()))
    assert have.routes
    none = lambda *_: False  # noqa: E731
    _want, todo = step(have, usable=none)
    assert any(isinstance(action, Remove) and isinstance(action.what, Route) for action in todo)
    kept = replace(PLAN, keep_routes=True)
    want, _ = step(have, usable=none, plans=(kept,))
    assert want.routes == have.routes and want.groups[GROUP].members == PLAN.groups[0].members
    assert want.carrying == set(), "they stay in the group, and are dead all the same"
    # At the start too, but only once the paths have had their time.
    fresh = settle(KernelState(links=all_taps()), usable=none)
    assert GROUP in step(fresh, now=100.0, first=100.0, usable=none, plans=(kept,))[0].waiting
    assert step(fresh, now=103.0, first=100.0, usable=none, plans=(kept,))[0].routes


def test_the_first_group_waits_a_moment_for_all_its_members() -> None:
    have = KernelState(links={"zt0p1": tap(1)})
    want, _ = step(have, now=100.5, first=100.0)
    assert want.groups == {} and want.routes == set()
    have = settle(have, now=100.5, first=100.0)
    want, _ = step(have, now=100.5, first=100.0)
    assert want.wake == 102.0 and want.groups == {}
    assert settle(have, now=102.0, first=100.0).groups[GROUP].members == PLAN.groups[0].members[:1]


def test_a_device_that_goes_leaves_the_group_and_the_rest_stays() -> None:
    have = settle(KernelState(links=all_taps()))
    del have.links["zt0p2"]
    have.addresses = {a for a in have.addresses if a.index != 12}
    members = PLAN.groups[0].members
    rest = tuple(m for m in members if m != members[1])
    assert step(have)[1] == [Put(NextHopGroup(GROUP, rest, 128, 10, unbalanced=60)), Remove(have.nexthops[members[1]])]


def test_an_ipv6_path_leaves_with_its_next_hop_and_the_group_is_not_replaced() -> None:
    """A replaced IPv6 group costs the flows that stay a packet now and then."""
    have = settle(KernelState(links=all_taps()), plans=(SIX,), first=-100.0)
    four, six = SIX.groups
    rest = lambda _plan, path: path.instance != 3  # noqa: E731
    want, todo = step(have, plans=(SIX,), usable=rest)
    kept = tuple(m for m in four.members if m != four.members[2])
    assert todo == [
        Remove(have.nexthops[six.members[2]]),
        Put(NextHopGroup(four.group_id, kept, 128, 10, unbalanced=60)),
        Remove(have.nexthops[four.members[2]]),
    ]
    assert six.members[2] in want.ready
    less = settle(have, plans=(SIX,), usable=rest)
    assert less.groups[six.group_id].members == tuple(m for m in six.members if m != six.members[2])
    _want, back = step(less, plans=(SIX,))
    assert [type(a.what) for a in back if isinstance(a, Put)] == [NextHop, NextHop, NextHopGroup, NextHopGroup] and len(back) == 4


def test_an_ipv6_next_hop_does_not_go_first_where_that_would_empty_another_group() -> None:
    have = settle(KernelState(links=all_taps()), plans=(SIX,), first=-100.0)
    members, number = SIX.groups[1].members, SIX.groups[1].group_id
    alone = NextHopGroup(number + names.GROUP_ALTERNATE, (members[1],), 256, 10)
    have.groups[alone.id] = alone
    _want, todo = step(have, plans=(SIX,), usable=lambda _plan, path: path.nexthop_id != members[1])
    kept = tuple(m for m in members if m != members[1])
    assert todo == [Put(NextHopGroup(number, kept, 128, 10, unbalanced=60)), Remove(alone), Remove(have.nexthops[members[1]])]


def test_all_paths_gone_takes_the_route_away() -> None:
    have = settle(KernelState(links=all_taps()))
    _want, todo = step(have, usable=lambda *_: False)
    real, seen = sorted(have.routes, key=lambda route: route.metric)
    rest = [Remove(hop) for _number, hop in sorted(have.nexthops.items())]
    assert todo == [Remove(real), Remove(seen), Remove(have.groups[GROUP]), *rest]


def test_without_a_plan_everything_of_ours_goes_inside_out_and_nothing_else() -> None:
    have = settle(KernelState(links={**all_taps(), "zt9": Link(99, "zt9", "dummy", 1500, True, True)}))
    _want, todo = step(have, plans=())
    kinds = [type(a.what).__name__ if isinstance(a, Remove) else type(a).__name__ for a in todo]
    assert kinds == ["Route", "Route", "NextHopGroup", "NextHop", "NextHop", "NextHop", "NextHop", "DeleteDevice"]
    assert todo[-1] == DeleteDevice("zt0", have.links["zt0"].index)


def test_a_group_of_another_size_is_made_beside_the_old_one() -> None:
    have = settle(KernelState(links=all_taps()))
    bigger = make_plan(bundle(EXAMPLE + "balance resilient buckets 256"), tuple(Cpu(n, n) for n in range(4)), "x")
    _want, todo = step(have, plans=(bigger,))
    other = GROUP + names.GROUP_ALTERNATE
    assert [type(a).__name__ for a in todo] == ["Put", "PutRoute", "Remove"]
    assert todo[0].what.id == other and todo[1] == PutRoute(Route("10.0.55.2/32", other, "10.0.55.1", 254), True)
    assert todo[2] == Remove(have.groups[GROUP])


def test_a_group_of_another_size_does_not_wait_for_a_path_that_is_down() -> None:
    """The one that stands carries traffic; without it the routes would go until the wait is over."""
    without_one = lambda _plan, path: path.instance != 4  # noqa: E731
    have = settle(KernelState(links=all_taps()), usable=without_one, first=-100.0)
    bigger = make_plan(bundle(EXAMPLE + "balance resilient buckets 256"), tuple(Cpu(n, n) for n in range(4)), "x")
    want, todo = step(have, plans=(bigger,), usable=without_one, first=100.0)
    assert [type(a).__name__ for a in todo] == ["Put", "PutRoute", "Remove"] and not want.waiting


@pytest.mark.parametrize(
    ("weights", "share", "seconds"),
    [("static", None, 60), ("auto", None, 0), ("auto", Share({}), 0), ("auto", Share({}, forced=True), FORCED_AFTER)],
)
def test_flows_in_progress_move_after_a_minute_unless_their_weights_are_measured(
    weights: str, share: Share | None, seconds: float
) -> None:
    plan = make_plan(bundle(EXAMPLE + f"balance weights {weights}"), tuple(Cpu(n, n) for n in range(4)), "x")
    shares = {GROUP: share} if share else {}
    have = settle(KernelState(links=all_taps()))
    assert desired_state([plan], have, (), True, {}, 0.0, "0", shares).groups[GROUP].unbalanced == seconds
    have = settle(KernelState(links=all_taps()), resilient=False)
    assert desired_state([plan], have, (), False, {}, 0.0, "0", shares).groups[GROUP].unbalanced == 0


def test_a_kernel_without_resilient_groups_gets_plain_ones() -> None:
    have = settle(KernelState(links=all_taps()), resilient=False)
    assert have.groups[GROUP] == NextHopGroup(GROUP, PLAN.groups[0].members, 0, 0)


def test_every_route_stands_before_any_of_frr() -> None:
    """zebra installs its own with metric 20, also a backup of a high distance that it cannot know to be one."""
    have = settle(KernelState(links=all_taps()), plans=(SIX,), first=-100.0)
    metrics = {r.prefix: r.metric for r in have.routes if r.nexthop_id}
    assert metrics == {"10.0.55.2/32": 0, "2001:db8:55::2/128": 1}
    assert {r.metric >> 24 for r in have.routes} == {0}, "the first byte is a distance to zebra"


def test_a_missing_vrf_is_told_and_nothing_leaks_into_the_main_table() -> None:
    plan = make_plan(bundle(EXAMPLE + "vrf blue"), tuple(Cpu(n, n) for n in range(4)), "x")
    want, todo = step(KernelState(links=all_taps()), plans=(plan,))
    assert want.problems == ["zt0: VRF blue does not exist, so nothing is routed"] and todo == []
    blue = Link(50, "blue", "vrf", 65575, True, True, table=1000)
    have = settle(KernelState(links={**all_taps(), "blue": blue}), plans=(plan,))
    assert {r.table for r in have.routes} == {1000} and have.links["zt0p1"].master == 50 == have.links["zt0"].master


def test_a_device_of_the_user_with_a_member_s_name_is_no_member() -> None:
    want, _ = step(KernelState(links={"zt0p1": tap(1, kind="dummy")}))
    assert "zt0p1" not in want.devices


MINE = Address(3, "198.51.100.1/24")


@pytest.mark.parametrize(
    ("kind", "group", "what"),
    [
        ("tun", 0, "a TUN or TAP device"),
        ("tun", names.DEVICE_GROUP, "a TUN or TAP device"),
        ("bridge", 0, "a bridge"),
        ("dummy", 0, "a device of type dummy"),
        (None, 0, "a network interface"),
    ],
)
def test_a_device_of_another_program_by_the_name_of_the_bundle_is_left_alone(kind: str | None, group: int, what: str) -> None:
    other = Link(3, "zt0", kind, 2800, True, True, master=7, alias="theirs", group=group)
    blue = Link(50, "blue", "vrf", 65575, True, True, table=1000)
    in_vrf = make_plan(bundle(EXAMPLE + "vrf blue"), tuple(Cpu(n, n) for n in range(4)), "x")
    for plan in (PLAN, replace(PLAN, instances=(), paths=(), groups=(), routes=()), in_vrf):
        have = settle(KernelState(links={**all_taps(), "zt0": other, "blue": blue}, addresses={MINE}), plans=(plan,))
        assert have.links["zt0"] == other and {a for a in have.addresses if a.index == 3} == {MINE}
        want, _ = step(have, plans=(plan,))
        assert want.notes == [
            f"zt0: zt0 is {what} of another program, which is left as it is and carries nothing of the bundle; "
            "stop that program or give its device another name"
        ]
        assert "zt0" not in want.zones and not any(route.index == 3 for route in want.routes)
        # Traffic goes on over the paths; a source that the router does not have would be refused.
        assert {(r.prefix, r.source) for r in have.routes} == ({("10.0.55.2/32", None)} if plan.routes else set())
        assert not any(isinstance(a, DeleteDevice) for a in step(have, plans=())[1])


def test_a_device_of_another_program_that_goes_is_ours_from_then_on() -> None:
    have = settle(KernelState(links={**all_taps(), "zt0": Link(3, "zt0", "tun", 2800, True, True)}))
    have.links = {name: link for name, link in have.links.items() if name != "zt0"}
    settle(have)
    assert have.links["zt0"].group == names.DEVICE_GROUP and step(have)[0].notes == []
    assert {r.source for r in have.routes} == {"10.0.55.1"} and len(have.routes) == 2


@pytest.mark.parametrize("kind", ["dummy", "bridge"])
def test_our_own_device_is_known_again_by_a_daemon_that_is_started_anew(kind: str) -> None:
    own = Link(3, "zt0", kind, 1400, False, True, alias="of before", group=names.DEVICE_GROUP)
    have = settle(KernelState(links={**all_taps(), "zt0": own}))
    assert have.links["zt0"].up and have.links["zt0"].mtu == 1500 and Address(3, "10.0.55.1/32") in have.addresses


def test_a_device_of_another_program_by_the_name_of_a_member_is_left_alone() -> None:
    lladdrs = tuple(replace(path, lladdr="02:00:00:00:00:01") for path in PLAN.paths)
    other = tap(1, kind="bridge", master=7)
    have = settle(KernelState(links={**all_taps(), "zt0p1": other}), plans=(replace(PLAN, paths=lladdrs),))
    assert have.links["zt0p1"] == other and not any(a.index == other.index for a in (*have.addresses, *have.neighbours))
    assert have.groups[GROUP].members == PLAN.groups[0].members[1:]
    assert step(have)[0].notes[0].startswith("zt0: zt0p1 is a bridge of another program, which is left as it is")


def test_rp_filter_is_loosened_only_where_the_router_has_it() -> None:
    assert member_sysctls("zt0p1", "0")["net/ipv4/conf/zt0p1/rp_filter"] == "0"
    assert member_sysctls("zt0p1", "1")["net/ipv4/conf/zt0p1/rp_filter"] == "2"


def test_who_has_an_address_of_another_subnet_is_not_answered_where_all_are_ours() -> None:
    for lines, value in (("", "1"), ("controller-free", "2")):
        plan = make_plan(bundle(EXAMPLE + lines), tuple(Cpu(n, n) for n in range(4)), "x")
        want, _todo = step(KernelState(links=all_taps()), plans=(plan,))
        assert want.sysctls["net/ipv4/conf/zt0p1/arp_ignore"] == value


def test_a_member_has_a_link_local_address_unless_it_is_the_port_of_a_bridge() -> None:
    mode = "net/ipv6/conf/zt0p1/addr_gen_mode"
    assert member_sysctls("zt0p1", "0")[mode] == "0" and mode not in member_sysctls("zt0p1", "0", bridged=True)


# -- settings of the whole router


def settings(tmp_path: Path, value: str = "0") -> Path:
    for name in (*HASH_POLICIES, HASH_SEED):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(value + "\n")
    return tmp_path


def test_router_wide_settings_are_raised_told_when_they_drift_and_put_back(tmp_path: Path) -> None:
    root, memory = settings(tmp_path / "sys"), tmp_path / "memory.json"
    held = Sysctls(memory, root)
    wanted = router_wide([PLAN])
    assert held.hold(wanted) == ([], []) and (root / HASH_POLICIES[0]).read_text() == "1"
    assert (root / HASH_SEED).read_text() == SEED
    (root / HASH_POLICIES[0]).write_text("0\n")
    assert held.hold(wanted) == ([], ["net.ipv4.fib_multipath_hash_policy was set to 0 by another program; it is 1 again"])
    # A daemon started anew knows what there was before.
    assert Sysctls(memory, root).hold({}) == ([], [])
    assert [(root / name).read_text() for name in (*HASH_POLICIES, HASH_SEED)] == ["0"] * 3


class Held:
    """Settings as the daemon holds them, with what the kernel tells of writes; the files are ordinary ones."""

    def __init__(self, tmp_path: Path, value: str = "0") -> None:
        self.root, self.memory = settings(tmp_path / "sys", value), tmp_path / "memory.json"
        self.policy = self.root / HASH_POLICIES[0]
        self.start()

    def start(self) -> None:
        """A daemon that is started anew."""
        self.sysctls = Sysctls(self.memory, self.root)
        self.watch = FileWatch([self.sysctls.path(name) for name in GLOBAL])

    def look(self, plan: Plan | None = PLAN) -> list[str]:
        """What the daemon does about an event; what it tells."""
        self.sysctls.written(self.watch.written())
        problems, drifted = self.sysctls.hold(router_wide([plan] if plan else []))
        assert problems == []
        return drifted

    def delete(self) -> str:
        """The last bundle goes; what is left of the policy."""
        self.look(None)
        return self.policy.read_text().strip()


INNER = replace(PLAN, hash_policy=2)


def test_what_another_program_sets_to_the_same_value_stays(tmp_path: Path) -> None:
    held = Held(tmp_path)
    assert held.look() == [] and held.look() == [], "the daemon hears of its own writes too"
    held.policy.write_text("1\n")
    assert held.look() == [] and json.loads(held.memory.read_text()).keys() == {HASH_POLICIES[1], HASH_SEED}
    held.start()
    assert held.look() == [] and held.delete() == "1"
    assert (held.root / HASH_POLICIES[1]).read_text() == "0", "nobody has set that"


def test_what_another_program_sets_last_is_put_back(tmp_path: Path) -> None:
    held = Held(tmp_path)
    held.look()
    held.look()
    held.policy.write_text("1\n")
    held.look()
    held.policy.write_text("2\n")
    told = ["net.ipv4.fib_multipath_hash_policy was set to 2 by another program; it is 1 again"]
    assert held.look() == told and held.policy.read_text() == "1" and held.look() == []
    assert held.delete() == "2"


def test_another_policy_of_the_bundle_is_no_wish_of_others(tmp_path: Path) -> None:
    held = Held(tmp_path)
    held.look()
    held.look()
    assert held.look(INNER) == [] and held.policy.read_text() == "2"
    held.look(INNER)
    held.start()
    assert held.look(INNER) == [] and held.delete() == "0"


def test_a_daemon_that_is_started_with_another_plan_keeps_what_was_before(tmp_path: Path) -> None:
    held = Held(tmp_path)
    held.look()
    held.start()
    assert held.look(INNER) == [] and held.delete() == "0"


def test_what_vyos_configures_counts_although_vyos_writes_nothing(tmp_path: Path) -> None:
    """It leaves a setting alone that has the value already, so there is no event."""
    held = Held(tmp_path)
    held.look()
    held.sysctls.configured({HASH_POLICIES[0]: "1", "net/ipv4/ip_forward": "0"})
    held.look()
    assert held.delete() == "1" and (held.root / HASH_POLICIES[1]).read_text() == "0"
    assert not (held.root / "net/ipv4/ip_forward").exists()


def test_a_write_of_the_same_value_below_proc_is_heard_of() -> None:
    """In a network namespace of its own, with what a person types."""
    program = f"""
import subprocess
from pathlib import Path
from zerotier_multi.pathd.kernel.inotify import FileWatch
path = Path("/proc/sys/{HASH_POLICIES[0]}")
watch = FileWatch([path, Path("/proc/sys/{HASH_POLICIES[1]}"), Path("/proc/sys/none")])
assert watch.written() == set()
for _ in range(2):
    subprocess.run(["sysctl", "-qw", "net.ipv4.fib_multipath_hash_policy=1"], check=True)
    assert watch.written() == {{path}} and watch.written() == set()
subprocess.run(["sysctl", "net.ipv4.fib_multipath_hash_policy"], check=True, capture_output=True)
assert watch.written() == set(), "who only reads"
"""
    subprocess.run(["unshare", "--net", sys.executable, "-c", program], check=True)


def test_what_somebody_else_sets_counts_afterwards(tmp_path: Path) -> None:
    root, memory, wanted = settings(tmp_path / "sys"), tmp_path / "memory.json", router_wide([PLAN])
    held, first, second = Sysctls(memory, root), root / HASH_POLICIES[0], root / HASH_POLICIES[1]
    held.hold(wanted)
    first.write_text("2")
    held.hold(wanted)
    assert first.read_text() == "1", "while we hold it"
    second.write_text("3")
    held.hold({})
    assert (first.read_text(), second.read_text(), (root / HASH_SEED).read_text()) == ("2", "3", "0")
    # What was given back is nothing of ours any more, also to a daemon started anew.
    first.write_text("5")
    held.hold({})
    Sysctls(memory, root).hold({})
    assert first.read_text() == "5"
    assert held.hold(wanted) == ([], []), "and no other program had changed it under us"


def test_what_a_setting_was_is_on_the_disk_before_it_is_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, memory = settings(tmp_path / "sys"), tmp_path / "memory.json"
    written: list[str] = []

    def write(_self: Sysctls, name: str, _value: str) -> list[str]:
        assert json.loads(memory.read_text())[name] == "0"
        written.append(name)
        return []

    monkeypatch.setattr(Sysctls, "_write", write)
    Sysctls(memory, root).hold(router_wide([PLAN]))
    assert set(written) == set(GLOBAL)


def test_a_commit_changes_what_router_wide_settings_are_put_back_to_and_no_others(tmp_path: Path) -> None:
    uplink = "net/ipv4/conf/eth0/rp_filter"
    root = settings(tmp_path / "sys")
    (root / uplink).parent.mkdir(parents=True)
    (root / uplink).write_text("1")
    held = Sysctls(tmp_path / "memory.json", root)
    held.hold({**router_wide([PLAN]), uplink: "2"})
    held.configured({HASH_POLICIES[0]: "3", uplink: "0"})
    held.hold({})
    assert [(root / name).read_text() for name in (*HASH_POLICIES, uplink)] == ["3", "0", "1"]


def test_a_full_disk_is_told_and_the_settings_are_held_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> bool:
        raise OSError(errno.ENOSPC, "No space left on device")

    root, memory = settings(tmp_path / "sys"), tmp_path / "memory.json"
    held = Sysctls(memory, root)
    monkeypatch.setattr("zerotier_multi.memory.write_atomic", full)
    problems, _drifted = held.hold(router_wide([PLAN]))
    assert problems == [f"{memory} cannot be written (No space left on device)"]
    assert (root / HASH_POLICIES[0]).read_text() == "1"


def test_a_setting_that_was_right_before_is_left_alone(tmp_path: Path) -> None:
    root = settings(tmp_path / "sys", "1")
    held = Sysctls(tmp_path / "memory.json", root)
    held.hold({HASH_POLICIES[0]: "1"})
    held.written([root / HASH_POLICIES[0]])
    held.hold({})
    assert (root / HASH_POLICIES[0]).read_text() == "1\n"


def test_a_setting_that_this_kernel_has_not_is_no_problem(tmp_path: Path) -> None:
    assert Sysctls(tmp_path / "m", tmp_path / "none").hold(router_wide([PLAN])) == ([], [])


def test_one_instance_needs_nothing_router_wide() -> None:
    assert router_wide([ONE]) == {}


def test_without_a_route_of_ours_the_hash_has_the_kernel_s_seed() -> None:
    for_frr = make_plan(
        bundle(EXAMPLE.replace("remote R2 prefix 10.0.55.2/32", "remote R2 site 2")), tuple(Cpu(n, n) for n in range(4)), "x"
    )
    assert not for_frr.routes and router_wide([for_frr]).keys() == set(HASH_POLICIES)
    assert router_wide([for_frr, PLAN]).keys() == set(GLOBAL)


# -- plans, revival, events


def test_a_broken_plan_file_never_replaces_a_good_one(tmp_path: Path) -> None:
    plans, path = Plans(tmp_path), tmp_path / "zt0.json"
    path.write_text(to_json(PLAN))
    assert plans.load() == [PLAN] and plans.problems == []
    path.write_text(to_json(PLAN)[:500])
    assert plans.load() == [PLAN] and "the last good one stays in force" in plans.problems[0]
    (tmp_path / "zt1.json").write_text(to_json(PLAN))
    assert plans.load() == [PLAN] and "it is the plan of zt0; it is left out" in plans.problems[1]
    path.unlink()
    (tmp_path / "zt1.json").unlink()
    assert plans.load() == [] and plans.problems == []


def test_a_missing_device_is_started_again_less_and_less_often() -> None:
    revival, now, moments = Revival(), 0.0, []
    while now < 2000:
        if revival.due(["zt0p1"], now):
            moments.append(now)
        now += 1
    gaps = [b - a for a, b in zip(moments, moments[1:], strict=False)]
    assert moments[0] == FIRST and gaps[:3] == [30, 60, 120] and max(gaps) == LONGEST
    assert revival.due([], now) == [] and revival.wake is None
    # One that comes and soon goes again is not tried as if nothing had been.
    assert revival.due(["zt0p1"], now + 10) == [] and revival.wake == now + 10 + LONGEST
    # One that has been there for long enough is.
    assert revival.due([], now + 20) == revival.due([], now + 20 + LONGEST) == []
    assert revival.due(["zt0p1"], now + 400) == [] and revival.wake == now + 400 + FIRST


def test_of_routes_only_ours_matter() -> None:
    def route(protocol: int) -> Message:
        return Message(messages.RTM_NEWROUTE, struct.pack("=BBBBBBBBI", 2, 32, 0, 0, 254, protocol, 0, 1, 0))

    assert concerns_us(route(names.RT_PROTO), Neighbours()) and not concerns_us(route(186), Neighbours())
    assert concerns_us(Message(messages.RTM_NEWLINK, b""), Neighbours())
    assert not concerns_us(Message(messages.RTM_NEWROUTE, b""), Neighbours())


def test_of_neighbours_ours_and_permanent_ones_on_our_devices_matter() -> None:
    ours = Neighbours({11}, [Neighbour(11, "10.14.0.2", "02:00:00:00:00:02")])

    def event(kind: int, index: int, state: int, address: str = "10.14.0.2", family: int = socket.AF_INET) -> bool:
        body = struct.pack("=BxxxiHBB", family, index, state, 0, 0) + attribute(1, packed(address))
        return concerns_us(Message(kind, body), ours)

    assert event(messages.RTM_DELNEIGH, 11, 0x20), "ours is deleted, and has no link-layer address any more"
    assert event(messages.RTM_NEWNEIGH, 11, 0x02), "ours is replaced by one that is learned"
    assert event(messages.RTM_NEWNEIGH, 11, NUD_PERMANENT, "10.14.0.3"), "somebody else's, which is taken away"
    assert not event(messages.RTM_NEWNEIGH, 11, 0x02, "10.14.0.3"), "what the kernel learns"
    assert not event(messages.RTM_NEWNEIGH, 2, NUD_PERMANENT), "another device"
    assert not event(messages.RTM_NEWNEIGH, 11, NUD_PERMANENT, family=socket.AF_BRIDGE), "a bridge's table"
    assert not concerns_us(Message(messages.RTM_NEWNEIGH, b"\2"), ours)


@pytest.mark.parametrize("data", [b"", b"\x01", b"\x03\0\1\0", b"\xff\xff\1\0ab", attribute(1, b"abc")[:-3]])
def test_malformed_attributes_are_left_out(data: bytes) -> None:
    assert attributes(data) == {}
    assert list(split(data)) == []


def test_attributes_read_back() -> None:
    assert attributes(attribute(1, 7) + attribute(2, "zt0")) == {1: struct.pack("=I", 7), 2: b"zt0\0"}


def test_the_plan_is_json_that_others_may_read() -> None:
    data = json.loads(to_json(PLAN))
    assert data["schema"] == 1 and data["instances"][0]["transit"] == ["10.14.0.1/30"]


NOT_READY = {"down": {"up": False}, "without carrier": {"carrier": False}, "of another program": {"kind": "bridge"}}


@pytest.mark.parametrize("changes", NOT_READY.values(), ids=NOT_READY)
def test_a_path_whose_device_is_not_ready_is_in_no_group(changes: dict[str, object]) -> None:
    have = settle(KernelState(links=all_taps()))
    have.links["zt0p2"] = tap(2, **changes)
    want, _ = step(have)
    members = PLAN.groups[0].members
    assert want.groups[GROUP].members == tuple(m for m in members if m != members[1]) and members[1] not in want.ready


def test_a_path_whose_device_has_no_address_of_its_family_yet_is_in_no_group() -> None:
    have = settle(KernelState(links=all_taps()), plans=(SIX,), first=-100.0)
    four, six = SIX.groups
    have.addresses -= {Address(12, "2001:db8:14::5/126")}
    want, _ = step(have, plans=(SIX,))
    assert want.groups[four.group_id].members == four.members
    assert want.groups[six.group_id].members == tuple(m for m in six.members if m != six.members[1])


def test_the_transit_is_on_the_device_of_the_first_network_alone() -> None:
    text = EXAMPLE.replace("instances 4", "instances 1") + "network-id 8056c2e21c000002"
    plan = make_plan(bundle(text), (Cpu(0, 0),), "/usr/sbin/ztnode")
    further = plan.instances[0].devices[1]
    have = KernelState(links={"zt0p1": tap(1), further: replace(tap(1), index=30, name=further)})
    want, _ = step(have, plans=(plan,))
    assert {a for a in want.addresses if a.index in (11, 30)} == {Address(11, "10.14.0.1/30")}


def test_neighbours_are_asked_for_where_no_identity_says_their_mac() -> None:
    assert step(KernelState(links=all_taps()))[0].neighbours == set()


def test_a_bundle_whose_vrf_is_away_has_nothing_and_says_so() -> None:
    plan = replace(PLAN, vrf="red")
    vrf = {"red": Link(40, "red", "vrf", 65575, True, True, table=100)}
    have = settle(KernelState(links={**all_taps(), **vrf}), plans=(plan,))
    assert {route.table for route in have.routes} == {100}
    del have.links["red"]
    want, _ = step(have, plans=(plan,))
    assert want.problems == ["zt0: VRF red does not exist, so nothing is routed"]
    assert not want.routes and not want.groups and not want.nexthops and not want.addresses


def test_frr_sees_a_route_over_a_device_that_is_up_alone() -> None:
    have = settle(KernelState(links=all_taps()))
    assert any(route.metric == names.SEEN_METRIC for route in step(have)[0].routes)
    have.links["zt0"] = replace(have.links["zt0"], up=False)
    assert [route.metric for route in step(have)[0].routes] == [0]


@pytest.mark.parametrize(("given", "taken"), [
    ((256, 1), (256, 1)), ((512, 256, 1), (256, 128, 1)), ((257, 257), (256, 256)), ((), ()),
])  # fmt: skip
def test_weights_fit_the_kernel(given: tuple[int, ...], taken: tuple[int, ...]) -> None:
    assert fitting(given) == taken


def test_neighbours_that_no_plan_wants_go_from_our_devices_alone() -> None:
    have = settle(KernelState(links=all_taps()))
    stale, other = (Neighbour(index, address, "02:00:00:00:00:01") for index, address in ((12, "10.14.0.6"), (99, "192.0.2.1")))
    have.neighbours |= {stale, other}
    assert step(have)[1] == [Remove(stale)]


def test_a_new_description_changes_the_device_alone() -> None:
    have = settle(KernelState(links=all_taps()))
    _want, todo = step(have, plans=(replace(PLAN, description="to the office"),))
    assert todo == [SetDevice("zt0", have.links["zt0"].index, None, None, None, "to the office")]
