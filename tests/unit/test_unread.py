"""A plan that cannot be read when the daemon starts: what stands of its bundle stays, and all else is as ever."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.configuration import EXAMPLE, configured
from tests.unit.test_full_tunnel import SIX, TWO_REMOTES
from zerotier_multi import names
from zerotier_multi.bundle_parser import parse_bundle
from zerotier_multi.cpu import Cpu
from zerotier_multi.netlink.links import Address, Link
from zerotier_multi.netlink.nexthops import Stray
from zerotier_multi.netlink.routes import Route
from zerotier_multi.netlink.rules import Rule
from zerotier_multi.netlink.state import KernelState
from zerotier_multi.op import api, gather
from zerotier_multi.op.actions import restart
from zerotier_multi.op.errors import NotConfigured, Unavailable
from zerotier_multi.op.monitor import monitor
from zerotier_multi.op.snapshot import Snapshot
from zerotier_multi.op.text import NOTHING
from zerotier_multi.pathd.decide import Inputs, decide
from zerotier_multi.pathd.kernel.actions import actions
from zerotier_multi.pathd.kernel.imagined import after
from zerotier_multi.pathd.kernel.sysctls import Sysctls
from zerotier_multi.pathd.kernel.unread import prunable
from zerotier_multi.pathd.plans import Plans, hindrances
from zerotier_multi.plan import Plan, to_json
from zerotier_multi.planner import make_plan
from zerotier_multi.states import PathState

CPUS = tuple(Cpu(n, n) for n in range(4))
OTHER = """
network-id 8056c2e21c000002
instances 2
transit prefix 10.15.0.0/29
transit site 1
address 10.0.56.1/32
instance 1 source-interface eth0
remote R2 prefix 10.0.56.2/32
"""
REMEDY = "to replace it, commit a change of it, such as: set interfaces zerotier zt0 description renewed"


def plan_of(text: str = EXAMPLE, name: str = "zt0") -> Plan:
    lines = "\n".join(f"{name} {line}" for line in text.strip().splitlines())
    return make_plan(parse_bundle(name, configured(lines)[name]), CPUS, "/usr/sbin/ztnode")


def inputs(plans: tuple[Plan, ...], have: KernelState, unread: tuple[str, ...] = ()) -> Inputs:
    up = {path.nexthop_id: PathState.UP for plan in plans for path in plan.paths}
    gateways = {("eth0", 4): "198.51.100.254", ("eth0", 6): None}
    return Inputs(100.0, plans, have, verdicts=up, gateways=gateways, unread=unread)


def router(*plans: Plan) -> KernelState:
    """One on which all that these plans want stands."""
    links = {
        i.device: Link(20 + 40 * names.bundle_number(plan.bundle) + i.number, i.device, "tun", 2800, True, True)
        for plan in plans for i in plan.instances
    }  # fmt: skip
    links["eth0"] = Link(2, "eth0", None, 1500, True, True)
    for plan in plans:
        index = 5 + names.bundle_number(plan.bundle)
        links[plan.bundle] = Link(index, plan.bundle, "dummy", 1500, False, True, group=names.DEVICE_GROUP)
    own = {Address(2, "198.51.100.7/24"), Address(2, "2001:db8:0:1::7/64")}
    have = KernelState(links=links, local=own, uplinks=frozenset({(4, 2), (6, 2)}))
    for _ in range(10):
        todo = decide(inputs(plans, have)).todo
        if not todo:
            return have
        for action in todo:
            vars(have).update(vars(after(have, action)))
    raise AssertionError("it does not settle")


UPLINK = EXAMPLE + "instance 3 source-interface eth0\n"
KEPT = "balance all-paths-down keep\n"


@pytest.mark.parametrize("text", [EXAMPLE, UPLINK, TWO_REMOTES, TWO_REMOTES + KEPT, SIX + KEPT])
def test_nothing_of_the_bundle_is_taken_away(text: str) -> None:
    have = router(plan_of(text))
    assert have.groups and have.routes and "zt0" in have.links
    assert decide(inputs((), have, ("zt0",))).todo == ()
    # Without its plan file it goes, as ever.
    for action in decide(inputs((), have)).todo:
        vars(have).update(vars(after(have, action)))
    assert not (have.groups or have.nexthops or have.routes or have.rules or "zt0" in have.links)


@pytest.mark.parametrize("text", [EXAMPLE, UPLINK, TWO_REMOTES + KEPT])
def test_the_other_bundle_works_and_is_pruned_as_ever(text: str) -> None:
    held, other = plan_of(text), plan_of(OTHER, "zt1")
    have = router(held, other)
    alone = router(held)
    assert names.uplink_table("zt1", 1, 0) in {rule.table for rule in have.rules} and have.groups.keys() > alone.groups.keys()
    fewer = replace(other, routes=(), groups=(), paths=())
    seen = inputs((fewer,), have, ("zt0",))
    for action in decide(seen).todo:
        vars(have).update(vars(after(have, action)))
    assert have.groups.keys() == alone.groups.keys() and "zt1" in have.links and have.nexthops.keys() == alone.nexthops.keys()
    for action in decide(inputs((), have, ("zt0",))).todo:
        vars(have).update(vars(after(have, action)))
    assert have.rules == alone.rules and have.routes == alone.routes and "zt1" not in have.links and "zt0" in have.links


def test_a_full_tunnel_that_others_give_up_refuses_nothing_any_more() -> None:
    tunnel = plan_of(OTHER + "remote R2 prefix 0.0.0.0/0\n" + KEPT, "zt1")
    have = router(plan_of(), tunnel)
    refusing = Route("0.0.0.0/0", 0, None, names.FULL_TUNNEL_TABLE, names.REFUSING_METRIC)
    assert refusing in have.routes
    for action in decide(inputs((), have, ("zt0",))).todo:
        vars(have).update(vars(after(have, action)))
    assert not any(route.table == names.FULL_TUNNEL_TABLE for route in have.routes)


def test_full_tunnels_of_two_families_are_told_apart() -> None:
    held = plan_of(EXAMPLE + "remote R2 prefix 0.0.0.0/0\n" + KEPT)
    six = OTHER + "transit prefix 2001:db8:15::/124\nremote R2 prefix ::/0\n" + KEPT
    for unread, stays in (("zt0", {"0.0.0.0/0"}), ("zt1", {"::/0"})):
        have = router(held, plan_of(six, "zt1"))
        for action in decide(inputs((), have, (unread,))).todo:
            vars(have).update(vars(after(have, action)))
        refusing = {r.prefix for r in have.routes if r.table == names.FULL_TUNNEL_TABLE and r.metric == names.REFUSING_METRIC}
        assert refusing == stays


def test_when_all_devices_of_a_full_tunnel_are_gone_it_still_refuses() -> None:
    refusing = Route("0.0.0.0/0", 0, None, names.FULL_TUNNEL_TABLE, names.REFUSING_METRIC)
    rule = Rule(4, names.FULL_TUNNEL_PRIORITY + 4, "", 0, names.FULL_TUNNEL_TABLE)
    assert decide(inputs((), KernelState(routes={refusing}, rules={rule}), ("zt0",))).todo == ()


def test_what_else_has_our_protocol_number_in_its_range_stays() -> None:
    stray = Stray(names.nexthop_id("zt0", 4, 2, 7), "a blackhole", group=False, ours=True)
    have = KernelState(strays={stray.id: stray})
    assert actions(decide(inputs((), have)).want, have, ("zt0",)) == [] and actions(decide(inputs((), have)).want, have) != []
    assert actions(decide(inputs((), have)).want, have, ("zt1",)) != []


def test_groups_and_next_hops_of_other_bundles_are_not_spared() -> None:
    left = prunable(router(plan_of(), plan_of(OTHER, "zt1")), ("zt0",))
    assert {names.bundle_of_nexthop(number) for number in left.groups} == {"zt1"}
    assert {names.bundle_of_nexthop(number) for number in left.nexthops} == {"zt1"}


def test_it_is_taken_over_when_its_plan_is_there_again() -> None:
    plan = plan_of(UPLINK)
    assert decide(inputs((plan,), router(plan))).todo == ()


def test_settings_that_it_may_need_stay(tmp_path: Path) -> None:
    setting = tmp_path / "net/ipv4/conf/eth0/rp_filter"
    setting.parent.mkdir(parents=True)
    setting.write_text("1")
    name, memory = "net/ipv4/conf/eth0/rp_filter", tmp_path / "memory.json"
    Sysctls(memory, tmp_path).hold({name: "2"})
    anew = Sysctls(memory, tmp_path)
    assert anew.hold({}, keep=True) == ([], []) and setting.read_text() == "2" and json.loads(memory.read_text()) == {name: "1"}
    assert anew.hold({}) == ([], []) and setting.read_text() == "1"


def newer(plan: Plan) -> str:
    return json.dumps({**json.loads(to_json(plan)), "colour": "blue"})


def test_a_daemon_that_starts_with_a_plan_of_a_newer_version_says_what_helps(tmp_path: Path) -> None:
    file = tmp_path / "zt0.json"
    file.write_text(newer(plan_of()))
    (tmp_path / "zt1.json").write_text(to_json(plan_of(OTHER, "zt1")))
    plans = Plans(tmp_path)
    assert [plan.bundle for plan in plans.load()] == ["zt1"] and plans.unread == {"zt0"}
    assert plans.problems == [
        f"plan {file} is unusable: not a plan of schema 1 (unknown field 'colour'); it is left out; what stands of that bundle "
        f"carries on without health checks, and nftables and settings that bundles share stay as they are; {REMEDY}"
    ]
    file.write_text(to_json(plan_of()))
    assert len(plans.load()) == 2 and plans.unread == frozenset() and plans.problems == []
    file.write_text(newer(plan_of()))
    assert len(plans.load()) == 2 and plans.unread == frozenset() and plans.problems[0].endswith(REMEDY)
    file.unlink()
    assert len(plans.load()) == 1 and plans.unread == frozenset()


@pytest.fixture
def newer_zt0(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A router with a plan of zt0 that this version cannot use; what is said of it."""
    monkeypatch.setattr(names, "RUN_DIR", tmp_path)
    names.plan_file("zt0").write_text(newer(plan_of()))
    return f"plan {tmp_path}/zt0.json is unusable: not a plan of schema 1 (unknown field 'colour'); {REMEDY}"


