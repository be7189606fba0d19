"""The daemon's control sockets, one of root's and one for everybody: one JSON line in, one JSON line out.

Requests: ``{"op": "sync"}`` reads the plans anew and answers when the kernel follows them as far as it can;
``{"op": "status"}`` gives the state; ``{"op": "drain", "devices": [...]}`` takes paths out of use until
their device is made anew. Root's socket takes all of them, everybody's the status alone. They are two, so that no
crowd at the one stands in root's way at the other.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zerotier_multi import names, systemd

_LIMIT = 65536
# On a slow box the daemon is busy for seconds when all its instances start at once, for minutes on one that is also
# starved. One that hangs is ended after WatchdogSec=, comes back and is asked again.
_PATIENCE = 90.0
_POLL = 0.05  # seconds between two knocks at the door of a daemon that is being started
_FRESH = 0.1  # seconds for which everybody gets the same answer; making one takes longer than giving it
_CLIENTS = 32  # that may be silent at once; anybody on the router may connect

Request = dict[str, Any]
Handler = Callable[[Request, bool], Request]


class PathdError(RuntimeError):
    """The daemon does not answer, or refuses; the text is one sentence."""


def _comes_back() -> bool:
    """Whether systemd starts the daemon, or starts it again."""
    try:
        return systemd.unit_states([names.PATHD_UNIT])[names.PATHD_UNIT].running
    except systemd.SystemdError:
        return False


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


class ControlSocket:
    """Listens for requests inside the daemon's selector; a slow or silent client holds nobody up.

    ``privileged`` is root's socket: its directory must let nobody else in, and who gets in all the same is not answered.
    """

    def __init__(self, selector: selectors.BaseSelector, handler: Handler, path: Path, *, privileged: bool) -> None:
        self._selector, self._handler, self._privileged = selector, handler, privileged
        self._clients: list[socket.socket] = []  # the oldest first
        self._status: tuple[float, Request] = (-_FRESH, {})  # when it was made, and what it was
        self._path = path
        path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        self._socket.bind(str(path))
        path.chmod(0o600 if privileged else 0o666)
        self._socket.listen(128)
        selector.register(self._socket, selectors.EVENT_READ, self._accept)

    def close(self) -> None:
        """Hear nobody any more."""
        self._path.unlink(missing_ok=True)
        self._selector.unregister(self._socket)
        self._socket.close()

    def _accept(self) -> None:
        try:
            client, _ = self._socket.accept()
        except OSError:
            return
        if len(self._clients) >= _CLIENTS:
            self._drop(self._clients[0])
        self._clients.append(client)
        client.setblocking(False)
        buffer = bytearray()
        self._selector.register(client, selectors.EVENT_READ, lambda: self._read(client, buffer))

    def _read(self, client: socket.socket, buffer: bytearray) -> None:
        if client not in self._clients:
            return  # put out since the selector saw it
        try:
            data = client.recv(_LIMIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        buffer += data
        if b"\n" not in buffer and data and len(buffer) < _LIMIT:
            return
        try:
            if b"\n" in buffer:
                self._answer(client, bytes(buffer).partition(b"\n")[0])
        finally:
            self._drop(client)

    def _drop(self, client: socket.socket) -> None:
        self._clients.remove(client)
        self._selector.unregister(client)
        client.close()

    def _answer(self, client: socket.socket, line: bytes) -> None:
        try:
            request = json.loads(line)
            reply = self._reply(client, request) if isinstance(request, dict) else {"error": "not a request"}
        except (ValueError, RecursionError):
            reply = {"error": "not a request"}
        try:
            client.settimeout(0.2)
            client.sendall(json.dumps(reply).encode() + b"\n")
        except OSError:
            return

    def _reply(self, client: socket.socket, request: Request) -> Request:
        if self._privileged:
            _pid, uid, _gid = struct.unpack("=iII", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            return self._handler(request, True) if uid == 0 else {"error": "this socket is root's"}
        if request.get("op") != "status":
            return self._handler(request, False)
        at, answer = self._status
        now = time.monotonic()
        if now - at >= _FRESH:
            answer = self._handler({"op": "status"}, False)
            self._status = (now, answer)
        return answer
