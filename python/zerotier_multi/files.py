"""Writing files so that a reader never sees half of one, and a crash never leaves one."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_ASIDE = re.compile(r"\.(.+)\.([0-9]+)")


def aside(path: Path) -> Path:
    """Where this process writes what is to become ``path``; :func:`clear_unfinished` knows the name."""
    return path.with_name(f".{path.name}.{os.getpid()}")


def write_atomic(path: Path, content: bytes, mode: int = 0o644) -> bool:
    """Put ``content`` at ``path``; True when that changed something, False when it stood there already.

    The file appears whole or not at all, with ``mode`` whatever the umask is. Raises OSError as the system gives it, with
    the name of the file.
    """
    try:
        if path.read_bytes() == content:
            return False
    except FileNotFoundError:
        pass
    with suppress(OSError):  # what stays takes room, no more
        clear_unfinished(path.parent, path.name)
    temporary = aside(path)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(content)
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)  # a write knows its descriptor only
        raise
    return True


class Before:
    """Files as they stand now, to be brought back. Raises OSError."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._files = {path: (path.read_bytes(), path.stat().st_mode & 0o777) if path.exists() else None for path in paths}

    def restore(self) -> bool:
        """Bring them back, as far as the disk lets it; those that were not there go. Whether one was another."""
        changed = False
        for path, before in self._files.items():
            with suppress(OSError):
                if before is not None:
                    changed |= write_atomic(path, *before)
                elif path.exists():
                    path.unlink()
                    changed = True
        return changed


def clear_unfinished(directory: Path, name: str | None = None) -> None:
    """Remove what a process that is gone was writing aside, as a file ``name`` or any, when it, or the power, went.

    Raises OSError.
    """
    for path in directory.iterdir():
        match = _ASIDE.fullmatch(path.name)
        if match and name in (None, match[1]) and path.is_file() and not is_running(int(match[2])):
            path.unlink(missing_ok=True)


def is_running(pid: int) -> bool:
    """Whether there is a process of that number."""
    return Path("/proc", str(pid)).exists()


def sync(path: Path) -> None:
    """Wait until a file's content, or the names in a directory, are on the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
