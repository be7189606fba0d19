"""The lock that lets one commit run at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ztsh import interrupted, places
from ztsh.check import failed
from ztsh.errors import Locked, SessionError
from ztsh.store import clear_unfinished


@contextmanager
def locked() -> Iterator[None]:
    """Hold the lock. Raises :class:`Locked` at once while somebody else does."""
    if os.geteuid() != 0:
        raise SessionError("committing needs root; use sudo")
    directory = places.run_dir()
    if not directory.is_dir():
        directory.mkdir(parents=True, mode=0o755)
    # Root's alone: whoever can open a file can hold its lock.
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(directory / "commit.lock", flags, 0o600), "r+") as lock:
        os.fchmod(lock.fileno(), 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Locked("Configuration system temporarily locked due to another commit in progress", failed("commit")) from None
        with suppress(OSError):  # what killed commits have left
            interrupted.keep()
            clear_unfinished(directory, r"(?:active|confirm)\.(?:boot|public)")
        yield
