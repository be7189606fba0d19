"""Which addresses the other routers are told: a table of routers, and what is printed of it."""

from __future__ import annotations

import ipaddress
import json
import subprocess
import sys

import pytest
from tests.configuration import EXAMPLE, bundle
from zerotier_multi.cpu import Cpu
from zerotier_multi.op.identity import identity_commands
from zerotier_multi.planner import make_plan
from zerotier_multi.underlay import Local, is_tunnel, verdicts
from ztsh.words import split

PROGRAM = """
import json
from zerotier_multi.op.identity import _read_addresses
found, _uplinks = _read_addresses()
print(json.dumps({address: local.passing for address, local in found.items()}))
"""

GK41 = tuple(Cpu(n, n) for n in range(4))
LAN = EXAMPLE + "remote R2 prefix 192.168.2.0/24\n"

WAN, WAN6 = ("eth0", "198.51.100.1/24"), ("eth0", "2001:db8:0:1::1/64")
LAN1, LAN1_6 = ("eth1", "192.168.1.1/24"), ("eth1", "2001:db8:192:1::1/64")
NO_DEFAULT = "eth1 has no default route"

# what it is, bundle, (device, address)…, devices with a default route -> told, left out
ROUTERS = [
    ("a LAN behind the router", LAN, [WAN, LAN1], {"eth0"}, ["198.51.100.1"], {"192.168.1.1": NO_DEFAULT}),
    ("a LAN with addresses that the Internet routes", LAN, [WAN, WAN6, LAN1, LAN1_6], {"eth0"},
     ["198.51.100.1", "2001:db8:0:1::1"], {"192.168.1.1": NO_DEFAULT, "2001:db8:192:1::1": NO_DEFAULT}),
    ("a LAN, and no default route", LAN, [WAN, LAN1], set(), ["198.51.100.1"], {"192.168.1.1": "private"}),
    ("behind a NAT", LAN, [("eth0", "10.9.8.7/24"), LAN1], {"eth0"}, ["10.9.8.7"], {"192.168.1.1": NO_DEFAULT}),
    ("behind a carrier's NAT, with IPv6", LAN, [("eth0", "100.64.3.4/10"), WAN6], {"eth0"},
     ["2001:db8:0:1::1"], {"100.64.3.4": "private"}),
    ("two uplinks behind NATs", LAN, [("eth0", "10.9.8.7/24"), ("eth2", "172.16.0.9/24"), LAN1], {"eth0", "eth2"},
     ["10.9.8.7", "172.16.0.9"], {"192.168.1.1": NO_DEFAULT}),
    ("ULA beside a global address", LAN, [WAN6, ("eth0", "fd00:1::1/64")], {"eth0"}, ["2001:db8:0:1::1"], {"fd00:1::1": "private"}),
    ("private addresses alone, and no default route", LAN, [("eth0", "10.9.8.7/24"), LAN1], set(),
     ["10.9.8.7", "192.168.1.1"], {}),
    ("an instance that listens on a LAN alone", LAN, [LAN1], {"eth0"}, ["192.168.1.1"], {}),
    ("containers and tunnels", LAN,
     [WAN, ("pod-web", "10.99.0.1/24"), ("podman0", "10.88.0.1/16"), ("docker0", "172.17.0.1/16"), ("br-0123456789ab", "172.18.0.1/16"),
      ("wg0", "203.0.113.1/24"), ("zt0p1", "10.14.0.1/30")], {"eth0", "wg0"},
     ["198.51.100.1"],
     {"10.99.0.1": "pod-web is a tunnel or leads to containers", "10.88.0.1": "podman0 is a tunnel or leads to containers",
      "172.17.0.1": "docker0 is a tunnel or leads to containers", "172.18.0.1": "br-0123456789ab is a tunnel or leads to containers",
      "203.0.113.1": "wg0 is a tunnel or leads to containers", "10.14.0.1": "zt0p1 is a tunnel or leads to containers"}),
    ("addresses of the bundle on other devices", LAN, [WAN, ("eth3", "10.0.55.1/32"), ("eth4", "10.14.0.5/30")], set(),
     ["198.51.100.1"], {"10.0.55.1": "inside an address of zt0", "10.14.0.5": "inside the transit of zt0"}),
    ("an address in the remote's LAN", LAN, [WAN, ("eth3", "192.168.2.9/24")], {"eth0", "eth3"},
     ["198.51.100.1"], {"192.168.2.9": "inside prefix 192.168.2.0/24 of remote R2"}),
    ("an underlay inside a wide prefix of a remote", EXAMPLE + "remote R2 prefix 10.0.0.0/8", [("eth0", "10.9.8.7/24")], {"eth0"},
     ["10.9.8.7"], {}),
    ("a full tunnel", EXAMPLE + "remote R2 prefix 0.0.0.0/0", [WAN, LAN1], {"eth0"}, ["198.51.100.1"], {"192.168.1.1": NO_DEFAULT}),
    ("what a telephone has for IPv4", LAN, [("eth0", "192.0.0.4/32"), WAN6], {"eth0"}, ["2001:db8:0:1::1"], {"192.0.0.4": "private"}),
    ("addresses that a device gives up soon", LAN,
     [WAN6, ("eth0", "2001:db8:0:1::a1/64", "temporary"), ("eth0", "2001:db8:0:9::1/64", "deprecated"), ("eth0", "198.51.100.9/24", "deprecated"), WAN],
     {"eth0"}, ["2001:db8:0:1::1", "198.51.100.1"],
     {"2001:db8:0:1::a1": "temporary", "2001:db8:0:9::1": "deprecated", "198.51.100.9": "deprecated"}),
    ("nothing that stays on that device in that family", LAN,
     [WAN, ("eth2", "2001:db8:2::1/64"), ("eth0", "fd00:1::1/64"), ("eth0", "2001:db8:0:1::a1/64", "temporary")], {"eth0", "eth2"},
     ["198.51.100.1", "2001:db8:2::1", "2001:db8:0:1::a1"], {"fd00:1::1": "private"}),
    ("an address of lo beside uplinks", LAN, [WAN, LAN1, ("lo", "192.0.2.1/32"), ("lo", "2001:db8:9::1/128")], {"eth0"},
     ["198.51.100.1", "192.0.2.1", "2001:db8:9::1"], {"192.168.1.1": NO_DEFAULT}),
    ("an address of a dummy alone", LAN, [("dum0", "192.0.2.1/32")], {"eth0"}, ["192.0.2.1"], {}),
    ("a private address of lo beside a public one", LAN, [WAN, ("lo", "10.9.8.7/32")], {"eth0"}, ["198.51.100.1"], {"10.9.8.7": "private"}),
    ("a private address of lo alone", LAN, [("lo", "10.9.8.7/32")], {"eth0"}, ["10.9.8.7"], {}),
    ("addresses of the bundle on a dummy", LAN, [("dum0", "10.0.55.1/32"), ("dum0", "192.0.2.1/32")], {"eth0"},
     ["192.0.2.1"], {"10.0.55.1": "inside an address of zt0"}),
    ("a device that is not known", LAN, [WAN, ("", "203.0.113.9/32")], set(), ["198.51.100.1", "203.0.113.9"], {}),
]  # fmt: skip


