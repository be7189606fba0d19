"""From a configuration to the plan."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.configuration import EXAMPLE, bundle
from zerotier_multi import names
from zerotier_multi.bundle_parser import parse_bundle
from zerotier_multi.checks import check_bundle
from zerotier_multi.cpu import Cpu
from zerotier_multi.plan import PlanError, from_json, to_json
from zerotier_multi.planner import best_mtu, cpu_offset, make_plan
from zerotier_multi.transit import Transit

GK41 = tuple(Cpu(n, n) for n in range(4))
KEY = "ab" * 64


def plan_of(text: str):
    return make_plan(bundle(text), GK41, "/usr/sbin/ztnode")


def test_the_example() -> None:
    plan = plan_of(EXAMPLE)
    assert [i.transit for i in plan.instances] == [
        ("10.14.0.1/30",), ("10.14.0.5/30",), ("10.14.0.9/30",), ("10.14.0.13/30",)
    ]  # fmt: skip
    assert [i.port for i in plan.instances] == [9993, 9994, 9995, 9996]
    assert [i.device for i in plan.instances] == ["zt0p1", "zt0p2", "zt0p3", "zt0p4"]
    assert [i.home for i in plan.instances][:2] == ["/config/zerotier-multi/zt0/1", "/config/zerotier-multi/zt0/2"]
    assert [i.unit for i in plan.instances][3] == "zerotier-multi@zt0-4.service"
    assert [i.cpus for i in plan.instances] == [(1,), (2,), (3,), (0,)]
    assert [p.via for p in plan.paths] == ["10.14.0.2", "10.14.0.6", "10.14.0.10", "10.14.0.14"]
    (group,) = plan.groups
    assert group.members == tuple(p.nexthop_id for p in plan.paths)
    (route,) = plan.routes
    assert (route.prefix, route.group_id, route.source) == ("10.0.55.2/32", group.group_id, "10.0.55.1")
    assert plan.hash_policy == 1
    assert plan.mtu is None  # the controller's network decides


def test_uplinks_of_instances_are_in_the_plan() -> None:
    plan = plan_of(EXAMPLE + "instance 3 source-interface eth1\ninstance 3 gateway 203.0.113.254\ninstance 3 gateway 2001:db8::1")
    assert [i.source_interface for i in plan.instances] == [None, None, "eth1", None]
    assert plan.instances[2].gateways == ("203.0.113.254", "2001:db8::1")
    assert from_json(to_json(plan)) == plan


def test_the_other_side_of_the_example_meets_it() -> None:
    other = EXAMPLE.replace("site 1", "site 2").replace("10.0.55.2", "10.0.55.9")
    assert [p.via for p in plan_of(other).paths] == ["10.14.0.1", "10.14.0.5", "10.14.0.9", "10.14.0.13"]


def test_ipv6_transit_carries_both_families() -> None:
    plan = plan_of(
        "instances 2\nnetwork-id 8056c2e21c000001\ntransit prefix 2001:db8:14::/120\ntransit site 2\n"
        "remote R1 prefix 2001:db8:1::/48\nremote R1 prefix 192.0.2.0/24"
    )
    assert [i.transit for i in plan.instances] == [("2001:db8:14::2/126",), ("2001:db8:14::6/126",)]
    assert [p.via for p in plan.paths] == ["2001:db8:14::1", "2001:db8:14::5"]
    assert {r.prefix: r.group_id for r in plan.routes} == dict.fromkeys(
        ["2001:db8:1::/48", "192.0.2.0/24"], plan.groups[0].group_id
    )


def test_dual_stack_uses_the_group_of_each_family() -> None:
    plan = plan_of(EXAMPLE + "transit prefix 2001:db8:14::/124\nremote R2 prefix 2001:db8:2::/48\naddress 2001:db8:55::1/128")
    assert [i.transit for i in plan.instances][0] == ("10.14.0.1/30", "2001:db8:14::1/126")
    groups = {g.group_id: g.family for g in plan.groups}
    assert {r.prefix: (groups[r.group_id], r.source) for r in plan.routes} == {
        "10.0.55.2/32": (4, "10.0.55.1"),
        "2001:db8:2::/48": (6, "2001:db8:55::1"),
    }


def test_several_sites_on_wider_transit_subnets() -> None:
    plan = plan_of(
        "instances 2\nnetwork-id 8056c2e21c000001\ntransit prefix 10.14.0.0/24\ntransit subnet-length 28\n"
        "transit site 3\nremote R1 site 1\nremote R1 prefix 192.0.2.0/24\nremote R7 site 7\nremote R7 prefix 203.0.113.0/24"
    )
    assert [i.transit[0] for i in plan.instances] == ["10.14.0.3/28", "10.14.0.19/28"]
    assert [(p.remote, p.via) for p in plan.paths] == [
        ("R1", "10.14.0.1"), ("R1", "10.14.0.17"), ("R7", "10.14.0.7"), ("R7", "10.14.0.23")
    ]  # fmt: skip
    assert len({p.nexthop_id for p in plan.paths} | {g.group_id for g in plan.groups}) == 6


def test_controller_free_paths_wait_for_identities_and_get_permanent_neighbours() -> None:
    text = EXAMPLE + f"controller-free\nremote R2 instance 2 identity 89e92ceee5:0:{KEY}\n"
    plan = plan_of(text)
    assert [(p.instance, p.lladdr) for p in plan.paths] == [(2, "02:89:e9:30:0c:27")]
    assert plan.mtu == 1394
    assert [(p.instance, p.identity[:10]) for p in plan.peers] == [(2, "89e92ceee5")]


def test_disabled_instance_remote_and_bundle_leave_nothing() -> None:
    assert [i.number for i in plan_of(EXAMPLE + "instance 2 disable").instances] == [1, 3, 4]
    assert plan_of(EXAMPLE + "remote R2 disable").routes == ()
    plan = plan_of(EXAMPLE + "disable")
    assert (plan.instances, plan.paths, plan.groups, plan.routes, plan.addresses) == ((), (), (), (), ())


def test_a_remote_without_prefixes_has_paths_and_no_routes() -> None:
    """A routing protocol over the member devices finds the way; the paths are probed all the same."""
    text = EXAMPLE.replace("remote R2 prefix 10.0.55.2/32", "remote R2 site 2")
    assert "remote R2 site 2" in text and check_bundle(bundle(text), GK41) == []
    plan = plan_of(text)
    assert (len(plan.paths), plan.routes, plan.hash_policy) == (4, (), 1)


def test_pinning_by_hand() -> None:
    assert [i.cpus for i in plan_of(EXAMPLE + "cpu affinity none").instances] == [()] * 4
    plan = plan_of(EXAMPLE + "cpu affinity 2-3\ninstance 4 cpu 0-1")
    assert [i.cpus for i in plan.instances] == [(2,), (3,), (2,), (0, 1)]


def test_one_instance_needs_no_hash_policy() -> None:
    assert plan_of(EXAMPLE.replace("instances 4", "instances 1")).hash_policy is None
    assert plan_of(EXAMPLE.replace("instances 4", "instances 2")).hash_policy == 1


def test_instances_auto_is_one_per_performance_core() -> None:
    assert len(plan_of(EXAMPLE.replace("instances 4", "instances auto")).instances) == 4


def test_ports_differ_between_bundles_by_default() -> None:
    other = parse_bundle("zt1", {"instances": "4", "network-id": "8056c2e21c000001"})
    assert [other.port(k) for k in (1, 4)] == [10025, 10028]
    assert bundle(EXAMPLE + "instance 3 port 12000").port(3) == 12000


def test_bundles_are_placed_one_after_the_other() -> None:
    first, second = bundle(EXAMPLE), parse_bundle("zt1", {"instances": "2"})
    assert cpu_offset(first, [second], GK41) == 0
    assert cpu_offset(second, [first], GK41) == 4
    assert cpu_offset(second, [replace(first, disabled=True)], GK41) == 0


@pytest.mark.parametrize(("limit", "best"), [(1280, 1280), (1393, 1393), (1394, 1394), (2800, 1394), (2810, 2810), (10000, 9890)])
def test_best_mtu(limit: int, best: int) -> None:
    assert best_mtu(limit) == best


def test_transit_slicing_at_its_edges() -> None:
    import ipaddress

    transit = Transit(ipaddress.ip_network("10.14.0.0/28"), 30)
    assert (transit.room, transit.sites) == (4, 2)
    with pytest.raises(ValueError):
        transit.subnet(5)
    with pytest.raises(ValueError):
        transit.interface(1, 3)
    assert Transit(ipaddress.ip_network("10.14.0.0/31"), 30).room == 0


def test_next_hop_ids_tell_what_they_are() -> None:
    ids = {
        names.nexthop_id(f"zt{n}", family, site, k)
        for n in (0, 255) for family in (4, 6) for site in (1, 510) for k in (0, 1, 32)
    }  # fmt: skip
    assert len(ids) == 24 and all(names.is_our_nexthop_id(i) for i in ids)
    assert names.bundle_of_nexthop(names.nexthop_id("zt17", 6, 9, 3)) == "zt17"
    assert names.bundle_of_nexthop(0) is None and names.bundle_of_nexthop(names.NEXTHOP_ID_BASE - 1) is None


def test_the_plan_file_is_the_plan() -> None:
    plan = plan_of(EXAMPLE + "transit prefix 2001:db8:14::/124")
    assert from_json(to_json(plan)) == plan


@pytest.mark.parametrize("cut", [0, 1, 100, -3])
def test_a_truncated_plan_is_refused(cut: int) -> None:
    with pytest.raises(PlanError):
        from_json(to_json(plan_of(EXAMPLE))[:cut])


@pytest.mark.parametrize(
    "text", ["[]", "{}", '{"schema": 99}', '{"schema": 1, "bundle": "zt0"}', "null", pytest.param("[" * 100_000, id="deep")]
)
def test_what_is_no_plan(text: str) -> None:
    with pytest.raises(PlanError):
        from_json(text)


@pytest.mark.parametrize(
    ("part", "change"),
    [
        *((None, change) for change in ({"bundle": 5}, {"mtu": "1400"}, {"mtu": True}, {"controller_free": 1}, {"novelty": 1})),
        *((None, {"addresses": value}) for value in ("10.0.55.1/32", [1], None, {})),
        *((None, {"instances": value}) for value in (5, [5], [[]], [None], "zt0p1", None)),
        *((None, {"health": value}) for value in ([], None, 5, {"enabled": True})),
        *(
            ("instances", change)
            for change in ({"port": "9993"}, {"port": True}, {"cpus": ["0"]}, {"listen": "::"}, {"home": None})
        ),
        *(("groups", change) for change in ({"members": 5}, {"members": ["5"]}, {"idle_timer": 1.5})),
    ],
)
def test_a_plan_with_values_of_another_type_is_refused(part: str | None, change: dict[str, object]) -> None:
    data = json.loads(to_json(plan_of(EXAMPLE)))
    (data[part][0] if part else data).update(change)
    with pytest.raises(PlanError):
        from_json(json.dumps(data))


def test_what_is_measured_and_probed_is_in_the_plan() -> None:
    usual = plan_of(EXAMPLE)
    assert (usual.health.enabled, usual.auto_weights, usual.keep_routes) == (True, False, False)
    other = plan_of(EXAMPLE + "health-check disable\nbalance weights auto\nbalance all-paths-down keep")
    assert (other.health.enabled, other.auto_weights, other.keep_routes) == (False, True, True)


@pytest.mark.parametrize("controller_free", [False, True])
def test_peers_are_of_controller_free_mode(controller_free: bool) -> None:
    """With a controller an instance has no moons and no network configuration of ours."""
    plan = plan_of(EXAMPLE + f"remote R2 instance 1 identity 89e92ceee5:0:{KEY}\n" + "controller-free\n" * controller_free)
    assert len(plan.peers) == controller_free


def test_a_disabled_bundle_asks_no_controller() -> None:
    text = EXAMPLE + "controller type central\ncontroller api-key secret\n"
    assert plan_of(text).controller is not None and plan_of(text + "disable").controller is None
