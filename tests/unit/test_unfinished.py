"""Files that are written aside first: a kill in the middle leaves something, and the next one removes it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.attack.settings import ATTACK
from zerotier_multi.files import write_atomic
from zerotier_multi.op import actions
from ztsh import store, wrapper

KILLS = ATTACK.either(6, 60)
# Writes without end, and says so whenever a file lies aside.
_WRITER = """
import os, sys
from pathlib import Path
from {module} import {function}
replace = os.replace
def slow(source, target):
    print("aside", flush=True)
    sys.stdin.readline()
    replace(source, target)
os.replace = slow
{function}(Path(sys.argv[1]), {content})
"""


def killed(module: str, function: str, content: str, path: Path) -> None:
    """Begin to write a file, and be killed while it lies aside."""
    program = _WRITER.format(module=module, function=function, content=content)
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout and process.stdout.readline() == "aside\n"
        process.kill()


@pytest.mark.parametrize(
    "module, function, content, write",
    [
        ("zerotier_multi.files", "write_atomic", "b'new'", lambda path: write_atomic(path, b"last")),
        ("ztsh.store", "write", "'new'", lambda path: store.write(path, "last")),
    ],
)
def test_what_kills_leave_goes_with_the_next_write(
    tmp_path: Path, module: str, function: str, content: str, write: Callable[[Path], object]
) -> None:
    path, other = tmp_path / "config.boot", tmp_path / f".config.boot.{os.getppid()}"
    other.touch()  # of a process that lives
    for _ in range(KILLS):
        killed(module, function, content, path)
        left = [p for p in tmp_path.iterdir() if p not in (path, other)]
        assert len(left) == 1 and not path.exists(), "each removes what the one before has left"
    write(path)
    assert {p.name for p in tmp_path.iterdir()} == {path.name, other.name} and path.read_bytes() == b"last"


def test_the_secret_of_an_identity_that_nobody_got_goes_with_the_next_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    left = tmp_path / f".zerotier-identity.{gone.pid}.abc"
    left.mkdir()
    (left / "identity.secret").touch()
    kept = tmp_path / f".zerotier-identity.{os.getpid()}.abc"
    kept.mkdir()
    engine = tmp_path / "engine"
    engine.write_text("#!/bin/sh\nexit 1\n")
    engine.chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(actions.names, "RUN_DIR", tmp_path / "zerotier-multi")
    monkeypatch.setattr(actions.box, "find_engines", lambda: {"ztnode": str(engine)})
    with pytest.raises(actions.Unavailable):
        actions.new_identity()
    assert kept.exists() and not left.exists()


def test_sessions_of_the_wrapper_are_cleared_whatever_lies_among_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ZTSH_RUN", str(tmp_path))
    sessions = tmp_path / "sessions"
    sessions.mkdir()
    gone = [f"0-{1 << 22}-1.json", f".0-{1 << 22}-1.json.{1 << 22}"]
    strange = ["a-b-c-d.json", "--.json", "1-2-3-4.json"]
    for name in (*gone, *strange):
        (sessions / name).touch()
    assert wrapper.call(["begin"]) == 0
    left = {path.name for path in sessions.iterdir()}
    assert not left & set(gone) and set(strange) < left and len(left) == len(strange) + 1
