"""Hosts of two sites in one Ethernet: a network of a controller is a port of a bridge at each site."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab import Router
from lab.controller import Controller, planet_text
from tests.lab.conftest import ENGINE

SHOW = "/usr/libexec/vyos/op_mode/zerotier.py"
BRIDGE = """
ip link add br0 type bridge
ip link set br0 up
ip address add 172.16.0.10{0}/24 dev br0
"""
# Not 02:…, as the device of network …000001 has: ZeroTier takes such an address for that of a member (Switch.cpp).
HOST = """
ip netns add host
ip link add host0 type veth peer name eth0 netns host
ip -n host link set eth0 address 06:00:00:00:00:0{0} up
ip -n host address add 172.16.0.{0}/24 dev eth0
ip -n host address add 2001:db8:16::{0}/64 dev eth0 nodad
ip link set host0 master br0 up
"""


@pytest.fixture(scope="module", autouse=True)
def running(two: list[Router], made: Controller) -> Iterator[None]:
    """The controller with a network; what the routers have of hosts and bridges goes in the end."""
    made.start()
    made.add_network(network(made))
    yield
    for router in two:
        router.run(["sh", "-c", "ip link del host0; ip netns del host; ip link del br0"], check=False)


def network(found: Controller) -> str:
    return f"{found.address}000001"


def raw(router: Router) -> dict[str, Any]:
    return dict(json.loads(router.run([SHOW, "show_bundle", "--bundle", "zt0", "--raw"]).stdout))


def is_port(router: Router) -> bool:
    entry = raw(router)
    return bool(entry["bridges"][0]["joined"])


def reached(router: Router, address: str, size: int) -> bool:
    """Whether a host behind a router has an echo of a packet of ``size`` bytes, which may not be cut up."""
    payload = size - (48 if ":" in address else 28)
    command = ["ip", "netns", "exec", "host", "ping", "-c1", "-W1", "-Mdo", f"-s{payload}", address]
    return router.run(command, check=False).returncode == 0


def both_ways(two: list[Router], size: int = 1500) -> None:
    for router, far in (two, two[::-1]):
        for address in (f"172.16.0.{far.number}", f"2001:db8:16::{far.number}"):
            # zerotier-one's controller tells the others of a new bridge when they ask for their configuration again.
            router.wait(lambda r=router, a=address: reached(r, a, size), timeout=150, what=f"an echo of {address}")


def test_hosts_are_in_one_ethernet(two: list[Router], made: Controller) -> None:
    base = "set interfaces zerotier zt0"
    lines = [
        "instances 1", f"network-id {network(made)}", f"network {network(made)} bridge br0", f"planet {planet_text(made)}",
        f"engine {Path(ENGINE).name}",
    ]  # fmt: skip
    r1 = two[0]
    for router in two:
        answer = router.must_configure("\n".join(f"{base} {line}" for line in lines))
        assert "bridge br0: the interface does not exist yet" in " ".join(answer.output.split())
        router.run(["sh", "-ec", (BRIDGE + HOST).format(router.number)])
        router.wait(lambda r=router: raw(r)["instances"][0]["network_state"] == "unauthorized", timeout=60, what="a member")
        made.authorize(network(made), raw(router)["instances"][0]["node"])
        router.wait(lambda r=router: is_port(r), timeout=60, what="a port of the bridge")

    # Members alone may send from their own addresses only; the router knows and says whom to ask.
    node = raw(r1)["instances"][0]["node"]
    r1.wait(
        lambda: any(f"allow bridging for member {node}" in w for w in raw(r1)["warnings"]),
        what="the sentence about the controller",
    )
    assert not reached(r1, "172.16.0.2", 100)

    for router in two:
        made.allow_bridging(network(made), raw(router)["instances"][0]["node"])
    both_ways(two)
    for router, far in (two, two[::-1]):
        seen = router.json(["ip", "-n", "host", "-j", "neigh", "show", f"172.16.0.{far.number}"])
        assert seen[0]["lladdr"] == f"06:00:00:00:00:0{far.number}", seen
        # Its own Ethernet is no underlay.
        listening = router.run(["ss", "-Hlun", "sport", "=", ":9993"]).stdout
        assert router.underlay4 in listening and f"172.16.0.10{router.number}" not in listening, listening
        entry = raw(router)
        assert (entry["state"], entry["warnings"]) == ("up", []), entry["warnings"]


def test_it_is_a_port_again_after_its_instance_died(two: list[Router], made: Controller) -> None:
    r1 = two[0]
    pid = raw(r1)["instances"][0]["pid"]
    r1.run(["kill", "-KILL", str(pid)])
    r1.wait(lambda: raw(r1)["instances"][0]["pid"] not in (None, pid), what="another process")
    r1.wait(lambda: is_port(r1), timeout=30, what="a port of the bridge")
    both_ways(two)


def test_it_is_a_port_again_whatever_becomes_of_the_bridge(two: list[Router], made: Controller) -> None:
    r1 = two[0]
    r1.run(["ip", "link", "set", "zt0p1", "nomaster"])
    r1.wait(lambda: is_port(r1), what="a port of the bridge")
    assert "zt0p1 was taken out of bridge br0" in r1.wait(lambda: r1.journal("zerotier-pathd"), what="the journal")

    r1.run(["ip", "link", "del", "br0"])
    r1.wait(lambda: raw(r1)["bridges"][0]["joined"] is False, what="no bridge")
    r1.run(["sh", "-ec", f"{BRIDGE.format(1)}ip link set host0 master br0"])
    r1.wait(lambda: is_port(r1), what="a port of the new bridge")
    both_ways(two)


def test_without_the_line_it_is_no_port(two: list[Router], made: Controller) -> None:
    r1 = two[0]
    node_network = network(made)
    r1.must_configure(
        f"delete interfaces zerotier zt0 network {node_network}\n"
        f"set interfaces zerotier zt0 network {node_network} address 172.16.1.1/24"
    )
    r1.wait(lambda: "master" not in r1.json(["ip", "-j", "link", "show", "zt0p1"])[0], what="a device without a bridge")
    r1.wait(lambda: r1.json(["ip", "-j", "link", "show", "zt0p1"])[0]["mtu"] == 1394, what="the MTU of a routed device")