@pytest.mark.parametrize(("_what", "text", "have", "uplinks", "told", "left_out"), ROUTERS, ids=[row[0] for row in ROUTERS])
def test_what_is_told(_what, text, have, uplinks, told, left_out) -> None:
    plan = make_plan(bundle(text), GK41, "/usr/sbin/ztnode")
    found = [Local(device, ipaddress.ip_interface(address), *passing) for device, address, *passing in have]
    looked = verdicts(found, uplinks, [plan])
    assert [str(v.local.interface.ip) for v in looked if v.reason is None] == told
    assert {str(v.local.interface.ip): v.reason for v in looked if v.reason} == left_out


def test_on_request_is_what_could_lead_here_at_all() -> None:
    plan = make_plan(bundle(LAN), GK41, "/usr/sbin/ztnode")
    have = [WAN, LAN1, ("eth0", "10.9.8.7/24"), ("wg0", "10.1.1.1/24"), ("eth3", "192.168.2.9/24")]
    looked = verdicts([Local(device, ipaddress.ip_interface(address)) for device, address in have], {"eth0"}, [plan])
    assert [str(v.local.interface.ip) for v in looked if v.on_request] == ["192.168.1.1", "10.9.8.7"]


def test_bridges_that_people_name_are_no_containers() -> None:
    assert not any(map(is_tunnel, ("br-wan", "br0", "eth0", "bond0", "pppoe0", "br-0123456789abc", "")))


