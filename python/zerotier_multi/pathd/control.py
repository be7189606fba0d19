"""The daemon's control sockets, one of root's and one for everybody: one JSON line in, one JSON line out.

Requests: ``{"op": "sync"}`` reads the plans anew and answers when the kernel follows them as far as it can, with
``"settings": {...}`` below /proc/sys that the rest of the router's configuration wants; ``{"op": "status"}`` gives
the state; ``{"op": "drain", "devices": [...]}`` takes paths out of use until their device is made anew. Root's socket
takes all of them, everybody's the status alone. They are two, so that no crowd at the one stands in root's way at the
other.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zerotier_multi import names, systemd

# On a slow box the daemon is busy for seconds when all its instances start at once, for minutes on one that is also
# starved. One that hangs is ended after WatchdogSec=, comes back and is asked again.
_PATIENCE = 90.0
_POLL = 0.05  # seconds between two knocks at the door of a daemon that is being started

Request = dict[str, Any]


class PathdError(RuntimeError):
    """The daemon does not answer, or refuses; the text is one sentence."""


def _comes_back() -> bool:
    """Whether systemd starts the daemon, or starts it again; in a restart it first ends the one that has closed its socket."""
    try:
        state = systemd.unit_states([names.PATHD_UNIT])[names.PATHD_UNIT]
    except systemd.SystemdError:
        return False
    return state.running or state.active == "deactivating"


def ask(
    request: Request,
    timeout: float = _PATIENCE,
    path: Path | None = None,
    comes_back: Callable[[], bool] = _comes_back,
) -> Request:
    """Send a request to the daemon and return its answer; ``timeout`` in seconds. Raises :class:`PathdError`.

    Without ``path`` root asks at its own socket. A daemon that has just died is waited for while ``comes_back`` says
    that it will be there again, and asked once more: every request may be asked twice. A crowd before us is waited for.
    """
    path = path or (names.CONTROL_SOCKET if os.geteuid() == 0 else names.STATUS_SOCKET)
    end = time.monotonic() + timeout
    while True:
        try:
            reply = _ask(request, timeout, path)
        except BlockingIOError as error:  # more callers than the kernel lets wait
            if time.monotonic() >= end:
                raise _silent(error) from None
            time.sleep(_POLL)
            continue
        except (ConnectionError, FileNotFoundError) as error:
            if time.monotonic() < end and comes_back():
                time.sleep(_POLL)
                continue
            raise _silent(error) from None
        except (OSError, ValueError) as error:
            raise _silent(error) from None
        if "error" in reply:
            raise PathdError(str(reply["error"]))
        return reply


def _ask(request: Request, timeout: float, path: Path) -> Request:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(timeout)
        sock.connect(str(path))
        sock.sendall(json.dumps(request).encode() + b"\n")
        with sock.makefile("rb") as answer:
            line = answer.readline()
    if not line:
        raise ConnectionResetError
    reply: Request = json.loads(line)
    return reply


def _silent(error: Exception) -> PathdError:
    return PathdError(f"zerotier-pathd does not answer ({type(error).__name__}); see: journalctl -u {names.PATHD_UNIT}")
