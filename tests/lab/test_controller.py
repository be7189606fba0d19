"""Two routers on a controller's network: what is said while they wait for it, and that traffic passes then."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lab import Router
from lab.controller import Controller, planet_text
from lab.scenario import loopback, paths_up, reach
from tests.lab.conftest import ENGINE

SHOW = "/usr/libexec/vyos/op_mode/zerotier.py"
# The network's MTU is ZeroTier's default; the TAP gets the largest size below it that fills packets.
NETWORK_MTU, TAP_MTU = 2800, 1394


def show(router: Router, what: str, *words: str) -> str:
    return router.run([SHOW, f"show_{what}", *words]).stdout


def raw(router: Router) -> dict[str, Any]:
    return dict(json.loads(show(router, "bundle", "--bundle", "zt0", "--raw")))


def words(router: Router) -> list[str | None]:
    return [i["network_state"] for i in raw(router)["instances"]]


def told(router: Router, instance: int) -> list[dict[str, str]]:
    """What the daemon has told of an instance's network, the first first."""
    fields = ["ZEROTIER_EVENT=network-state", f"ZEROTIER_INSTANCE={instance}"]
    text = router.run(["journalctl", "-t", "zerotier-pathd", "-o", "json", "--no-pager", *fields], check=False).stdout
    return [json.loads(line) for line in text.splitlines()]


def last_told(router: Router, instance: int, word: str) -> dict[str, str]:
    def look() -> dict[str, str] | None:
        found = told(router, instance)
        return found[-1] if found and found[-1]["ZEROTIER_TO"] == word else None

    return router.wait(look, what=f"the event that instance {instance} is {word}")


def configuration(router: Router, other: Router, found: Controller) -> str:
    base = "set interfaces zerotier zt0"
    return "\n".join([
        f"{base} instances 2", f"{base} network-id {found.address}000001", f"{base} planet {planet_text(found)}",
        f"{base} engine {Path(ENGINE).name}", f"{base} transit prefix 10.14.0.0/29", f"{base} transit site {router.number}",
        f"{base} address {loopback(router)}/32", f"{base} remote {other.name} prefix {loopback(other)}/32",
    ])  # fmt: skip


def test_from_no_root_to_traffic_and_on_without_the_controller(two: list[Router], made: Controller) -> None:
    network = f"{made.address}000001"
    r1, r2 = two
    r1.must_configure(configuration(r1, r2, made))
    r2.must_configure(configuration(r2, r1, made))

    r1.wait(lambda: words(r1) == ["no root"] * 2, what="no root")
    entry = raw(r1)
    assert (entry["state"], entry["instances_up"]) == ("down", 0)
    assert entry["warnings"] == ["zt0/1 and zt0/2 reach no root: allow UDP from ports 9993 and 9994 to the roots and back"]
    assert "no root" in show(r1, "instances", "--bundle", "zt0")
    for k in (1, 2):
        last_told(r1, k, "no root")

    made.start()
    r1.wait(lambda: words(r1) == ["not found"] * 2, timeout=40, what="network not found")
    assert f"controller {made.address} has no network {network}" in raw(r1)["warnings"][0]

    made.add_network(network, NETWORK_MTU)
    nodes: dict[str, list[str]] = {}
    for router in two:
        router.wait(lambda r=router: words(r) == ["unauthorized"] * 2, timeout=40, what="waiting for authorization")
        nodes[router.name] = [i["node"] for i in raw(router)["instances"]]
        listed = ", ".join(nodes[router.name])
        assert raw(router)["warnings"] == [
            f"zt0/1 and zt0/2 wait for authorization: authorize members {listed} of network {network} at its controller"
        ]
        assert raw(router)["to_authorize"] == [{"network": network, "nodes": nodes[router.name]}]
        assert f"wait for authorization: authorize members {listed}" in " ".join(show(router, "summary").split())
        for what in ("bundle", "instances"):
            assert f"\n  {' '.join(nodes[router.name])}\n" in show(router, what, "--bundle", "zt0")
    assert made.members(network) == {node for found in nodes.values() for node in found}

    for k, node in enumerate(nodes["R1"], start=1):
        event = last_told(r1, k, "unauthorized")
        assert (event["ZEROTIER_NODE"], event["ZEROTIER_NETWORK"]) == (node, network)

    # One side alone: authorized, but there is nobody at the other end yet.
    for node in nodes["R1"]:
        made.authorize(network, node)
    r1.wait(lambda: words(r1) == ["no path"] * 2, timeout=40, what="authorized without a path")
    assert "have no path to R2 yet" in raw(r1)["warnings"][0]

    for node in nodes["R2"]:
        made.authorize(network, node)
    for router in two:
        router.wait(lambda r=router: paths_up(r) == 2, timeout=40, what="2 paths up")
    reach(r1, loopback(r1), loopback(r2))
    assert words(r1) == ["up", "up"] and raw(r1)["warnings"] == [] and raw(r1)["state"] == "up"
    for k in (1, 2):
        device = r1.json(["ip", "-j", "addr", "show", "dev", f"zt0p{k}"])[0]
        assert device["mtu"] == TAP_MTU
        own = [a["local"] for a in device["addr_info"] if a["family"] == "inet"]
        assert own == [f"10.14.0.{4 * k - 3}"]

    # That the paths are up is told as events of theirs.
    for k in (1, 2):
        steps = dict.fromkeys(event["ZEROTIER_TO"] for event in told(r1, k) if event["ZEROTIER_TO"] != "requesting")
        assert list(steps)[:3] == ["no root", "not found", "unauthorized"]
        assert list(steps)[3] in ("no path", "up")  # up at once, where the other end was first

    made.stop()
    reach(r2, loopback(r2), loopback(r1))
    assert paths_up(r1) == paths_up(r2) == 2 and words(r1) == ["up", "up"]


