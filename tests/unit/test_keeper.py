"""When instances are started again, and what a daemon does that cannot see the kernel's state."""

from __future__ import annotations

import errno
from types import SimpleNamespace

import pytest
from tests.unit.test_decide import UP
from tests.unit.test_pathd import PLAN, all_taps
from zerotier_multi import systemd
from zerotier_multi.netlink.state import KernelState
from zerotier_multi.pathd.daemon import Daemon
from zerotier_multi.pathd.instances.keeper import LOSS, Keeper
from zerotier_multi.pathd.status import Look
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


def test_a_daemon_that_has_not_seen_the_kernel_yet_takes_nothing_for_gone() -> None:
    def look(_plans: object) -> KernelState:
        raise OSError(errno.ENOBUFS, "No buffer space available")

    daemon = object.__new__(Daemon)
    daemon._look, daemon._router = Look(), SimpleNamespace(look=look)  # type: ignore[assignment]
    with pytest.raises(SystemExit, match="the kernel's state cannot be read"):
        daemon.reconcile()
