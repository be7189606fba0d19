"""Watching files for writes, /proc/sys included, where a write by another program is an event too."""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path

_IN_MODIFY = 0x2
_EVENT = struct.Struct("iIII")  # struct inotify_event: watch, mask, cookie, length of the name that follows
_libc = ctypes.CDLL(None, use_errno=True)


class FileWatch:
    """Tells an event loop that one of the watched files was written, with the value that it has or another."""

    def __init__(self, paths: list[Path]) -> None:
        self._descriptor = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        # An open file keeps the kernel from forgetting its name: below /proc/sys a name that it looks up anew gets another
        # inode, on which nobody watches.
        self._files: list[int] = []
        self._paths: dict[int, Path] = {}  # by watch
        for path in paths:
            try:
                self._files.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
            except OSError:
                continue  # a kernel without that setting
            watch = _libc.inotify_add_watch(self._descriptor, os.fsencode(path), _IN_MODIFY)
            if watch >= 0:
                self._paths[watch] = path

    def fileno(self) -> int:
        """For the event loop."""
        return int(self._descriptor)

    def written(self) -> set[Path]:
        """Files that were written since this was asked last, by whomever; the kernel makes one of equal events in a row."""
        found: set[Path] = set()
        try:
            while data := os.read(self._descriptor, 4096):
                at = 0
                while at < len(data):
                    watch, _mask, _cookie, length = _EVENT.unpack_from(data, at)
                    found |= {self._paths[watch]} if watch in self._paths else set()
                    at += _EVENT.size + length
        except BlockingIOError:
            pass
        return found

    def close(self) -> None:
        """Stop watching."""
        for descriptor in (self._descriptor, *self._files):
            os.close(descriptor)
