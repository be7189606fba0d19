"""Requests to the local API: every method, path, id, header and body, whole and in pieces, many connections at a time."""

from __future__ import annotations

import contextlib
import random
import select
import socket

from tests.engine.test_contract import NETWORK, PORT

_METHODS = (
    "GET",
    "GET",
    "POST",
    "POST",
    "PUT",
    "DELETE",
    "DELETE",
    "HEAD",
    "OPTIONS",
    "PATCH",
    "TRACE",
    "CONNECT",
    "get",
    "G" * 300,
    "\0",
)
_BODIES = (b"", b"{}", b'{"allowManaged":true}', b"[", b"\0" * 100, b"x" * 70_000, b'{"a":' * 5000)
_ODD_PATHS = (
    "/",
    "//",
    "/status/",
    "/network/",
    "/peer/",
    "/controller",
    "/network/../status",
    "*",
    "http://a/status",
    "/%00",
    "/" + "a" * 5000,
    "/status?x=1",
    "",
)


class Requests:
    """Endless requests of one attacker by both ways in: it knows the token, and now and then has it wrong."""

    def __init__(self, dice: random.Random, token: str, door: str) -> None:
        self._dice, self._token, self._door = dice, token, door
        # More than a node has room for; some of them are ad-hoc networks, which configure themselves.
        self._networks = [NETWORK] * 2 + [f"{dice.getrandbits(64):016x}" for _ in range(70)]
        self._networks += [f"ff{dice.getrandbits(16):04x}{dice.getrandbits(16):04x}000000" for _ in range(8)]
        self._open: list[socket.socket] = []

    def _id(self, digits: int) -> str:
        match self._dice.randrange(20):
            case 0:
                return "0" * digits
            case 1:
                return "f" * digits
            case 2:
                return "".join(self._dice.choices("0123456789abcdefgG/%x", k=self._dice.randrange(40)))
        return self._dice.choice(self._networks)[:digits]

    def _path(self) -> str:
        match self._dice.randrange(10):
            case 0:
                return "/status"
            case 1:
                return "/network"
            case 2:
                return "/peer"
            case 3:
                return f"/peer/{self._id(10)}"
            case 4:
                return self._dice.choice(_ODD_PATHS)
        return f"/network/{self._id(16)}"

    def request(self) -> bytes:
        """One request, mostly in order."""
        dice = self._dice
        method, path, body = dice.choice(_METHODS), self._path(), dice.choice(_BODIES) if dice.random() < 0.2 else b""
        token = self._token if dice.random() < 0.93 else dice.choice(["", "x", self._token[:-1], self._token + "0", "\x80" * 2000])
        lines = [f"{method} {path} HTTP/{dice.choice(['1.1', '1.1', '1.1', '1.0', '9.9', ''])}", "Host: localhost"]
        if dice.random() < 0.9:
            lines.append(f"X-ZT1-Auth: {token}")
        if dice.random() < 0.1:
            lines += [f"X-{i}: {'y' * dice.randrange(500)}" for i in range(dice.randrange(40))]
        if dice.random() < 0.1:
            lines.append(dice.choice(["Connection: close", "Expect: 100-continue", "Upgrade: h2c", "Range: bytes=0-1"]))
        if body and dice.random() < 0.2:
            lines.append("Transfer-Encoding: chunked")
            body = f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
        else:
            length = len(body) if dice.random() < 0.95 else dice.choice([-1, 0, 99_999_999, 2**63, 2**64])
            lines.append(f"Content-Length: {length}")
        data = "\r\n".join([*lines, "", ""]).encode("latin-1") + body
        if dice.random() < 0.05:
            at = dice.randrange(len(data))
            data = data[:at] + dice.randbytes(dice.randrange(8)) + data[at + dice.randrange(8) :]
        return data

    def step(self) -> int:
        """One turn with a connection, an old or a new one; how many requests were sent."""
        dice = self._dice
        if len(self._open) > 44 or (self._open and dice.random() < 0.3):
            self._open.pop(dice.randrange(len(self._open))).close()
        if not self._open or dice.random() < 0.5:
            self._open.append(self._connect())
        connection, count = dice.choice(self._open), 1 if dice.random() < 0.8 else dice.randrange(2, 12)
        data = b"".join(self.request() for _ in range(count))
        if dice.random() < 0.1:
            data = data[: dice.randrange(len(data))]
        try:
            connection.sendall(data)
            if dice.random() < 0.8 and select.select([connection], [], [], dice.choice([0, 0.01, 0.1]))[0]:
                connection.recv(65536)
        except OSError:
            connection.close()
            self._open.remove(connection)
        return count

    def _connect(self) -> socket.socket:
        local = self._dice.random() < 0.5
        made = socket.socket(socket.AF_UNIX if local else socket.AF_INET)
        made.settimeout(0.5)
        with contextlib.suppress(OSError):
            made.connect(self._door if local else ("127.0.0.1", PORT))
        return made
