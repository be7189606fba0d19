"""The way to an instance's API: its socket where it has one, else TCP on loopback.

The socket is root's, needs no token, and nobody else can take its places. zerotier-one has TCP alone.
"""

from __future__ import annotations

import socket
from pathlib import Path

from zerotier_multi import names

SOCKET = "api.sock"  # packages/ztnode/src/home.c
_KIND = socket.SOCK_STREAM | socket.SOCK_CLOEXEC


def connect(home: Path, port: int, timeout: float) -> socket.socket:
    """A connection to an instance. Raises OSError."""
    try:
        return _at_socket(home, timeout)
    except (FileNotFoundError, ConnectionRefusedError):  # of another engine, or of a process that was killed
        return socket.create_connection(("127.0.0.1", port), timeout)


def begin(home: Path, port: int) -> socket.socket:
    """A connection that does not wait: one over TCP may still be under way.

    Raises BlockingIOError where nobody takes connections at the socket, and OSError for trouble of our own.
    """
    try:
        return _at_socket(home, 0.0)
    except (FileNotFoundError, ConnectionRefusedError):
        connection = socket.socket(socket.AF_INET, _KIND | socket.SOCK_NONBLOCK)
        connection.connect_ex(("127.0.0.1", port))
        return connection


def _at_socket(home: Path, timeout: float) -> socket.socket:
    if home.parent.parent == names.HOME_ROOT:
        try:
            return _at(names.instance_run_dir(home.parent.name, int(home.name)) / SOCKET, timeout)
        except FileNotFoundError:
            pass  # zerotier-one, or an older ztnode that an upgrade has left running
    return _at(home / SOCKET, timeout)


def _at(where: Path, timeout: float) -> socket.socket:
    path = str(where)
    if len(path.encode()) > 107:  # sockaddr_un; then the engine has none either
        raise FileNotFoundError(path)
    connection = socket.socket(socket.AF_UNIX, _KIND)
    try:
        connection.settimeout(timeout)
        connection.connect(path)
    except BaseException:
        connection.close()
        raise
    return connection


def headers(home: Path, connection: socket.socket) -> dict[str, str]:
    """What a question over this connection has to bring: the token, where it is not the socket.

    To be asked for when the other end is known to be root's. Raises OSError, or ValueError for a broken token.
    """
    if connection.family == socket.AF_UNIX:
        return {}
    return {"X-ZT1-Auth": (home / "authtoken.secret").read_text("ascii").strip()}
