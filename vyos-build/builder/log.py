"""Steps for the person who waits, and everything for the log."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from builder.errors import BuildError

# What VyOS's program and live-build say of their progress; the rest goes to the log alone.
_PROGRESS = re.compile(r"^(?:[IWE]: |P: |\[\d{4}-|dpkg-buildpackage: )")


class Log:
    """Prints steps and runs programs; their output is kept in a file."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._file = path.open("w")
        self._begin = time.monotonic()

    def step(self, text: str) -> None:
        """Say what is done now."""
        passed = int(time.monotonic() - self._begin)
        line = f"[{passed // 60:3}:{passed % 60:02}] {text}"
        print(line, flush=True)
        print(line, file=self._file, flush=True)

    def run(self, what: str, command: Sequence[str], everything: bool = False) -> None:
        """Run a program; its progress, or everything that it says, is shown. Raises :class:`BuildError`."""
        print("+", *command, file=self._file, flush=True)
        last: list[str] = []
        with subprocess.Popen(
            command,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                self._file.write(line)
                self._file.flush()
                last = [*last[-9:], line]
                if everything or _PROGRESS.match(line):
                    print(" " * 9 + line, end="", flush=True)
        if process.returncode:
            if not everything:
                print("".join(last), end="", flush=True)
            raise BuildError(f"{what} failed with exit code {process.returncode}; the full log is {self.path}")
