"""Files of configurations: written whole or not at all, on the disk when the call returns, readable by the group."""

from __future__ import annotations

import grp
import os
import re
from contextlib import suppress
from pathlib import Path

GROUP = "vyattacfg"  # VyOS's name of the group whose members may configure


class StoreError(OSError):
    """A file that cannot be written; the text is one sentence."""


def group_id() -> int:
    """Number of the configuration group, or -1 (leave it) where there is none."""
    try:
        return grp.getgrnam(GROUP).gr_gid
    except KeyError:
        return -1


class Replacement:
    """New contents of a file, written aside already, so that a full disk shows before anything depends on it."""

    def __init__(self, path: Path, content: bytes, mode: int = 0o640) -> None:
        """Raises :class:`StoreError`."""
        self._path = path
        if not path.name:
            raise StoreError(f"{path} cannot be written (Is a directory); name a file")
        self._aside = path.with_name(f".{path.name}.{os.getpid()}")  # what clear_unfinished looks for
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._aside.unlink(missing_ok=True)
            clear_abandoned(path.parent, re.escape(path.name))
            # Never through a link that somebody has put there.
            descriptor = os.open(self._aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with open(descriptor, "wb") as file:
                os.fchmod(descriptor, mode)
                if os.geteuid() == 0:
                    os.fchown(file.fileno(), -1, group_id())
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            self.abandon()
            raise StoreError(f"{path} cannot be written ({error.strerror}); free some space or repair the file system") from None

    def abandon(self) -> None:
        """Leave the file as it is."""
        self._aside.unlink(missing_ok=True)

    def finish(self) -> None:
        """Put the new contents in place. Raises :class:`StoreError`."""
        try:
            os.replace(self._aside, self._path)
            directory = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
        except OSError as error:
            self.abandon()
            raise StoreError(f"{self._path} cannot be written ({error.strerror}); repair the file system") from None


def write(path: Path, text: str, mode: int = 0o640) -> None:
    """Replace a file. Raises :class:`StoreError`."""
    Replacement(path, text.encode(), mode).finish()


def clear_unfinished(directory: Path, name: str) -> None:
    """Remove what a power cut left of writing files whose name matches; only where nobody writes now. Raises OSError."""
    for path, _writer in unfinished(directory, name):
        path.unlink()


def clear_abandoned(directory: Path, name: str) -> None:
    """Remove what killed processes have left of writing files whose name matches, as far as that can be removed."""
    with suppress(OSError):
        for path, writer in unfinished(directory, name):
            if not Path("/proc", writer).exists():
                with suppress(OSError):  # another user's
                    path.unlink()


def unfinished(directory: Path, name: str) -> list[tuple[Path, str]]:
    """Files that were being written aside, each with the number of its process."""
    pattern = re.compile(rf"\.(?:{name})\.([0-9]+)")
    found = ((path, pattern.fullmatch(path.name)) for path in (directory.iterdir() if directory.is_dir() else ()))
    return [(path, match[1]) for path, match in found if match and not path.is_dir()]
