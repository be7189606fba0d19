"""When instances are started again, and what a daemon does that cannot see the kernel's state."""

from __future__ import annotations

import errno
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.test_decide import MEMBERS, UP
from tests.unit.test_pathd import PLAN, all_taps
from zerotier_multi import systemd
from zerotier_multi.netlink.state import KernelState
from zerotier_multi.pathd.daemon import Daemon
from zerotier_multi.pathd.instances import healing
from zerotier_multi.pathd.instances.keeper import LOSS, Keeper, Paths
from zerotier_multi.pathd.instances.recovery import UNSEEN, Orders, Situation
from zerotier_multi.pathd.instances.revive import FIRST
from zerotier_multi.pathd.probe.prober import Silence
from zerotier_multi.pathd.status import Look
from zerotier_multi.pathd.tell.events import Event
from zerotier_multi.ports import Holder
from zerotier_multi.states import PathState
from zerotier_multi.systemd import UnitState


@pytest.mark.parametrize(("uptime", "healed"), [(0.5, []), (LOSS, ["zt0p1"]), (None, [])])
def test_one_that_has_just_been_started_makes_its_device_by_itself(
    uptime: float | None, healed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(systemd, "unit_states", lambda units: {unit: UnitState("active", 1, uptime=uptime) for unit in units})
    monkeypatch.setattr(systemd, "failed", lambda _units: [])
    seen: list[str] = []
    monkeypatch.setattr(Keeper, "_heal", lambda _self, _plan, instance: seen.append(instance.device))
    keeper = Keeper(SimpleNamespace(left=lambda *_: False), lambda _event: None)  # type: ignore[arg-type]
    keeper.configure([PLAN], UP)
    links = all_taps()
    keeper.revive(KernelState(links=links), set(UP), 100.0)
    missing = KernelState(links={name: link for name, link in links.items() if name != "zt0p1"})
    keeper.revive(missing, set(UP), 101.0)
    keeper.revive(missing, set(UP), 101.0 + LOSS)
    assert seen == healed


@pytest.mark.parametrize(
    ("how", "started"),
    [
        ({}, []),
        ({"uptime": 100.0}, []),
        ({"came": True}, ["zt0p1"]),
        ({"seen": PathState.DOWN}, ["zt0p1"]),
        ({"left": True}, ["zt0p1"]),
        ({"free": True}, ["zt0p1"]),
        ({"runs": "failed"}, ["zt0p1"]),
        ({"runs": None}, ["zt0p1"]),
    ],
)
def test_one_that_may_be_waiting_for_its_controller_is_not_started_again(
    how: dict[str, Any], started: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it runs, that is; and one whose device was there, be it to an earlier daemon, has lost it."""
    how = {"seen": PathState.NO_DEVICE, "left": False, "free": False, "runs": "active", "uptime": 0.1, "came": False, **how}

    def states(units: list[str]) -> dict[str, UnitState]:
        if how["runs"] is None:
            raise systemd.SystemdError("no bus")
        return {unit: UnitState(how["runs"], 1, uptime=how["uptime"]) for unit in units}

    monkeypatch.setattr(systemd, "unit_states", states)
    seen: list[str] = []
    monkeypatch.setattr(Keeper, "_heal", lambda _self, _plan, instance: seen.append(instance.device))
    keeper = Keeper(SimpleNamespace(left=lambda *_: how["left"]), lambda _event: None)  # type: ignore[arg-type]
    keeper.configure([replace(PLAN, controller_free=how["free"])], dict.fromkeys(MEMBERS, how["seen"]))
    missing = KernelState(links={name: link for name, link in all_taps().items() if name != "zt0p1"})
    if how["came"]:
        keeper.revive(KernelState(links=all_taps()), set(UP), 90.0)
    for now in (100.0, 100.0 + FIRST - 0.1):
        keeper.revive(missing, set(UP), now)
    assert not seen and keeper.revival_wake is not None and keeper.revival_wake <= 100.0 + FIRST
    keeper.revive(missing, set(UP), 100.0 + FIRST)
    assert seen == started


def test_one_whose_port_is_free_again_is_started_at_once(commands: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(systemd, "failed", lambda units: asked.append(units) or set(units))
    taken: list[Holder | None] = [Holder("UDP", "dnsmasq"), None]
    monkeypatch.setattr("zerotier_multi.pathd.instances.keeper.in_the_way", lambda *_: taken.pop(0))
    told: list[Event] = []
    keeper = Keeper(SimpleNamespace(left=lambda *_: False), told.append)  # type: ignore[arg-type]
    keeper.configure([PLAN], {})
    missing = KernelState(links={name: link for name, link in all_taps().items() if name != "zt0p2"})
    unit = PLAN.instances[1].unit
    keeper.revive(missing, set(UP), 100.0)
    assert keeper.revival_wake == 101.0 and not commands and [event.instance for event in told] == [2]
    keeper.revive(missing, set(UP), 101.0)
    assert commands == [("reset-failed", unit), ("restart", "--no-block", unit)] and [event.instance for event in told] == [2, 2]
    assert asked == [[unit], [unit]], "those whose device is there have not failed"


def test_a_path_that_has_ever_been_up_is_waited_for_no_longer_than_it_is_down() -> None:
    plan = replace(PLAN, instances=tuple(replace(i, engine="/usr/sbin/zerotier-one") for i in PLAN.instances))
    keeper = Keeper(SimpleNamespace(refused=lambda _device: False), lambda _event: None)  # type: ignore[arg-type]
    keeper.configure([plan], {MEMBERS[0]: PathState.UP, MEMBERS[1]: PathState.DOWN})
    since: list[dict[int, float]] = []

    def work(seen: dict[str, Situation], _now: float, _empty: object) -> Orders:
        since.append({path: silence.since for found in seen.values() for path, silence in found.silent.items()})
        return Orders()

    keeper._recovery = SimpleNamespace(work=work)  # type: ignore[assignment]
    silent = {path: Silence(100.0) for path in MEMBERS[:3]}
    for up in ((), MEMBERS[2:3], ()):
        keeper.recover(KernelState(links=all_taps()), Paths(up=up, silent=silent), 100.0)
    assert since[0] == {MEMBERS[0]: 100.0, MEMBERS[1]: 100.0 + UNSEEN, MEMBERS[2]: 100.0 + UNSEEN}
    assert since[2] == {MEMBERS[0]: 100.0, MEMBERS[1]: 100.0 + UNSEEN, MEMBERS[2]: 100.0}


def test_a_daemon_that_has_not_seen_the_kernel_yet_takes_nothing_for_gone() -> None:
    def look(_plans: object) -> KernelState:
        raise OSError(errno.ENOBUFS, "No buffer space available")

    daemon = object.__new__(Daemon)
    daemon._look, daemon._router = Look(), SimpleNamespace(look=look)  # type: ignore[assignment]
    with pytest.raises(SystemExit, match="the kernel's state cannot be read"):
        daemon.reconcile()


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What systemd is told."""
    done: list[tuple[str, ...]] = []
    monkeypatch.setattr(systemd, "systemctl", lambda *words, **_options: done.append(words))
    return done


def test_what_carries_nothing_is_killed_and_what_was_drained_ends_in_order(commands: list[tuple[str, ...]]) -> None:
    """One that the network itself refuses is not restarted."""
    plan = replace(PLAN, instances=tuple(replace(i, engine="/usr/sbin/zerotier-one") for i in PLAN.instances))
    told: list[Event] = []
    keeper = Keeper(SimpleNamespace(refused=lambda device: device == "zt0p3"), told.append)  # type: ignore[arg-type]
    keeper.configure([plan], UP)
    asked: list[list[str]] = []

    def work(seen: dict[str, object], _now: float, _empty: object) -> Orders:
        asked.append(list(seen))
        return Orders(("zt0p4",), (("zt0p1", "R2 does not answer"), ("zt0p2", "R2 does not answer")))

    keeper._recovery = SimpleNamespace(work=work)  # type: ignore[assignment]
    assert keeper.recover(KernelState(links=all_taps()), Paths(drained=("zt0p2",)), 100.0) == ("zt0p4",)
    one, two = (i.unit for i in plan.instances[:2])
    assert asked == [["zt0p1", "zt0p2", "zt0p4"]]
    assert commands == [("kill", "--signal=KILL", one), ("reset-failed", one, two), ("restart", "--no-block", one, two)]
    assert [(event.bundle, event.instance) for event in told] == [("zt0", 1), ("zt0", 2)]


def test_one_that_hangs_is_killed_and_what_systemd_refuses_is_told(
    commands: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[Event] = []
    keeper = Keeper(SimpleNamespace(), told.append)  # type: ignore[arg-type]
    keeper.configure([PLAN], UP)
    unit = PLAN.instances[1].unit
    keeper.kill(unit)
    assert commands == [("kill", "--signal=KILL", unit)] and [(event.bundle, event.instance) for event in told] == [("zt0", 2)]

    def refused(*_words: str, **_options: object) -> str:
        raise systemd.SystemdError("no bus")

    monkeypatch.setattr(systemd, "systemctl", refused)
    keeper.kill(unit)
    keeper._heal(PLAN, PLAN.instances[1])
    assert [record.getMessage() for record in caplog.records if record.getMessage() == "no bus"] == ["no bus"] * 2


def test_an_instance_without_its_identity_is_not_started_but_told_once(
    commands: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The engine would make another one, which no remote knows."""
    plan, there = replace(PLAN, controller_free=True), [False]
    monkeypatch.setattr(healing, "has_identity", lambda _instance: there[0])
    monkeypatch.setattr(healing, "heal", lambda _plan, _instance: ())
    told: list[Event] = []
    keeper = Keeper(SimpleNamespace(), told.append)  # type: ignore[arg-type]
    keeper.configure([plan], UP)
    for _ in range(2):
        keeper._heal(plan, plan.instances[0])
        assert not commands and not told
        assert [record.getMessage() for record in caplog.records] == [
            "zt0/1 has no identity; restore it from an archive, or commit a change of the bundle to have a new one"
        ]
    there[0] = True
    keeper._heal(plan, plan.instances[0])
    unit = plan.instances[0].unit
    assert commands == [("reset-failed", unit), ("restart", "--no-block", unit)] and len(told) == 1
    there[0] = False
    keeper._heal(plan, plan.instances[0])
    assert len(caplog.records) == 2, "once each time"
    keeper._heal(PLAN, PLAN.instances[1])
    assert commands[-1][-1] == PLAN.instances[1].unit, "a controller knows whoever asks"
