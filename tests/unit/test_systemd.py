"""Calls of systemctl, with the answers that systemd 252 gives."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from zerotier_multi import names, systemd

UNITS = ("zerotier-multi@zt0-1.service", "zerotier-multi@zt0-2.service")


class Systemd:
    """Knows the first unit only; ``states`` are what ``show`` tells after the stop."""

    def __init__(self, *states: str) -> None:
        self.states = states

    def run(self, command: list[str], **_options: object) -> subprocess.CompletedProcess[str]:
        if command[2] == "stop":
            return subprocess.CompletedProcess(command, 5, "", f"Failed to stop {UNITS[1]}: Unit {UNITS[1]} not loaded.\n")
        blocks = [f"Id={u}\nActiveState={s}\nMainPID=0\nNRestarts=0" for u, s in zip(UNITS, self.states, strict=True)]
        return subprocess.CompletedProcess(command, 0, "\n\n".join(blocks) + "\n", "")


def test_asking_for_a_state_loads_no_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pattern matches units that are loaded; in any order, and nothing is told of others."""
    asked: list[tuple[str, ...]] = []

    def show(*arguments: str) -> str:
        asked.append(arguments)
        return f"MainPID=7\nId={UNITS[1]}\nActiveState=active\n\nMainPID=0\nId={UNITS[0]}\nActiveState=failed\nResult=signal\n"

    monkeypatch.setattr(systemd, "systemctl", show)
    other = "zerotier-multi@zt0-3.service"
    states = systemd.unit_states([*UNITS, other])
    assert [(s.active, s.pid) for s in states.values()] == [("failed", 0), ("active", 7), ("inactive", 0)]
    assert list(states) == [*UNITS, other] and not set(asked[0]) & set(states)
    assert all(fnmatchcase(unit, pattern) for unit, pattern in zip(states, asked[0][-3:], strict=True))
    monkeypatch.setattr(systemd, "systemctl", lambda *_: "")
    assert systemd.unit_states([other]) == {other: systemd.UnitState("inactive")}


def test_a_unit_that_is_not_loaded_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a leftover in state bad-setting, with which every later commit failed."""
    monkeypatch.setattr(systemd.subprocess, "run", Systemd("inactive", "inactive").run)
    systemd.stop(*UNITS)


@pytest.mark.parametrize("state", ["active", "deactivating"])
def test_a_unit_that_still_runs_is_an_error(state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systemd.subprocess, "run", Systemd(state, "inactive").run)
    with pytest.raises(systemd.SystemdError, match="not loaded"):
        systemd.stop(*UNITS)


class Loaded:
    """A systemd that has loaded some units, and lets go of none; the first ``refuses`` starts of others fail."""

    def __init__(self, units: Sequence[str], refuses: int = 0) -> None:
        self.units, self.refuses = units, refuses
        self.calls: list[tuple[str, ...]] = []

    def systemctl(self, verb: str, *words: str, check: bool = True) -> str:
        if verb == "list-units":
            return "".join(f"{unit} loaded inactive dead one\n" for unit in self.units if unit in words)
        if verb != "reset-failed":
            self.calls.append((verb, *words))
        if verb == "start" and self.refuses:
            self.refuses -= 1
            raise systemd.SystemdError("systemctl start: Unit has a bad unit file setting.")
        return ""


def test_a_drop_in_of_somebody_else_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made with `systemctl edit --runtime`; it kept its bundle from being deleted."""
    told = Loaded(UNITS)
    monkeypatch.setattr(names, "UNIT_DROPIN_ROOT", tmp_path)
    monkeypatch.setattr(systemd, "systemctl", told.systemctl)
    assert systemd.apply_dropins(dict.fromkeys(UNITS, "[Service]\n"), [])
    theirs = tmp_path / f"{UNITS[0]}.d/override.conf"
    theirs.write_text("[Service]\nNice=5\n")
    assert systemd.apply_dropins({}, UNITS)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [theirs]
    assert not (tmp_path / f"{UNITS[1]}.d").exists()
    assert told.calls == [("daemon-reload",)] * 2


def test_systemd_reloads_only_for_units_that_it_has_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Loaded(UNITS[:1])
    monkeypatch.setattr(names, "UNIT_DROPIN_ROOT", tmp_path)
    monkeypatch.setattr(systemd, "systemctl", told.systemctl)
    assert systemd.apply_dropins({UNITS[1]: "[Service]\n"}, [])
    assert not systemd.apply_dropins({UNITS[1]: "[Service]\n"}, [])
    assert systemd.apply_dropins({}, UNITS[1:])
    assert told.calls == []
    assert systemd.apply_dropins(dict.fromkeys(UNITS, "[Service]\n"), [])
    assert told.calls == [("daemon-reload",)]


def test_a_reload_that_was_missed_is_made_up_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a commit that was killed before it, or for which /run had no room: files are right, and systemd has others."""
    told = Loaded(UNITS)
    monkeypatch.setattr(names, "UNIT_DROPIN_ROOT", tmp_path)
    monkeypatch.setattr(systemd, "systemctl", told.systemctl)
    systemd.apply_dropins({UNITS[0]: "[Service]\n"}, [])
    outdated = systemd.parse_unit(f"Id={UNITS[0]}\nNeedDaemonReload=yes\nActiveState=active\nMainPID=7\n", 0.0).outdated
    assert outdated and not systemd.parse_unit(f"Id={UNITS[0]}\nNeedDaemonReload=no\n", 0.0).outdated
    told.calls.clear()
    assert not systemd.apply_dropins({UNITS[0]: "[Service]\n"}, [], outdated) and told.calls == [("daemon-reload",)]
    assert not systemd.apply_dropins({UNITS[0]: "[Service]\n"}, []) and told.calls == [("daemon-reload",)]


def test_a_start_that_fails_is_tried_again_after_a_reload(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Loaded([], refuses=1)
    monkeypatch.setattr(systemd, "systemctl", told.systemctl)
    systemd.start(UNITS)
    assert told.calls == [("start", *UNITS), ("daemon-reload",), ("start", *UNITS)]
    told.refuses = 2
    with pytest.raises(systemd.SystemdError, match="bad unit file setting"):
        systemd.start(UNITS)


@pytest.mark.parametrize(
    ("system", "vyos", "booting"),
    [
        ("starting", "dead", True),
        ("running", "dead", False),
        ("degraded", "", False),
        ("running", "running", True),  # VyOS loads its configuration behind systemd's back
        ("running", "exited", False),
    ],
)
def test_a_boot_is_one_on_vyos_too(monkeypatch: pytest.MonkeyPatch, system: str, vyos: str, booting: bool) -> None:
    answers = {"is-system-running": system, "show": vyos}
    monkeypatch.setattr(systemd, "systemctl", lambda verb, *_words, **_options: answers[verb] + "\n")
    assert systemd.is_booting() is booting and systemd.vyos_is_booting() is (vyos == "running")
