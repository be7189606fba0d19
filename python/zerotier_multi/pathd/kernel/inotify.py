"""Watching files for writes, /proc/sys included, where a write by another program is an event too."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_IN_MODIFY = 0x2
_libc = ctypes.CDLL(None, use_errno=True)


class FileWatch:
    """Tells an event loop that one of the watched files was written."""

    def __init__(self, paths: list[Path]) -> None:
        self._descriptor = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        # An open file keeps the kernel from forgetting its name: below /proc/sys a name that it looks up anew gets another
        # inode, on which nobody watches.
        self._files: list[int] = []
        for path in paths:
            try:
                self._files.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
            except OSError:
                continue  # a kernel without that setting
            _libc.inotify_add_watch(self._descriptor, os.fsencode(path), _IN_MODIFY)

    def fileno(self) -> int:
        """For the event loop."""
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
        for descriptor in (self._descriptor, *self._files):
            os.close(descriptor)
