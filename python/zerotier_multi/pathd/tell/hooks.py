"""Scripts of the user that are started when paths, remotes and bundles go up and down, one after the other.

Nothing here waits: a script's end wakes the loop, and then the next one is started.
"""

from __future__ import annotations

import itertools
import logging
import os
import re
import stat
import subprocess
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path

from zerotier_multi import names
from zerotier_multi.pathd.tell.events import Event

log = logging.getLogger("pathd")

PATIENCE = 30  # seconds that a script may take
QUEUED = 64  # events that wait for the scripts of those before them
IDENTIFIER = "zerotier-hook"

# A path that comes back passes through several words within a second. Those between down and up are for the journal:
# their number would push out of the queue what a script is there for.
_KINDS = frozenset(
    {
        "path-up",
        "path-down",
        "path-backup",
        "remote-up",
        "remote-down",
        "bundle-up",
        "bundle-degraded",
        "bundle-down",
        "network-state",
    }
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")  # not what editors and package tools leave beside a file


def refusal(name: str, status: os.stat_result) -> str | None:
    """Why a file of the folder is not started, or None; ``status`` is that of the file itself, not of a link's end."""
    if not _NAME.fullmatch(name):
        return "its name may contain only letters, digits, dot, dash and underscore"
    if not stat.S_ISREG(status.st_mode):
        return "it is not a regular file"
    return _unsafe(status) or (None if status.st_mode & stat.S_IXUSR else "it is not executable")


def _unsafe(status: os.stat_result) -> str | None:
    if status.st_uid != 0:
        return "it is not owned by root"
    return "other users can write to it" if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) else None


def scripts(directory: Path) -> tuple[list[Path], list[str]]:
    """(scripts in order of their names, a sentence for each file that is refused)."""
    try:
        # Whoever may write to the folder could put another file in a script's place.
        if reason := _unsafe(directory.stat()):
            return [], [f"hooks are not started from {directory}: {reason}"]
        found = {entry.name: entry.stat(follow_symlinks=False) for entry in os.scandir(directory)}
    except FileNotFoundError:
        return [], []
    except OSError as error:
        return [], [f"hooks are not started from {directory}: {error.strerror}"]
    reasons = {name: refusal(name, status) for name, status in sorted(found.items())}
    good = [directory / name for name, reason in reasons.items() if reason is None]
    return good, [f"hook {directory / name} is refused: {reason}" for name, reason in reasons.items() if reason]


def command(script: Path, fields: Mapping[str, str], unit: str) -> list[str]:
    """What starts a script and ends with it.

    A child of the daemon would live in the daemon's sandbox, with two capabilities, a file system that cannot be
    written and its limits of memory and tasks: it could neither send mail nor log on elsewhere. So systemd starts it
    in a unit of its own, with nothing of ours but the fields. A unit of type oneshot is what systemd-run waits for
    without a D-Bus daemon, and such a unit is ended by TimeoutStartSec=, not by RuntimeMaxSec=.
    """
    properties = {
        "Type": "oneshot",
        "TimeoutStartSec": str(PATIENCE),
        "TimeoutStopSec": "1",
        "SyslogIdentifier": IDENTIFIER,
        "StandardInput": "null",
        "StandardOutput": "journal",
        "StandardError": "journal",
    }
    return [
        # systemd-run itself is not waited for for ever, should systemd not answer.
        "timeout", str(PATIENCE + 15), "systemd-run", "--quiet", "--collect", f"--unit={unit}",
        f"--description=Hook {script.name} of {names.PATHD_UNIT}",
        *(f"--property={name}={value}" for name, value in properties.items()),
        *(f"--setenv={name}={value}" for name, value in fields.items()),
        "--", str(script),
    ]  # fmt: skip


Start = Callable[[list[str]], "subprocess.Popen[bytes]"]


def _start(argv: list[str]) -> subprocess.Popen[bytes]:
    # Not with our NOTIFY_SOCKET, over which systemd-run would tell systemd its own end as ours.
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=environment)


class Hooks:
    """Starts the scripts, one at a time, all of an event before those of the next."""

    def __init__(self, loop: AbstractEventLoop, directory: Path = names.HOOK_DIR, start: Start = _start) -> None:
        self._loop, self._directory, self._start = loop, directory, start
        self._numbers = itertools.count(1)
        self._waiting: deque[Event] = deque()
        self._current: dict[str, str] = {}  # fields of the event whose scripts are under way
        self._left: deque[Path] = deque()  # scripts that it still has to come to
        self._running = False
        self._told: set[str] = set()
        self._dropping = False

    def tell(self, event: Event) -> None:
        """An event has happened."""
        if event.kind not in _KINDS:
            return
        if len(self._waiting) >= QUEUED:
            dropped = self._waiting.popleft()
            if not self._dropping:
                log.warning("hooks take too long; events are dropped, oldest first: %s", dropped.message)
            self._dropping = True
        self._waiting.append(event)
        self._next()

    def _next(self) -> None:
        while not self._running:
            if self._left:
                self._run(self._left.popleft())
            elif self._waiting:
                self._current = self._waiting.popleft().fields()
                self._left.extend(self._look())
            else:
                self._dropping = False
                return

    def _look(self) -> list[Path]:
        found, refused = scripts(self._directory)
        for sentence in refused:
            if sentence not in self._told:
                log.warning("%s", sentence)
        self._told = set(refused)
        return found

    def _run(self, script: Path) -> None:
        unit = f"{IDENTIFIER}-{os.getpid()}-{next(self._numbers)}.service"
        try:
            process = self._start(command(script, self._current, unit))
            ended = os.pidfd_open(process.pid)
        except OSError as error:
            log.warning("hook %s cannot be started (%s)", script, error.strerror)
            return
        self._running = True
        self._loop.add_reader(ended, self._ended, script, process, ended)

    def _ended(self, script: Path, process: subprocess.Popen[bytes], descriptor: int) -> None:
        self._loop.remove_reader(descriptor)
        os.close(descriptor)
        if process.wait() != 0:
            log.warning("hook %s has failed; see: journalctl -u '%s-*'", script, IDENTIFIER)
        self._running = False
        self._next()