@pytest.mark.parametrize("ask", [gather.plan_of, monitor, lambda bundle: restart(bundle, None)])
def test_op_mode_says_of_a_bundle_with_a_plan_of_a_newer_version_what_helps(newer_zt0: str, ask: Callable[[str], object]) -> None:
    """It runs, so it is not called unconfigured."""
    with pytest.raises(Unavailable) as told:
        ask("zt0")
    assert str(told.value) == newer_zt0
    with pytest.raises(NotConfigured, match="^interfaces zerotier zt1 is not configured; configured bundles: zt0$"):
        ask("zt1")


@pytest.mark.parametrize("plans", [0, 1])
@pytest.mark.parametrize("pathd_knows", [False, True])
def test_lists_have_a_bundle_whose_plan_cannot_be_used_as_a_warning(
    monkeypatch: pytest.MonkeyPatch, newer_zt0: str, plans: int, pathd_knows: bool
) -> None:
    """In the daemon's words where it has some: it knows what became of the bundle."""
    own, pathd = newer_zt0, newer_zt0.replace(REMEDY, f"the last good one stays in force; {REMEDY}")

    class Watcher:
        def __init__(self, seen: list[Plan]) -> None:
            self._plans = tuple(seen)

        def look(self) -> Snapshot:
            return Snapshot(0.0, self._plans, {"problems": [pathd] if pathd_knows else [], "bundles": {}})

    if plans:
        names.plan_file("zt1").write_text(to_json(plan_of(OTHER, "zt1")))
    monkeypatch.setattr(gather, "Watcher", Watcher)
    found = api.summary(True)
    assert isinstance(found, dict) and found["warnings"] == [pathd if pathd_knows else own] and len(found["bundles"]) == plans
    assert api.interfaces(True, None, False, False)["warnings"] == [own]
    for shown in (api.summary(False), api.interfaces(False, None, False, False)):
        words = " ".join(str(shown).split())
        assert "is unusable: not a plan of schema 1" in words and REMEDY.split(": ")[0] in words and NOTHING not in words
        assert ("zt1" in words) == bool(plans)


