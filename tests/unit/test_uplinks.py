"""Source routing of the instances that are kept to an uplink, and where its gateway is found."""

from __future__ import annotations

import errno
import itertools
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from tests.configuration import EXAMPLE, bundle
from zerotier_multi import names
from zerotier_multi.cpu import Cpu
from zerotier_multi.netlink.messages import Message
from zerotier_multi.netlink.sockets import KernelError
from zerotier_multi.pathd.routing import uplinks
from zerotier_multi.pathd.kernel.actions import Put, PutRoute, Remove, actions
from zerotier_multi.pathd.kernel.notices import Neighbours, concerns_us
from zerotier_multi.pathd.kernel.desired import Desired
from zerotier_multi.netlink.state import KernelState
from zerotier_multi.pathd.routing.leases import router_of_lease
from zerotier_multi.pathd.kernel.sysctls import Sysctls
from zerotier_multi.plan import PeerPlan, Plan
from zerotier_multi.planner import make_plan
from zerotier_multi.netlink.links import Address, Link
from zerotier_multi.netlink.routes import Route
from zerotier_multi.netlink.rules import Rule
from zerotier_multi.netlink.rtnl import Rtnl

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


@pytest.mark.parametrize("engine", ["ztnode", "zerotier-one"])
@pytest.mark.parametrize("device", ["lo", "dum0"])
def test_an_address_of_no_uplink_follows_the_routes_of_the_router(engine: str, device: str) -> None:
    have = box()
    have.links = {**have.links, device: Link(9, device, None, 65536, True, True)}
    have.local = {*have.local, Address(9, "192.0.2.1/32")}
    listening = "listen-address 192.0.2.1\n"
    want = wanted(listening, have, {("eth0", 4): "198.51.100.254", ("eth1", 4): "203.0.113.254"}, engine)
    assert not want.routes and not want.rules and not want.notes


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


def peers(plan: Plan, *endpoints: str) -> Plan:
    return replace(plan, peers=tuple(PeerPlan("R2", i.number, "", endpoints) for i in plan.instances))


BOTH_ON_WAN2 = WAN2 + "instance 4 source-interface eth1\n"
SIX = {Address(3, "2001:db8::1/64")}


@pytest.mark.parametrize(
    ("text", "gateways", "endpoints", "local", "instances"),
    [
        (WAN2, {}, (), set(), "instance 3"),
        (BOTH_ON_WAN2, {}, (), set(), "instance 3-4"),
        (BOTH_ON_WAN2 + "instance 3 gateway 203.0.113.254", {}, (), set(), "instance 4"),
        (WAN2, {}, ("198.51.100.9:9993", "r2.example.org:9993", "[2001:db8::9]:9993"), set(), "instance 3"),
        (WAN2, {}, ("203.0.113.2:9993",), set(), None),
        (WAN2, {}, ("[2001:db8::9]:9993",), SIX, None),
        (WAN2, {("eth1", 4): "203.0.113.254"}, (), set(), None),
        (WAN2, {("eth1", 6): "fe80::1"}, (), SIX, None),
        (WAN2, {("eth1", 6): "fe80::1"}, (), set(), "instance 3"),
        (WAN2, {("eth1", 4): None}, (), set(), None),
        ("instance 3 listen-address 203.0.113.1", {}, (), set(), None),
    ],
    ids=["one instance", "two", "one of them has one", "remotes elsewhere", "a remote on the link", "the same in ipv6", "known",
         "known in ipv6", "known in a family without an address", "point to point", "not kept to it"],
)  # fmt: skip
def test_an_uplink_without_a_gateway_is_told(
    text: str, gateways: uplinks.Known, endpoints: tuple[str, ...], local: set[Address], instances: str | None
) -> None:
    have, want = box(), Desired()
    have.local = {*have.local, *local}
    uplinks.add(want, [peers(plan_of(text), *endpoints)], have, gateways)
    first = instances and instances.partition("-")[0]
    assert want.notes == ([
        f"zt0: no gateway of eth1 is known, so {instances} reaches only what is on the link or has another route over eth1; "
        f"set interfaces zerotier zt0 {first} gateway"
    ] if instances else [])  # fmt: skip


@pytest.mark.parametrize(
    ("up", "addresses", "lack"),
    [(None, set(), "does not exist"), (False, {"203.0.113.1/24"}, "is down"), (True, {"fe80::1/64"}, "has no address")],
)
def test_an_uplink_for_which_instances_wait_is_told(up: bool | None, addresses: set[str], lack: str) -> None:
    """As one that is mistyped; it lacks no gateway then."""
    links = {} if up is None else {"eth1": Link(3, "eth1", None, 1500, up, up)}
    have = KernelState(links=links, local={Address(3, address) for address in addresses})
    setting = "bring it up, or change interfaces zerotier zt0 instance"
    assert wanted(WAN2, have, {}).notes == [f"zt0: instance 3 waits for eth1, which {lack}; {setting} 3 source-interface"]
    both = f"{WAN2}\ninstance 4 source-interface eth1"
    assert wanted(both, have, {}).notes == [f"zt0: instances 3-4 wait for eth1, which {lack}; {setting} 3 source-interface"]


