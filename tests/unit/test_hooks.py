"""Scripts of the user: which are started, in which order, and that nothing waits for them."""

from __future__ import annotations

import os
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.loop import Loop
from zerotier_multi.pathd.tell.events import NOTICE, Event
from zerotier_multi.pathd.tell.hooks import QUEUED, Hooks, command, refusal, scripts


def event(number: int = 1, kind: str = "path-down") -> Event:
    return Event(kind, NOTICE, f"event {number}", "zt0", f"cause {number}")


def status(mode: int = stat.S_IFREG | 0o755, uid: int = 0) -> os.stat_result:
    return os.stat_result((mode, 0, 0, 1, uid, 0, 0, 0, 0, 0))


@pytest.mark.parametrize(
    ("name", "seen", "reason"),
    [
        ("10-mail.sh", status(), None),
        ("a", status(uid=1000), "it is not owned by root"),
        ("a", status(stat.S_IFREG | 0o757), "other users can write to it"),
        ("a", status(stat.S_IFREG | 0o775), "other users can write to it"),
        ("a", status(stat.S_IFREG | 0o644), "it is not executable"),
        ("a", status(stat.S_IFLNK | 0o777), "it is not a regular file"),
        ("a", status(stat.S_IFDIR | 0o755), "it is not a regular file"),
        ("mail~", status(), "its name may contain only letters, digits, dot, dash and underscore"),
        (".mail.swp", status(), "its name may contain only letters, digits, dot, dash and underscore"),
    ],
)
def test_only_what_root_alone_can_change_is_started(name: str, seen: os.stat_result, reason: str | None) -> None:
    assert refusal(name, seen) == reason


def script(folder: Path, name: str, mode: int = 0o755) -> None:
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(mode)


def test_a_folder_that_others_may_change_holds_no_script(tmp_path: Path) -> None:
    script(tmp_path, "a")
    tmp_path.chmod(0o777)
    assert scripts(tmp_path) == ([], [f"hooks are not started from {tmp_path}: other users can write to it"])
    tmp_path.chmod(0o755)
    assert scripts(tmp_path) == ([tmp_path / "a"], []) and scripts(tmp_path / "none") == ([], [])


def test_the_fields_are_the_environment_and_no_argument() -> None:
    argv = command(Path("/config/x"), {"ZEROTIER_CAUSE": "two words; $(rm)"}, "zerotier-hook-1-1.service")
    assert "--setenv=ZEROTIER_CAUSE=two words; $(rm)" in argv and argv[-2:] == ["--", "/config/x"]


class Box:
    """Hooks whose scripts are programs that wait for a word."""

    def __init__(self, folder: Path) -> None:
        self.loop = Loop()
        self.started: list[tuple[str, str]] = []
        self.processes: list[subprocess.Popen[bytes]] = []
        self.hooks = Hooks(self.loop, folder, self._start)

    def _start(self, argv: list[str]) -> subprocess.Popen[bytes]:
        cause = next(a for a in argv if a.startswith("--setenv=ZEROTIER_CAUSE=")).rpartition("=")[2]
        self.started.append((Path(argv[-1]).name, cause))
        self.processes.append(subprocess.Popen(["sh", "-c", "read code; exit $code"], stdin=subprocess.PIPE))
        return self.processes[-1]

    def end(self, code: int = 0) -> None:
        """The script that runs ends, and the loop hears of it."""
        self.processes[-1].communicate(b"%d\n" % code)
        self.loop.turn(5)


@pytest.fixture
def box(tmp_path: Path) -> Callable[..., Box]:
    def made(*names: str) -> Box:
        for name in names:
            script(tmp_path, name)
        return Box(tmp_path)

    return made


def test_one_at_a_time_in_order_of_names_and_events(box: Callable[..., Box]) -> None:
    made = box("20-b", "10-a")
    began = time.monotonic()
    made.hooks.tell(event(1))
    made.hooks.tell(event(2, "bundle-down"))
    assert time.monotonic() - began < 1 and made.started == [("10-a", "cause 1")]
    for _ in range(3):
        made.end()
    assert made.started == [("10-a", "cause 1"), ("20-b", "cause 1"), ("10-a", "cause 2"), ("20-b", "cause 2")]
    made.end()
    assert not made.loop.watched


@pytest.mark.parametrize(
    "kind", ["path-up", "path-down", "path-backup", "remote-up", "remote-down", "bundle-degraded", "network-state"]
)
def test_what_comes_and_goes_starts_the_scripts(box: Callable[..., Box], kind: str) -> None:
    made = box("a")
    made.hooks.tell(event(1, kind))
    assert made.started == [("a", "cause 1")]
    made.end()


def test_other_events_start_nothing(box: Callable[..., Box]) -> None:
    made = box("a")
    for kind in ("path-state", "device-gone", "instance-revived"):
        made.hooks.tell(event(1, kind))
    assert made.started == []


def test_a_queue_that_is_full_loses_the_oldest_with_one_warning(box: Callable[..., Box], caplog: pytest.LogCaptureFixture) -> None:
    made = box("a")
    for number in range(QUEUED + 4):
        made.hooks.tell(event(number))
    assert [r.getMessage() for r in caplog.records] == ["hooks take too long; events are dropped, oldest first: event 1"]
    made.end()
    assert made.started == [("a", "cause 0"), ("a", "cause 4")]
    made.processes[-1].kill()


def test_a_failure_is_told_and_the_next_one_follows(box: Callable[..., Box], caplog: pytest.LogCaptureFixture) -> None:
    made = box("a", "b")
    made.hooks.tell(event())
    made.end(3)
    assert [name for name, _ in made.started] == ["a", "b"] and "journalctl -u 'zerotier-hook-*'" in caplog.text
    made.end()


def test_a_refusal_is_told_once(box: Callable[..., Box], tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made = box()
    script(tmp_path, "notes", 0o644)
    for number in range(3):
        made.hooks.tell(event(number))
    assert [r.getMessage() for r in caplog.records] == [f"hook {tmp_path}/notes is refused: it is not executable"]


def test_a_program_that_cannot_be_started_holds_nobody_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def start(_argv: list[str]) -> subprocess.Popen[bytes]:
        raise FileNotFoundError(2, "No such file or directory")

    script(tmp_path, "a")
    hooks = Hooks(Loop(), tmp_path, start)
    hooks.tell(event())
    hooks.tell(event(2))
    assert len(caplog.records) == 2
