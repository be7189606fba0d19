"""Running programs and waiting for states."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


class LabError(RuntimeError):
    """Something in the lab did not come about; the text says what and what was seen instead."""


def run(
    command: Sequence[str], *, check: bool = True, timeout: float = 60.0, text_input: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; ``timeout`` in seconds. Raises :class:`LabError` with its output when it fails."""
    try:
        done = subprocess.run(
            list(command),
            input=text_input,
            stdin=subprocess.DEVNULL if text_input is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise LabError(f"{' '.join(command)}: not done after {timeout:g} s") from None
    if check and done.returncode != 0:
        output = "\n".join(part.strip() for part in (done.stdout, done.stderr) if part.strip())
        raise LabError(f"{' '.join(command)}: exit code {done.returncode}\n{output}")
    return done


def children(pid: int) -> list[int]:
    """PIDs of the children of a process; none when it is gone."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").glob("*/children"))
        return [int(child) for task in tasks for child in task.read_text().split()]
    except OSError:
        return []


def wait(look: Callable[[], T], *, timeout: float, what: str) -> T:
    """Look again and again until the answer is true, and return it; ``timeout`` in seconds.

    A :class:`LabError` while looking counts as not yet. Raises :class:`LabError` with the last answer.
    """
    end = time.monotonic() + timeout
    pause, last = 0.005, None
    while True:
        try:
            answer = look()
            if answer:
                return answer
            last = f"{answer!r}"
        except LabError as error:
            last = str(error)
        if time.monotonic() >= end:
            raise LabError(f"{what}: not so after {timeout:g} s; last seen: {last}")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.2)
