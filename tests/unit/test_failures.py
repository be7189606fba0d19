"""A daemon that cannot work is started again less and less often; one that fails once is, at once."""

from __future__ import annotations

import importlib
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.unit.loop import Loop
from zerotier_multi import commit, names
from zerotier_multi.pathd import daemon
from zerotier_multi.pathd.failures import SOUND, Failures

ROOT = Path(__file__).resolve().parents[2]


def test_each_failure_in_a_row_costs_more_time(tmp_path: Path) -> None:
    path = tmp_path / "pathd/failures.json"
    assert [Failures(path).another() for _ in range(10)] == [0, 0, 1, 2, 4, 8, 16, 30, 30, 30]
    Failures(path).clear()
    assert Failures(path).another() == 0
    path.write_text('{"in_a_row": "x"}')
    assert Failures(path).another() == 0


@pytest.mark.parametrize(("failed", "verb"), [(0, "start"), (2, "start"), (3, "restart"), (9, "restart")])
def test_a_commit_does_not_wait_with_a_daemon_that_waits(
    failed: int, verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would fail with it, though it may change what is wrong."""
    done: list[str] = []
    monkeypatch.setattr(names, "STATE_FILE", tmp_path / "since.json")
    monkeypatch.setattr(commit, "_publish", lambda _change: None)
    monkeypatch.setattr(commit, "_sync", lambda _settings: [])
    monkeypatch.setattr(commit.systemd, "systemctl", lambda *words, **_options: done.append(words[0]))
    for _ in range(failed):
        Failures().another()
    commit._follow(commit.Change("zt0", None))
    assert done == [verb]


def test_a_memory_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    failures = Failures(tmp_path / "file/failures.json")
    failures.clear()
    assert [failures.another() for _ in range(5)] == [0] * 5


class Failing:
    """In place of the daemon, with what is around it."""

    main: Callable[[Sequence[str]], int]
    error: BaseException | None = None
    worked = 0.0  # seconds

    def __init__(self, loop: Loop) -> None:
        self.loop = loop

    def run(self) -> None:
        self.loop.turn()
        self.loop.now += self.worked
        self.loop.turn()
        self.loop.close()
        if self.error:
            raise self.error


class Waits(Exception):
    """In place of the other program."""


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> type[Failing]:
    def execv(_program: str, arguments: list[str]) -> None:
        raise Waits(arguments[-1])

    monkeypatch.setitem(sys.modules, "ssl", ssl)  # which the program does without
    program = importlib.import_module("zerotier_multi.pathd.__main__")
    monkeypatch.setitem(sys.modules, "ssl", ssl)
    monkeypatch.setattr(Failing, "main", staticmethod(program.main), raising=False)
    monkeypatch.setattr(names, "STATE_FILE", tmp_path / "state.json")
    monkeypatch.setattr(daemon, "Daemon", Failing)
    monkeypatch.setattr(program.asyncio, "new_event_loop", Loop)
    monkeypatch.setattr(os, "execv", execv)
    monkeypatch.setattr(Failing, "error", None)
    monkeypatch.setattr(Failing, "worked", 0.0)
    return Failing


@pytest.mark.parametrize("error", [ValueError("of a plan"), SystemExit("the kernel's state cannot be read")])
def test_the_third_failure_waits_and_says_so(
    failing: type[Failing], error: BaseException, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    failing.error = error
    for _ in range(2):
        with pytest.raises(type(error)):
            failing.main([])
    assert not capsys.readouterr().err, "the interpreter tells"
    with pytest.raises(Waits, match="sleep 1; exit 1"):
        failing.main([])
    assert str(error) in capsys.readouterr().err
    assert "failed 3 times in a row; the next one begins in 1 s" in caplog.text


def test_after_a_minute_of_work_a_failure_is_a_first_one(failing: type[Failing]) -> None:
    failing.error = ValueError()
    for worked, waits in ((1, False), (1, False), (SOUND - 1, True), (SOUND, False), (SOUND, False), (SOUND, False), (1, False)):
        failing.worked = worked
        with pytest.raises(Waits if waits else ValueError):
            failing.main([])
    failing.error = None
    assert failing.main([]) == 0
    failing.error = ValueError()
    for _ in range(2):  # one that was stopped has worked
        with pytest.raises(ValueError):
            failing.main([])


def test_a_module_that_is_missing_is_a_failure(failing: type[Failing], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zerotier_multi.pathd.daemon", None)
    for error in (ImportError, ImportError, Waits):
        with pytest.raises(error):
            failing.main([])


WAITER = """
import signal, socket, sys
from pathlib import Path
from zerotier_multi.pathd.failures import Failures
signal.signal(signal.SIGTERM, lambda *_: None)  # as with asyncio, whose loop does not turn any more
door = socket.socket(socket.AF_UNIX)
door.bind(sys.argv[2])
door.listen()
try:
    raise ValueError("of a plan")
except ValueError as error:
    Failures(Path(sys.argv[1])).wait(error)
"""


def test_who_waits_has_no_door_open_and_ends_when_it_shall(tmp_path: Path) -> None:
    path, door = tmp_path / "failures.json", tmp_path / "door"
    path.write_text('{"in_a_row": 7}')
    environment = {"PYTHONPATH": str(ROOT / "python"), "PATH": "/usr/bin:/bin"}
    process = subprocess.Popen(
        [sys.executable, "-c", WAITER, str(path), str(door)],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr
    try:
        end = time.monotonic() + 20
        while Path(f"/proc/{process.pid}/comm").read_text() != "sh\n":
            assert process.poll() is None and time.monotonic() < end
            time.sleep(0.01)
        with socket.socket(socket.AF_UNIX) as sock, pytest.raises(ConnectionRefusedError):
            sock.connect(str(door))
        assert process.poll() is None
    finally:
        os.killpg(process.pid, signal.SIGTERM)
    assert process.wait(5) == -signal.SIGTERM
    told = process.stderr.read()
    assert "ValueError: of a plan" in told and "8 times in a row" in told


def test_who_has_waited_has_failed(tmp_path: Path) -> None:
    path = tmp_path / "failures.json"
    path.write_text('{"in_a_row": 2}')
    environment = {"PYTHONPATH": str(ROOT / "python"), "PATH": "/usr/bin:/bin"}
    begun = time.monotonic()
    done = subprocess.run([sys.executable, "-c", WAITER, str(path), str(tmp_path / "door")], env=environment, capture_output=True)
    assert done.returncode == 1 and time.monotonic() - begun >= 1
