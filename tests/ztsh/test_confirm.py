"""``commit-confirm`` and others: what is not confirmed is not saved, and nobody builds on it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.configuration import SCHEMA
from ztsh import authority, confirm
from ztsh.confmode import ConfMode
from ztsh.errors import SessionError
from ztsh.session import Session
from ztsh.text import set_commands

ZT = "interfaces zerotier zt0"


@pytest.fixture(autouse=True)
def timer(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Minutes of the timer that runs; none is started on this machine."""
    running: list[int] = []

    def arm(schema: object, before: object, minutes: int) -> str:
        if running:
            raise SessionError("Another confirm is pending", "Commit failed")
        confirm.write(confirm._before(), before.text(schema))
        running.append(minutes)
        return ""

    monkeypatch.setattr(confirm, "pending", lambda: bool(running))
    monkeypatch.setattr(confirm, "arm", arm)
    monkeypatch.setattr(confirm, "disarm", lambda: (running.clear(), confirm._before().unlink()))
    monkeypatch.setattr(confirm, "_wall", lambda _message: None)
    return running


def mode() -> ConfMode:
    return ConfMode(Session(SCHEMA), lambda _words: "")


def do(conf: ConfMode, *lines: str) -> str:
    return "".join(conf.line(line) for line in lines)


def now() -> list[str]:
    return set_commands(Session(SCHEMA).running.tree, SCHEMA).splitlines()


def test_a_colleague_waits_and_loses_nothing(places: Path, timer: list[int]) -> None:
    """He keeps his candidate, nothing is saved, and both go on once it is rolled back."""
    one, other = mode(), mode()
    do(one, f"set {ZT} description good", "commit", "save")
    saved = (places / "config/config.boot").read_text()
    do(one, f"set {ZT} description bad", "commit-confirm 1")
    do(other, "set interfaces zerotier zt9")
    (places / "other").symlink_to(places / "config")
    written_out = [(f"save {places}/{name}/config.boot", "Save") for name in ("config", "other")]
    for line, verb in (("commit", "Commit"), ("save", "Save"), *written_out):
        with pytest.raises(SessionError) as refused:
            do(other, line)
        assert str(refused.value) == f"A commit-confirm is pending; confirm it, or wait until it is rolled back\n{verb} failed"
    with pytest.raises(SessionError, match="^Another confirm is pending"):
        do(other, "commit-confirm 1")
    assert now() == [f"set {ZT} description 'bad'"] and other.session.modified()
    assert (places / "config/config.boot").read_text() == saved
    confirm.revert(SCHEMA)
    timer.clear()
    do(other, "commit", "save")
    assert now() == [f"set {ZT} description 'good'", "set interfaces zerotier zt9"]
    assert "bad" not in (places / "config/config.boot").read_text()


@pytest.mark.parametrize(
    ("words", "minutes"),
    [("no-prompt", 10), ("7 no-prompt", 7), ("no-prompt comment first", 10), ("7 no-prompt comment 'no-prompt'", 7)],
)
def test_no_prompt_of_vyos_is_understood(places: Path, timer: list[int], words: str, minutes: int) -> None:
    do(mode(), f"set {ZT} description good", f"commit-confirm {words}")
    assert timer == [minutes] and now() == [f"set {ZT} description 'good'"]


def test_what_is_confirmed_is_in_nobody_s_way(places: Path) -> None:
    one, other = mode(), mode()
    do(one, f"set {ZT} description good", "commit-confirm 1")
    do(other, "set interfaces zerotier zt9")
    assert do(one, "confirm") == "Reload timer stopped\n"
    do(other, "commit", "save")
    assert now() == [f"set {ZT} description 'good'", "set interfaces zerotier zt9"]


def test_a_commit_confirm_that_comes_while_saving_is_not_saved(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    do(mode(), f"set {ZT} description good", "commit", "save")
    saved, read = (places / "config/config.boot").read_text(), authority.running

    def slowly(schema: object) -> object:
        monkeypatch.setattr(authority, "running", read)
        do(mode(), f"set {ZT} description bad", "commit-confirm 1")
        return read(schema)

    monkeypatch.setattr(authority, "running", slowly)
    with pytest.raises(SessionError, match="^A commit-confirm is pending"):
        authority.save(SCHEMA)
    assert (places / "config/config.boot").read_text() == saved
