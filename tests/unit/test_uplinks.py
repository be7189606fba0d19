"""Source routing of the instances that are kept to an uplink, and where its gateway is found."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.configuration import EXAMPLE, bundle
from zerotier_multi import names
from zerotier_multi.cpu import Cpu
from zerotier_multi.netlink.messages import Message
from zerotier_multi.pathd.routing import uplinks
from zerotier_multi.pathd.kernel.actions import Put, PutRoute, Remove, actions
from zerotier_multi.pathd.kernel.notices import concerns_us
from zerotier_multi.pathd.kernel.desired import Desired
from zerotier_multi.netlink.state import KernelState
from zerotier_multi.pathd.routing.leases import router_of_lease
from zerotier_multi.pathd.kernel.sysctls import Sysctls
from zerotier_multi.planner import make_plan
from zerotier_multi.netlink.links import Address, Link
from zerotier_multi.netlink.routes import Route
from zerotier_multi.netlink.rules import Rule

WAN2 = "instance 3 source-interface eth1\n"
TABLE = names.uplink_table("zt0", 3, 0)
FIRST = names.RULE_PRIORITY


def plan_of(text: str, engine: str = "ztnode"):
    return make_plan(bundle(EXAMPLE + text), tuple(Cpu(n, n) for n in range(4)), f"/usr/sbin/{engine}")


def box(**changes: object) -> KernelState:
    links = {"eth0": Link(2, "eth0", None, 1500, True, True), "eth1": Link(3, "eth1", None, 1500, True, True)}
    return KernelState(links=links, local={Address(2, "198.51.100.1/24"), Address(3, "203.0.113.1/24")}, **changes)


def wanted(text: str, have: KernelState, gateways: uplinks.Known, engine: str = "ztnode") -> Desired:
    want = Desired()
    uplinks.add(want, [plan_of(text, engine)], have, gateways)
    return want


def test_an_instance_leaves_by_the_gateway_of_its_uplink() -> None:
    want = wanted(WAN2, box(), {("eth0", 4): "198.51.100.254", ("eth1", 4): "203.0.113.254"})
    assert want.routes == {Route("0.0.0.0/0", 0, None, TABLE, 0, 3, "203.0.113.254")}
    assert want.rules == {Rule(4, FIRST, "203.0.113.1", 9995, 254, True), Rule(4, FIRST + 1, "203.0.113.1", 9995, TABLE)}


def test_a_socket_that_is_bound_to_no_device_sees_nothing_of_the_main_table() -> None:
    want = wanted(WAN2, box(), {("eth1", 4): "203.0.113.254"}, "zerotier-one")
    assert want.routes == {Route("0.0.0.0/0", 0, None, TABLE, 0, 3, "203.0.113.254"), Route("203.0.113.0/24", 0, None, TABLE, 0, 3)}
    assert want.rules == {Rule(4, FIRST + 1, "203.0.113.1", 9995, TABLE)}


def test_a_listen_address_names_its_uplink() -> None:
    want = wanted("instance 3 listen-address 203.0.113.1", box(), {("eth1", 4): "203.0.113.254"})
    assert want.routes == wanted(WAN2, box(), {("eth1", 4): "203.0.113.254"}).routes
    both = wanted(
        "instance 3 listen-address 203.0.113.1\ninstance 3 listen-address 198.51.100.1",
        box(), {("eth0", 4): "198.51.100.254", ("eth1", 4): "203.0.113.254"},
    )  # fmt: skip
    assert {(r.table, r.via) for r in both.routes} == {(TABLE, "198.51.100.254"), (TABLE + 1, "203.0.113.254")}


def test_a_configured_gateway_comes_before_what_is_found() -> None:
    want = wanted(WAN2 + "instance 3 gateway 203.0.113.9", box(), {("eth1", 4): "203.0.113.254"})
    assert {r.via for r in want.routes} == {"203.0.113.9"}


@pytest.mark.parametrize(
    ("text", "have", "gateways"),
    [
        ("", box(), {("eth1", 4): "203.0.113.254"}),
        (WAN2, box(), {}),
        (WAN2, KernelState(), {}),
        (WAN2, KernelState(links={"eth1": Link(3, "eth1", None, 1500, False, False)}, local={Address(3, "203.0.113.1/24")}), {("eth1", 4): "203.0.113.254"}),
    ],
    ids=["no uplink", "no gateway known", "not there yet", "down"],
)  # fmt: skip
def test_nothing_stands_where_nothing_can(text: str, have: KernelState, gateways: uplinks.Known) -> None:
    want = wanted(text, have, gateways)
    assert not want.routes and not want.rules


def test_a_device_of_ppp_needs_no_gateway() -> None:
    have = KernelState(
        links={"pppoe0": Link(7, "pppoe0", None, 1492, True, True, point_to_point=True)}, local={Address(7, "203.0.113.1/32")}
    )
    want = wanted("instance 3 source-interface pppoe0", have, {("pppoe0", 4): None}, "zerotier-one")
    assert want.routes == {Route("0.0.0.0/0", 0, None, TABLE, 0, 7)}


def test_an_uplink_in_a_vrf_has_its_routes_there() -> None:
    have = box()
    have.links = {
        "eth1": Link(3, "eth1", None, 1500, True, True, master=9),
        "blue": Link(9, "blue", "vrf", 65575, True, True, table=100),
    }
    assert Rule(4, FIRST, "203.0.113.1", 9995, 100, True) in wanted(WAN2, have, {("eth1", 4): "203.0.113.254"}).rules


def test_from_the_difference_to_what_is_done() -> None:
    """Routes before the rules that lead to them; taken away in the opposite order, and nothing of others."""
    want = wanted(WAN2, box(), {("eth1", 4): "203.0.113.254"})
    (route,) = want.routes
    first, second = sorted(want.rules, key=lambda r: r.priority)
    assert actions(want, box()) == [PutRoute(route, False), Put(first), Put(second)]
    assert actions(want, box(routes={route}, rules=want.rules)) == []
    assert actions(Desired(), box(routes={route}, rules=want.rules)) == [Remove(first), Remove(second), Remove(route)]
    moved = wanted(WAN2, box(), {("eth1", 4): "203.0.113.7"})
    (other,) = moved.routes
    assert actions(moved, box(routes={route}, rules=want.rules)) == [PutRoute(other, True)]


def test_a_new_address_gets_rules_before_the_old_one_loses_its_own() -> None:
    gateways = {("eth1", 4): "203.0.113.254"}
    want, have = wanted(WAN2, box(), gateways), box()
    old = Rule(4, FIRST + 1, "203.0.113.99", 9995, TABLE)
    have.routes, have.rules = want.routes, {old}
    assert [type(action) for action in actions(want, have)] == [Put, Put, Remove]


def test_default_routes_of_others_are_events_to_us() -> None:
    def route(length: int, protocol: int) -> Message:
        return Message(24, bytes([2, length, 0, 0, 254, protocol, 0, 1, 0, 0, 0, 0]))

    assert concerns_us(route(0, 16), set()) and concerns_us(route(24, names.RT_PROTO), set())
    assert not concerns_us(route(24, 16), set())


@pytest.mark.parametrize(
    ("everywhere", "own", "loose"),
    [("0", "0", False), ("0", "1", True), ("1", "0", True), ("0", "2", True), ("2", "0", False), ("1", "2", True)],
)
def test_the_filter_of_an_uplink_is_loose_where_it_was_strict(everywhere: str, own: str, loose: bool) -> None:
    assert bool(uplinks.loose(["eth1"], {"eth1": own}, everywhere)) is loose


def test_the_filter_is_put_back(tmp_path: Path) -> None:
    setting = tmp_path / "sys/net/ipv4/conf/eth1/rp_filter"
    setting.parent.mkdir(parents=True)
    setting.write_text("1")
    name, memory = "net/ipv4/conf/eth1/rp_filter", tmp_path / "memory.json"
    assert Sysctls(memory, tmp_path / "sys").hold({name: "2"}) == ([], []) and setting.read_text() == "2"
    # A daemon that is started anew knows what it was.
    later = Sysctls(memory, tmp_path / "sys")
    assert later.hold({name: "2"}) == ([], []) and setting.read_text() == "2"
    assert later.hold({}) == ([], []) and setting.read_text() == "1"


LEASES = {
    "run/dhclient/dhclient_eth1.lease": "new_ip_address='192.0.2.9'\nnew_routers='192.0.2.1 192.0.2.2'\nold_routers='192.0.2.7'\n",
    "var/lib/dhcp/dhclient.leases": (
        'lease {\n  interface "eth1";\n  option routers 192.0.2.8;\n}\nlease {\n  interface "eth1";\n  option routers 192.0.2.1, 192.0.2.2;\n}\n'
        'lease {\n  interface "eth2";\n  option routers 192.0.2.5;\n}\n'
    ),
    "run/systemd/netif/leases/3": "# private\nADDRESS=192.0.2.9\nROUTER=192.0.2.1\n",
}


@pytest.mark.parametrize("path", LEASES)
def test_the_router_in_a_lease(path: str, tmp_path: Path) -> None:
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(LEASES[path])
    assert router_of_lease("eth1", 3, tmp_path) == "192.0.2.1"
    assert router_of_lease("eth7", 9, tmp_path) is None
    (tmp_path / path).write_text(LEASES[path].replace("192.0.2", "fe80::1;x"))
    assert router_of_lease("eth1", 3, tmp_path) is None
