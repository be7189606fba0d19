"""The commands that are printed make of an empty router what the daemon makes of it: both are run, in namespaces."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from zerotier_multi.cpu import Cpu
from zerotier_multi.netlink.links import Address, Neighbour
from zerotier_multi.netlink.nexthops import NextHop, NextHopGroup, Stray
from zerotier_multi.netlink.routes import Route
from zerotier_multi.netlink.rtnl import Rtnl
from zerotier_multi.netlink.rules import Rule
from zerotier_multi.netlink.state import observe
from zerotier_multi.op.commands import plan_data
from zerotier_multi.pathd.kernel.actions import Action, AddDevice, DeleteDevice, Put, PutRoute, Remove, SetDevice, actions
from zerotier_multi.pathd.kernel.apply import carry_out
from zerotier_multi.pathd.kernel.commands import Names, describe
from zerotier_multi.pathd.kernel.desired import Desired, desired_state
from zerotier_multi.pathd.kernel.sysctls import router_wide
from zerotier_multi.pathd.routing import full_tunnel
from zerotier_multi.plan import Plan, from_json, to_json
from zerotier_multi.planner import make_plan

# Everything that a plan can ask of the kernel, beside the example.
MUCH = """transit prefix 2001:db8:14::/124
remote R2 prefix 2001:db8:55::2/128
remote R2 prefix 0.0.0.0/0
balance all-paths-down keep
mtu 1394
"""
LOOK = [
    "ip -d -N nexthop", "ip -N rule", "ip -6 -N rule", "ip -o -N addr show", "ip -d -N neigh show nud permanent",
    "ip -d -N route show table all", "ip -6 -d -N route show table all",
    r"ip -o -N link show | sed 's/link.[^ ]* [^ ]* brd//'", "sysctl net.ipv6.conf.zt0.addr_gen_mode",
    "sysctl net.ipv4.fib_multipath_hash_policy net.ipv6.fib_multipath_hash_policy net.ipv4.conf.zt0p1 net.ipv6.conf.zt0p1.accept_ra",
]  # fmt: skip


def plan(text: str) -> Plan:
    from tests.configuration import EXAMPLE, bundle  # it takes a second, and the namespaces do without

    made = make_plan(bundle(EXAMPLE + text), tuple(Cpu(n, n) for n in range(4)), "/usr/sbin/ztnode")
    lladdrs = (replace(path, lladdr=f"02:00:00:00:00:{n:02x}") for n, path in enumerate(made.paths))
    return replace(made, paths=tuple(lladdrs), description="it's mine")


def want(made: Plan, rtnl: Rtnl) -> tuple[Desired, list[Action]]:
    have = observe(rtnl)
    wanted = desired_state([made], have, (), True, {}, 0.0)
    full_tunnel.add(wanted, [made], have)
    return wanted, actions(wanted, have)


def by_the_daemon(made: Plan) -> None:
    """Do as the daemon does."""
    with Rtnl() as rtnl:
        wanted, todo = want(made, rtnl)
        while todo:
            for action in todo:
                done = carry_out(rtnl, [action], observe(rtnl))
                assert not done.problems + done.notes, done
            wanted, todo = want(made, rtnl)
    for name, value in {**router_wide([made]), **wanted.sysctls}.items():
        if (setting := Path("/proc/sys", name)).exists():
            setting.write_text(value)


def by_hand(commands: list[str]) -> None:
    """Type what is printed, but for settings that the kernel does not have."""
    run([c for c in commands if not c.startswith("systemctl") and (not c.startswith("sysctl") or os.path.exists(_setting(c)))])


def _setting(command: str) -> str:
    return "/proc/sys/" + command.split()[2].partition("=")[0].replace(".", "/")


def run(commands: list[str]) -> None:
    subprocess.run(["sh", "-e"], input="\n".join(commands), text=True, check=True, stdout=sys.stderr)


def in_a_namespace(what: str) -> dict[str, list[str]]:
    """Run this file as a program on an empty router that has nothing but the devices of the instances."""
    argv = [
        "unshare",
        "--net",
        "--mount",
        "sh",
        "-ec",
        "mount -t sysfs none /sys && exec \"$@\"",
        "-",
        sys.executable,
        "-m",
        "tests.unit.test_commands",
    ]
    ran = subprocess.run(argv, input=what, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    found: dict[str, list[str]] = json.loads(ran.stdout)
    return found


def has(kind: str) -> bool:
    """Whether the kernel has a kind of devices."""
    table = " table 1" if kind == "vrf" else ""
    return not subprocess.run(["unshare", "--net", "sh", "-c", f"ip link add x type {kind}{table}"], capture_output=True).returncode


@pytest.mark.parametrize("vrf", ["", "vrf blue"] if has("vrf") else [""])  # not every kernel has VRFs
def test_the_printed_commands_do_what_the_daemon_does(vrf: str) -> None:
    made = plan(MUCH + vrf)
    wanted = to_json(made)
    daemon = in_a_namespace(json.dumps({"plan": wanted, "by": "daemon"}))
    assert any("nhid 2046820480" in line for line in daemon["seen"]) and not daemon["left"]
    told = [command for section in plan_data(made)["sections"] for command in section["commands"]]
    if not has("dummy"):
        told = [command.replace("type dummy", "type bridge") for command in told]
    logged = [command for line in daemon["logged"] for command in line.split(" && ")]
    assert sorted(logged) == sorted(command for command in told if not command.startswith("sys"))
    hand = in_a_namespace(json.dumps({"plan": wanted, "by": "hand", "commands": told}))
    assert hand["seen"] == daemon["seen"]
    assert not hand["left"], "the daemon would find something to do"


@pytest.mark.parametrize(
    ("action", "command"),
    [
        (AddDevice("zt0"), "ip link add zt0 group 122 type dummy && ip link set zt0 addrgenmode none"),
        (SetDevice("zt0", 3, False, None, 0, "it's"), "ip link set zt0 down nomaster alias 'it'\"'\"'s'"),
        (DeleteDevice("zt0", 3), "ip link del zt0"),
        (Remove(Address(3, "10.0.55.1/32")), "ip address del 10.0.55.1/32 dev zt0"),
        (Remove(Neighbour(9, "10.14.0.2", "02:00:00:00:00:01")), "ip neigh del 10.14.0.2 dev if9"),
        (Remove(NextHop(5, 3, "10.14.0.2")), "ip nexthop del id 5"),
        (Remove(Stray(5, "a blackhole", False, False)), "ip nexthop del id 5  # a blackhole"),
        (Remove(Rule(4, 7, "192.0.2.1", 9993, 254, True)),
         "ip -4 rule del pref 7 from 192.0.2.1 ipproto udp sport 9993 lookup 254 suppress_prefixlength 0 protocol 122"),
        (PutRoute(Route("0.0.0.0/0", 0, None, 9, 0, 3, "192.0.2.1"), True), "ip route replace 0.0.0.0/0 via 192.0.2.1 dev zt0 onlink scope global table 9 proto 122"),
        (Remove(Route("10.9.0.0/16", 0, None, 100, 5, odd="blackhole")), "ip route del 10.9.0.0/16 vrf blue metric 5 proto 122"),
        (Put(NextHopGroup(8, (5, 6), 128, 10, (3, 1), 0.05)),
         "ip nexthop replace id 8 group 5,3/6 type resilient buckets 128 idle_timer 10 unbalanced_timer 0.05 proto 122"),
    ],
)  # fmt: skip
def test_one_action(action: Action, command: str) -> None:
    assert describe(action, Names({3: "zt0"}, {100: "blue"})) == command


def _program() -> None:
    asked = json.load(sys.stdin)
    made, logged = from_json(asked["plan"]), io.StringIO()
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=logged)
    keep = [_tap(i.device) for i in made.instances]
    first = [
        f"ip link set {i.device} addrgenmode none address 02:00:00:00:02:{n:02x} mtu 2800" for n, i in enumerate(made.instances)
    ]
    if made.vrf:
        first.append(
            f"ip link add {made.vrf} type vrf table 100; ip link set {made.vrf} up addrgenmode none address 02:00:00:00:01:00"
        )
    run(["ip link set lo up", *first])
    if asked["by"] == "daemon":
        by_the_daemon(made)
    else:
        by_hand(asked["commands"])
    seen = sorted(subprocess.run(["sh"], input="\n".join(LOOK), capture_output=True, text=True).stdout.splitlines())
    with Rtnl() as rtnl:
        _wanted, left = want(made, rtnl)
    print(json.dumps({"seen": seen, "left": list(map(str, left)), "logged": logged.getvalue().splitlines()}))
    del keep


def _tap(name: str) -> object:
    """A TAP with an engine behind it, so that it has a carrier."""
    import fcntl
    import struct

    tun = open("/dev/net/tun", "r+b", buffering=0)  # noqa: SIM115
    fcntl.ioctl(tun, 0x400454CA, struct.pack("16sH22x", name.encode(), 0x0002 | 0x1000))  # TUNSETIFF, IFF_TAP | IFF_NO_PI
    return tun


if __name__ == "__main__":
    _program()