# What the default routes of a router lead to, by the commands of one, in a network namespace. eth1 is the uplink that is asked for.
DEFAULTS = {
    "no object": (4, "ip route add default via 203.0.113.254 dev eth1", ["203.0.113.254"]),
    "an object": (4, "ip nexthop add id 9 via 203.0.113.254 dev eth1; ip route add default nhid 9 metric 20", ["203.0.113.254"]),
    "an object over the device alone": (4, "ip nexthop add id 9 dev eth1; ip route add default nhid 9", [None]),
    "a group": (4, "ip nexthop add id 8 via 198.51.100.254 dev eth0; ip nexthop add id 9 via 203.0.113.254 dev eth1; "
                   "ip nexthop add id 7 group 8/9; ip route add default nhid 7", ["203.0.113.254"]),
    "the better one": (4, "ip nexthop add id 8 via 203.0.113.253 dev eth1; ip nexthop add id 9 via 203.0.113.254 dev eth1; "
                          "ip route add default nhid 8 metric 200; ip route add default nhid 9 metric 20", ["203.0.113.254", "203.0.113.253"]),
    "an object of another uplink": (4, "ip nexthop add id 8 via 198.51.100.254 dev eth0; ip route add default nhid 8", []),
    "a blackhole": (4, "ip nexthop add id 8 blackhole; ip route add default nhid 8", []),
    "ipv6": (6, "ip -6 nexthop add id 9 via fe80::9 dev eth1; ip -6 route add default nhid 9", ["fe80::9"]),
    "an object with a gateway of ipv6": (4, "ip -6 nexthop add id 9 via fe80::9 dev eth1; ip route add default nhid 9", []),
    "a gateway of ipv6": (4, "ip -4 route add default via inet6 fe80::9 dev eth1", []),
}  # fmt: skip
PROGRAM = """
import json, sys
from zerotier_multi.netlink.rtnl import Rtnl
with Rtnl() as rtnl:
    links = {name: link.index for name, link in rtnl.links().items()}
    names = {index: name for name, index in links.items()}
    uplinks = sorted([family, names[index]] for family, index in rtnl.uplinks())
    print(json.dumps([rtnl.default_gateways(int(sys.argv[1]), links["eth1"], 254), uplinks]))
"""


