"""The archive of commits: one file each, numbered upwards, so that adding one is a single rename.

Revision 0 is the newest, which is the running configuration; ``rollback`` counts from there.
"""

from __future__ import annotations

import errno
import gzip
import json
import os
import re
import zlib
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ztsh import places
from ztsh.store import Replacement, group_id
from ztsh.words import printable

KEEP = 100  # commits
_LIMIT = 1 << 24  # characters of one
_LAST_TIME = 253_370_764_800  # the last year that datetime knows
NAME = re.compile(r"commit-([0-9]{8})\.gz")
_HEADER = "// commit: "


@dataclass(frozen=True)
class Revision:
    """A commit: when (seconds since the epoch), by whom, by what means, and why."""

    file: Path
    time: float
    user: str
    via: str
    comment: str

    def text(self) -> str:
        """The configuration that it left. Raises OSError for a file that cannot be read."""
        return _read(self.file)


def _read(path: Path) -> str:
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            text = file.read(_LIMIT + 1)
    except (EOFError, zlib.error, UnicodeDecodeError) as error:
        raise OSError(errno.EIO, f"incomplete commit: {error}") from None
    if len(text) > _LIMIT:
        raise OSError(errno.EFBIG, "too large for a configuration")
    return text


def _files() -> list[Path]:
    """Files of the archive, the newest first."""
    try:
        return sorted((p for p in places.archive().iterdir() if NAME.fullmatch(p.name)), reverse=True)
    except FileNotFoundError:
        return []


def revisions() -> list[Revision]:
    """All commits that can be read, the newest first. Raises PermissionError for a user who may not configure."""
    found = []
    for path in _files():
        try:
            header = json.loads(_read(path).partition("\n")[0].removeprefix(_HEADER))
            words = (printable(str(header[key])) for key in ("user", "via", "comment"))  # earlier versions took anything
            found.append(Revision(path, _time(header["time"]), *words))
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            continue
    return found


def _time(value: object) -> float:
    """Seconds since the epoch that a calendar has. Raises ValueError."""
    if not isinstance(value, (int, float)) or not 0 <= value < _LAST_TIME:
        raise ValueError(value)
    return float(value)


def add(text: str, time: float, user: str, via: str, comment: str) -> None:
    """Put a configuration into the archive, and remove the oldest ones. Raises OSError."""
    files = _files()
    number = int(NAME.fullmatch(files[0].name)[1]) + 1 if files else 0  # type: ignore[index]
    header = json.dumps({"time": time, "user": user, "via": via, "comment": comment})
    content = gzip.compress(f"{_HEADER}{header}\n{text}".encode())
    directory = places.archive()
    if not directory.is_dir():
        directory.mkdir(parents=True, mode=0o750)
        os.chown(directory, -1, group_id())
    Replacement(directory / f"commit-{number:08}.gz", content).finish()
    for path in files[KEEP - 1 :]:
        path.unlink(missing_ok=True)


def when(revision: Revision) -> str:
    """The local time of a commit, as the list of revisions has it."""
    return datetime.fromtimestamp(revision.time).strftime("%Y-%m-%d %H:%M:%S")


def log(found: list[Revision]) -> str:
    """The list of revisions as ``show system commit`` and ``rollback ?`` print it."""
    lines = []
    for number, revision in enumerate(found):
        lines.append(f"{number:<3} {when(revision)} by {revision.user} via {revision.via}")
        if revision.comment not in ("", "commit"):
            lines.append(f"    {revision.comment}")
    return "".join(f"{line}\n" for line in lines)
