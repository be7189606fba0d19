"""Steps of a build: each is timed, logs what it runs, and says its name when it fails."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path


class BuildError(RuntimeError):
    """The build cannot go on; the text says why and what to do."""


def output(command: Sequence[str], cwd: Path | None = None) -> str:
    """What a program prints. Raises :class:`BuildError` with the program's own reason when it fails."""
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    except OSError as error:
        raise BuildError(f"{command[0]} cannot be run: {error.strerror}") from None
    if done.returncode:
        reason = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[0]
        raise BuildError(f"{' '.join(command)} failed: {reason}")
    return done.stdout.strip()


class Steps:
    """The steps of one build and its log."""

    def __init__(self, log: Path, environment: Mapping[str, str]) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log = log
        self._log.write_text("")
        self._environment = {**os.environ, **environment}
        self._name = "start"
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """A step; its duration is printed at its end. Whatever goes wrong inside becomes a :class:`BuildError`."""
        self._name = name
        self._write(f"\n=== {name}\n")
        begin = time.monotonic()
        try:
            yield
        except (OSError, subprocess.SubprocessError) as error:
            raise BuildError(f"step {name}: {error}; the log is {self._log}") from error
        self.seconds[name] = time.monotonic() - begin
        print(f"{name:<12} {self.seconds[name]:6.0f} s", flush=True)

    def run(self, command: Sequence[str], *, cwd: Path | None = None, text_input: str | None = None) -> None:
        """Run a program, its output in the log. Raises :class:`BuildError` with the end of its output."""
        self._write(f"+ {' '.join(command)}\n")
        with self._log.open("ab") as log:
            start = log.tell()
            code = subprocess.run(
                list(command),
                cwd=cwd,
                env=self._environment,
                input=text_input.encode() if text_input is not None else None,
                stdin=subprocess.DEVNULL if text_input is None else None,
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
            ).returncode
        if code:
            with self._log.open("rb") as log:
                log.seek(start)
                tail = log.read().decode(errors="replace").splitlines()[-15:]
            raise BuildError("\n".join([*tail, f"step {self._name}: {command[0]} ended with {code}; the full log is {self._log}"]))

    def _write(self, text: str) -> None:
        with self._log.open("a") as log:
            log.write(text)
