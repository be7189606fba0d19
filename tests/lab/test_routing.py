"""docs/routing.md as it stands there: three routers, four paths between any two, and FRR instead of prefixes of remotes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import Lab, Router
from lab.faults import port
from lab.flows import Flows
from lab.lan import Lan
from lab.scenario import introduce, paths_up, status, wait_paths
from tests.lab.conftest import ENGINE, ROOT

DOCUMENT = ROOT / "docs/routing.md"
INSTANCES, SITES = 4, 3
MEMBERS = {f"zt0p{k}" for k in range(1, INSTANCES + 1)}
DETECTION = 0.9  # seconds that BFD needs, as configured
CUT = """table inet cut {{
chain out {{ type filter hook output priority 0; udp sport {0} drop; }}
chain in {{ type filter hook input priority 0; udp dport {0} drop; }}
}}
"""
HOST = """
ip netns add host
ip link add host0 type veth peer name eth0 netns host
ip -n host link set eth0 address 02:00:00:00:00:0{0} up
ip -n host address add 172.16.0.{0}/24 dev eth0
ip link set host0 master br0 up
"""


def block(heading: str, first: str, site: int) -> str:
    """A block of the document below a heading, which is for site 1, as another site has it."""
    text = DOCUMENT.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    found = next(body for body in re.findall(r"^```\n(.*?)^```$", text, re.M | re.S) if body.startswith(first))
    others = [n for n in range(1, SITES + 1) if n != site]
    turned = dict(zip(range(1, SITES + 1), [site, *others], strict=True))

    def turn(match: re.Match[str]) -> str:
        subnet, number = divmod(int(match[2]), 8) if match[1] == "10.14.0." else (0, int(match[2]))
        return f"{match[1]}{subnet * 8 + turned.get(number, number)}"

    return re.sub(r"\b(10\.14\.0\.|10\.0\.55\.|192\.168\.|6500|R|site )(\d+)\b(?!/27)", turn, found)


def vtysh(router: Router, lines: str) -> str:
    return router.run(["vtysh"], text_input=lines).stdout


def devices(router: Router, lan: Lan) -> set[str]:
    """The devices of FRR's route to a LAN, in the kernel."""
    routes = router.json(["ip", "-j", "route", "show", lan.prefix]) or []
    return {hop["dev"] for route in routes for hop in route.get("nexthops", [route])}


def wait_devices(sites: tuple[list[Router], list[Lan]], wanted: set[str], timeout: float = 40.0) -> None:
    """Wait until R1 and R2 reach each other's LAN over these devices alone."""
    (r1, r2, _r3), (lan1, lan2, _lan3) = sites
    r1.wait(lambda: devices(r1, lan2) == wanted, timeout=timeout, what=f"the route over {sorted(wanted)}")
    r2.wait(lambda: devices(r2, lan1) == wanted, timeout=timeout, what=f"the route over {sorted(wanted)}")


@pytest.fixture(scope="module")
def sites(lab: Lab) -> Iterator[tuple[list[Router], list[Lan]]]:
    routers = lab.add_routers([f"R{n}" for n in range(1, SITES + 1)])
    lans = [Lan(router) for router in routers]
    for router in routers:
        engine = f"set interfaces zerotier zt0 engine {Path(ENGINE).name}\n"
        router.must_configure(engine + block("Three routers", "set ", router.number))
        router.run(["sh", "-c", "sed -i -E 's/^(ospfd|bfdd|bgpd)=no/\\1=yes/' /etc/frr/daemons && systemctl restart frr"])
    introduce(routers, INSTANCES)
    wait_paths(routers, INSTANCES * (SITES - 1))
    yield routers, lans


def wait_bfd(routers: list[Router]) -> None:
    """Wait until BFD watches every path: whoever has a route may not have it watched yet, and finds its end much later."""
    for router in routers:
        router.wait(
            lambda r=router: len(re.findall(r" up\s*$", vtysh(r, "show bfd peers brief\n"), re.M)) == INSTANCES * (SITES - 1),
            timeout=40,
            what="BFD",
        )


