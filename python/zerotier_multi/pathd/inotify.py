"""Watching files for writes, /proc/sys included, where a write by another program is an event too."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_IN_MODIFY = 0x2
_libc = ctypes.CDLL(None, use_errno=True)


class FileWatch:
    """Tells a selector that one of the watched files was written."""

    def __init__(self, paths: list[Path]) -> None:
        self._descriptor = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        for path in paths:
            _libc.inotify_add_watch(self._descriptor, os.fsencode(path), _IN_MODIFY)

    def fileno(self) -> int:
        """For select."""
        return int(self._descriptor)

    def drain(self) -> None:
        """Forget what has been told."""
        try:
            while os.read(self._descriptor, 4096):
                pass
        except BlockingIOError:
            pass

    def close(self) -> None:
        """Stop watching."""
        os.close(self._descriptor)
