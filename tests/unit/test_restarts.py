"""Restarting several instances: those that carry one by one, and no waiting where it keeps nothing."""

from __future__ import annotations

import pytest
from tests.configuration import EXAMPLE, bundle
from zerotier_multi import restarts
from zerotier_multi.cpu import Cpu
from zerotier_multi.pathd.control import PathdError
from zerotier_multi.planner import make_plan

PLAN = make_plan(bundle(EXAMPLE), tuple(Cpu(n, n) for n in range(4)), "/usr/sbin/ztnode")


class World:
    """A daemon and systemd in miniature: a restarted instance is up after some questions, or never."""

    def __init__(self, down: set[int], stay_down: set[int]) -> None:
        self.steps: list[list[int]] = []
        self.up = {i.number: i.number not in down for i in PLAN.instances}
        self._stay_down, self._questions = stay_down, dict.fromkeys(self.up, 0)
        self._by_unit = {i.unit: i.number for i in PLAN.instances}
        self._by_device = {i.device: i.number for i in PLAN.instances}
        self._drained: set[int] = set()

    def ask(self, request: dict) -> dict:
        if request["op"] == "drain":
            self._drained = {self._by_device[device] for device in request["devices"]}
            self.up.update(dict.fromkeys(self._drained, False))
            return {"ok": True}
        for number, left in self._questions.items():
            self._questions[number] = max(0, left - 1)
            if left == 1 and number not in self._stay_down:
                self.up[number] = True
        paths = [{"remote": "R2", "family": 4, "instance": n, "state": "up" if up else "down"} for n, up in self.up.items()]
        return {"bundles": {"zt0": {"paths": paths}}}

    def systemctl(self, verb: str, *units: str, check: bool = True) -> str:
        if verb == "reset-failed":
            return ""
        assert verb == "restart" and units[0] == "--no-block"
        numbers = [self._by_unit[unit] for unit in units[1:]]
        assert self._drained == set(numbers), "nothing is restarted that still carries"
        self._questions.update(dict.fromkeys(numbers, 3))
        self.steps.append(numbers)
        return ""


@pytest.mark.parametrize(
    ("down", "stay_down", "steps"),
    [
        (set(), set(), [[1], [2], [3], [4]]),
        ({1, 3}, set(), [[1, 3], [2], [4]]),
        ({1, 2, 3, 4}, set(), [[1, 2, 3, 4]]),
        # The far end lacks the same change: one is lost to find out, then all follow.
        (set(), {1, 2, 3, 4}, [[1], [2, 3, 4]]),
        (set(), {4}, [[1], [2], [3], [4]]),
    ],
)
def test_those_that_carry_go_one_by_one(
    monkeypatch: pytest.MonkeyPatch, down: set[int], stay_down: set[int], steps: list[list[int]]
) -> None:
    world = World(down, stay_down)
    monkeypatch.setattr(restarts, "ask", world.ask)
    monkeypatch.setattr(restarts.systemd, "systemctl", world.systemctl)
    monkeypatch.setattr(restarts, "PATIENCE", 0.3)
    monkeypatch.setattr(restarts, "_POLL", (0.01, 0.01))
    restarts.restart("zt0", PLAN.instances)
    assert world.steps == steps


@pytest.mark.parametrize("returns", [True, False])
def test_a_remote_that_goes_away_meanwhile_does_not_take_the_others_paths(monkeypatch: pytest.MonkeyPatch, returns: bool) -> None:
    world = World(set(), set() if returns else {1})
    asked = world.ask

    def ask(request: dict) -> dict:
        """R3 is there until the first restart, and R2's path over an instance is not back unless ``returns``."""
        answer = asked(request)
        if request["op"] == "status" and not world.steps:
            answer["bundles"]["zt0"]["paths"] += [{"remote": "R3", "family": 4, "instance": n, "state": "up"} for n in world.up]
        return answer

    monkeypatch.setattr(restarts, "ask", ask)
    monkeypatch.setattr(restarts.systemd, "systemctl", world.systemctl)
    monkeypatch.setattr(restarts, "PATIENCE", 0.3)
    monkeypatch.setattr(restarts, "_POLL", (0.01, 0.01))
    restarts.restart("zt0", PLAN.instances)
    assert world.steps == ([[1], [2], [3], [4]] if returns else [[1], [2, 3, 4]])


def test_a_daemon_that_does_not_know_the_bundle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restarts, "ask", lambda _request: {"bundles": {}})
    with pytest.raises(PathdError, match="does not know zt0"):
        restarts.restart("zt0", PLAN.instances)