def routed(sites: tuple[list[Router], list[Lan]], heading: str) -> None:
    """Paste the document's lines into FRR, and wait until every router reaches every LAN over all its member devices."""
    routers, lans = sites
    for router in routers:
        refused = [line for line in vtysh(router, block(heading, "configure", router.number)).splitlines() if "%" in line]
        assert not refused, refused
    for router in routers:
        for lan in lans:
            if lan.router is not router:
                router.wait(lambda r=router, to=lan: devices(r, to) == MEMBERS, timeout=60, what=f"{heading} to {lan.prefix}")


def test_ospf_over_all_paths(sites: tuple[list[Router], list[Lan]]) -> None:
    routers, lans = sites
    routed(sites, "OSPF")
    lans[0].reach(lans[1].address)
    lans[1].reach(lans[2].address)
    assert not any(status(router)["problems"] for router in routers)


def test_a_cut_path_is_left_and_the_others_are_untouched(sites: tuple[list[Router], list[Lan]]) -> None:
    (r1, r2, r3), (lan1, lan2, _lan3) = sites
    wait_bfd([r1, r2])
    flows = Flows(r1, r2, addresses=(lan1.gateway, lan2.gateway))
    try:
        r1.run(["nft", "-f", "-"], text_input=CUT.format(port(1)))
        wait_devices(sites, MEMBERS - {"zt0p1"})
        seen = flows.end()
    finally:
        flows.kill()
    hit = [flow.gap for flow, way in zip(seen, flows.devices, strict=True) if "zt0p1" in way]
    others = [flow.gap for flow, way in zip(seen, flows.devices, strict=True) if "zt0p1" not in way]
    assert hit and others
    assert max(others) < DETECTION / 2, others
    assert max(hit) < 10, hit
    r1.run(["nft", "delete", "table", "inet", "cut"])
    wait_devices(sites, MEMBERS)
    for router in (r1, r2, r3):
        router.wait(lambda r=router: paths_up(r) == INSTANCES * 2, timeout=30, what="all paths up")


def test_bgp_over_all_paths_leaves_a_cut_one(sites: tuple[list[Router], list[Lan]]) -> None:
    routers, lans = sites
    for router in routers:
        vtysh(router, "configure terminal\nno router ospf\n")
    for router in routers:
        router.wait(lambda r=router: not any(devices(r, lan) & MEMBERS for lan in lans), what="no routes of OSPF")
    routed(sites, "BGP")
    lans[1].reach(lans[2].address)
    wait_bfd(routers)
    routers[0].run(["nft", "-f", "-"], text_input=CUT.format(port(1)))
    wait_devices(sites, MEMBERS - {"zt0p1"}, timeout=10)
    lans[0].reach(lans[1].address)
    routers[0].run(["nft", "delete", "table", "inet", "cut"])


def test_layer_2_between_hosts_behind_two_bridges(sites: tuple[list[Router], list[Lan]]) -> None:
    routers, _lans = sites
    r1, r2, _r3 = routers
    for router, far in ((r1, r2), (r2, r1)):
        far_loopback = f"10.0.55.{far.number}"
        router.wait(lambda r=router, to=far_loopback: r.json(["ip", "-j", "route", "show", to]), what=f"a route to {far_loopback}")
        router.run(["sh", "-ec", block("Layer 2 across sites", "ip link", router.number)])
        router.run(["sh", "-ec", HOST.format(router.number)])
    # The larger ones do not fit a path, which the bridge tells the host.
    for size in (56, 1472):
        command = ["ip", "netns", "exec", "host", "ping", "-c1", "-W1", f"-s{size}", f"172.16.0.{r2.number}"]
        r1.wait(lambda c=command: r1.run(c, check=False).returncode == 0, what=f"an echo of {size} bytes")
    seen = r1.json(["ip", "-n", "host", "-j", "neigh", "show", f"172.16.0.{r2.number}"])
    assert seen[0]["lladdr"] == "02:00:00:00:00:02", seen


def test_a_member_device_is_taken_out_of_a_bridge(sites: tuple[list[Router], list[Lan]]) -> None:
    r1 = sites[0][0]
    r1.run(["ip", "link", "set", "zt0p2", "master", "br0"])
    r1.wait(lambda: "master" not in r1.json(["ip", "-j", "link", "show", "zt0p2"])[0], what="zt0p2 without a bridge")
    r1.wait(lambda: "made a port of bridge br0" in r1.journal("zerotier-pathd"), what="the reason in the journal")