DATA = {
    "schema": 1,
    "bundle": "zt0",
    "instances": [
        {
            "instance": 1, "identity": "89e92ceee5:0:ab", "endpoints": ["198.51.100.1:9993", "[2001:db8:0:1::1]:9993"], "answers": True,
            "left_out": [{"address": "192.168.1.1", "interface": "eth1", "reason": NO_DEFAULT, "on_request": True}],
        },
        {"instance": 2, "identity": "1d20db2f58:0:cd", "endpoints": [], "answers": False, "left_out": []},
    ],
}  # fmt: skip


def test_what_is_printed_can_be_pasted_whole() -> None:
    text = identity_commands(DATA, "R1")
    base = "set interfaces zerotier zt0 remote R1 instance"
    assert text.splitlines() == [
        f"{base} 1 identity 89e92ceee5:0:ab",
        f"{base} 1 endpoint 198.51.100.1:9993",
        f"{base} 1 endpoint [2001:db8:0:1::1]:9993",
        f"{base} 2 identity 1d20db2f58:0:cd",
        "# Instance 2 of zt0 does not answer yet, so its endpoints are missing",
        f"# Left out: 192.168.1.1 ({NO_DEFAULT})",
        "# To include them: show zerotier zt0 identity all",
    ]
    for line in text.splitlines():
        found = split(line)  # as the shell cuts it; bash takes a line that begins with # for a comment, too
        assert found.pipe == "" and (
            found.words == [] if line.startswith("#") else found.words[:3] == ["set", "interfaces", "zerotier"]
        )


def test_nothing_is_said_where_nothing_was_left_out() -> None:
    data = {**DATA, "instances": [{**DATA["instances"][0], "left_out": []}]}  # type: ignore[dict-item]
    assert "#" not in identity_commands(data, "R1")
    assert identity_commands({"bundle": "zt0", "instances": []}, "R1") == "No instance of zt0 has an identity yet."


def test_the_kernel_says_which_addresses_pass() -> None:
    """The flag of a temporary address is that of a secondary one in IPv4."""
    script = [
        "ip link add eth0 type veth peer name peer0; ip link set peer0 up; sysctl -qw net.ipv6.conf.eth0.use_tempaddr=2 net.ipv6.conf.eth0.accept_dad=0",
        "ip link set eth0 up; ip address add 198.51.100.1/24 dev eth0; ip address add 198.51.100.2/24 dev eth0",
        "ip address add 198.51.100.3/24 dev eth0 preferred_lft 0; ip address add 2001:db8:9::1/64 dev eth0 nodad preferred_lft 0",
        "ip address add 2001:db8:1::1/64 dev eth0 nodad mngtmpaddr valid_lft 86400 preferred_lft 3600",
        "ip address add 192.0.2.1/32 dev lo",
        f"exec {sys.executable} -c '{PROGRAM}'",
    ]
    ran = subprocess.run(["unshare", "--net", "sh", "-ec", "\n".join(script)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    (temporary,) = (address for address, why in found.items() if why == "temporary")
    assert ipaddress.ip_address(temporary) in ipaddress.ip_network("2001:db8:1::/64")
    assert {address: why for address, why in found.items() if address != temporary} == {
        "198.51.100.1": "", "198.51.100.2": "", "198.51.100.3": "deprecated", "2001:db8:9::1": "deprecated", "2001:db8:1::1": "",
        "192.0.2.1": "",
    }  # fmt: skip
