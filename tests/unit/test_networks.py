"""Several networks of one instance, and what a controller may do: plan, files of the home, kernel state, what is shown."""

from __future__ import annotations

from dataclasses import replace

from tests.configuration import EXAMPLE, bundle
from zerotier_multi import box_checks, networks
from zerotier_multi.cpu import Cpu
from zerotier_multi.homefiles import home_files, is_leftover
from zerotier_multi.names import is_our_device
from zerotier_multi.netlink.links import Address, Link
from zerotier_multi.netlink.state import KernelState
from zerotier_multi.op import commands, data, interfaces, text
from zerotier_multi.op.snapshot import Answer, Snapshot
from zerotier_multi.pathd.kernel.actions import Put, Remove, actions
from zerotier_multi.pathd.kernel.desired import desired_state
from zerotier_multi.pathd.nftables import mss, spoofed
from zerotier_multi.plan import Plan, from_json, to_json
from zerotier_multi.planner import make_plan
from zerotier_multi.systemd import UnitState

CPUS = (Cpu(0, 0),)
FIRST, SECOND, THIRD = (f"8056c2e21c00000{n}" for n in (1, 2, 3))
ONE = EXAMPLE.replace("instances 4", "instances 1")
SEVERAL = ONE + f"network-id {SECOND}\nnetwork-id {THIRD}\nnetwork {SECOND} address 10.20.0.5/24\nnetwork {THIRD} allow-managed\n"
MEMBER = f"instances 1\nnetwork-id {FIRST}\nnetwork {FIRST} address 10.147.17.5/24\n"


def plan_of(lines: str) -> Plan:
    return make_plan(bundle(lines), CPUS, "/usr/sbin/zerotier-one")


def tuns(plan: Plan, up: bool = True) -> dict[str, Link]:
    names = [device for i in plan.instances for device in i.devices]
    return {name: Link(n, name, "tun", 2800, up, True) for n, name in enumerate(names, start=10)}


def test_each_network_has_a_device_and_its_own_words() -> None:
    plan = plan_of(SEVERAL)
    (instance,) = plan.instances
    assert instance.devices == ("zt0p1", "zt0n1c000002", "zt0n1c000003") and all(map(is_our_device, instance.devices))
    assert [n.network_id for n in instance.joined] == [FIRST, SECOND, THIRD] and instance.network_id == FIRST
    assert (instance.joined[1].addresses, instance.joined[2].allow_managed) == (("10.20.0.5/24",), True)
    assert "10.20.0.0/24" in plan.blacklist
    assert from_json(to_json(plan)) == plan


def test_a_plan_of_an_earlier_version_has_one_network() -> None:
    (instance,) = plan_of(ONE).instances
    old = replace(instance, networks=())
    assert [(n.network_id, n.device, n.allow_managed) for n in old.joined] == [(FIRST, "zt0p1", False)]


def test_the_home_joins_all_of_them_and_leaves_those_that_are_gone() -> None:
    plan = plan_of(SEVERAL)
    files = home_files(plan, plan.instances[0], None)
    assert files.have["devicemap"] == f"{FIRST}=zt0p1\n{SECOND}=zt0n1c000002\n{THIRD}=zt0n1c000003\n".encode()
    assert files.have[f"networks.d/{FIRST}.local.conf"] == b"allowManaged=0\nallowGlobal=0\nallowDefault=0\nallowDNS=0\n"
    assert files.have[f"networks.d/{THIRD}.local.conf"].startswith(b"allowManaged=1\n")
    assert set(files.create) == {f"networks.d/{n}.conf" for n in (FIRST, SECOND, THIRD)}
    alone = home_files(plan_of(ONE), plan_of(ONE).instances[0], None)
    assert is_leftover(f"networks.d/{SECOND}.conf", b"", alone) and not is_leftover(f"networks.d/{SECOND}.conf", b"", files)


def test_what_a_controller_may_do_is_read_at_the_start_alone() -> None:
    def digest(lines: str) -> str:
        plan = plan_of(lines)
        return home_files(plan, plan.instances[0], None).restart_digest

    words = ("allow-managed", "allow-dns")
    assert len({digest(ONE), *(digest(f"{ONE}network {FIRST} {word}") for word in words)}) == 3
    managed = f"{ONE}network {FIRST} allow-managed\n"
    assert digest(managed) != digest(managed.replace("10.14.0.0/28", "10.15.0.0/28"))  # nobody else takes the old ones away
    assert digest(f"{ONE}network {FIRST} address 10.147.17.5/24") == digest(ONE)