@pytest.mark.parametrize("compatible", [0, 1])
@pytest.mark.parametrize("case", DEFAULTS)
def test_the_gateway_of_a_default_route_with_a_next_hop_object(case: str, compatible: int) -> None:
    """FRR's have one, and VyOS may set the kernel to name nothing else."""
    family, commands, gateways = DEFAULTS[case]
    script = [
        f"sysctl -qw net.ipv4.nexthop_compat_mode={compatible}",
        "ip link set lo up; for n in 0 1; do ip link add eth$n type veth peer name peer$n; ip link set eth$n up; ip link set peer$n up; done",
        "ip address add 198.51.100.1/24 dev eth0; ip address add 203.0.113.1/24 dev eth1",
        *commands.split("; "),
        f"exec {sys.executable} -c '{PROGRAM}' {family}",
    ]
    ran = subprocess.run(["unshare", "--net", "sh", "-ec", "\n".join(script)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    found, ways = json.loads(ran.stdout)
    assert found == gateways
    devices = {word for before, word in itertools.pairwise(commands.replace(";", "").split()) if before == "dev"}
    assert ways == sorted([family, device] for device in devices)


def test_gateways_are_read_again_in_time() -> None:
    """A lease may bring another gateway with the same address, and nothing tells of it."""

    class Asked:
        def __init__(self) -> None:
            self.answers = ["203.0.113.254", "203.0.113.7"]

        def default_gateways(self, family: int, _index: int, _table: int) -> list[str]:
            return self.answers[:1] if family == 4 else []

    rtnl, gateways, have = Asked(), uplinks.Gateways(), box()
    assert gateways.wake(0.0) is None
    first = gateways.read(cast(Rtnl, rtnl), ["eth1"], have, 100.0)
    wake = gateways.wake(100.0)
    assert wake == 100.0 + uplinks.AGE <= 130.0
    assert gateways.wake(200.0) == 201.0, "looks that fail read nothing"
    rtnl.answers.pop(0)
    assert gateways.read(cast(Rtnl, rtnl), ["eth1"], have, wake - 1) == first == {("eth1", 4): "203.0.113.254"}
    assert gateways.read(cast(Rtnl, rtnl), ["eth1"], have, wake) == {("eth1", 4): "203.0.113.7"}
    gateways.read(cast(Rtnl, rtnl), [], have, wake + 1)
    assert gateways.wake(wake + 1) is None


def test_a_device_of_ppp_needs_no_gateway() -> None:
    have = KernelState(
        links={"pppoe0": Link(7, "pppoe0", None, 1492, True, True, point_to_point=True)}, local={Address(7, "203.0.113.1/32")}
    )
    want = wanted("instance 3 source-interface pppoe0", have, {("pppoe0", 4): None}, "zerotier-one")
    assert want.routes == {Route("0.0.0.0/0", 0, None, TABLE, 0, 7)}


def test_a_configured_gateway_is_that_of_its_family() -> None:
    have = box()
    have.local |= SIX
    want = wanted(WAN2 + "instance 3 gateway 2001:db8::254", have, {("eth1", 4): "203.0.113.254"})
    assert {(r.prefix, r.via) for r in want.routes} == {("0.0.0.0/0", "203.0.113.254"), ("::/0", "2001:db8::254")}


@pytest.mark.parametrize(
    ("ppp", "routes", "lease", "known"),
    [
        (False, {4: "203.0.113.254", 6: "fe80::1"}, "203.0.113.7", {4: "203.0.113.254", 6: "fe80::1"}),
        (False, {6: "fe80::1"}, "203.0.113.7", {4: "203.0.113.7", 6: "fe80::1"}),
        (False, {}, None, {}),
        (True, {}, None, {4: None, 6: None}),
        (True, {}, "203.0.113.7", {4: None, 6: None}),
        (True, {4: "203.0.113.254"}, None, {4: "203.0.113.254", 6: None}),
    ],
)
def test_where_gateways_are_found(
    monkeypatch: pytest.MonkeyPatch, ppp: bool, routes: dict[int, str], lease: str | None, known: dict[int, str | None]
) -> None:
    """In the kernel first, then in a lease: a DHCP client may leave its route to others. A family may not be there at all."""

    class Asked:
        def default_gateways(self, family: int, _index: int, _table: int) -> list[str]:
            if family not in routes:
                raise KernelError(errno.EAFNOSUPPORT, "no such family")
            return [routes[family], "192.0.2.1"]

    monkeypatch.setattr(uplinks, "router_of_lease", lambda device, index: lease if (device, index) == ("eth1", 3) else None)
    have, gateways = box(), uplinks.Gateways()
    have.links["eth1"] = replace(have.links["eth1"], point_to_point=ppp)
    found = {("eth1", family): via for family, via in known.items()}
    assert gateways.read(cast(Rtnl, Asked()), ["eth1"], have, 100.0) == found
    routes.clear()
    assert gateways.read(cast(Rtnl, Asked()), ["eth1"], have, 101.0) == found
    gateways.stale = True
    later = {("eth1", 4): None, ("eth1", 6): None} if ppp else {("eth1", 4): lease} if lease else {}
    assert gateways.read(cast(Rtnl, Asked()), ["eth1"], have, 102.0) == later and not gateways.stale


def test_an_uplink_in_a_vrf_has_its_routes_there() -> None:
    have = box()
    have.links = {
        "eth1": Link(3, "eth1", None, 1500, True, True, master=9),
        "blue": Link(9, "blue", "vrf", 65575, True, True, table=100),
    }
    assert Rule(4, FIRST, "203.0.113.1", 9995, 100, True) in wanted(WAN2, have, {("eth1", 4): "203.0.113.254"}).rules


def test_a_gateway_of_an_uplink_in_a_vrf_is_told_to_have_no_effect() -> None:
    have = box()
    have.links["blue"] = Link(9, "blue", "vrf", 65575, True, True, table=100)
    text = WAN2 + "instance 3 gateway 203.0.113.7\n"
    assert wanted(text, have, {}).notes == []
    have.links["eth1"] = replace(have.links["eth1"], master=9)
    have.local.add(Address(3, "203.0.113.2/24"))
    assert wanted(WAN2, have, {("eth1", 4): "203.0.113.254"}).notes == []
    assert wanted(text, have, {}).notes == [
        "zt0: gateway 203.0.113.7 of instance 3 has no effect, because eth1 is in VRF blue; "
        "set the default route there, on VyOS by set vrf name blue protocols static route 0.0.0.0/0 next-hop 203.0.113.7"
    ]


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

    assert concerns_us(route(0, 16), Neighbours()) and concerns_us(route(24, names.RT_PROTO), Neighbours())
    assert not concerns_us(route(24, 16), Neighbours())


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
