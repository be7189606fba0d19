"""Commits that were killed while they ran: what they were to change may or may not be so.

A commit writes its configuration aside before the first script runs. Where that file is left over, it becomes a
record, and the scripts of its changes run again with the next commit. All of it happens under the lock.

Ctrl-C does not get that far: it has to wait.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ztsh import places
from ztsh.configuration import Config, read_config
from ztsh.errors import SessionError
from ztsh.schema import Node
from ztsh.store import unfinished

_PREFIX = "interrupted."


@contextmanager
def uninterrupted() -> Iterator[Callable[[], bool]]:
    """Let Ctrl-C wait until the end, also in programs that are started inside; then it interrupts as ever.

    The function says whether somebody has pressed it, and forgets that.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        yield lambda: signal.sigtimedwait({signal.SIGINT}, 0) is not None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def keep() -> None:
    """Make records of what killed commits have left. Raises OSError."""
    active = places.active_file()
    for path, _writer in unfinished(active.parent, re.escape(active.name)):
        os.replace(path, active.with_name(f"{_PREFIX}{time.time_ns()}"))


def records() -> list[Path]:
    """Files of the records."""
    return [path for path in places.run_dir().iterdir() if path.name.startswith(_PREFIX)]


def configurations(schema: Node) -> list[Config]:
    """What the interrupted commits were to make; a text that is cut off was written before any script ran."""
    found = []
    for path in records():
        try:
            found.append(read_config(path.read_text(), schema, []))
        except (OSError, UnicodeDecodeError, SessionError):
            continue
    return found


def forget() -> None:
    """Remove the records, once a commit has brought everything to one state."""
    for path in records():
        path.unlink(missing_ok=True)
