"""All traffic of a site through the bundle: R1 has its underlay by DHCP, R2 is the way to the Internet, which both routers NAT to."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab import Lab, Router
from lab.dhcp import DhcpServer, leased, leases
from lab.lan import Lan
from lab.process import wait
from lab.scenario import NETWORK, introduce, member_bytes, paths_up, reach
from tests.lab.conftest import ENGINE

SERVER4, SERVER6 = "192.0.2.80", "2001:db8:80::80"
P = "set interfaces zerotier zt0"
TABLE = "2046820352"
GATEWAY6 = "2001:db8:0:1::fe"

ANSWER = """
import socket, threading
listener = socket.create_server(("::", 7000), family=socket.AF_INET6, dualstack_ipv6=True)
print("ready", flush=True)
while True:
    client, peer = listener.accept()
    client.sendall(peer[0].removeprefix("::ffff:").encode())
    client.close()
"""
ASK = "import socket, sys; print(socket.create_connection((sys.argv[1], 7000), timeout=2).recv(100).decode())"
MASQUERADE = """
table inet nat {
    chain postrouting { type nat hook postrouting priority srcnat; oifname "eth0" masquerade; }
}
"""


@dataclass
class Site:
    """R1 with a host behind it, R2, and what stands for the Internet: the underlay's namespace with a server in it."""

    lab: Lab
    r1: Router
    r2: Router
    lan: Lan
    lan2: Lan
    dhcp: DhcpServer

    def seen(self, target: str) -> str:
        """The address under which the server sees R1's host; empty where they do not reach each other."""
        return self.lan.run(["/usr/bin/python3", "-c", ASK, target], check=False).stdout.strip()

    def wait_seen(self, four: str, six: str) -> None:
        for target, expected in ((SERVER4, four), (SERVER6, six)):
            self.lan.wait(
                lambda t=target, e=expected: self.seen(t) == e, timeout=40, what=f"{target} to see {expected or 'nobody'}"
            )

    def internet(self, command: list[str], check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.lab.underlay.run(command, check=check)  # type: ignore[arg-type]

    def dev(self, *destination: str) -> str:
        """The device by which R1 itself would send."""
        found = self.r1.json(["ip", "-j", "route", "get", *destination], check=False)
        return str(found[0].get("dev", "")) if found else ""


def frr(router: Router, line: str) -> None:
    router.run(["vtysh", "-c", "configure terminal", "-c", line])


def bundle(router: Router, other: Router, *prefixes: str) -> str:
    lines = [
        "instances 2", f"network-id {NETWORK}", "controller-free", f"engine {Path(ENGINE).name}", "transit prefix 10.14.0.0/29",
        "transit prefix 2001:db8:14::/125", f"transit site {router.number}", f"address 10.0.55.{router.number}/32",
        f"address 2001:db8:55::{router.number}/128", *(f"remote {other.name} prefix {prefix}" for prefix in prefixes),
    ]  # fmt: skip
    return "".join(f"{P} {line}\n" for line in lines)


@pytest.fixture(scope="module")
def site(lab: Lab) -> Iterator[Site]:
    r1, r2 = lab.add_routers(["R1", "R2"])
    underlay = lab.underlay
    for command in (
        "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1",
        "ip address add 203.0.113.254/24 dev br0",
        "ip address add 2001:db8:0:1::fe/64 dev br0 nodad",
        "ip address add 2001:db8:0:2::fe/64 dev br0 nodad",
        f"ip address add {SERVER4}/32 dev lo",
        f"ip address add {SERVER6}/128 dev lo",
    ):
        underlay.run(command.split())
    underlay.renumber(r2, 4, "203.0.113.2")
    underlay.renumber(r2, 6, "2001:db8:0:2::2")
    r2.run(["ip", "route", "add", "default", "via", "203.0.113.254"])
    r2.run(["ip", "route", "add", "default", "via", "2001:db8:0:2::fe"])
    # R1's IPv6 default route is FRR's, as on VyOS: one over a next-hop object, of which the kernel tells no more than this.
    r1.run(["sysctl", "-qw", "net.ipv4.nexthop_compat_mode=0"])
    frr(r1, f"ipv6 route ::/0 {GATEWAY6}")
    for router in (r1, r2):
        router.run(["nft", "-f", "-"], text_input=MASQUERADE)
        router.run(["sysctl", "-qw", "net.ipv4.conf.eth0.rp_filter=1"])
    namespace = ["ip", "netns", "exec", underlay.namespace]
    server = subprocess.Popen(
        [*namespace, "setpriv", "--pdeathsig", "KILL", "/usr/bin/python3", "-c", ANSWER], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout and server.stdout.readline() == "ready\n"
        with underlay.dhcp(r1, renew=5) as dhcp:
            made = Site(lab, r1, r2, Lan(r1), Lan(r2), dhcp)
            yield made
            made.dhcp.close()
    finally:
        server.kill()
        server.wait()


def test_all_traffic_takes_the_tunnel(site: Site) -> None:
    r1, r2 = site.r1, site.r2
    site.wait_seen(r1.underlay4, r1.underlay6)
    r1.must_configure(bundle(r1, r2, "0.0.0.0/0", "::/0", site.lan2.prefix))
    r2.must_configure(bundle(r2, r1, "10.0.55.1/32", "2001:db8:55::1/128", site.lan.prefix, site.lan.prefix6))
    introduce([r1, r2], 2)
    site.wait_seen("203.0.113.2", "2001:db8:0:2::2")
    for router in (r1, r2):
        router.wait(lambda r=router: paths_up(r) == 4, what="4 paths up")
    assert status_problems(r1) == []
    # Specific prefixes as ever, the underlay and what is connected as before; FRR's view of the default route is the old one.
    site.lan.reach(site.lan2.address)
    assert site.dev(r2.underlay4).startswith("zt0p")
    assert site.dev("198.51.100.254") == "eth0" and site.dev(site.lan.address) == "lan0"
    assert [route["dev"] for route in r1.json(["ip", "-j", "route", "show", "default"])] == ["eth0"]
    for command in ("show ip route 0.0.0.0/0", "show ipv6 route ::/0"):
        seen = r1.run(["vtysh", "-c", command]).stdout
        assert "eth0" in seen and "zt0" not in seen, seen
    assert [route["protocol"] for route in r1.json(["ip", "-6", "-j", "route", "show", "default"])] == ["static"]


def status_problems(router: Router) -> list[str]:
    program = "import json; from zerotier_multi.pathd.control import ask; print(json.dumps(ask({'op': 'status'})['problems']))"
    return list(router.json(["/usr/bin/python3", "-c", program]))


def test_who_comes_in_by_the_underlay_is_answered_there(site: Site) -> None:
    """With strict rp_filter, and an address that is off the link."""
    assert site.r1.read("/proc/sys/net/ipv4/conf/eth0/rp_filter").strip() == "1"
    for source, target in ((SERVER4, site.r1.underlay4), (SERVER6, site.r1.underlay6)):
        done = site.internet(["ping", "-c2", "-i0.2", "-W2", "-I", source, target], check=False)
        assert done.returncode == 0, done.stdout
    assert site.dev(SERVER4, "from", site.r1.underlay4) == "eth0" and site.dev(SERVER6, "from", site.r1.underlay6) == "eth0"


def test_dhcp_renews_on_the_underlay(site: Site) -> None:
    before = leases(site.r1)
    site.r1.wait(lambda: leases(site.r1) > before, timeout=20, what="a lease that was renewed by unicast")
    assert site.dev("192.0.2.67", "ipproto", "17", "sport", "68", "dport", "67") == "eth0"  # a server behind the gateway
    assert site.dev("192.0.2.67", "ipproto", "17", "sport", "5353", "dport", "67").startswith("zt0p")
    site.wait_seen("203.0.113.2", "2001:db8:0:2::2")


def test_a_lease_of_another_address(site: Site) -> None:
    """R1's address is refused at its next renewal: it has none for a moment, no default route either, and then others."""
    r1, old = site.r1, site.r1.underlay4
    site.dhcp.close()
    namespace, prefix = site.lab.underlay.namespace, "198.51.100.0/24"
    hosts = (100, 149) if int(old.rpartition(".")[2]) >= 150 else (150, 199)
    site.dhcp = DhcpServer(namespace, "br0", prefix, "198.51.100.254", renew=5, hosts=hosts)
    r1.wait(lambda: leased(r1, prefix) not in ("", old), timeout=40, what=f"another lease than {old}")
    r1.underlay4 = leased(r1, prefix)
    r1.wait(lambda: f"from {r1.underlay4} lookup main" in r1.run(["ip", "rule"]).stdout, what=f"a rule for {r1.underlay4}")
    assert old not in r1.run(["ip", "rule"]).stdout
    r1.wait(lambda: paths_up(r1) == 4, timeout=40, what="4 paths up from the new address")
    site.wait_seen("203.0.113.2", "2001:db8:0:2::2")
    assert site.internet(["ping", "-c2", "-i0.2", "-W2", "-I", SERVER4, r1.underlay4], check=False).returncode == 0


def test_an_endpoint_inside_a_prefix_does_no_harm(site: Site) -> None:
    """Reached by way of a gateway (both default routes, and a /24 now), on the link (a /32), and not at all."""
    r1 = site.r1
    remote = f"{P} remote R2 prefix"
    r1.must_configure(f"{remote} 203.0.113.0/24\n{remote} 198.51.100.254/32")
    r1.wait(lambda: site.dev("203.0.113.2").startswith("zt0p"), what="the endpoint's route over the bundle")
    before = member_bytes(r1)
    index = r1.read("/sys/class/net/zt0p1/ifindex")
    r1.run(["systemctl", "restart", "zerotier-multi@zt0-1"])
    r1.wait(lambda: r1.run(["cat", "/sys/class/net/zt0p1/ifindex"], check=False).stdout not in ("", index), what="a new zt0p1")
    r1.wait(lambda: paths_up(r1) == 4, timeout=40, what="the paths of the restarted instance")
    reach(r1, "10.0.55.1", "203.0.113.2")
    addresses = peer_addresses(r1)
    assert addresses <= {"203.0.113.2", "2001:db8:0:2::2"}, addresses
    # No other way than the bundle's: no path, and nothing goes round and round.
    r1.run(["ip", "route", "del", "default", "dev", "eth0"])
    frr(r1, f"no ipv6 route ::/0 {GATEWAY6}")
    r1.wait(lambda: paths_up(r1) == 0, timeout=40, what="no path left")
    sent = sum(member_bytes(r1).values()) - sum(before.values())
    assert sent < 1_000_000, sent
    r1.run(["ip", "route", "add", "default", "via", "198.51.100.254"])
    frr(r1, f"ipv6 route ::/0 {GATEWAY6}")
    r1.must_configure(f"{remote} 203.0.113.0/24\n{remote} 198.51.100.254/32".replace("set ", "delete "))
    site.wait_seen("203.0.113.2", "2001:db8:0:2::2")


def peer_addresses(router: Router) -> set[str]:
    """Where the instances of a router find those of the other one."""
    program = (
        "import json; from pathlib import Path; from zerotier_multi.ztapi import ZeroTierApi\n"
        "p = [peer for k in (1, 2) for peer in ZeroTierApi(Path(f'/config/zerotier-multi/zt0/{k}'), 9992 + k).peers()]\n"
        "print(json.dumps([path['address'].rpartition('/')[0] for peer in p for path in peer['paths'] if path['active']]))\n"
    )
    return set(router.json(["/usr/bin/python3", "-c", program]))


def test_without_a_path_the_old_default_route_serves(site: Site) -> None:
    site.lab.underlay.down("R2")
    site.wait_seen(site.r1.underlay4, site.r1.underlay6)
    site.lab.underlay.up("R2")
    for family in ("-4", "-6"):  # the link going down took R2's default routes along
        gateway = {"-4": "203.0.113.254", "-6": "2001:db8:0:2::fe"}[family]
        site.r2.run(["ip", family, "route", "replace", "default", "via", gateway])
    site.wait_seen("203.0.113.2", "2001:db8:0:2::2")


def test_without_a_path_nothing_serves_where_routes_are_kept(site: Site) -> None:
    site.r1.must_configure(f"{P} balance all-paths-down keep")
    site.wait_seen("203.0.113.2", "2001:db8:0:2::2")
    site.lab.underlay.down("R2")
    site.r1.wait(lambda: paths_up(site.r1) == 0, what="no path left")
    assert (site.seen(SERVER4), site.seen(SERVER6)) == ("", "")
    # Not even with the devices gone.
    for k in (1, 2):
        site.r1.run(["systemctl", "stop", f"zerotier-multi@zt0-{k}"])
    site.r1.wait(lambda: "zt0p" not in site.r1.run(["ip", "-br", "link"]).stdout, what="no member device left")
    assert (site.seen(SERVER4), site.seen(SERVER6)) == ("", "")
    assert site.dev("198.51.100.254") == "eth0"
    done = [line for line in site.r1.journal("zerotier-pathd").splitlines() if "unreachable" in line]
    assert len(done) == 2, done  # made once for each family, and left as it is
    site.lab.underlay.up("R2")


def test_nothing_is_left_behind(site: Site) -> None:
    site.r1.must_configure("delete interfaces zerotier")
    wait(lambda: site.seen(SERVER4) == site.r1.underlay4, timeout=20, what="the old default route")
    for family in ("-4", "-6"):
        assert "313" not in site.r1.run(["ip", family, "rule"]).stdout
        assert site.r1.run(["ip", family, "route", "show", "table", TABLE], check=False).stdout == ""
