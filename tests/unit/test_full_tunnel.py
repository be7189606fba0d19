"""A remote with a default route: where its route stands, and what keeps the underlay where it was."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.configuration import EXAMPLE, bundle
from zerotier_multi import names
from zerotier_multi.cpu import Cpu
from zerotier_multi.op.commands import plan_data
from zerotier_multi.pathd.routing import full_tunnel
from zerotier_multi.pathd.kernel.actions import Put, actions
from zerotier_multi.pathd.kernel.desired import Desired, desired_state
from zerotier_multi.netlink.state import KernelState
from zerotier_multi.pathd.kernel.commands import Names, commands
from zerotier_multi.plan import Plan
from zerotier_multi.planner import make_plan
from zerotier_multi.netlink.links import Address, Link
from zerotier_multi.netlink.routes import Route

THREE = EXAMPLE.replace("/28", "/27").replace("remote R2", "remote R2 site 2\nremote R2") + "transit subnet-length 29\n"
TWO_REMOTES = THREE + "remote R2 prefix 0.0.0.0/0\nremote R3 site 3\nremote R3 prefix 192.168.3.0/24\n"
SIX = EXAMPLE + "transit prefix 2001:db8:14::/124\nremote R2 prefix ::/0\n"
TABLE = names.FULL_TUNNEL_TABLE


def plan_of(text: str) -> Plan:
    return make_plan(bundle(text), tuple(Cpu(n, n) for n in range(4)), "/usr/sbin/ztnode")


def router(plan: Plan) -> KernelState:
    """All devices stand: eth0 with the default route, lan0 without one, and those of the bundle."""
    links = {i.device: Link(10 + i.number, i.device, "tun", 1394, True, True) for i in plan.instances}
    links |= {"eth0": Link(2, "eth0", None, 1500, True, True), "lan0": Link(3, "lan0", None, 1500, True, True)}
    links["zt0"] = Link(4, "zt0", "dummy", 1394, True, True, group=names.DEVICE_GROUP)
    own = {Address(10 + i.number, a) for i in plan.instances for a in i.transit} | {Address(4, a) for a in plan.addresses}
    local = own | {Address(2, "198.51.100.7/24"), Address(2, "2001:db8:0:1::7/64"), Address(3, "192.168.1.1/24")}
    return KernelState(links=links, addresses=own, local=local, uplinks=frozenset({(4, 2)}))


def standing(plan: Plan, usable: bool = True) -> Desired:
    have = router(plan)
    want = desired_state([plan], have, () if usable else {path.nexthop_id for path in plan.paths}, True, {}, 100.0)
    full_tunnel.add(want, [plan], have)
    return want


def test_the_default_route_has_a_table_of_its_own_and_frr_does_not_see_it() -> None:
    plan = plan_of(TWO_REMOTES)
    routes = {(r.prefix, r.table, r.metric, bool(r.nexthop_id)) for r in standing(plan).routes}
    assert {r for r in routes if r[0] == "0.0.0.0/0"} == {("0.0.0.0/0", TABLE, 0, True)}
    # Other prefixes, of this remote and of others, stay in the main table, with what FRR sees of them.
    assert {r for r in routes if r[0] != "0.0.0.0/0"} == {
        (prefix, 254, metric, metric == 0) for prefix in ("10.0.55.2/32", "192.168.3.0/24") for metric in (0, names.SEEN_METRIC)
    }


def test_the_rules_of_ipv4() -> None:
    rules = sorted(standing(plan_of(TWO_REMOTES)).rules, key=lambda rule: rule.priority)
    assert [command for rule in rules for command in commands(Put(rule), Names())] == [
        "ip -4 rule add pref 31360 from all lookup 255 protocol 122",
        "ip -4 rule add pref 31361 from all ipproto udp sport 68 lookup 254 protocol 122",
        "ip -4 rule add pref 31362 from 198.51.100.7 lookup 254 protocol 122",
        "ip -4 rule add pref 31363 from all lookup 254 suppress_prefixlength 0 protocol 122",
        f"ip -4 rule add pref 31364 from all lookup {TABLE} protocol 122",
    ]
    assert rules[0].priority > names.RULE_PRIORITY + 1  # behind those of uplinks


def test_a_family_without_a_full_tunnel_has_no_rule() -> None:
    want = standing(plan_of(SIX))
    assert {rule.family for rule in want.rules} == {6}
    assert not any(rule.source for rule in want.rules)  # the only uplink is one of IPv4
    assert standing(plan_of(EXAMPLE)).rules == set()


@pytest.mark.parametrize("text", [TWO_REMOTES, SIX])
def test_where_routes_are_kept_something_refuses_what_no_path_takes(text: str) -> None:
    plan = plan_of(text + "balance all-paths-down keep\n")
    prefix = "0.0.0.0/0" if text is TWO_REMOTES else "::/0"
    refusing = Route(prefix, 0, None, TABLE, names.REFUSING_METRIC)
    assert refusing in standing(plan).routes
    without_devices = Desired()
    full_tunnel.add(without_devices, [plan], KernelState())
    assert without_devices.routes == {refusing}


def test_where_they_are_not_the_main_table_serves_again() -> None:
    want = standing(plan_of(TWO_REMOTES), usable=False)
    assert not any(r.table == TABLE for r in want.routes) and len(want.rules) == 5


def test_a_new_lease_moves_one_rule() -> None:
    plan = plan_of(TWO_REMOTES)
    have = router(plan)
    have.rules = standing(plan).rules
    have.local = {a for a in have.local if a.interface != "198.51.100.7/24"} | {Address(2, "198.51.100.8/24")}
    want = desired_state([plan], have, (), True, {}, 100.0)
    full_tunnel.add(want, [plan], have)
    assert [line for action in actions(want, have) for line in commands(action, Names()) if " rule " in line] == [
        "ip -4 rule add pref 31362 from 198.51.100.8 lookup 254 protocol 122",
        "ip -4 rule del pref 31362 from 198.51.100.7 lookup 254 protocol 122",
    ]


@pytest.mark.parametrize("device", ["lo", "dum0"])
def test_what_is_sent_from_a_listen_address_of_no_uplink_stays_outside(device: str) -> None:
    """Its socket is bound to no device, so that the default route over the bundle would be a tunnel in the tunnel."""
    plan = plan_of(TWO_REMOTES + "instance 1 listen-address 192.0.2.1\ninstance 2 listen-address 192.168.1.1\n")
    have = router(plan)
    have.links = {**have.links, device: Link(1, device, None, 65536, True, True)}
    have.local = {*have.local, Address(1, "192.0.2.1/32"), Address(1, "192.0.2.9/32")}
    want = Desired()
    full_tunnel.add(want, [plan], have)
    assert {rule.source for rule in want.rules if rule.source} == {"198.51.100.7", "192.0.2.1"}


def test_in_a_vrf_the_default_route_is_one_like_others() -> None:
    plan = replace(plan_of(TWO_REMOTES), vrf="blue")
    have = router(plan)
    have.links = {**have.links, "blue": Link(9, "blue", "vrf", 1500, True, True, table=100)}
    want = desired_state([plan], have, (), True, {}, 100.0)
    full_tunnel.add(want, [plan], have)
    assert want.rules == set()
    assert {(r.table, r.metric) for r in want.routes if r.prefix == "0.0.0.0/0"} == {(100, 0), (100, names.SEEN_METRIC)}


def test_the_plan_as_commands() -> None:
    plan = plan_of(TWO_REMOTES + "balance all-paths-down keep\n")
    sections = {s["section"]: s["commands"] for s in plan_data(plan)["sections"]}
    group = next(g.group_id for g in plan.groups if g.remote == "R2")
    assert f"ip route add 0.0.0.0/0 nhid {group} src 10.0.55.1 table {TABLE} proto 122" in sections["routes"]
    assert sections["rules"][0] == f"ip route add unreachable 0.0.0.0/0 table {TABLE} metric {names.REFUSING_METRIC} proto 122"
    assert len(sections["rules"]) == 5
    assert "rules" not in {s["section"] for s in plan_data(plan_of(EXAMPLE))["sections"]}
