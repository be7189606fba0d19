"""One change of the instances at a time: that of a commit, from its first file to its last process, or one of op mode.

VyOS and ztsh let one commit run at a time, each by a lock of its own kind. Op mode has no part in those, so this is a
lock that the library takes itself, the same on both.
"""

from __future__ import annotations

import fcntl
import os
from typing import BinaryIO

from zerotier_multi import names
from zerotier_multi.restarts import wait

PATIENCE = 60.0  # seconds that another process may take
GAP = 0.3  # seconds between two turns of one process, in which a process that waits gets its own


class Turn:
    """The turn of this process, which keeps it until it says that it is done, or ends."""

    def __init__(self) -> None:
        self._lock: BinaryIO | None = None

    def take(self, patience: float | None = None) -> bool:
        """Wait until nobody else has it; False where somebody has it still after ``patience`` seconds. Raises OSError.

        Without a number they are :data:`PATIENCE`.
        """
        if self._lock is not None:
            return True
        path = names.turn_file()
        path.parent.mkdir(parents=True, exist_ok=True)
        # Root's alone: whoever can open a file can hold its lock.
        flags = os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        lock = os.fdopen(os.open(path, flags, 0o600), "rb")
        if not wait(lambda: _is_locked(lock), PATIENCE if patience is None else patience):
            lock.close()
            return False
        self._lock = lock
        return True

    def end(self) -> None:
        """Let others have it; nothing where this process has it not."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def _is_locked(file: BinaryIO) -> bool:
    """Whether the lock of a file could be had; then it is held."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
