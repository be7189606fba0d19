"""Commits and op mode change the instances one after the other, not at the same time."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.op_box import PLAN
from zerotier_multi import commit, names, turn
from zerotier_multi.commit import Change, CommitError, NotNow
from zerotier_multi.plan import to_json


@pytest.fixture(autouse=True)
def done(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """What was done to a router with zt0."""
    steps: list[str] = []
    monkeypatch.setattr(names, "RUN_DIR", tmp_path / "run")
    monkeypatch.setattr(turn, "PATIENCE", 0.2)
    monkeypatch.setattr(commit, "_generate", lambda change: steps.append(f"generate {change.bundle}"))
    monkeypatch.setattr(commit, "_apply", lambda change: steps.append(f"apply {change.bundle}") or [])
    names.RUN_DIR.mkdir()
    names.plan_file("zt0").write_text(to_json(PLAN))
    return steps


@contextmanager
def somebody() -> Iterator[None]:
    """Another process at work. Raises BlockingIOError where it cannot be."""
    with names.turn_file().open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def is_free() -> bool:
    try:
        with somebody():
            return True
    except BlockingIOError:
        return False


@pytest.mark.parametrize("change", [Change("zt0", PLAN), Change("zt0", None)], ids=["set", "deleted"])
def test_a_commit_has_its_turn_from_the_first_file_to_the_last_process(change: Change, done: list[str]) -> None:
    commit.generate(change)
    assert not is_free()
    commit.apply(change)
    assert is_free() and done == ["generate zt0", "apply zt0"]
    assert stat.S_IMODE(names.turn_file().stat().st_mode) == 0o600


@pytest.mark.parametrize("step", ["_generate", "_apply"])
def test_one_that_fails_ends_its_turn(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    def fail(_change: Change) -> None:
        raise CommitError("no")

    monkeypatch.setattr(commit, step, fail)
    for call in (lambda: (commit.generate(Change("zt0", PLAN)), commit.apply(Change("zt0", PLAN))), renewed):
        with pytest.raises(CommitError):
            call()
        assert is_free()


def renewed(work: Callable[[], None] = lambda: None) -> None:
    commit.renew({"zt0": PLAN}, work)


def test_each_waits_for_the_other_and_says_so_in_the_end(done: list[str]) -> None:
    with somebody():
        for call in (lambda: commit.generate(Change("zt0", PLAN)), lambda: commit.apply(Change("zt0", PLAN))):
            with pytest.raises(CommitError, match=r"^interfaces zerotier zt0: a command of op mode .* and commit again$"):
                call()
        with pytest.raises(NotNow, match=r"^a commit was not done after .*, so nothing was changed; try again when it is$"):
            renewed(lambda: pytest.fail("it does its work"))
    assert done == []
    renewed()
    assert is_free() and done == ["generate zt0", "apply zt0"]


def test_one_that_is_killed_is_in_nobody_s_way() -> None:
    child = os.fork()
    if not child:
        commit.generate(Change("zt0", PLAN))
        os.kill(os.getpid(), 9)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    assert is_free()


def test_work_is_done_in_the_turn_and_by_the_plan_in_force_alone(done: list[str]) -> None:
    renewed(lambda: done.append(f"work {is_free()}"))
    assert done == ["work False", "generate zt0", "apply zt0"]
    for seen in ({"zt0": replace(PLAN, mtu=1300)}, {"zt0": None}, {"zt1": PLAN}):
        with pytest.raises(NotNow, match=r"^zt[01] was changed meanwhile; try again$"):
            commit.renew(seen, lambda: pytest.fail("it does its work"))
    commit.renew({"zt1": None}, lambda: done.append("work of zt1"))
    assert done[3:] == ["work of zt1"]
