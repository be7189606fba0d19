"""Programs that have the terminal until they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any


@contextmanager
def lent() -> Iterator[None]:
    """The terminal is that of other programs meanwhile: Ctrl-C is for them alone, and they are waited for.

    A handler of this program is the default of the programs that it starts, other than a signal that it ignores.
    """
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def run(command: Sequence[str], *, stdin: IO[bytes] | int | None = None, text: str | None = None, **options: Any) -> int:
    """Run a program on this terminal to its end; its exit status as a shell has it (128 + N after signal N).

    ``text`` is its standard input. A program that was interrupted may leave the terminal without echo: then its settings are
    what they were before.
    """
    settings = _settings()
    with lent():
        done = subprocess.run(command, stdin=stdin, input=text, text=text is not None, check=False, **options)
    status: int = 128 - done.returncode if done.returncode < 0 else done.returncode
    if status >= 128 and settings is not None:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, settings)
        if status == 128 + signal.SIGINT:
            print()
    return status


def run_and_stay(line: str) -> int:
    """Have the system shell run a line, and go where it has gone; its exit status."""
    with open(os.memfd_create("place"), "rb") as place:  # a pipe may stay open, in what runs on in the background
        script = f"{line}\nstatus=$?; pwd >&{place.fileno()}; exit $status"
        status = run(["/bin/bash", "-c", script], pass_fds=[place.fileno()])
        place.seek(0)
        there = os.fsdecode(place.read()).rstrip("\n")
    if there:
        os.chdir(there)
    return status


def _settings() -> Any:
    try:
        return termios.tcgetattr(sys.stdin)
    except (termios.error, OSError, ValueError):  # no terminal
        return None
