"""What the shell costs: until its prompt stands there, and of a commit besides the conf script.

``make bench-shell``. A commit's own share is the whole ``commit`` at the prompt less the time inside the conf
script (``get_config`` to ``apply``), taken in the same commits.
"""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from lab import Lab, Router

ROUNDS = 15
START_LIMIT, COMMIT_LIMIT = 0.300, 0.150  # seconds

# Wraps the four functions of a conf script and writes down how long they took.
TIMER = '''
import atexit, time
spent = [0.0]
def timed(function):
    def call(*arguments):
        begin = time.perf_counter()
        try:
            return function(*arguments)
        finally:
            spent[0] += time.perf_counter() - begin
    return call
for name in ("get_config", "verify", "generate", "apply"):
    globals()[name] = timed(globals()[name])
atexit.register(lambda: open("/run/script-seconds", "w").write(str(spent[0])))
'''
SCRIPT = "/usr/libexec/vyos/conf_mode/interfaces_zerotier.py"


class Prompt:
    """``ztsh`` on a pseudo terminal of a router."""

    def __init__(self, router: Router, user: str) -> None:
        command = router.command(["env", "TERM=xterm", "setpriv", "--reuid", user, "--regid", user, "--init-groups", "ztsh"])
        self.begin = time.perf_counter()
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.execvp(command[0], command)
        self._seen = ""

    def until(self, mark: str) -> float:
        """Read up to a mark; the moment it was there."""
        end = time.monotonic() + 20
        while not (found := re.search(mark, self._seen)):
            ready, _, _ = select.select([self._terminal], [], [], end - time.monotonic())
            if not ready:
                raise SystemExit(f"no {mark!r} from the shell: {self._seen[-500:]!r}")
            self._seen += os.read(self._terminal, 65536).decode(errors="replace")
        self._seen = self._seen[found.end() :]
        return time.perf_counter()

    def line(self, text: str, mark: str) -> float:
        """Type a line; seconds until the prompt stands there again."""
        begin = time.perf_counter()
        os.write(self._terminal, text.encode() + b"\r")
        self.until(re.escape(text[-3:]))
        return self.until(mark) - begin

    def close(self) -> None:
        """End it."""
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._terminal)


def starts(router: Router, user: str) -> list[float]:
    """Seconds from running ``ztsh`` to its prompt."""
    found = []
    for _ in range(ROUNDS):
        prompt = Prompt(router, user)
        found.append(prompt.until(r"R1:\S*[$#]") - prompt.begin)
        prompt.close()
    return found


def commits(router: Router, user: str) -> tuple[list[float], list[float]]:
    """Seconds of whole commits, and of the conf script in them."""
    prompt = Prompt(router, user)
    prompt.until(r"R1:\S*[$#]")
    prompt.line("configure", r"@R1#")
    whole, script = [], []
    for number in range(ROUNDS):
        prompt.line(f"set interfaces zerotier zt0 description d{number}x", r"@R1#")
        whole.append(prompt.line("commit", r"@R1#"))
        script.append(float(router.read("/run/script-seconds")))
    prompt.close()
    return whole, script


def enter(router: Router) -> float:
    """Seconds that it takes to run anything inside a router; no part of the shell."""
    return _median(lambda: router.run(["true"]), ROUNDS)


def _median(call: Callable[[], object], rounds: int) -> float:
    found = []
    for _ in range(rounds):
        begin = time.perf_counter()
        call()
        found.append(time.perf_counter() - begin)
    return statistics.median(found)


def main(debs: Sequence[str]) -> int:
    """Entry point."""
    with Lab([Path(deb) for deb in debs]) as lab:
        router = lab.add_router("R1")
        router.run(["useradd", "-m", "-G", "vyattacfg", "admin"])
        router.run(["sh", "-c", f"cat >>{SCRIPT}"], text_input=TIMER)
        router.must_configure("set interfaces zerotier zt0 network-id 8056c2e21c000001")
        table = Table(title="ztsh, medians (and the worst of 15) in ms; entering the container is part of a start")
        for title in ("user", "start", "commit", "in the conf script", "commit besides it"):
            table.add_column(title, justify="right")
        good = True
        for user in ("root", "admin"):
            start = starts(router, user)
            whole, script = commits(router, user)
            own = [a - b for a, b in zip(whole, script, strict=True)]
            table.add_row(user, *(f"{statistics.median(t) * 1e3:.0f} ({max(t) * 1e3:.0f})" for t in (start, whole, script, own)))
            good &= statistics.median(start) < START_LIMIT and statistics.median(own) < COMMIT_LIMIT
        Console().print(table)
        print(f"entering the container: {enter(router) * 1e3:.0f} ms; limits: start 300 ms, commit besides the script 150 ms")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
