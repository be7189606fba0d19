"""FRR beside our routes: it shows and announces the prefixes, and its own backups wait until a remote is out of reach."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from lab import Lab, Router
from lab.scenario import loopback, loopback6, wait_paths

BACKUP = ("ip route {four}/32 198.51.100.77 200", "ipv6 route {six}/128 2001:db8:0:1::77 200")


@pytest.fixture(scope="module")
def pair(lab: Lab, connected: Callable[..., None]) -> list[Router]:
    routers = lab.add_routers(["R1", "R2"])
    connected(routers, 2, transit=("10.14.0.0/28", "2001:db8:14::/124"), families=(4, 6))
    return routers


def vtysh(router: Router, *commands: str) -> str:
    return router.run(["vtysh", *(word for command in commands for word in ("-c", command))]).stdout


def seen(router: Router, far: Router) -> list[dict[str, Any]]:
    """What FRR has selected for the loopbacks of the other router, IPv4 first."""
    found = []
    for prefix, command in ((f"{loopback(far)}/32", "show ip route"), (f"{loopback6(far)}/128", "show ipv6 route")):
        entries = json.loads(vtysh(router, f"{command} {prefix} json")).get(prefix, [])
        found += [entry for entry in entries if entry.get("selected")]
    return found


def way(router: Router, far: Router) -> list[str]:
    """The devices that the kernel takes to the loopbacks of the other router."""
    return [router.json(["ip", "-j", "route", "get", target])[0]["dev"] for target in (loopback(far), loopback6(far))]


def test_frr_shows_the_prefixes_of_a_remote(pair: list[Router]) -> None:
    r1, r2 = pair
    entries = r1.wait(lambda: len(e := seen(r1, r2)) == 2 and e, what="both prefixes in FRR")
    for entry in entries:
        assert entry["protocol"] == "kernel" and entry["distance"] == 0
        assert [hop["interfaceName"] for hop in entry["nexthops"]] == ["zt0"] and entry["nexthops"][0]["active"]


def test_bgp_announces_them(pair: list[Router]) -> None:
    r1, r2 = pair
    r1.run(["sh", "-c", "sed -i s/bgpd=no/bgpd=yes/ /etc/frr/daemons && systemctl restart frr"])
    r1.wait(lambda: "bgpd" in vtysh(r1, "show daemons"), what="bgpd")
    vtysh(r1, "configure", "router bgp 64512", "bgp router-id 192.0.2.1", "address-family ipv4 unicast", "redistribute kernel")
    prefix = f"{loopback(r2)}/32"
    r1.wait(lambda: prefix in json.loads(vtysh(r1, "show bgp ipv4 unicast json")).get("routes", {}), what=f"{prefix} in BGP")
    vtysh(r1, "configure", "no router bgp 64512")


def test_a_backup_waits_for_the_last_path(pair: list[Router]) -> None:
    r1, r2 = pair
    lines = [line.format(four=loopback(r2), six=loopback6(r2)) for line in BACKUP]
    vtysh(r1, "configure", *lines)
    assert [entry["protocol"] for entry in seen(r1, r2)] == ["kernel", "kernel"]
    assert all(device.startswith("zt0p") for device in way(r1, r2))
    r2.run(["systemctl", "stop", "zerotier-pathd", "zerotier-multi@zt0-1", "zerotier-multi@zt0-2"])
    r1.wait(lambda: way(r1, r2) == ["eth0", "eth0"], what="the way over the backups")
    assert [entry["protocol"] for entry in seen(r1, r2)] == ["static", "static"]
    r2.run(["systemctl", "start", "zerotier-multi@zt0-1", "zerotier-multi@zt0-2", "zerotier-pathd"])
    wait_paths(pair, 4)
    r1.wait(lambda: all(device.startswith("zt0p") for device in way(r1, r2)), what="the way over the paths")
    r1.wait(lambda: [e["protocol"] for e in seen(r1, r2)] == ["kernel", "kernel"], what="the routes in FRR")
    vtysh(r1, "configure", *(f"no {line}" for line in lines))


def sunk(router: Router) -> list[str]:
    """What ``show zerotier zt0`` says of routes that the bundle drops."""
    shown = router.json(["/usr/libexec/vyos/op_mode/zerotier.py", "show_bundle", "--bundle", "zt0", "--raw"])
    return [warning for warning in shown["warnings"] if " drops packets for " in warning]


def test_a_route_over_the_bundle_itself_is_told(pair: list[Router]) -> None:
    """As it would be written for a device of WireGuard."""
    r1 = pair[0]
    lines = ["ip route 198.18.9.0/24 zt0", "ipv6 route 2001:db8:9::/48 zt0"]
    assert sunk(r1) == []
    vtysh(r1, "configure", *lines)
    told = "zt0 drops packets for 198.18.9.0/24 and 1 other prefix: another program routes them to the device zt0 itself"
    r1.wait(lambda: any(warning.startswith(told) for warning in sunk(r1)), what="a warning of both routes")
    vtysh(r1, "configure", *(f"no {line}" for line in lines))
    r1.wait(lambda: not sunk(r1), what="an end of the warning")
