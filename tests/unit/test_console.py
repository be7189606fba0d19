"""A person at the console of a machine: here a shell at a terminal whose other end is a socket, as QEMU's serial port."""

from __future__ import annotations

import dataclasses
import os
import pty
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from lab.console import Console
from lab.edition import VYOS
from lab.person import Person
from lab.process import LabError

SHELL = ["bash", "--norc", "--noprofile", "--noediting", "-i"]
EDITION = dataclasses.replace(VYOS, test=3.0)


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Person]:
    """Somebody at VyOS's prompt."""
    for setting in ("ZTM_VM_PATIENCE", "ZTM_VM_ACCEL"):
        monkeypatch.delenv(setting, raising=False)
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(SHELL[0], SHELL, {**os.environ, "PS1": "vyos@R1:~$ "})
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "serial"))
        listener.listen()
        console = Console(tmp_path / "serial")
        port, _ = listener.accept()

    def typed() -> None:
        while data := port.recv(65536):
            os.write(terminal, data)

    def printed() -> None:
        try:
            while data := os.read(terminal, 65536):
                port.sendall(data)
        except OSError:
            pass  # the shell or the console is gone

    threads = [threading.Thread(target=each) for each in (typed, printed)]
    for thread in threads:
        thread.start()
    console.expect(EDITION.op)
    person = Person.__new__(Person)
    person.vm, person.edition, person.password = SimpleNamespace(name="R1", console=console), EDITION, "vyos"  # type: ignore[assignment]
    yield person
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    console.close()
    for thread in threads:
        thread.join()
    port.close()
    os.close(terminal)


def program(tmp_path: Path, name: str, text: str) -> str:
    """A program that stands for a smoketest."""
    path = tmp_path / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_both_smoketests_run_and_the_time_is_for_each_line(person: Person, tmp_path: Path) -> None:
    slow = program(tmp_path, "one", "for k in 1 2 3 4 5 6 7 8; do sleep 0.5; echo $k ok >&2; done; echo OK")
    told = program(tmp_path, "two", 'echo "$PYTHONUNBUFFERED $ZTM_PATIENCE"; echo OK')
    text = person.smoketest([slow, told])
    assert text.splitlines() == [*(f"{k} ok" for k in range(1, 9)), "OK", f"1 {EDITION.patience:g}", "OK"]
    assert person.op("echo here") == "here"


def test_the_second_one_does_not_hide_the_failure_of_the_first(person: Person, tmp_path: Path) -> None:
    failed = program(tmp_path, "one", "echo FAILED; exit 1")
    assert person.smoketest([failed, program(tmp_path, "two", "echo OK")]) == "FAILED"


def test_a_smoketest_that_prints_nothing_for_too_long(person: Person, tmp_path: Path) -> None:
    person.edition = dataclasses.replace(EDITION, test=0.3)
    with pytest.raises(LabError, match="not within 0.3 s"):
        person.smoketest([program(tmp_path, "one", "sleep 1; echo OK")])