def test_a_bundle_is_known_after_it_was_deleted(tmp_path: Path) -> None:
    """One whose plan cannot be read was not deleted."""
    file = tmp_path / "zt0.json"
    file.write_text(newer(plan_of()))
    plans = Plans(tmp_path, known=["zt10", "zt2"])
    plans.load()
    assert list(plans.configured.items()) == [("zt0", True), ("zt2", False), ("zt10", False)]
    file.unlink()
    plans.load()
    assert not any(plans.configured.values()) and len(plans.configured) == 3


def test_a_file_that_is_no_bundles_holds_nothing_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(names, "RUN_DIR", tmp_path)
    file = tmp_path / "zt999.json"
    file.write_text("{}")
    plans = Plans(tmp_path)
    assert plans.load() == [] and plans.unread == frozenset()
    assert gather.plans_in_force() == ([], [])
    assert plans.problems == [f"plan {file} is unusable: zt999: not a bundle name, use zt0 to zt255; remove it with: rm {file}"]
    assert hindrances(tmp_path) == []


def test_who_installs_a_version_that_cannot_read_a_plan_is_told(tmp_path: Path) -> None:
    file = tmp_path / "zt0.json"
    file.write_text(to_json(plan_of()))
    assert hindrances(tmp_path) == []
    file.write_text(newer(plan_of()))
    assert hindrances(tmp_path) == [
        f"this version cannot use {file} (not a plan of schema 1 (unknown field 'colour')), so zerotier-pathd goes on as the "
        f"version before; {REMEDY}; then: systemctl restart zerotier-pathd.service"
    ]