def test_one_instance_on_two_networks(two: list[Router], made: Controller) -> None:
    """The further network has a device of its own, with the address that is configured for it.

    New devices get no link-local address by themselves, as on VyOS, and hosts behind the router are forwarded by IPv6 all the same.
    """
    r1, r2 = two
    host = "2001:db8:99::1"
    first, second = (f"{made.address}00000{n}" for n in (2, 3))
    further = f"zt0n{second[-8:]}"
    made.start()
    for network in (first, second):
        made.add_network(network, NETWORK_MTU)
    for router in two:
        base = "set interfaces zerotier zt0"
        lines = [
            "instances 1", f"network-id {first}", f"network-id {second}", f"planet {planet_text(made)}", f"engine {Path(ENGINE).name}",
            f"network {first} address 10.147.17.{router.number}/24", f"network {second} address 10.20.0.{router.number}/24",
        ]  # fmt: skip
        lines.append(f"network {first} address 2001:db8:17::{router.number}/64")
        router.must_configure("\n".join(["delete interfaces zerotier zt0", *(f"{base} {line}" for line in lines)]))
    r1.run(["ip", "address", "add", f"{host}/128", "dev", "lo"])
    for router in two:

        def waiting(r: Router = router) -> list[dict[str, Any]]:
            found = raw(r)["to_authorize"]
            return found if len(found) == 2 else []

        for entry in router.wait(waiting, timeout=40, what="two networks that wait for authorization"):
            for node in entry["nodes"]:
                made.authorize(entry["network"], node)
    r2.run(["ip", "route", "add", host, "via", "2001:db8:17::1"])
    forwarded = ["ping", "-c1", "-W1", "-I", host, "2001:db8:17::2"]  # neither router has sent anything by IPv6 yet
    r1.wait(lambda: r1.run(forwarded, check=False).returncode == 0, timeout=40, what="an answer to a host behind R1")
    for device, address in (("zt0p1", "10.147.17.2"), (further, "10.20.0.2")):
        ping = ["ping", "-c1", "-W1", "-I", device, address]
        r1.wait(lambda p=ping: r1.run(p, check=False).returncode == 0, timeout=40, what=f"an answer of {address} over {device}")
    entry = raw(r1)
    assert (entry["state"], entry["networks"], entry["warnings"]) == ("up", [first, second], [])
    assert [(n["device"], n["network_state"]) for n in entry["instances"][0]["further_networks"]] == [(further, "up")]
    r1.must_configure(f"delete interfaces zerotier zt0 network {second}\ndelete interfaces zerotier zt0 network-id {second}")
    r1.wait(lambda: r1.run(["ip", "link", "show", further], check=False).returncode != 0, what=f"{further} is gone")
    r1.run(["ip", "address", "del", f"{host}/128", "dev", "lo"])