def test_addresses_of_a_controller_stay_where_it_may_set_some() -> None:
    plan = plan_of(SEVERAL)
    links = tuns(plan)
    own = {Address(10, "10.14.0.1/30"), Address(11, "10.20.0.5/24")}
    foreign = {Address(n, f"10.99.{n}.1/24") for n in (10, 11, 12)}
    have = KernelState(links=links, addresses=frozenset(foreign))
    todo = actions(desired_state([plan], have, (), True, {}, 0.0), have)
    assert {a.what for a in todo if isinstance(a, Put) and isinstance(a.what, Address)} >= own
    removed = {a.what for a in todo if isinstance(a, Remove) and isinstance(a.what, Address)}
    assert removed == {Address(10, "10.99.10.1/24"), Address(11, "10.99.11.1/24")}


def test_packets_of_further_networks_are_filtered_too() -> None:
    plan, alone = plan_of(SEVERAL), plan_of(ONE)
    for chains in (spoofed.chains([plan], ()), mss.chains([plan], {})):
        assert 'iifname "zt0p*"' in chains and 'iifname "zt0n*"' in chains
    assert "10.20.0.5" in spoofed.chains([plan], ())
    assert "zt0n*" not in spoofed.chains([alone], ()) + mss.chains([alone], {})


def test_warnings() -> None:
    several = bundle(EXAMPLE + f"network {FIRST} allow-managed\nnetwork {FIRST} allow-default\nnetwork {FIRST} allow-dns")
    found = list(networks.warnings(several, (1, 2, 3, 4)))
    assert [text.partition(":")[0] for text in found] == [f"network {FIRST} allow-{word}" for word in ("managed", "default", "dns")]
    assert "4 instances" in found[0]
    assert list(networks.warnings(bundle(ONE), (1,))) == []
    facts = box_checks.BoxFacts(CPUS, {"zerotier-one": "/sbin/zerotier-one"})
    assert any("allow-dns" in text for text in box_checks.warnings(several, facts))


def seen(lines: str, *statuses: str) -> tuple[Snapshot, Plan]:
    """A router whose instance tells these states of its networks."""
    plan = plan_of(lines)
    (instance,) = plan.instances
    told = tuple({"nwid": n.network_id, "status": s} for n, s in zip(instance.joined, statuses, strict=True))
    kernel = KernelState(links={**tuns(plan), "zt0": Link(3, "zt0", "dummy", 1500, True, True)})
    units = {instance.unit: UnitState("active", 101, 0, 3700.0, 9 << 20)}
    answers = {instance.unit: Answer({"address": "00000000a1", "version": "1.14.1", "online": True}, (), told)}
    return Snapshot(now=1e9, plans=(plan,), pathd={"bundles": {}}, units=units, answers=answers, kernel=kernel), plan


def test_a_further_network_that_waits_is_said() -> None:
    found, plan = seen(SEVERAL, "OK", "ACCESS_DENIED", "OK")
    entry = data.bundle(found, plan)
    assert entry["networks"] == [FIRST, SECOND, THIRD]
    assert [w for w in entry["warnings"] if SECOND in w and "authorize member" in w]
    assert [one["network"] for one in entry["to_authorize"]] == [SECOND]
    assert [(n["device"], n["network_state"]) for n in entry["instances"][0]["further_networks"]] == [
        ("zt0n1c000002", "unauthorized"), ("zt0n1c000003", "up"),
    ]  # fmt: skip


def test_further_networks_are_among_the_interfaces_and_the_commands() -> None:
    found, plan = seen(SEVERAL, "OK", "OK", "OK")
    listed = interfaces.interfaces_data(found)
    assert [e["interface"] for e in listed["interfaces"]] == ["zt0", "zt0p1", "zt0n1c000002", "zt0n1c000003"]
    shown = interfaces.interfaces_text(listed, False, False, False)
    assert f"network {SECOND}" in shown.replace("\n", " ")
    assert any("10.20.0.5/24 dev zt0n1c000002" in c for s in commands.plan_data(plan)["sections"] for c in s["commands"])


def test_a_member_without_remotes_is_up_when_its_instance_is() -> None:
    found, plan = seen(MEMBER, "OK")
    entry = data.bundle(found, plan)
    assert (entry["state"], entry["paths_total"]) == ("up", 0)
    assert not [w for w in entry["warnings"] if "has no path" in w]
    waiting, plan = seen(MEMBER, "ACCESS_DENIED")
    assert data.bundle(waiting, plan)["state"] == "down"
    assert text.bundle(data.bundle(found, plan), False)
