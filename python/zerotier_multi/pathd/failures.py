"""A daemon that fails again and again waits before it ends, so that the next one begins later; systemd has one RestartSec= for all.

A failure alone costs no time, because paths die slowly while there is no daemon. The count is in /run, for the daemon that
comes next. Who waits is another program in place of this one: all sockets are closed, and any signal ends it.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from contextlib import suppress
from pathlib import Path

from zerotier_multi import memory, names

log = logging.getLogger("pathd")

# Seconds, by failures in a row; WatchdogSec= is longer.
PAUSES = (0, 0, 1, 2, 4, 8, 16, 30)
SOUND = 60.0  # seconds of work after which a failure is a first one again


class Failures:
    """Counts those in a row."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or names.STATE_FILE.with_name("failures.json")

    def count(self) -> int:
        """How many there were."""
        count = memory.load(self._path).get("in_a_row")
        return count if isinstance(count, int) and count > 0 else 0

    def waits(self) -> bool:
        """Whether a daemon that has failed may be waiting."""
        return _pause(self.count()) > 0

    def clear(self) -> None:
        """It works."""
        with suppress(OSError):
            self._path.unlink()

    def another(self) -> int:
        """Note one; the seconds to wait now."""
        count = self.count() + 1
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        for problem in memory.store(self._path, {"in_a_row": count}):
            log.warning("%s", problem)
        return _pause(count)

    def wait(self, error: BaseException) -> None:
        """Note one, tell of it and wait; does not return then. A failure after which nobody has to wait is the caller's to tell."""
        if not (seconds := self.another()):
            return
        if isinstance(error, SystemExit):
            print(error.code, file=sys.stderr)
        else:
            traceback.print_exception(error)
        log.error("zerotier-pathd has failed %d times in a row; the next one begins in %d s", self.count(), seconds)
        sys.stderr.flush()
        _alive()
        os.execv("/bin/sh", ["sh", "-c", f"sleep {seconds}; exit 1"])


def _pause(failures: int) -> int:
    """Seconds after so many in a row."""
    return PAUSES[min(failures, len(PAUSES)) - 1] if failures else 0


def _alive() -> None:
    with suppress(ImportError):  # what is missing may be why
        from systemd import daemon

        daemon.notify("WATCHDOG=1")
