"""``commit-confirm``: a timer that returns to the earlier configuration unless somebody confirms in time."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from ztsh import places
from ztsh.activate import activate
from ztsh.check import failed
from ztsh.configuration import Config, read_own, running
from ztsh.errors import Locked, SessionError
from ztsh.lock import locked
from ztsh.schema import Node
from ztsh.store import StoreError, write

_UNIT = "ztsh-commit-confirm"
_UNITS = [f"{_UNIT}.timer", f"{_UNIT}.service"]
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 30.0  # seconds between attempts to return


def _wall(message: str) -> None:
    subprocess.run(["wall", "-n", message], capture_output=True, check=False)


def _before() -> Path:
    """File of the configuration to return to."""
    return places.run_dir() / "confirm.boot"


def pending() -> bool:
    """Whether the timer runs, or the return that it has started."""
    state = subprocess.run(["systemctl", "is-active", *_UNITS], capture_output=True, text=True, check=False)
    return any(line in ("active", "activating") for line in state.stdout.split())


def arm(schema: Node, before: Config, minutes: int) -> str:
    """Start the timer; returns what to tell the user. Raises :class:`SessionError`."""
    if pending():
        raise SessionError("Another confirm is pending", failed("commit"))
    try:
        write(_before(), before.text(schema))
    except StoreError as error:
        raise SessionError(str(error), failed("commit")) from None
    done = subprocess.run(
        [
            "systemd-run", "--quiet", "--collect", f"--on-active={minutes}m", f"--unit={_UNIT}",
            "--timer-property=AccuracySec=1s", "/usr/bin/ztsh", "revert",
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SessionError(f"commit-confirm cannot start its timer: {done.stderr.strip()}", failed("commit"))
    return f"Initialized commit-confirm; {minutes} minutes to confirm before reload\n"


def disarm() -> None:
    """Stop the timer."""
    subprocess.run(["systemctl", "stop", *_UNITS], capture_output=True, check=False)
    _before().unlink(missing_ok=True)


def revert(schema: Node) -> str:
    """Return to the configuration from before commit-confirm; the timer calls this.

    It retries until it has returned or somebody confirms, and tells all users each new reason for the delay once.
    """
    told, pause = "", _FIRST_PAUSE
    while True:
        try:
            with locked():
                return _revert(schema)
        except Locked:
            reason, pause = "another commit is in progress", _FIRST_PAUSE
        except SessionError as error:
            reason, pause = error.reason, min(pause * 2, _LONGEST_PAUSE)
        except OSError as error:
            reason, pause = str(error), min(pause * 2, _LONGEST_PAUSE)
        if reason != told:
            told = reason
            _wall(f"[commit-confirm] Not confirmed, but the rollback has to wait: {reason}; retrying")
        time.sleep(pause)


def _revert(schema: Node) -> str:
    try:
        wanted = read_own(_before().read_text(), schema)
    except FileNotFoundError:
        return ""
    message = "[commit-confirm] Not confirmed: rolling back to the previous configuration now"
    _wall(message)
    activate(schema, running(schema), wanted)
    _before().unlink(missing_ok=True)
    return message + "\n"
