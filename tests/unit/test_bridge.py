"""A network as a port of a bridge: what can be configured, what stands in the kernel, what is shown."""

from __future__ import annotations

import pytest
from tests.configuration import bundle
from tests.unit.test_networks import FIRST, ONE, SECOND, plan_of, seen, tuns
from zerotier_multi import bridges
from zerotier_multi.homefiles import home_files
from zerotier_multi.local_conf import make_conf
from zerotier_multi.netlink.links import Link
from zerotier_multi.netlink.state import KernelState
from zerotier_multi.op import data, text
from zerotier_multi.pathd.kernel.actions import SetDevice, actions
from zerotier_multi.pathd.kernel.desired import desired_state
from zerotier_multi.pathd.kernel.repairs import Repairs
from zerotier_multi.plan import from_json, to_json

ALONE = f"instances 1\nnetwork-id {FIRST}\nnetwork {FIRST} bridge br0\n"
FURTHER = f"{ONE}network-id {SECOND}\nnetwork {SECOND} bridge br0\n"
BR0 = Link(99, "br0", "bridge", 1500, True, True)


@pytest.mark.parametrize("lines", [ALONE, FURTHER, f"{FURTHER}network {SECOND} allow-dns"])
def test_what_can_be(lines: str) -> None:
    assert list(bridges.problems(bundle(lines), (1,))) == []


@pytest.mark.parametrize(
    "lines, numbers, network, reason",
    [
        (ALONE.replace("br0", "zt1p2"), (1,), FIRST, "is a device of a bundle and cannot be a bridge"),
        (f"{ALONE}controller-free", (1,), FIRST, "needs a controller that lets this router bridge"),
        (ALONE.replace("instances 1", "instances 2"), (1, 2), FIRST, "would be a loop over 2 instances"),
        (f"{ONE}network {FIRST} bridge br0", (1,), FIRST, "conflicts with transit"),
        (f"{FURTHER}network {SECOND} address 10.20.0.5/24", (1,), SECOND, "conflicts with address 10.20.0.5/24"),
        (f"{FURTHER}network {SECOND} allow-managed", (1,), SECOND, "conflicts with allow-managed"),
        (f"{ALONE}vrf red", (1,), FIRST, "conflicts with vrf red"),
    ],
)
def test_what_cannot_be(lines: str, numbers: tuple[int, ...], network: str, reason: str) -> None:
    (problem,) = bridges.problems(bundle(lines), numbers)
    assert str(problem).startswith(f"interfaces zerotier zt0 network {network} bridge ") and reason in str(problem)


@pytest.mark.parametrize(
    "lines, devices, sentence",
    [
        (ALONE, {"eth0": ["192.0.2.1"]}, "the interface does not exist yet"),
        (ALONE, {"br0": ["172.16.0.1"]}, "instances do not use its address 172.16.0.1"),
        (f"{ALONE}instance 1 source-interface br0", {"br0": ["172.16.0.1"]}, "it is also source-interface of instance 1"),
    ],
)
def test_what_a_user_should_know(lines: str, devices: dict[str, list[str]], sentence: str) -> None:
    (found,) = bridges.warnings(bundle(lines), (1,), devices)
    assert found.startswith(f"interfaces zerotier zt0 network {FIRST} bridge br0: {sentence}")
    assert bridges.warnings(bundle(ALONE), (1,), {"br0": []}) == []


def test_a_path_over_its_own_bridge_would_be_a_tunnel_in_the_tunnel() -> None:
    def blacklist(lines: str) -> list[str]:
        plan = plan_of(lines)
        return make_conf(plan, plan.instances[0], {})["settings"]["interfacePrefixBlacklist"]

    assert "br0" in blacklist(ALONE) and "br0" in blacklist(FURTHER) and "br0" not in blacklist(ONE)
    assert "br0" not in blacklist(f"{ALONE}instance 1 source-interface br0"), "it was asked for by name"


def todo(lines: str, *others: Link) -> list[object]:
    plan = plan_of(lines)
    assert from_json(to_json(plan)) == plan
    links = {**tuns(plan), **{link.name: link for link in others}}
    have = KernelState(links=links)
    return [a for a in actions(desired_state([plan], have, (), True, {}, 0.0), have) if isinstance(a, SetDevice)]


def test_the_device_becomes_a_port_with_the_mtu_of_its_network() -> None:
    assert todo(ALONE, BR0) == [SetDevice("zt0p1", 10, None, None, 99, None)]
    assert todo(FURTHER, BR0) == [
        SetDevice("zt0n1c000002", 11, None, None, 99, None),
        SetDevice("zt0p1", 10, None, 1394, None, None),
    ]
    assert todo(f"{ALONE}mtu 1500", BR0) == [SetDevice("zt0p1", 10, None, 1500, 99, None)]


@pytest.mark.parametrize("other, why", [((), "does not exist"), ((Link(99, "br0", "dummy", 1500, True, True),), "is no bridge")])
def test_without_its_bridge_it_is_a_port_of_none(other: tuple[Link, ...], why: str) -> None:
    assert todo(ALONE, *other) == []
    plan = plan_of(ALONE)
    want = desired_state([plan], KernelState(links={**tuns(plan), **{one.name: one for one in other}}), (), True, {}, 0.0)
    assert want.notes == [f"zt0: br0 {why}, so zt0p1 (network {FIRST}) is a port of none"]


def test_a_restart_gives_the_device_the_mtu_of_the_network_again() -> None:
    plans = [plan_of(lines) for lines in (ALONE, ALONE.replace(f"network {FIRST} bridge br0\n", ""))]
    assert len({home_files(plan, plan.instances[0], None).restart_digest for plan in plans}) == 2


def test_who_takes_it_out_is_told_of() -> None:
    plan, repairs = plan_of(ALONE), Repairs()
    zt0 = Link(3, "zt0", "dummy", 1500, True, True)

    def look(master: int, now: float) -> list[str]:
        port = Link(10, "zt0p1", "tun", 2800, True, True, master=master)
        have = KernelState(links={"zt0": zt0, "br0": BR0, "zt0p1": port})
        want = desired_state([plan], have, (), True, {}, now)
        return [str(change) for change in repairs.look(want, have, now).repaired]

    assert look(99, 0.0) == [] and look(0, 1.0) == []
    assert look(99, 1.1) == ["device zt0p1 was taken out of bridge br0"]


def test_what_is_shown() -> None:
    found, plan = seen(ALONE, "OK")
    entry = data.bundle(found, plan)
    assert entry["bridges"] == [{"bridge": "br0", "network": FIRST, "device": "zt0p1", "joined": False}]
    assert (entry["state"], entry["warnings"]) == ("up", [])
    assert f"br0: network {FIRST}, zt0p1 is not its port" in text.bundle(entry, False)


def test_a_controller_that_does_not_let_it_bridge_is_told_of() -> None:
    plan = plan_of(ALONE)
    (instance,) = plan.instances

    def told(**entry: object) -> list[str]:
        return bridges.not_allowed(plan, instance, [{"nwid": FIRST, **entry}], "00000000a1")

    assert told(status="OK", bridge=True) == told(status="ACCESS_DENIED", bridge=False) == told(status="OK") == []
    (sentence,) = told(status="OK", bridge=False)
    assert "may not bridge" in sentence and "allow bridging for member 00000000a1 at its controller" in sentence
    assert bridges.not_allowed(plan, instance, None, None) == []
